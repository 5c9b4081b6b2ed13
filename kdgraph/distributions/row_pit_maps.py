"""Maps of PIT values, one for each row: of the PIT values near to it, with weights (Torres et al.
2024, Algorithm 1).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from kdgraph.distributions.base import (
    Scores,
    Standardised,
    blocks,
    count_in_rows,
    rows_at,
    shares,
    steps_at,
    steps_up_to,
)
from kdgraph.distributions.recalibrated import PitMap


@dataclass(frozen=True, eq=False)
class RowEcdf(PitMap):
    """The weighted empirical distribution function of k PIT values for each of n rows, as
    :class:`WeightedEcdf` for one.

    Attributes
    ----------
    weights : Float32[n, k], not negative, those of no weight at the end of a row. Float32 moves a
        kernel's weights by 6e-8 of themselves.
    """

    weights: np.ndarray

    _keys_are: ClassVar[str]
    """Field that has what orders the PIT values of a row, [n, k], increasing."""

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def width(self) -> int:  # noqa: D102 - as in the base
        return self.weights.shape[1]

    @property
    def n_eff(self) -> np.ndarray:
        """Float[n]: effective sample size (Σw)² / Σw² (Kish, "Survey sampling", 1965)."""
        found = np.empty(len(self))
        for rows in blocks(len(self), self.width):
            found[rows] = 1 / np.cumsum(np.square(shares(self.weights[rows])), axis=1)[:, -1]
        return found

    def __getitem__(self, index: Any) -> Self:
        return replace(
            self,
            **{name: getattr(self, name)[rows_at(index)] for name in ("weights", self._keys_are)},
        )

    def _keys(self) -> np.ndarray:
        return getattr(self, self._keys_are)

    @abstractmethod
    def _key_of(self, p: np.ndarray) -> np.ndarray:
        """The largest key of a PIT value that is not above p, elementwise."""

    @abstractmethod
    def _level_of(self, keys: np.ndarray) -> np.ndarray:
        """The PIT values that have these keys, elementwise."""

    def cdf(self, p: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        p = np.asarray(p, dtype=np.float64)
        wanted = p[:, None] if p.ndim == 1 else p
        found = np.empty(wanted.shape)
        for rows in blocks(len(self), self.width):
            some = self[rows]
            found[rows] = steps_up_to(
                some.weights, count_in_rows(some._keys(), some._key_of(wanted[rows]), equal=True)
            )
        return found[:, 0] if p.ndim == 1 else found

    def ppf(self, q: np.ndarray) -> np.ndarray:  # noqa: D102
        q = np.broadcast_to(q, (len(self), q.shape[-1]))
        found = np.empty(q.shape)
        for rows in blocks(len(self), self.width):
            some = self[rows]
            found[rows] = some._level_of(
                np.take_along_axis(some._keys(), steps_at(some.weights, q[rows]), axis=1)
            )
        return found

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:  # noqa: D102
        return self._level_of(self._keys()), shares(self.weights)


@dataclass(frozen=True, eq=False)
class RankedEcdf(RowEcdf):
    """Rows take their PIT values from one table: Algorithm 1 of Torres et al. with k neighbours for
    each row.

    Attributes
    ----------
    table : Float[t], increasing: the different PIT values of all calibration rows.
    ranks : UInt[n, k], positions in it, increasing in each row.

    Notes
    -----
    Of fewer than 65,536 different PIT values a neighbour takes 6 bytes, else 8. What is elementwise
    in PIT values is asked of the table alone, t values for n·k.

    Examples
    --------
    >>> two = RankedEcdf.of(np.array([0.9, 0.2, 0.5]), np.array([[0, 1], [2, 1]]), np.array([[1.0, 1.0], [3.0, 1.0]]))
    >>> two.ppf(np.array([0.25, 0.5])).tolist(), two.cdf(np.array([0.5, 0.2])).tolist()
    ([[0.2, 0.2], [0.2, 0.5]], [0.5, 0.25])
    """

    table: np.ndarray
    ranks: np.ndarray

    _keys_are = "ranks"

    @classmethod
    def of(cls, pits: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> RankedEcdf:
        """From PIT values Float[c], none of them 0 or 1, which of them each row has, Int[n, k], and
        their weights, Float[n, k].

        Rank and weight are sorted as one number of 64 bits: half the time of an argsort, and equal
        PIT values have one order.
        """
        return cls.of_ranks(*ranked(pits), rows, weights)

    @classmethod
    def of_ranks(
        cls, table: np.ndarray, rank: np.ndarray, rows: np.ndarray, weights: np.ndarray
    ) -> RankedEcdf:
        """The same of what :func:`ranked` has made of the PIT values, for many blocks of rows."""
        weights = np.ascontiguousarray(weights, dtype=np.float32)
        packed = np.where(weights > 0, rank[rows], len(table)).astype(
            np.uint64
        )  # those of no weight last
        packed <<= np.uint64(32)
        packed |= weights.view(np.uint32)
        packed.sort(axis=1)
        ranks = np.minimum(packed >> np.uint64(32), len(table) - 1).astype(rank.dtype)
        return cls(
            (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32), table, ranks
        )

    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> RankedEcdf:  # noqa: D102 - as in the base
        return replace(self, table=function(self.table))

    def _key_of(self, p: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.table, p, side="right") - 1

    def _level_of(self, keys: np.ndarray) -> np.ndarray:
        return self.table[keys]


@dataclass(frozen=True, eq=False)
class ScoredEcdf(RowEcdf):
    """Rows have PIT values of their own, kept as normal scores: what a local-linear correction has
    made of them.

    Attributes
    ----------
    scores : Float32[n, k], increasing in each row.
    scale : of the scores.
    """

    scores: np.ndarray
    scale: Scores = field(default_factory=Standardised)
    function: Callable[[np.ndarray], np.ndarray] | None = None

    _keys_are = "scores"

    @classmethod
    def of(cls, scores: np.ndarray, weights: np.ndarray, scale: Scores | None = None) -> ScoredEcdf:
        """From scores and weights, Float[n, k], in any order; sorted as :meth:`RankedEcdf.of` does,
        an eighth of the time of an argsort.
        """
        scores, weights = (
            np.ascontiguousarray(each, dtype=np.float32) for each in (scores, weights)
        )
        packed = np.where(weights > 0, _ordered(scores), np.uint32(0xFFFFFFFF)).astype(
            np.uint64
        )  # those of no weight last
        packed <<= np.uint64(32)
        packed |= weights.view(np.uint32)
        packed.sort(axis=1)
        weights = (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)
        end = np.maximum((weights > 0).sum(axis=1)[:, None] - 1, 0)
        keys = (packed >> np.uint64(32)).astype(np.uint32)
        return cls(
            weights,
            _unordered(np.minimum(keys, np.take_along_axis(keys, end, axis=1))),
            scale or Standardised(),
        )

    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> ScoredEcdf:  # noqa: D102 - as in the base
        return replace(self, function=function)

    def _key_of(self, p: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.scale.of(p).astype(np.float32)

    def _level_of(self, keys: np.ndarray) -> np.ndarray:
        levels = self.scale.levels(keys.astype(np.float64))
        return levels if self.function is None else self.function(levels)


def _ordered(values: np.ndarray) -> np.ndarray:
    """UInt32 in the order of Float32: of IEEE 754 numbers the bits, all turned over below 0, else
    the first.
    """
    bits = (values + np.float32(0)).view(np.uint32)  # -0 is 0
    return bits ^ np.where(bits >> np.uint32(31), np.uint32(0xFFFFFFFF), np.uint32(0x80000000))


def _unordered(bits: np.ndarray) -> np.ndarray:
    """The inverse of :func:`_ordered`."""
    return (
        bits ^ np.where(bits >> np.uint32(31), np.uint32(0x80000000), np.uint32(0xFFFFFFFF))
    ).view(np.float32)


def ranked(pits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different PIT values, increasing, and UInt[c], which of them each one is.

    Raises
    ------
    ValueError
        For 0 or 1, whose quantile may be infinite, and for what is not finite.
    """
    table, rank = np.unique(pits, return_inverse=True)
    if not np.isfinite(table).all() or np.isin(table, (0.0, 1.0)).any():
        raise ValueError("PIT values must be numbers, none of them 0 or 1")
    return table, rank.astype(np.uint16 if len(table) < 1 << 16 else np.uint32)


