"""What a partition (Dey et al., Section 3.2) is to everyone else, whatever kind of parent it was read off."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kdgraph.geometry.place import Place


class PolytopeIndex(Protocol):
    """Class masses around queries, and their nearest polytopes."""

    def masses(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Float[m, K, k]: Σ_s K(r, s)^exponent · (class weights of s) for each query and exponent; Int[m]: nearest polytope or -1."""
        ...


class Partition(Protocol):
    """What every partition offers; codes are opaque to everyone else. X is what its parent takes: an array or a data frame."""

    def embed(self, X: Any) -> np.ndarray:
        """Float[n, d]: the space in which distances within a polytope are measured."""
        ...

    def encode(self, X: Any) -> np.ndarray:
        """Int[n, …]: the polytope of each row, as a code."""
        ...

    def place(self, X: Any) -> Place:
        """Both at once."""
        ...

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[m, n]: geodesic similarity K of codes."""
        ...

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[n]: K of each code in ``a`` with the one beside it in ``b``."""
        ...

    def vote(self, place: Place) -> np.ndarray:
        """Float[n, K]: the parent's own probabilities."""
        ...

    def index(
        self, codes: np.ndarray, class_weights: np.ndarray, *, rows: np.ndarray | None = None, n_anchors: int | None = None
    ) -> PolytopeIndex:
        """Index of polytopes, the ``rows`` (Int[p]) of ``codes`` [n, …] that stand for them, for class masses and nearest polytopes."""
        ...
