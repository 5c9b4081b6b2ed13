"""Rows on a partition (Dey et al., Section 3.2).

Polytopes: the distinct codes among some rows (Dey et al., Sections 4.3 and 4.4: K(r, s) = 1 where r
= s, Eq. 14 and 16).

What a partition (Dey et al., Section 3.2) is to everyone else, whatever kind of parent it was read
off.

Blocks of queries side by side: on the threads of this process, or wherever a backend of joblib
takes them that the user has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend


@dataclass(frozen=True)
class Locations:
    """Where rows lie on a partition.

    Attributes
    ----------
    points : Float[n, d], in the partition's embedding space.
    codes : Int[n, …], their polytopes.
    proba : Float[n, K], the parent's own probabilities where they come with the codes at no cost;
        None where codes alone give them.
    """

    points: np.ndarray
    codes: np.ndarray
    proba: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index) -> Locations:
        return Locations(
            self.points[index], self.codes[index], None if self.proba is None else self.proba[index]
        )

    def __add__(self, other: Locations) -> Locations:
        """The rows of both, these first."""
        proba = (
            None
            if self.proba is None or other.proba is None
            else np.concatenate([self.proba, other.proba])
        )
        return Locations(
            np.concatenate([self.points, other.points]),
            np.concatenate([self.codes, other.codes]),
            proba,
        )


@dataclass(frozen=True)
class Polytopes:
    """Which rows share a polytope (K(r, s) = 1, i.e. equal codes), numbered by first appearance; or
    which share one after merging.

    Attributes
    ----------
    polytope_of_row : Int[n], the polytope of each row.
    representatives : Int[p], the row that stands for each polytope: its first one, unless polytopes were
    merged.
    sizes : Int[p], rows in each polytope.
    """

    polytope_of_row: np.ndarray
    representatives: np.ndarray
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)

    def head(self, n: int) -> Polytopes:
        """The polytopes of the first ``n`` rows alone; they keep their numbers."""
        of_row = self.polytope_of_row[:n]
        size = np.bincount(of_row)
        return Polytopes(of_row, self.representatives[: len(size)], size)

    @property
    def singleton_share(self) -> float:
        """The share of polytopes that hold one row."""
        return float(np.mean(self.sizes == 1))

    def sum_by_polytope(self, values: np.ndarray) -> np.ndarray:
        """Float[p, …]: sum of ``values`` (Float[n, …]) over the rows of each polytope, in row
        order.
        """
        total = np.zeros((len(self), *values.shape[1:]))
        np.add.at(total, self.polytope_of_row, values)
        return total


def polytopes_of(codes: np.ndarray) -> Polytopes:
    """Group equal rows of ``codes`` (Int[n, T]).

    Rows are compared by a 64-bit hash, and equal hashes are then verified code by code: sorting
    whole rows takes 16 times as long.
    """
    multipliers = np.random.default_rng(0).integers(
        1, 2**63, size=codes.shape[1], dtype=np.uint64
    ) | np.uint64(1)
    hashes = np.zeros(len(codes), dtype=np.uint64)
    for t in range(codes.shape[1]):
        hashes += codes[:, t].astype(np.uint64) * multipliers[t]
    groups = _number_by_first_appearance(
        *np.unique(hashes, return_index=True, return_inverse=True)[1:]
    )
    leader = groups.representatives[groups.polytope_of_row]
    followers = np.flatnonzero(leader != np.arange(len(codes)))
    if not np.array_equal(
        take_rows(codes, followers), take_rows(codes, leader[followers])
    ):  # a hash collision
        groups = _number_by_first_appearance(
            *np.unique(codes, axis=0, return_index=True, return_inverse=True)[1:]
        )
    return groups


def take_rows(codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """``codes[rows]``, column by column in memory as :meth:`ForestPartition.encode` gives them."""
    return codes.T[:, rows].T


def _number_by_first_appearance(first_row: np.ndarray, group: np.ndarray) -> Polytopes:
    order = np.argsort(first_row)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    of_row = number[group.ravel()]
    return Polytopes(of_row, first_row[order], np.bincount(of_row))


class PolytopeIndex(Protocol):
    """Class masses around queries, and their nearest polytopes."""

    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Float[m, K, k]: Σ_s K(r, s)^exponent · (class weights of s) for each query and exponent;
        Int[m]: nearest polytope or -1.
        """
        ...


class Partition(Protocol):
    """What every partition offers; codes are opaque to everyone else. X is what its parent takes:
    an array or a data frame.
    """

    def embed(self, X: Any) -> np.ndarray:
        """Float[n, d]: the space in which distances within a polytope are measured."""
        ...

    def encode(self, X: Any) -> np.ndarray:
        """Int[n, …]: the polytope of each row, as a code."""
        ...

    def locate(self, X: Any) -> Locations:
        """Both at once."""
        ...

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[m, n]: geodesic similarity K of codes."""
        ...

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Float[n]: K of each code in ``a`` with the one beside it in ``b``."""
        ...

    def vote(self, locations: Locations) -> np.ndarray:
        """Float[n, K]: the parent's own probabilities."""
        ...

    def index(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
    ) -> PolytopeIndex:
        """Index of polytopes, the ``rows`` (Int[p]) of ``codes`` [n, …] that stand for them, for
        class masses and nearest polytopes.
        """
        ...


_TASKS_PER_WORKER = 4
"""With workers that share no memory: each task carries the whole index, so there are few, and still
enough to even out.
"""


def map_blocks(
    compute: Callable[[Any], Any],
    rows: np.ndarray | Locations,
    blocks: Sequence[Any],
    n_jobs: int | None,
) -> Iterator[tuple[Any, Any]]:
    """Each block with ``compute(rows[block])``, in order.

    Parameters
    ----------
    compute : function of some rows alone; where no memory is shared it is pickled.
    rows : [n, …], the queries, or where they lie on a partition.
    blocks : slices or integer arrays.
    n_jobs : workers. Inside ``joblib.parallel_config(backend=…)``, of a cluster of Dask or Ray for
        instance, they are that backend's.
    """
    backend, _ = get_active_backend(prefer="threads")
    if getattr(backend, "supports_sharedmem", False):
        results = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
            delayed(compute)(rows[block]) for block in blocks
        )
        yield from zip(blocks, results, strict=True)
        return
    n_tasks = min(len(blocks), _TASKS_PER_WORKER * effective_n_jobs(n_jobs))
    groups = [blocks[start::n_tasks] for start in range(n_tasks)]
    found = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_compute_parts)(compute, [rows[block] for block in group]) for group in groups
    )
    for group, results in zip(groups, found, strict=True):
        yield from zip(group, results, strict=True)


def _compute_parts(compute: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    return [compute(part) for part in parts]
