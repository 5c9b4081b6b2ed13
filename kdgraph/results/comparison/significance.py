"""Comparisons of two methods on the same data sets, or on the same seeds: wins, ties and losses,
and a paired test.

Many methods on many data sets: mean ranks, Friedman's test, and which methods Nemenyi's test
does not tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""The chance of calling any false difference of a family, throughout."""
_MOST_SIGNS = 100
"""Differences that are not zero of which all signs are counted; the time grows with their cube, and
of more the normal curve is as good.
"""


@dataclass(frozen=True)
class PairedComparison:
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


def compare_pairs(
    first: pd.Series, second: pd.Series, *, scale: float = 0.0, decimals: int | None = None
) -> PairedComparison:
    """Compare two methods' numbers, of which lower is better, pair by pair; an index that either
    lacks is left out.

    Parameters
    ----------
    first, second : Float[...] by data set (or by seed), NaN where missing.
    scale : of the numbers behind both, as 1 for shares; see :func:`noise_level`.
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
    return compare_arrays(numbers[:, 0], numbers[:, 1], scale)


def compare_arrays(first: np.ndarray, second: np.ndarray, scale: float = 0.0) -> PairedComparison:
    """Compare as :func:`compare` does, by place: ``first`` and ``second`` are Float[n], a pair that
    lacks a number is left out.
    """
    there = ~(np.isnan(first) | np.isnan(second))
    a, b = first[there], second[there]
    noise = noise_level(a, b, scale)
    d = untied_difference(a, b, scale)
    wins, losses = int((d < 0).sum()), int((d > 0).sum())
    p = wilcoxon(d, noise) if wins + losses else 1.0
    return PairedComparison(wins, len(d) - wins - losses, losses, p)


def noise_level(first: np.ndarray, second: np.ndarray, scale: float = 0.0) -> np.ndarray:
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
    return np.where(np.abs(difference) <= noise_level(first, second, scale), 0.0, difference)


def merge_noise(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
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
    size = merge_noise(np.abs(d), np.broadcast_to(np.asarray(noise, dtype=np.float64), d.shape))
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


PValueMethod = Literal["exact", "permutations", "F"]
"""How the p value of Friedman's test is computed."""
ASYMPTOTIC = 10
"""More data sets than so many have the F of Iman and Davenport, which Demšar (2006) finds good from
there on.
"""
DRAWS = 9_999
"""Random permutations where all of them are too many to count; p is off by 0.004 at most, at 0.05,
in 19 of 20 seeds.
"""
_MOST_ROWS = 300_000
"""Sums of ranks that are looked at in one step of counting them."""


@dataclass(frozen=True)
class Ranks:
    """Methods ranked on each data set.

    Attributes
    ----------
    mean : method → mean rank, 1 the best, the best first.
    n : data sets.
    chi2, f, p : Friedman's statistic with its correction for ties, that of Iman and Davenport, and
    its p value.
    critical_difference : how far two mean ranks must be apart at ``alpha``, for all pairs of
    methods together.
    alpha : the chance of any false difference.
    p_method : what ``p`` is of: all permutations of the ranks within data sets, so many random ones, or
        the F distribution.
    """

    mean: Mapping[str, float]
    n: int
    chi2: float
    f: float
    p: float
    critical_difference: float
    alpha: float = ALPHA
    p_method: PValueMethod = "F"

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
        """Largest groups of methods that are not told apart, of two or more, the best first; they
        overlap.
        """
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
        """Methods that are not told apart from the one with the best mean rank, which is among
        them.
        """
        first = next(iter(self.mean))
        return next((group for group in self.groups if first in group), [first])


def datasets_needed(k: int, alpha: float = ALPHA) -> int:
    """Return the fewest data sets on which Friedman's test of k methods can be significant.

    At best all data sets rank the methods alike, of which the probability is 1 / k!^(n - 1) between
    equals.

    >>> datasets_needed(3), datasets_needed(4)
    (3, 2)
    """
    n = 2
    while (1 - n) * log(factorial(k)) > log(alpha):
        n += 1
    return n


