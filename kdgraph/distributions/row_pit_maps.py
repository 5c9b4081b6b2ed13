"""PIT maps that differ by row: weighted PIT values of the neighbours of each row.

In Algorithm 1 of Torres et al. (2024) each row has its own distribution function of PIT values.
They are stored compactly: float32 weights, and either ranks in one table of PIT values
(:class:`RankedEcdf`) or float32 normal scores (:class:`ScoredEcdf`). :class:`RowBuffer` collects
them block by block. The storage is original to kdgraph.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from kdgraph.distributions.base import (
    ScoreScale,
    StandardisedScores,
    count_in_rows,
    cumulative_weight,
    first_step_reaching,
    keep_row_axis,
    normalise_weights,
    row_blocks,
)
from kdgraph.distributions.recalibrated import PitMap

_KEY_SHIFT = np.uint64(32)
"""Bits by which a key is shifted, so that its weight fits below it in one 64-bit integer."""
_WEIGHT_MASK = np.uint64(0xFFFFFFFF)
"""Bits of the weight in the packed integer."""


@dataclass(frozen=True, eq=False)
class RowEcdf(PitMap):
    """Weighted empirical distribution function of k PIT values for each of n rows.

    Each row is what :class:`WeightedEcdf` is for all rows. A subclass stores a *key* for each PIT
    value: an integer or float that has the same order and takes less memory.

    Attributes
    ----------
    weights : Float32[n, k]
        Weights that are not negative. Values without weight are at the end of their row. Float32
        changes a kernel's weights by 6e-8 of their size.

    Examples
    --------
    >>> rows, weights = np.array([[0, 1], [2, 1]]), np.array([[1.0, 1.0], [2.0, 0.0]])
    >>> maps = RankedEcdf.from_pits(np.array([0.9, 0.2, 0.5]), rows, weights)
    >>> len(maps), maps.n_atoms, maps.n_eff.tolist(), maps[1].cdf(np.array([0.5])).tolist()
    (2, 2, [2.0, 1.0], [1.0])
    """

    weights: np.ndarray

    _key_field: ClassVar[str]
    """Name of the field that holds the keys [n, k], increasing along each row."""

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_atoms(self) -> int:
        return self.weights.shape[1]

    @property
    def n_eff(self) -> np.ndarray:
        """Effective sample size (Σw)² / Σw² of each row, Float[n] (Kish 1965)."""
        n_eff = np.empty(len(self))
        for rows in row_blocks(len(self), self.n_atoms):
            squares = np.square(normalise_weights(self.weights[rows]))
            n_eff[rows] = 1 / np.cumsum(squares, axis=1)[:, -1]
        return n_eff

    def __getitem__(self, index: Any) -> Self:
        rows = keep_row_axis(index)
        fields = {name: getattr(self, name)[rows] for name in ("weights", self._key_field)}
        return replace(self, **fields)

    def _keys(self) -> np.ndarray:
        return getattr(self, self._key_field)

    @abstractmethod
    def _key_of(self, p: np.ndarray) -> np.ndarray:
        """Return the largest key of a PIT value that is not above p, elementwise."""

    @abstractmethod
    def _level_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the PIT values that have these keys, elementwise."""

    def cdf(self, p: np.ndarray) -> np.ndarray:
        p = np.asarray(p, dtype=np.float64)
        values = p[:, None] if p.ndim == 1 else p
        probabilities = np.empty(values.shape)
        for rows in row_blocks(len(self), self.n_atoms):
            block = self[rows]
            count = count_in_rows(block._keys(), block._key_of(values[rows]), equal=True)
            probabilities[rows] = cumulative_weight(block.weights, count)
        return probabilities[:, 0] if p.ndim == 1 else probabilities

    def ppf(self, q: np.ndarray) -> np.ndarray:
        q = np.broadcast_to(q, (len(self), q.shape[-1]))
        pits = np.empty(q.shape)
        for rows in row_blocks(len(self), self.n_atoms):
            block = self[rows]
            steps = first_step_reaching(block.weights, q[rows])
            pits[rows] = block._level_of(np.take_along_axis(block._keys(), steps, axis=1))
        return pits

    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        return self._level_of(self._keys()), normalise_weights(self.weights)

    def sample(self, uniform: np.ndarray) -> Self:
        """Return maps of PIT values that are drawn from each row, with equal weights.

        The s values of a row are its quantiles at independent uniform levels, Float[n, s], that is,
        draws with replacement by weight.
        """
        keys = np.empty(uniform.shape, self._keys().dtype)
        for rows in row_blocks(len(self), max(self.n_atoms, uniform.shape[1])):
            steps = first_step_reaching(self.weights[rows], uniform[rows])
            keys[rows] = np.sort(np.take_along_axis(self._keys()[rows], steps, axis=1), axis=1)
        weights = np.ones(uniform.shape, dtype=np.float32)
        return replace(self, **{"weights": weights, self._key_field: keys})


