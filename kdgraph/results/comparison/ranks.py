"""Many methods on many data sets: mean ranks, Friedman's test, and which methods Nemenyi's test does not tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from kdgraph.results.comparison.paired import ALPHA, DECIMALS


@dataclass(frozen=True)
class Ranks:
    """Methods ranked on each data set.

    Attributes
    ----------
    mean : method → mean rank, 1 the best, the best first.
    n : data sets.
    chi2, f, p : Friedman's statistic with its correction for ties, that of Iman and Davenport, and its p value.
    critical_difference : how far two mean ranks must be apart at ``alpha``, for all pairs of methods together.
    alpha : the chance of any false difference.
    """

    mean: Mapping[str, float]
    n: int
    chi2: float
    f: float
    p: float
    critical_difference: float
    alpha: float = ALPHA

    @property
    def degrees(self) -> tuple[int, int]:
        """Degrees of freedom of ``f``."""
        k = len(self.mean)
        return k - 1, (k - 1) * (self.n - 1)

    @property
    def differ(self) -> bool:
        """Whether Friedman's test finds any difference; only then are pairs told apart."""
        return self.p <= self.alpha

    @property
    def groups(self) -> list[list[str]]:
        """Largest groups of methods that are not told apart, of two or more, the best first; they overlap."""
        names, mean = list(self.mean), np.array(list(self.mean.values()))
        if not self.differ:
            return [names]
        found, reached = [], 0
        for i in range(len(names)):
            end = int(np.searchsorted(mean, mean[i] + self.critical_difference, side="left"))
            if end > max(reached, i + 1):
                found.append(names[i:end])
                reached = end
        return found

    @property
    def best(self) -> list[str]:
        """Methods that are not told apart from the one with the best mean rank, which is among them."""
        first = next(iter(self.mean))
        return next((group for group in self.groups if first in group), [first])


def rank(values: pd.DataFrame, decimals: int = DECIMALS, alpha: float = ALPHA) -> Ranks:
    """Rank methods on each data set; equal numbers share the mean of their ranks.

    Parameters
    ----------
    values : a row for each data set, a column for each of three or more methods, nothing missing; lower is better.
    decimals : at which numbers are rounded.
    alpha : of both tests.

    Raises
    ------
    ValueError
        Fewer than three methods or two data sets, or a number is missing.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, section 3.2; Iman and Davenport, "Approximations
    of the critical region of the Friedman statistic", 1980. Mean ranks of two methods depend on which others are ranked with them
    (Benavoli, Corani, Mangili, "Should we really use post-hoc tests based on mean-ranks?", JMLR 2016).
    """
    n, k = values.shape
    if k < 3 or n < 2 or values.isna().any(axis=None):
        raise ValueError(f"ranks need three methods or more on two data sets or more, and all numbers, got {k} on {n}")
    rounded = values.round(decimals)
    mean = rounded.rank(axis=1).mean().sort_values(kind="stable")
    chi2, f, p = friedman(rounded.to_numpy(dtype=np.float64))
    q = float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / np.sqrt(2)
    difference = q * np.sqrt(k * (k + 1) / (6 * n))
    return Ranks({str(name): float(value) for name, value in mean.items()}, n, chi2, f, p, float(difference), alpha)


def friedman(values: np.ndarray) -> tuple[float, float, float]:
    """Friedman's chi-squared with its correction for ties, Iman and Davenport's F, and its p value; 0, 0 and 1 where all are ties.

    Parameters
    ----------
    values : Float[n, k], n data sets and k methods.
    """
    n, k = values.shape
    if (values == values[:, :1]).all():
        return 0.0, 0.0, 1.0
    chi2 = float(stats.friedmanchisquare(*values.T).statistic)
    rest = n * (k - 1) - chi2
    if rest <= 1e-9 * n:  # the same ranks on every data set
        return chi2, np.inf, 0.0
    f = (n - 1) * chi2 / rest
    return chi2, f, float(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))