class Stack:
    """Room for the maps of n rows that come block by block, so that no more than one block is there
    twice; ours.

    Examples
    --------
    >>> stack = Stack(2)
    >>> for weight in (1.0, 2.0):
    ...     stack.add(ScoredEcdf.of(np.array([[0.5, -0.5]]), np.full((1, 2), weight)))
    >>> stack.whole().ppf(np.array([0.9])).round(3).tolist()
    [[0.691], [0.691]]
    """

    def __init__(self, n: int) -> None:
        self.n, self.filled = n, 0
        self.map: Any = None

    def add(self, part: RowEcdf) -> None:
        """Rows after those that are there already; one may have more values in a row than another,
        whose weights then end in zeros.
        """
        if self.map is None or part.width > self.map.width:
            self.map = _widened(part, self.n, self.map, self.filled)
        here = slice(self.filled, self.filled + len(part))
        self.map.weights[here, : part.width] = part.weights
        _fill(self.map._keys()[here], part._keys())
        self.filled += len(part)

    def whole(self) -> Any:
        """The map of all rows."""
        return self.map


def _widened(part: RowEcdf, n: int, before: RowEcdf | None, filled: int) -> RowEcdf:
    keys, weights = (
        np.zeros((n, part.width), part._keys().dtype),
        np.zeros((n, part.width), dtype=np.float32),
    )
    if before is not None:
        weights[:filled, : before.width] = before.weights[:filled]
        _fill(keys[:filled], before._keys()[:filled])
    return replace(part, **{"weights": weights, part._keys_are: keys})


def _fill(into: np.ndarray, keys: np.ndarray) -> None:
    into[:, : keys.shape[1]] = keys
    into[:, keys.shape[1] :] = keys[:, -1:]
