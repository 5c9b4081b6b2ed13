"""Many methods on many data sets: mean ranks, Friedman's test, and which methods Nemenyi's test
does not tell apart.
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

from kdgraph.results.comparison.paired import ALPHA, without_noise
from kdgraph.results.numbers import NOISE

How = Literal["exact", "permutations", "F"]
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
    how : what ``p`` is of: all permutations of the ranks within data sets, so many random ones, or
        the F distribution.
    """

    mean: Mapping[str, float]
    n: int
    chi2: float
    f: float
    p: float
    critical_difference: float
    alpha: float = ALPHA
    how: How = "F"

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


def rank(values: pd.DataFrame, alpha: float = ALPHA, *, scale: float = 0.0) -> Ranks:
    """Rank methods on each data set; equal numbers share the mean of their ranks.

    Parameters
    ----------
    values : a row for each data set, a column for each of three or more methods, nothing missing;
    lower is better.
    alpha : of both tests.
    scale : of the numbers behind the values; see
        :func:`~kdgraph.results.comparison.paired.noise_of`.

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
    untied = np.array([without_noise(*row) for row in zip(numbers, noise, strict=True)])
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


def friedman(values: np.ndarray) -> tuple[float, float, float, How]:
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
