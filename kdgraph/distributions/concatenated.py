"""Predictive distributions of rows that several models predicted, in the order of the rows.

Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kdgraph.distributions.base import Distribution, ScoreScale, keep_row_axis


class ConcatenatedDistribution(Distribution):
    """Distributions of n rows, each of which belongs to one of several distributions.

    It is what the models of a cross-validation predict for all rows.

    Parameters
    ----------
    parts : sequence of Distribution
        Distributions of some rows each, of one family.
    part, position : Int[n], Int[n]
        Part that each row belongs to, and its position in the part.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> first, second = Normal(np.array([0.0, 2.0]), 1.0), Normal(np.array([1.0]), 1.0)
    >>> rows = np.array([0, 2]), np.array([1])
    >>> both = ConcatenatedDistribution.from_parts(zip(rows, (first, second)), 3)
    >>> both.mean().tolist(), both[1:].ppf(0.5).tolist()
    ([0.0, 1.0, 2.0], [1.0, 2.0])
    """

    def __init__(self, parts: Sequence[Distribution], part: np.ndarray, position: np.ndarray):
        self.parts, self.part, self.position = list(parts), part, position

    @classmethod
    def from_parts(
        cls, parts: Iterable[tuple[np.ndarray, Distribution]], n_rows: int
    ) -> ConcatenatedDistribution:
        """Return the distributions of n rows from the positions of each part's rows, Int[m]."""
        part, position = np.zeros(n_rows, dtype=np.intp), np.zeros(n_rows, dtype=np.intp)
        distributions = []
        for f, (rows, distribution) in enumerate(parts):
            part[rows], position[rows] = f, np.arange(len(rows))
            distributions.append(distribution)
        return cls(distributions, part, position)

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, index: Any) -> ConcatenatedDistribution:
        rows = keep_row_axis(index)
        return ConcatenatedDistribution(self.parts, self.part[rows], self.position[rows])

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        return self._by_part("cdf", y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        return self._by_part("ppf", q, by_row=np.ndim(q) == 2)

    def extended_cdf(self, y: np.ndarray | float) -> np.ndarray:
        return self._by_part("extended_cdf", y)

    def extended_ppf(self, levels: np.ndarray) -> np.ndarray:
        return self._by_part("extended_ppf", levels, by_row=np.ndim(levels) == 2)

    def fallback_levels(self) -> tuple[float, float]:
        return self.parts[0].fallback_levels()

    def score_scale(self) -> ScoreScale:
        return self.parts[0].score_scale()

    def mean(self) -> np.ndarray:
        return self._by_part("mean")

    def var(self) -> np.ndarray:
        return self._by_part("var")

    def crps(self, y: np.ndarray) -> np.ndarray:
        return self._by_part("crps", y)

    def _by_part(self, method: str, *arguments: Any, by_row: bool = True) -> np.ndarray:
        """Return a method of each part, of those rows of its argument that belong to the part."""
        result: Any = None
        for f, distribution in enumerate(self.parts):
            rows = np.flatnonzero(self.part == f)
            if not len(rows):
                continue
            own = [
                np.asarray(each)[rows] if by_row and np.ndim(each) else each for each in arguments
            ]
            values = getattr(distribution[self.position[rows]], method)(*own)
            if result is None:
                result = np.empty((len(self), *values.shape[1:]))
            result[rows] = values
        return np.empty(0) if result is None else result
