"""Comparisons of two methods on the same data sets, or on the same seeds: wins, ties and losses, and a paired test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

DECIMALS = 4
"""Numbers are compared as tables print them: further decimals of a confidence at the prior are noise, and rounded ties are transitive."""
ALPHA = 0.05
"""The chance of calling any false difference of a family, throughout."""
_MOST_SIGNS = 13
"""Pairs of which all 2^n signs are looked at where some are tied; scipy does the same, in seconds."""


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


def compare(first: pd.Series, second: pd.Series, decimals: int = DECIMALS) -> Comparison:
    """Compare two methods' numbers, of which lower is better, pair by pair; an index that either lacks is left out.

    Parameters
    ----------
    first, second : Float[...] by data set (or by seed), NaN where missing.
    decimals : at which numbers are rounded.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, section 3.1.3: the ranks of ties are split
    between both sides.

    Examples
    --------
    >>> compare(pd.Series([0.10, 0.20, 0.30]), pd.Series([0.20, 0.20, 0.40]))
    Comparison(wins=2, ties=1, losses=0, p=0.5)
    """
    difference = first.round(decimals) - second.round(decimals)
    return of_differences(difference.to_numpy(dtype=np.float64), decimals)


def of_differences(difference: np.ndarray, decimals: int = DECIMALS) -> Comparison:
    """The same of first - second, Float[n], NaN where there is none."""
    d = difference[~np.isnan(difference)].round(decimals)
    wins, losses = int((d < 0).sum()), int((d > 0).sum())
    p = wilcoxon(d) if wins + losses else 1.0
    return Comparison(wins, len(d) - wins - losses, losses, p)


def wilcoxon(difference: np.ndarray) -> float:
    """Compute the p value of the two-sided Wilcoxon signed-rank test, the ranks of zeros split between both sides.

    Exact for 13 differences or fewer, whatever ties there are, and for 50 or fewer if all are apart and none is zero; a normal
    approximation of more.

    Parameters
    ----------
    difference : Float[n], finite.
    """
    d = np.asarray(difference, dtype=np.float64)
    if len(d) > _MOST_SIGNS:
        return float(stats.wilcoxon(d, zero_method="zsplit").pvalue)
    doubled = np.rint(2 * stats.rankdata(np.abs(d))).astype(int)[d != 0]  # midranks are halves; a zero adds the same on either side
    ways = np.ones(1)
    for rank in doubled:
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    positive = int(doubled[d[d != 0] > 0].sum())
    tail = min(ways[: positive + 1].sum(), ways[positive:].sum())
    return float(min(1.0, 2 * tail / ways.sum()))


def pairs_needed(tests: int, alpha: float = ALPHA) -> int:
    """The fewest pairs with which one of m ``tests`` can be significant: if all differ in one direction, p is 2 / 2^n, by Holm m times it.

    >>> pairs_needed(1), pairs_needed(10)
    (6, 9)
    """
    return int(np.ceil(1 + np.log2(tests / alpha)))


def holm(p: Sequence[float]) -> np.ndarray:
    """Float[m]: p values adjusted for m tests so that no false one is called with more than the given probability (Holm 1979)."""
    values = np.asarray(p, dtype=np.float64)
    rank = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[rank] * (len(values) - np.arange(len(values))))
    result = np.empty(len(values))
    result[rank] = np.minimum(stepped, 1.0)
    return result
