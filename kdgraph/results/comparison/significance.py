"""Tests of differences between methods.

Two methods are compared by paired differences: wins, ties and losses, and the Wilcoxon signed-rank
test. Three or more methods are ranked on each data set: mean ranks, Friedman's test, and Nemenyi's
critical difference.

Numbers that differ by floating-point noise alone are ties in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import exp, factorial, log
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from kdgraph.results.names import NOISE

ALPHA = 0.05
"""Probability of any false difference within a family of tests."""
DRAWS = 9_999
"""Random permutations if all of them are too many to count.

At p = 0.05 the error is at most 0.004 in 19 of 20 random seeds.
"""
ASYMPTOTIC = 10
"""Data sets above which the F of Iman and Davenport is used, which Demšar (2006) recommends."""
PValueMethod = Literal["exact", "permutations", "F"]
"""How the p value of Friedman's test is computed."""
_MOST_SIGNS = 100
"""Differences whose signs are all counted.

The time grows with the cube of their number, and the normal approximation of more is as good.
"""
_MOST_SUMS = 300_000
"""Sums of ranks in one step of counting permutations."""


@dataclass(frozen=True)
class PairedComparison:
    """Outcome of two methods on the same pairs, of which the first wins with the lower number."""

    wins: int
    ties: int
    losses: int
    p: float  # two-sided Wilcoxon signed-rank test; 1 if all are ties

    def __str__(self) -> str:
        """Return wins/ties/losses."""
        return f"{self.wins}/{self.ties}/{self.losses}"

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.wins + self.ties + self.losses


@dataclass(frozen=True)
class Ranks:
    """Methods ranked on each data set."""

    mean: Mapping[str, float]  # method → mean rank, 1 the best, sorted from the best
    n: int  # data sets
    chi2: float  # Friedman's statistic with its correction for ties
    f: float  # that of Iman and Davenport
    p: float
    critical_difference: float  # of two mean ranks, for all pairs of methods together
    alpha: float = ALPHA
    p_method: PValueMethod = "F"

    @property
    def degrees(self) -> tuple[int, int]:
        """Degrees of freedom of ``f``."""
        k = len(self.mean)
        return k - 1, (k - 1) * (self.n - 1)

    @property
    def differ(self) -> bool:
        """True if Friedman's test is significant; pairs are compared only then."""
        return self.p <= self.alpha

    @property
    def groups(self) -> list[list[str]]:
        """Largest groups of two or more methods without a significant difference; they overlap.

        Groups and their members are sorted from the best.
        """
        names, mean = list(self.mean), np.array(list(self.mean.values()))
        if not self.differ:
            return [names]
        groups, end_of_last = [], 0
        for i in range(len(names)):
            end = int(np.searchsorted(mean, mean[i] + self.critical_difference, side="left"))
            if end > max(end_of_last, i + 1):
                groups.append(names[i:end])
                end_of_last = end
        return groups

    @property
    def best(self) -> list[str]:
        """The method with the best mean rank and those that do not differ significantly from it."""
        first = next(iter(self.mean))
        return next((group for group in self.groups if first in group), [first])


def compare_pairs(
    first: pd.Series, second: pd.Series, *, scale: float = 0.0, decimals: int | None = None
) -> PairedComparison:
    """Compare two methods pair by pair; lower numbers are better.

    The numbers are Float[...] by data set or by seed; pairs with a missing one are left out.
    ``scale`` is that of :func:`noise_level`. Numbers are first rounded to ``decimals``, as
    published ones are.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, section
    3.1.3: the ranks of ties are split between both sides.

    Examples
    --------
    >>> compare_pairs(pd.Series([0.10, 0.20, 0.30]), pd.Series([0.20, 0.20, 0.40]))
    PairedComparison(wins=2, ties=1, losses=0, p=0.5)
    """
    pairs = pd.concat([first, second], axis=1, join="inner").to_numpy(dtype=np.float64)
    numbers = pairs if decimals is None else pairs.round(decimals)
    return compare_arrays(numbers[:, 0], numbers[:, 1], scale)


def compare_arrays(first: np.ndarray, second: np.ndarray, scale: float = 0.0) -> PairedComparison:
    """Compare as :func:`compare_pairs` does, Float[n] by position."""
    is_complete = ~(np.isnan(first) | np.isnan(second))
    first, second = first[is_complete], second[is_complete]
    noise = noise_level(first, second, scale)
    difference = untied_difference(first, second, scale)
    wins, losses = int((difference < 0).sum()), int((difference > 0).sum())
    p = wilcoxon(difference, noise) if wins + losses else 1.0
    return PairedComparison(wins, len(difference) - wins - losses, losses, p)


