"""Comparisons of two methods over many tables: wins, ties and losses, a paired test, and what dominates what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

DECIMALS = 4
"""Numbers are compared as tables print them: further decimals of a confidence at the prior are noise, and rounded ties are transitive."""


@dataclass(frozen=True)
class Comparison:
    """How often one method has the lower number, and how probable such ranks are between equals.

    Attributes
    ----------
    wins, ties, losses : tables on which the first has the lower, the same, the higher number.
    p : of the two-sided Wilcoxon signed-rank test; 1 where all are ties.
    """

    wins: int
    ties: int
    losses: int
    p: float

    def __str__(self) -> str:
        """wins/ties/losses."""
        return f"{self.wins}/{self.ties}/{self.losses}"


def compare(first: pd.Series, second: pd.Series) -> Comparison:
    """Compare two methods' numbers, of which lower is better, table by table; tables without either are left out.

    The ranks of ties are split between both sides (Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006).
    """
    difference = first.round(DECIMALS) - second.round(DECIMALS)
    difference = difference.dropna().round(DECIMALS).to_numpy()
    wins, losses = int((difference < 0).sum()), int((difference > 0).sum())
    if wins + losses == 0:
        return Comparison(0, len(difference), 0, 1.0)
    p = float(stats.wilcoxon(difference, zero_method="zsplit").pvalue)
    return Comparison(wins, len(difference) - wins - losses, losses, p)


def median(values: pd.Series | np.ndarray) -> float:
    """Of the numbers that are there; NaN where none is."""
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    return float(np.median(known)) if len(known) else np.nan


def holm(p: Sequence[float]) -> np.ndarray:
    """Float[m]: p values adjusted for m tests so that no false one is called with more than the given probability (Holm 1979)."""
    values = np.asarray(p, dtype=np.float64)
    rank = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[rank] * (len(values) - np.arange(len(values))))
    result = np.empty(len(values))
    result[rank] = np.minimum(stepped, 1.0)
    return result


def dominating(chosen: pd.Series, others: pd.DataFrame) -> list[str]:
    """Which rows of ``others`` are nowhere higher than ``chosen`` and somewhere lower, in all of its numbers; lower is better.

    Parameters
    ----------
    chosen : a number for each criterion.
    others : a row for each method, the same criteria as columns. One that lacks a number dominates nothing.
    """
    mine, theirs = chosen.round(DECIMALS), others[chosen.index].round(DECIMALS)
    nowhere_worse, somewhere_better = (theirs <= mine).all(axis=1), (theirs < mine).any(axis=1)
    return list(others.index[nowhere_worse & somewhere_better])
