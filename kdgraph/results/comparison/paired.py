"""Comparisons of two methods on the same data sets, or on the same seeds: wins, ties and losses,
and a paired test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from kdgraph.results.numbers import NOISE

ALPHA = 0.05
"""The chance of calling any false difference of a family, throughout."""
_MOST_SIGNS = 100
"""Differences that are not zero of which all signs are counted; the time grows with their cube, and
of more the normal curve is as good.
"""


@dataclass(frozen=True)
class Comparison:
    """How often one method has the lower number, and how probable such ranks are between equals.

    Attributes
    ----------
    wins, ties, losses : pairs in which the first has the lower, the same, the higher number.
    p : of the two-sided Wilcoxon signed-rank test; 1 where all are ties.
    """

    wins: int
    ties: int
    losses: int
    p: float

    def __str__(self) -> str:
        """wins/ties/losses."""
        return f"{self.wins}/{self.ties}/{self.losses}"

    @property
    def n(self) -> int:
        """Pairs."""
        return self.wins + self.ties + self.losses


def compare(
    first: pd.Series, second: pd.Series, *, scale: float = 0.0, decimals: int | None = None
) -> Comparison:
    """Compare two methods' numbers, of which lower is better, pair by pair; an index that either
    lacks is left out.

    Parameters
    ----------
    first, second : Float[...] by data set (or by seed), NaN where missing.
    scale : of the numbers behind both, as 1 for shares; see :func:`noise_of`.
    decimals : to which numbers are rounded first, as published ones are; None: they are compared as
        they are.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, section
    3.1.3: the ranks of ties are split between both sides.

    Examples
    --------
    >>> compare(pd.Series([0.10, 0.20, 0.30]), pd.Series([0.20, 0.20, 0.40]))
    Comparison(wins=2, ties=1, losses=0, p=0.5)
    """
    both = pd.concat([first, second], axis=1, join="inner").to_numpy(dtype=np.float64)
    numbers = both if decimals is None else both.round(decimals)
    return of_pairs(numbers[:, 0], numbers[:, 1], scale)


def of_pairs(first: np.ndarray, second: np.ndarray, scale: float = 0.0) -> Comparison:
    """Compare as :func:`compare` does, by place: ``first`` and ``second`` are Float[n], a pair that
    lacks a number is left out.
    """
    there = ~(np.isnan(first) | np.isnan(second))
    a, b = first[there], second[there]
    noise = noise_of(a, b, scale)
    d = untied_difference(a, b, scale)
    wins, losses = int((d < 0).sum()), int((d > 0).sum())
    p = wilcoxon(d, noise) if wins + losses else 1.0
    return Comparison(wins, len(d) - wins - losses, losses, p)


def noise_of(first: np.ndarray, second: np.ndarray, scale: float = 0.0) -> np.ndarray:
    """Return how far two numbers may be apart and still be the same.

    Parameters
    ----------
    first, second : Float[...].
    scale : of the numbers that they were computed from. A calibration error of 1e-17 is a
        difference of confidences, which have a scale of 1, and is 0; an error of 1e-17 volts is
        one.

    Returns
    -------
    Float[...]
    """
    return NOISE * np.maximum(np.maximum(np.abs(first), np.abs(second)), scale)


def untied_difference(first: np.ndarray, second: np.ndarray, scale: float = 0.0) -> np.ndarray:
    """Return first - second, Float[...], and 0 where noise alone tells the two apart; NaN where one
    is missing.
    """
    difference = first - second
    return np.where(np.abs(difference) <= noise_of(first, second, scale), 0.0, difference)


def without_noise(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return values in which those that noise alone tells apart are equal, so that they share their
    ranks.

    Neighbours in size that are no further apart than the noise of either are one value, and so are
    chains of them: a tie stays transitive.

    Parameters
    ----------
    values, noise : Float[n], finite.

    Returns
    -------
    Float[n]
        The smallest value of each chain.
    """
    order = np.argsort(values, kind="stable")
    rising, within = values[order], noise[order]
    begins = np.ones(len(values), dtype=bool)
    begins[1:] = np.diff(rising) > np.maximum(within[1:], within[:-1])
    result = np.empty(len(values))
    result[order] = rising[np.maximum.accumulate(np.where(begins, np.arange(len(values)), 0))]
    return result


def wilcoxon(difference: np.ndarray, noise: np.ndarray | float = 0.0) -> float:
    """Compute the p value of the two-sided Wilcoxon signed-rank test, the ranks of zeros split
    between both sides.

    Exact, whatever ties and zeros there are, where at most 100 differences are not zero; a normal
    approximation of more.

    Parameters
    ----------
    difference : Float[n], finite.
    noise : Float[n] or a number: how far differences may be apart and still be the same size.
    """
    d = np.asarray(difference, dtype=np.float64)
    size = without_noise(np.abs(d), np.broadcast_to(np.asarray(noise, dtype=np.float64), d.shape))
    if (d != 0).sum() > _MOST_SIGNS:
        return float(stats.wilcoxon(np.sign(d) * size, zero_method="zsplit").pvalue)
    # Given their sizes, each sign is as probable as its opposite: the sum of the ranks of positive
    # differences is one of 2^m, which are
    # counted by adding one rank after the other. A zero adds the same on either side. Midranks are
    # halves, so all are doubled.
    doubled = np.rint(2 * stats.rankdata(size)).astype(int)[d != 0]
    ways = np.ones(1)
    for rank in doubled:
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    positive = int(doubled[d[d != 0] > 0].sum())
    tail = min(ways[: positive + 1].sum(), ways[positive:].sum())
    return float(min(1.0, 2 * tail / ways.sum()))


def pairs_needed(tests: int, alpha: float = ALPHA) -> int:
    """The fewest pairs with which one of m ``tests`` can be significant: if all differ in one
    direction, p is 2 / 2^n, by Holm m times it.

    >>> pairs_needed(1), pairs_needed(10)
    (6, 9)
    """
    return int(np.ceil(1 + np.log2(tests / alpha)))


def holm(p: Sequence[float]) -> np.ndarray:
    """Float[m]: p values adjusted for m tests so that no false one is called with more than the
    given probability (Holm 1979).
    """
    values = np.asarray(p, dtype=np.float64)
    rank = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[rank] * (len(values) - np.arange(len(values))))
    result = np.empty(len(values))
    result[rank] = np.minimum(stepped, 1.0)
    return result