def rank_methods(values: pd.DataFrame, alpha: float = ALPHA, *, scale: float = 0.0) -> Ranks:
    """Rank methods on each data set; equal numbers share the mean of their ranks.

    Parameters
    ----------
    values : a row for each data set, a column for each of three or more methods, nothing missing;
    lower is better.
    alpha : of both tests.
    scale : of the numbers behind the values; see
        :func:`~kdgraph.results.comparison.significance.noise_level`.

    Raises
    ------
    ValueError
        Fewer than three methods or two data sets, or a number is missing.

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
    mean = (
        pd.DataFrame(untied, columns=values.columns).rank(axis=1).mean().sort_values(kind="stable")
    )
    chi2, f, p, how = friedman(untied)
    q = float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / np.sqrt(2)
    difference = q * np.sqrt(k * (k + 1) / (6 * n))
    return Ranks(
        {str(name): float(value) for name, value in mean.items()},
        n,
        chi2,
        f,
        p,
        float(difference),
        alpha,
        how,
    )


def friedman(values: np.ndarray) -> tuple[float, float, float, PValueMethod]:
    """Test by Friedman's chi-squared, with its correction for ties, whether the columns differ.

    Up to 10 data sets p is the share of permutations of the ranks within data sets that have a
    chi-squared as large: of all of them where they can be counted, else of random ones. F, which is
    monotone in chi-squared, is exact in the limit of many data sets only; where all data sets rank
    the methods alike it is infinite, and says nothing.

    Parameters
    ----------
    values : Float[n, k], n data sets and k methods.

    Returns
    -------
    chi2, f, p, how
        0, 0, 1 and "exact" where all are ties.
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
    if not np.isfinite(f):  # one of the orders of the first data set's ranks on every other
        return chi2, f, max(np.finfo(float).tiny, exp((1 - n) * log(_orders(doubled[0])))), "exact"
    observed = int((doubled.sum(axis=0) ** 2).sum())
    exact = _tail(tuple(sorted(tuple(sorted(row)) for row in doubled.tolist())), observed)
    return (
        (chi2, f, exact, "exact")
        if exact is not None
        else (chi2, f, _drawn_tail(doubled, observed), "permutations")
    )


def _orders(ranks: np.ndarray) -> int:
    """In how many orders these ranks can stand; ties look the same in some."""
    _, counts = np.unique(ranks, return_counts=True)
    return factorial(len(ranks)) // int(np.prod([factorial(int(count)) for count in counts]))


@lru_cache(maxsize=64)
def _tail(blocks: tuple[tuple[int, ...], ...], observed: int) -> float | None:
    """Share of all permutations within blocks whose sums by column have a sum of squares of at
    least ``observed``.

    Between equals every order of a block's ranks is as probable as any other. Blocks are added one
    after the other; what counts of a state is how its sums are distributed over columns, and not
    which column has which, so states are sorted and equal ones counted once.

    Parameters
    ----------
    blocks : n blocks of k doubled ranks.
    observed : sum of squares of the sums of doubled ranks.

    Returns
    -------
    float or None
        None where there are too many.
    """
    k = len(blocks[0])
    digits = (sum(max(block) for block in blocks) + 1) ** np.arange(
        k, dtype=np.float64
    )  # a state as one number, which sorts faster
    if digits[-1] * digits[1] >= 2**63:
        return None
    states, weights = np.array([blocks[0]], dtype=np.int64), np.ones(1)
    for block in blocks[1:]:
        if len(states) * factorial(k) > _MOST_ROWS:
            return None
        orders, counts = np.unique(
            np.array(list(permutations(block)), dtype=np.int64), axis=0, return_counts=True
        )
        sums = np.sort((states[:, None] + orders[None]).reshape(-1, k), axis=1)
        _, first, place = np.unique(
            sums @ digits.astype(np.int64), return_index=True, return_inverse=True
        )
        states, weights = (
            sums[first],
            np.bincount(place, np.outer(weights, counts / counts.sum()).ravel()),
        )
    return float(min(1.0, weights[(states**2).sum(axis=1) >= observed].sum()))


def _drawn_tail(doubled: np.ndarray, observed: int) -> float:
    """Estimate the same from random permutations, the observed one among them (Phipson and Smyth
    2010).
    """
    rng, as_large = np.random.default_rng(0), 0
    for start in range(0, DRAWS, 1000):
        draws = np.broadcast_to(doubled, (min(1000, DRAWS - start), *doubled.shape))
        sums = rng.permuted(draws, axis=2).sum(axis=1)
        as_large += int(((sums**2).sum(axis=1) >= observed).sum())
    return (1 + as_large) / (1 + DRAWS)