@dataclass(frozen=True, eq=False)
class RankedEcdf(RowEcdf):
    """PIT maps whose values come from one table that all rows share.

    This is Algorithm 1 of Torres et al. (2024) with k neighbours for each row.

    A neighbour takes 6 bytes if there are fewer than 65,536 different PIT values, else 8. An
    elementwise function of PIT values is evaluated on the t values of the table only, not on n·k.

    Attributes
    ----------
    table : Float[t]
        The different PIT values of all calibration rows, increasing.
    ranks : UInt[n, k]
        Positions in the table, increasing along each row.

    Examples
    --------
    >>> rows, weights = np.array([[0, 1], [2, 1]]), np.array([[1.0, 1.0], [3.0, 1.0]])
    >>> maps = RankedEcdf.from_pits(np.array([0.9, 0.2, 0.5]), rows, weights)
    >>> maps.ppf(np.array([0.25, 0.5])).tolist(), maps.cdf(np.array([0.5, 0.2])).tolist()
    ([[0.2, 0.2], [0.2, 0.5]], [0.5, 0.25])
    """

    table: np.ndarray
    ranks: np.ndarray

    _key_field = "ranks"

    @classmethod
    def from_pits(cls, pits: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> RankedEcdf:
        """Return the maps of n rows that have some of the calibration rows' PIT values, Float[c].

        ``rows`` are the k calibration rows that belong to each row, Int[n, k], with weights
        Float[n, k].
        """
        return cls.from_ranks(*rank_pits(pits), rows, weights)

    @classmethod
    def from_ranks(
        cls, table: np.ndarray, rank: np.ndarray, rows: np.ndarray, weights: np.ndarray
    ) -> RankedEcdf:
        """Return the same from the result of :func:`rank_pits`, for many blocks of rows."""
        # Values without weight get a rank beyond the table, so that they come last.
        ranks, weights = _sort_with_weights(rank[rows], weights, len(table))
        return cls(weights, table, np.minimum(ranks, len(table) - 1).astype(rank.dtype))

    def transform(self, function: Callable[[np.ndarray], np.ndarray]) -> RankedEcdf:
        return replace(self, table=function(self.table))

    def _key_of(self, p: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.table, p, side="right") - 1

    def _level_of(self, keys: np.ndarray) -> np.ndarray:
        return self.table[keys]


@dataclass(frozen=True, eq=False)
class ScoredEcdf(RowEcdf):
    """PIT maps whose values are different in each row, stored as normal scores.

    A local-linear correction changes the PIT values of the neighbours for each row, so that no
    common table exists.

    Attributes
    ----------
    scores : Float32[n, k]
        Normal scores, increasing along each row.
    scale : ScoreScale
        Scale of the scores.
    function : callable, default=None
        Increasing function of the PIT values, from :meth:`transform`.

    Examples
    --------
    >>> maps = ScoredEcdf.from_scores(np.array([[1.0, -1.0, 0.0]]), np.ones((1, 3)))
    >>> maps.ppf(np.array([0.5, 1.0])).round(3).tolist()
    [[0.5, 0.841]]
    """

    scores: np.ndarray
    scale: ScoreScale = field(default_factory=StandardisedScores)
    function: Callable[[np.ndarray], np.ndarray] | None = None

    _key_field = "scores"

    @classmethod
    def from_scores(
        cls, scores: np.ndarray, weights: np.ndarray, scale: ScoreScale | None = None
    ) -> ScoredEcdf:
        """Return the maps of normal scores and weights, Float[n, k], in any order.

        A scale of None is :class:`StandardisedScores`.
        """
        # Scores without weight come last; they then repeat the last score that has weight, so that
        # each row increases.
        bits = _to_sortable_bits(np.ascontiguousarray(scores, dtype=np.float32))
        keys, weights = _sort_with_weights(bits, weights, 0xFFFFFFFF)
        last = np.maximum((weights > 0).sum(axis=1)[:, None] - 1, 0)
        bits = keys.astype(np.uint32)
        bits = np.minimum(bits, np.take_along_axis(bits, last, axis=1))
        return cls(weights, _from_sortable_bits(bits), scale or StandardisedScores())

    def transform(self, function: Callable[[np.ndarray], np.ndarray]) -> ScoredEcdf:
        return replace(self, function=function)

    def _key_of(self, p: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.scale.to_scores(p).astype(np.float32)

    def _level_of(self, keys: np.ndarray) -> np.ndarray:
        levels = self.scale.to_levels(keys.astype(np.float64))
        return levels if self.function is None else self.function(levels)


def _sort_with_weights(
    keys: np.ndarray, weights: np.ndarray, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return keys, UInt[n, k], sorted along each row with their weights, Float32[n, k].

    The key of what has no weight becomes ``last``.
    """
    # Key and weight are packed into one 64-bit integer and sorted together. This takes half of the
    # time of an argsort for ranks and an eighth for scores, and equal PIT values have one order,
    # that of their weights, so that sums do not depend on the order of the neighbours.
    weights = np.ascontiguousarray(weights, dtype=np.float32)
    packed = np.where(weights > 0, keys, keys.dtype.type(last)).astype(np.uint64)
    packed <<= _KEY_SHIFT
    packed |= weights.view(np.uint32)
    packed.sort(axis=1)
    weights = (packed & _WEIGHT_MASK).astype(np.uint32).view(np.float32)
    packed >>= _KEY_SHIFT
    return packed, weights


def _to_sortable_bits(values: np.ndarray) -> np.ndarray:
    """Return UInt32 in the order of Float32 values, elementwise."""
    # The bits of IEEE 754 numbers have the order of the numbers if all bits are inverted for
    # negative numbers and the sign bit alone for the others. Adding 0 turns -0 into 0.
    bits = (values + np.float32(0)).view(np.uint32)
    return bits ^ np.where(bits >> np.uint32(31), np.uint32(0xFFFFFFFF), np.uint32(0x80000000))


def _from_sortable_bits(bits: np.ndarray) -> np.ndarray:
    mask = np.where(bits >> np.uint32(31), np.uint32(0x80000000), np.uint32(0xFFFFFFFF))
    return (bits ^ mask).view(np.float32)


def rank_pits(pits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the increasing table of different PIT values, and the position of each value, UInt[c].

    Positions have 16 bits where they suffice. A value that is 0, 1 or not finite raises ValueError,
    because its quantile may be infinite.
    """
    table, rank = np.unique(pits, return_inverse=True)
    if not np.isfinite(table).all() or np.isin(table, (0.0, 1.0)).any():
        raise ValueError("PIT values must be numbers, none of them 0 or 1")
    return table, rank.astype(np.uint16 if len(table) < 1 << 16 else np.uint32)


class RowBuffer:
    """Buffer for the maps of n rows that are computed block by block.

    The arrays are allocated once for all n rows, so that no more than one block is in memory twice.
    """

    def __init__(self, n: int) -> None:
        self.n, self.n_filled = n, 0
        self.map: Any = None

    def append(self, block: RowEcdf) -> None:
        """Add rows; blocks may differ in the number of atoms of a row.

        The weights of the narrower blocks then end in zeros.
        """
        if self.map is None or block.n_atoms > self.map.n_atoms:
            self.map = _allocate(block, self.n, self.map, self.n_filled)
        rows = slice(self.n_filled, self.n_filled + len(block))
        self.map.weights[rows, : block.n_atoms] = block.weights
        _fill_keys(self.map._keys()[rows], block._keys())
        self.n_filled += len(block)

    def result(self) -> Any:
        """Return the map of all rows."""
        return self.map


def _allocate(block: RowEcdf, n: int, previous: RowEcdf | None, n_filled: int) -> RowEcdf:
    """Return a map of n rows as wide as the block, with the first ``n_filled`` rows copied."""
    keys = np.zeros((n, block.n_atoms), block._keys().dtype)
    weights = np.zeros((n, block.n_atoms), dtype=np.float32)
    if previous is not None:
        weights[:n_filled, : previous.n_atoms] = previous.weights[:n_filled]
        _fill_keys(keys[:n_filled], previous._keys()[:n_filled])
    return replace(block, **{"weights": weights, block._key_field: keys})


def _fill_keys(target: np.ndarray, keys: np.ndarray) -> None:
    """Copy keys into a wider array; the rest of each row repeats the last key."""
    target[:, : keys.shape[1]] = keys
    target[:, keys.shape[1] :] = keys[:, -1:]