def noise_level(first: np.ndarray, second: np.ndarray, scale: float = 0.0) -> np.ndarray:
    """Return the difference up to which two numbers are the same, Float[...].

    ``scale`` is that of the numbers that they were computed from. A calibration error of 1e-17 is a
    difference of confidences, which have a scale of 1, and equals 0; an error of 1e-17 volts does
    not.
    """
    return NOISE * np.maximum(np.maximum(np.abs(first), np.abs(second)), scale)


def untied_difference(first: np.ndarray, second: np.ndarray, scale: float = 0.0) -> np.ndarray:
    """Return first - second, 0 for ties and NaN for missing numbers; Float[...]."""
    difference = first - second
    return np.where(np.abs(difference) <= noise_level(first, second, scale), 0.0, difference)


def merge_noise(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return values in which those that differ by noise alone are equal and share their ranks.

    Finite values, Float[n], that are adjacent in size and no further apart than the noise of either
    are one value, and so are chains of them: ties stay transitive. Each has the smallest value of
    its chain.
    """
    order = np.argsort(values, kind="stable")
    rising, within = values[order], noise[order]
    begins = np.ones(len(values), dtype=bool)
    begins[1:] = np.diff(rising) > np.maximum(within[1:], within[:-1])
    result = np.empty(len(values))
    result[order] = rising[np.maximum.accumulate(np.where(begins, np.arange(len(values)), 0))]
    return result


def wilcoxon(difference: np.ndarray, noise: np.ndarray | float = 0.0) -> float:
    """Return the p value of the two-sided Wilcoxon signed-rank test.

    Differences are finite, Float[n]; those no further apart than the noise have the same size. The
    ranks of zeros are split between both sides. The test is exact with any ties and zeros if at
    most 100 differences are not zero, else it is a normal approximation.
    """
    difference = np.asarray(difference, dtype=np.float64)
    noise = np.broadcast_to(np.asarray(noise, dtype=np.float64), difference.shape)
    size = merge_noise(np.abs(difference), noise)
    if (difference != 0).sum() > _MOST_SIGNS:
        return float(stats.wilcoxon(np.sign(difference) * size, zero_method="zsplit").pvalue)
    # Given their sizes, each sign is as probable as its opposite, so the sum of the ranks of
    # positive differences is one of 2^m equally probable sums. They are counted by adding one rank
    # after the other. A zero adds the same on either side. Midranks are multiples of 1/2, so all
    # ranks are doubled.
    is_nonzero = difference != 0
    doubled = np.rint(2 * stats.rankdata(size)).astype(int)[is_nonzero]
    ways = np.ones(1)
    for rank in doubled:
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    positive = int(doubled[difference[is_nonzero] > 0].sum())
    tail = min(ways[: positive + 1].sum(), ways[positive:].sum())
    return float(min(1.0, 2 * tail / ways.sum()))


def pairs_needed(tests: int, alpha: float = ALPHA) -> int:
    """Return the smallest number of pairs with which one of m tests can be significant.

    If all differences have one direction, p is 2 / 2^n, and Holm's method multiplies it by m.

    >>> pairs_needed(1), pairs_needed(10)
    (6, 9)
    """
    return int(np.ceil(1 + np.log2(tests / alpha)))


def datasets_needed(k: int, alpha: float = ALPHA) -> int:
    """Return the smallest number of data sets with which Friedman's test can be significant.

    At best all data sets rank the k methods alike. Between equals the probability of that is
    1 / k!^(n - 1).

    >>> datasets_needed(3), datasets_needed(4)
    (3, 2)
    """
    n = 2
    while (1 - n) * log(factorial(k)) > log(alpha):
        n += 1
    return n


def rank_methods(values: pd.DataFrame, alpha: float = ALPHA, *, scale: float = 0.0) -> Ranks:
    """Rank methods on each data set; equal numbers share the mean of their ranks.

    Values have a row for each of two or more data sets and a column for each of three or more
    methods, else ValueError is raised, also for a missing number; lower is better. ``alpha`` is of
    both tests, ``scale`` that of :func:`noise_level`.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, section
    3.2; Iman and Davenport, "Approximations of the critical region of the Friedman statistic",
    1980. Mean ranks of two methods depend on which others are ranked with them (Benavoli, Corani,
    Mangili, "Should we really use post-hoc tests based on mean-ranks?", JMLR 2016).
    """
    n, k = values.shape
    if k < 3 or n < 2 or values.isna().any(axis=None):
        raise ValueError(
            f"ranks need three methods or more on two data sets or more, and all numbers, got {k}"
            f" on {n}"
        )
    numbers = values.to_numpy(dtype=np.float64)
    noise = NOISE * np.maximum(np.abs(numbers), scale)
    untied = np.array([merge_noise(*row) for row in zip(numbers, noise, strict=True)])
    ranks = pd.DataFrame(untied, columns=values.columns).rank(axis=1)
    mean = ranks.mean().sort_values(kind="stable")
    chi2, f, p, p_method = friedman(untied)
    q = float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / np.sqrt(2)
    critical_difference = float(q * np.sqrt(k * (k + 1) / (6 * n)))
    mean_ranks = {str(name): float(value) for name, value in mean.items()}
    return Ranks(mean_ranks, n, chi2, f, p, critical_difference, alpha, p_method)


def friedman(values: np.ndarray) -> tuple[float, float, float, PValueMethod]:
    """Test whether columns of Float[n, k] differ by Friedman's chi-squared, corrected for ties.

    Up to 10 data sets, p is the fraction of permutations of the ranks within data sets that have a
    chi-squared as large: of all of them if they can be counted, else of random ones. F, which is
    monotone in chi-squared, is exact only in the limit of many data sets; if all data sets rank the
    methods alike it is infinite and useless. If all are ties, chi-squared is 0 and p is 1.
    """
    n, k = values.shape
    if (values == values[:, :1]).all():
        return 0.0, 0.0, 1.0, "exact"
    chi2 = float(stats.friedmanchisquare(*values.T).statistic)
    rest = n * (k - 1) - chi2
    f = np.inf if rest <= 1e-9 * n else (n - 1) * chi2 / rest
    if n > ASYMPTOTIC and np.isfinite(f):
        return chi2, f, float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))), "F"
    doubled = np.rint(2 * stats.rankdata(values, axis=1)).astype(np.int64)
    if not np.isfinite(f):
        # Every other data set has one of the orders of the first one's ranks.
        log_p = (1 - n) * log(_n_orders(doubled[0]))
        return chi2, f, max(np.finfo(float).tiny, exp(log_p)), "exact"
    observed = int((doubled.sum(axis=0) ** 2).sum())
    exact = _exact_tail(tuple(sorted(tuple(sorted(row)) for row in doubled.tolist())), observed)
    if exact is not None:
        return chi2, f, exact, "exact"
    return chi2, f, _sampled_tail(doubled, observed), "permutations"


def _n_orders(ranks: np.ndarray) -> int:
    """Return the number of different orders of ranks, some of which are tied."""
    _, counts = np.unique(ranks, return_counts=True)
    return factorial(len(ranks)) // int(np.prod([factorial(int(count)) for count in counts]))


@lru_cache(maxsize=64)
def _exact_tail(blocks: tuple[tuple[int, ...], ...], observed: int) -> float | None:
    """Return the probability that column sums have a sum of squares of ``observed`` or more.

    Between equals every order of a block's doubled ranks is as probable as any other. Blocks are
    added one after the other. The sum of squares depends on the values of the column sums and not
    on which column has which, so states are sorted and equal ones are counted together. The result
    is None if there are too many states.
    """
    k = len(blocks[0])
    # A state as one number sorts faster.
    digits = (sum(max(block) for block in blocks) + 1) ** np.arange(k, dtype=np.float64)
    if digits[-1] * digits[1] >= 2**63:
        return None
    states, weights = np.array([blocks[0]], dtype=np.int64), np.ones(1)
    for block in blocks[1:]:
        if len(states) * factorial(k) > _MOST_SUMS:
            return None
        orders, counts = np.unique(
            np.array(list(permutations(block)), dtype=np.int64), axis=0, return_counts=True
        )
        sums = np.sort((states[:, None] + orders[None]).reshape(-1, k), axis=1)
        _, first, state = np.unique(
            sums @ digits.astype(np.int64), return_index=True, return_inverse=True
        )
        states = sums[first]
        weights = np.bincount(state, np.outer(weights, counts / counts.sum()).ravel())
    return float(min(1.0, weights[(states**2).sum(axis=1) >= observed].sum()))


def _sampled_tail(doubled: np.ndarray, observed: int) -> float:
    """Estimate the same from permutations and the observed ranks (Phipson and Smyth 2010)."""
    rng, as_large = np.random.default_rng(0), 0
    for start in range(0, DRAWS, 1000):
        draws = np.broadcast_to(doubled, (min(1000, DRAWS - start), *doubled.shape))
        sums = rng.permuted(draws, axis=2).sum(axis=1)
        as_large += int(((sums**2).sum(axis=1) >= observed).sum())
    return (1 + as_large) / (1 + DRAWS)
