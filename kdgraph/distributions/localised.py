"""Intervals with a correction of their own for each row, from the held-out rows near to it, that hold their share of rows on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.distributions.conformal import CorrectedIntervals, rank_of
from kdgraph.distributions.rows import blocks, rows_at

_SAME = 1e-12
"""Ranks that differ by less are one: sums of the same weights in another order."""


@dataclass(frozen=True, eq=False)
class LocalisedIntervals(CorrectedIntervals):
    """Intervals with a correction for each row, by the scores of the held-out rows near to it.

    Parameters
    ----------
    base, held, y_held : as in :class:`~kdgraph.distributions.conformal.CorrectedIntervals`.
    near, weight : Int[n, k], Float[n, k]: held-out rows near to each row, each at most once, and how much they count, H(x, x_j) in [0, 1].
    near_held, weight_held : Int[h, l], Float[h, l]: the same of held-out rows, each among its own with weight H(x, x) = 1.

    Notes
    -----
    With scores s as of :class:`~kdgraph.distributions.ConformalIntervals`, the local rank of a row is the weight of the rows near to it
    that have a smaller score, over the weight of all near to it, itself among them. A new row is given a score v. The ranks of all h + 1
    rows are then exchangeable, since each is made in the same way of all rows, and v is kept if its rank is among the ⌈(h + 1) level⌉
    smallest. As v grows its own rank grows and those of others fall, so what is kept ends at one of the scores, or does not end. This is
    localised conformal prediction with the row's own weight at +∞ and its level adjusted; weights without that adjustment promise nothing.

    What is promised is what one correction for all promises, on average over rows. That the share is near to the level at each place too is
    what weights are for, and is not promised. With equal weights it is one correction for all. A row to which no held-out row is near has
    the whole line.

    References
    ----------
    Guan, "Localized conformal prediction: a generalized inference framework for conformal prediction", Biometrika 110, 2023, Theorem 1 and
    Section 3. Here adjusted levels are local ranks, and found by bisection of scores.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> side = np.arange(200) % 2  # on one side outcomes are ten times as far out; a row is near to those of its side
    >>> y = np.linspace(-2, 2, 200) * (1 + 9 * side)
    >>> sides = np.stack([np.arange(0, 200, 2), np.arange(1, 200, 2)])
    >>> near = {"near": sides, "weight": np.ones((2, 100)), "near_held": sides[side], "weight_held": np.ones((200, 100))}
    >>> some = Normal(np.zeros(200), np.ones(200))
    >>> LocalisedIntervals(some[:2], some, y, **near).interval(0.9)[1].round(0).tolist()
    [2.0, 18.0]
    """

    near: np.ndarray
    weight: np.ndarray
    near_held: np.ndarray
    weight_held: np.ndarray

    def __getitem__(self, index: Any) -> LocalisedIntervals:
        index = rows_at(index)
        mine = self.base[index], self.held, self.y_held, self.near[index], self.weight[index]
        return LocalisedIntervals(*mine, self.near_held, self.weight_held)

    def corrections(self, score: np.ndarray, level: float) -> np.ndarray:
        """Float[n]; infinite where scores end before what is kept does."""
        kept = rank_of(level, len(score)) - 1
        smaller, all_near = self._held_sums(score)
        place = np.empty(len(score), dtype=np.intp)
        place[np.argsort(score, kind="stable")] = np.arange(len(score))
        found = np.empty(len(self), dtype=np.intp)
        for rows in blocks(len(self), self.near.shape[1]):
            found[rows] = _last_kept(kept, place[self.near[rows]], self.near[rows], self.weight[rows], smaller, all_near)
        return np.append(np.sort(score), np.inf)[found]

    def _held_sums(self, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Float[h], Float[h]: of held-out rows, the weight of those near that have a smaller score, and of all that are near."""
        smaller, all_near = np.empty(len(score)), np.empty(len(score))
        for rows in blocks(len(score), self.near_held.shape[1]):
            weight = self.weight_held[rows]
            smaller[rows] = (weight * (score[self.near_held[rows]] < score[rows, None])).sum(axis=1)
            all_near[rows] = weight.sum(axis=1)
        return smaller, all_near


def _last_kept(kept: int, place: np.ndarray, near: np.ndarray, weight: np.ndarray, smaller: np.ndarray, all_near: np.ndarray) -> np.ndarray:
    """Int[n]: the largest m in [0, h] such that a score just above the m smallest has at most ``kept`` ranks below its own; Guan (2023).

    Of the h rows those that are not near to a new one have the ranks that they have without it.
    """
    rank = np.sort(smaller / all_near)
    own = (smaller / all_near)[near]
    total = all_near[near] + weight
    before, after = smaller[near] / total, (smaller[near] + weight) / total
    counts, everything = weight > 0, weight.sum(axis=1) + 1
    low, high = np.zeros(len(near), dtype=np.intp), np.full(len(near), len(rank))
    while (low < high).any():
        middle = (low + high + 1) // 2
        passed = place < middle[:, None]
        mine = (weight * passed).sum(axis=1) / everything - _SAME
        others = np.searchsorted(rank, mine) - (counts & (own < mine[:, None])).sum(axis=1)
        below = others + (counts & (np.where(passed, before, after) < mine[:, None])).sum(axis=1)
        low, high = np.where(below <= kept, middle, low), np.where(below <= kept, high, middle - 1)
    return low
