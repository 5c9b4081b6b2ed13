"""Mean ranks, Friedman's and Nemenyi's tests against scipy, against an analysis of variance of ranks, and Demšar's example."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kdgraph.results.comparison.ranks import Ranks, friedman, rank

DEMSAR = pd.DataFrame(
    [
        [4, 3, 2, 1], [1, 2, 3, 4], [4, 1, 2, 3], [4, 1, 3, 2], [4, 2, 3, 1], [1, 2.5, 4, 2.5], [3, 2, 4, 1],
        [2.5, 2.5, 4, 1], [4, 3, 2, 1], [2.5, 2.5, 2.5, 2.5], [4, 2.5, 1, 2.5], [3, 2, 4, 1], [4, 1, 2, 3], [3, 1, 4, 2],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)  # fmt: skip
"""Ranks of Table 6 of Demšar (2006)."""


def test_demsar_table_6() -> None:
    """Mean ranks, χ² without a correction for ties, the critical differences at 0.05 and 0.10, and the groups that he reads from them."""
    found = rank(DEMSAR)
    assert {name: round(mean, 3) for name, mean in found.mean.items()} == {
        "C4.5+m+cf": 1.964,
        "C4.5+m": 2.000,
        "C4.5+cf": 2.893,
        "C4.5": 3.143,
    }
    n, k = DEMSAR.shape
    uncorrected = 12 * n / (k * (k + 1)) * (sum(mean**2 for mean in found.mean.values()) - k * (k + 1) ** 2 / 4)
    assert round(uncorrected, 2) == 9.28 and round((n - 1) * uncorrected / (n * (k - 1) - uncorrected), 2) == 3.69
    assert found.chi2 > uncorrected and found.degrees == (3, 39)  # five rows have ties
    assert round(found.critical_difference, 2) == 1.25
    assert found.groups == [["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]]  # "the post-hoc test is not powerful enough"
    weaker = rank(DEMSAR, alpha=0.10)
    assert round(weaker.critical_difference, 2) == 1.12
    assert weaker.groups == [["C4.5+m+cf", "C4.5+m", "C4.5+cf"], ["C4.5+cf", "C4.5"]]  # "we cannot tell which group C4.5+cf belongs to"
    assert weaker.best == ["C4.5+m+cf", "C4.5+m", "C4.5+cf"]


@pytest.mark.parametrize(
    ("k", "q05", "q10"),
    [(3, 2.343, 2.052), (4, 2.569, 2.291), (5, 2.728, 2.459), (6, 2.850, 2.589), (8, 3.031, 2.780), (10, 3.164, 2.920)],
)
def test_critical_values_are_those_of_demsar_table_5(k, q05, q10) -> None:
    values = pd.DataFrame(np.random.default_rng(k).random((6, k)))
    for q, alpha in ((q05, 0.05), (q10, 0.10)):
        assert rank(values, alpha=alpha).critical_difference / np.sqrt(k * (k + 1) / 36) == pytest.approx(q, abs=1.1e-3)


@given(st.integers(2, 12), st.integers(3, 6), st.integers(1, 40), st.integers(0, 10_000))
@settings(deadline=None)
def test_friedman_is_an_analysis_of_variance_of_ranks(n, k, levels, seed) -> None:
    values = np.random.default_rng(seed).integers(0, levels, (n, k)).astype(float)
    chi2, f, p = friedman(values)
    ranks = stats.rankdata(values, axis=1)
    between = n * ((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()
    rest = ((ranks - (k + 1) / 2) ** 2).sum() - between
    if (values == values[:, :1]).all():
        assert (chi2, f, p) == (0, 0, 1)
    elif rest < 1e-9:
        assert f == np.inf and p == 0
    else:
        assert f == pytest.approx((between / (k - 1)) / (rest / ((k - 1) * (n - 1))))
        assert chi2 == pytest.approx(stats.friedmanchisquare(*values.T).statistic)
        assert p == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


@given(st.lists(st.floats(1, 8), min_size=3, max_size=8), st.floats(0.1, 8))
def test_groups_are_the_largest_sets_that_are_not_told_apart(means, difference) -> None:
    means = sorted(means)
    found = Ranks({str(i): mean for i, mean in enumerate(means)}, 10, 0.0, 0.0, 0.01, difference)
    k = len(means)
    together = [[i for i in range(k) if means[low] <= means[i] < means[low] + difference] for low in range(k)]
    together = [group for group in together if len(group) > 1]
    largest = {tuple(map(str, g)) for g in together if not any(set(g) < set(other) for other in together)}
    assert {tuple(group) for group in found.groups} == largest
    assert set(found.best) == {"0"} | {str(i) for i in range(k) if means[i] < means[0] + difference}


def test_ranks_are_of_rounded_numbers_and_lower_is_better() -> None:
    values = pd.DataFrame({"a": [0.10001, 0.3], "b": [0.1, 0.2], "c": [0.5, 0.6]})
    assert rank(values).mean == {"b": 1.25, "a": 1.75, "c": 3.0}
    assert rank(values, decimals=6).mean == {"b": 1.0, "a": 2.0, "c": 3.0}


def test_where_all_are_equal_nothing_differs() -> None:
    found = rank(pd.DataFrame(np.zeros((4, 3)), columns=list("abc")))
    assert found.mean == {"a": 2.0, "b": 2.0, "c": 2.0} and not found.differ and found.groups == [["a", "b", "c"]]


@pytest.mark.parametrize("values", [np.ones((5, 2)), np.ones((1, 3)), np.array([[1, 2, 3], [1, 2, np.nan]])])
def test_too_little_to_rank(values) -> None:
    with pytest.raises(ValueError, match=r"^ranks need three methods or more on two data sets or more, and all numbers, got \d on \d$"):
        rank(pd.DataFrame(values))
