"""Mean ranks, Friedman's and Nemenyi's tests against scipy, against an analysis of variance of
ranks, and Demšar's example.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kdgraph.results.comparison.significance import (
    DRAWS,
    Ranks,
    datasets_needed,
    friedman,
    rank_methods,
)

DEMSAR = pd.DataFrame(
    [
        [4, 3, 2, 1],
        [1, 2, 3, 4],
        [4, 1, 2, 3],
        [4, 1, 3, 2],
        [4, 2, 3, 1],
        [1, 2.5, 4, 2.5],
        [3, 2, 4, 1],
        [2.5, 2.5, 4, 1],
        [4, 3, 2, 1],
        [2.5, 2.5, 2.5, 2.5],
        [4, 2.5, 1, 2.5],
        [3, 2, 4, 1],
        [4, 1, 2, 3],
        [3, 1, 4, 2],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)
"""Ranks of Table 6 of Demšar (2006)."""


def test_demsar_table_6() -> None:
    """Mean ranks, χ² without a correction for ties, the critical differences at 0.05 and 0.10, and
    the groups that he reads from them.
    """
    ranks = rank_methods(DEMSAR)
    assert {name: round(mean, 3) for name, mean in ranks.mean.items()} == {
        "C4.5+m+cf": 1.964,
        "C4.5+m": 2.000,
        "C4.5+cf": 2.893,
        "C4.5": 3.143,
    }
    n, k = DEMSAR.shape
    uncorrected = (
        12
        * n
        / (k * (k + 1))
        * (sum(mean**2 for mean in ranks.mean.values()) - k * (k + 1) ** 2 / 4)
    )
    assert (
        round(uncorrected, 2) == 9.28
        and round((n - 1) * uncorrected / (n * (k - 1) - uncorrected), 2) == 3.69
    )
    assert ranks.chi2 > uncorrected and ranks.degrees == (3, 39)  # five rows have ties
    assert round(ranks.critical_difference, 2) == 1.25
    assert ranks.groups == [
        ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    ]  # "the post-hoc test is not powerful enough"
    weaker = rank_methods(DEMSAR, alpha=0.10)
    assert round(weaker.critical_difference, 2) == 1.12
    assert weaker.groups == [
        ["C4.5+m+cf", "C4.5+m", "C4.5+cf"],
        ["C4.5+cf", "C4.5"],
    ]  # "we cannot tell which group C4.5+cf belongs to"
    assert weaker.best == ["C4.5+m+cf", "C4.5+m", "C4.5+cf"]


@pytest.mark.parametrize(
    ("k", "q05", "q10"),
    [
        (3, 2.343, 2.052),
        (4, 2.569, 2.291),
        (5, 2.728, 2.459),
        (6, 2.850, 2.589),
        (8, 3.031, 2.780),
        (10, 3.164, 2.920),
    ],
)
def test_critical_values_are_those_of_demsar_table_5(k, q05, q10) -> None:
    values = pd.DataFrame(np.random.default_rng(k).random((6, k)))
    for q, alpha in ((q05, 0.05), (q10, 0.10)):
        assert rank_methods(values, alpha=alpha).critical_difference / np.sqrt(
            k * (k + 1) / 36
        ) == pytest.approx(q, abs=1.1e-3)


@given(st.integers(2, 14), st.integers(3, 6), st.integers(1, 40), st.integers(0, 10_000))
@settings(deadline=None, max_examples=60)
def test_friedman_is_an_analysis_of_variance_of_ranks(n, k, levels, seed) -> None:
    values = np.random.default_rng(seed).integers(0, levels, (n, k)).astype(float)
    chi2, f, p, how = friedman(values)
    ranks = stats.rankdata(values, axis=1)
    between = n * ((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()
    rest = ((ranks - (k + 1) / 2) ** 2).sum() - between
    if (values == values[:, :1]).all():
        assert (chi2, f, p, how) == (0, 0, 1, "exact")
    elif rest < 1e-9:
        assert f == np.inf and 0 < p <= 1 and how == "exact"
    else:
        assert f == pytest.approx((between / (k - 1)) / (rest / ((k - 1) * (n - 1))))
        assert chi2 == pytest.approx(stats.friedmanchisquare(*values.T).statistic)
        assert 0 < p <= 1 and (how == "F") == (n > 10)
        if n > 10:
            assert p == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))


@pytest.mark.parametrize(
    ("n", "k", "levels"),
    [(2, 3, 99), (2, 4, 99), (2, 4, 3), (3, 3, 99), (4, 3, 2), (3, 4, 4), (5, 3, 3)],
)
def test_p_of_few_data_sets_matches_scipys_permutations(n, k, levels) -> None:
    for seed in range(3):
        values = np.random.default_rng(seed).integers(0, levels, (n, k)).astype(float)
        if (values == values[:, :1]).all():
            continue
        test = stats.permutation_test(
            tuple(values.T),
            lambda *columns, axis: np.square(stats.rankdata(columns, axis=0).sum(axis=axis)).sum(
                axis=0
            ),
            permutation_type="samples",
            n_resamples=np.inf,
            alternative="greater",
            vectorized=True,
        )
        *_, p, how = friedman(values)
        assert how == "exact" and p == pytest.approx(test.pvalue)


def test_two_data_sets_that_agree_prove_nothing_of_three_methods() -> None:
    """One order of three methods twice: of 6 orders that the second data set could have, one
    agrees.
    """
    ranks = rank_methods(pd.DataFrame([[0.1, 0.2, 0.3], [10, 20, 30]], columns=list("abc")))
    assert (ranks.p, ranks.p_method, ranks.f) == (pytest.approx(1 / 6), "exact", np.inf)
    assert not ranks.differ and ranks.groups == [["a", "b", "c"]]
    assert friedman(np.tile(np.arange(4.0), (2, 1)))[2] == pytest.approx(1 / 24)
    assert friedman(np.tile([0.0, 0.0, 1.0], (3, 1)))[2] == pytest.approx(
        1 / 9
    )  # of ties, three orders look apart
    many = friedman(np.tile(np.arange(12.0), (40, 1)))
    assert 0 < many[2] < 1e-100 and many[3] == "exact"


@pytest.mark.parametrize("k", range(3, 8))
def test_the_smallest_number_of_data_sets_can_be_significant(k) -> None:
    n = datasets_needed(k)
    assert friedman(np.tile(np.arange(float(k)), (n, 1)))[2] <= 0.05
    assert n == 2 or friedman(np.tile(np.arange(float(k)), (n - 1, 1)))[2] > 0.05


def test_where_permutations_are_too_many_random_ones_are_drawn() -> None:
    rng = np.random.default_rng(5)
    values = rng.random((8, 9)) + np.linspace(0, 0.5, 9)
    *_, p, how = friedman(values)
    assert how == "permutations" and friedman(values)[2] == p >= 1 / (1 + DRAWS)
    sums = np.array(
        [rng.permuted(np.tile(np.arange(1, 10), (8, 1)), axis=1).sum(axis=0) for _ in range(20_000)]
    )
    observed = (stats.rankdata(values, axis=1).sum(axis=0) ** 2).sum()
    expected = ((sums**2).sum(axis=1) >= observed).mean()
    assert p == pytest.approx(expected, abs=5 * np.sqrt(expected * (1 / DRAWS + 1 / 20_000)) + 1e-3)


def test_critical_differences_are_those_of_scikit_posthocs() -> None:
    posthocs = pytest.importorskip("scikit_posthocs", reason="scikit-posthocs is not installed")
    values = np.random.default_rng(6).random((12, 5)) + np.linspace(0, 0.6, 5)
    p = posthocs.posthoc_nemenyi_friedman(values).to_numpy()
    ranks = rank_methods(pd.DataFrame(values))
    for i in range(5):
        for j in range(i):
            apart = abs(ranks.mean[str(i)] - ranks.mean[str(j)])
            assert (p[i, j] < 0.05) == (apart > ranks.critical_difference)


@given(st.sampled_from([1e-300, 1e-6, 1e5, 1e200]), st.integers(0, 1000))
@settings(deadline=None, max_examples=30)
def test_another_unit_changes_no_rank(unit, seed) -> None:
    rng = np.random.default_rng(seed)
    values = pd.DataFrame(rng.integers(1, 6, (5, 4)) / 7.0, columns=list("abcd"))
    noise = 1 + 1e-12 * rng.standard_normal(values.shape)
    assert rank_methods(values) == rank_methods(values * unit * noise)


@given(st.lists(st.floats(1, 8), min_size=3, max_size=8), st.floats(0.1, 8))
def test_groups_are_maximal_sets_without_significant_difference(means, difference) -> None:
    means = sorted(means)
    ranks = Ranks({str(i): mean for i, mean in enumerate(means)}, 10, 0.0, 0.0, 0.01, difference)
    k = len(means)
    together = [
        [i for i in range(k) if means[low] <= means[i] < means[low] + difference]
        for low in range(k)
    ]
    together = [group for group in together if len(group) > 1]
    largest = {
        tuple(map(str, g)) for g in together if not any(set(g) < set(other) for other in together)
    }
    assert {tuple(group) for group in ranks.groups} == largest
    assert set(ranks.best) == {"0"} | {str(i) for i in range(k) if means[i] < means[0] + difference}


def test_ranks_use_unrounded_numbers_and_lower_is_better() -> None:
    values = pd.DataFrame({"a": [0.10001, 0.3], "b": [0.1, 0.1 + 0.2], "c": [0.5, 0.6]})
    assert rank_methods(values).mean == {"b": 1.25, "a": 1.75, "c": 3.0}
    dust = pd.DataFrame({"a": [1e-17, 0.0], "b": [0.0, 3e-17], "c": [0.5, 0.6]})
    assert rank_methods(dust, scale=1.0).mean == {"a": 1.5, "b": 1.5, "c": 3.0}
    assert rank_methods(dust.assign(c=1.0)).mean == {"a": 1.5, "b": 1.5, "c": 3.0} and rank_methods(
        dust.iloc[[0, 0]]
    ).mean == {"b": 1, "a": 2, "c": 3}


def test_where_all_are_equal_nothing_differs() -> None:
    ranks = rank_methods(pd.DataFrame(np.zeros((4, 3)), columns=list("abc")))
    assert (
        ranks.mean == {"a": 2.0, "b": 2.0, "c": 2.0}
        and not ranks.differ
        and ranks.groups == [["a", "b", "c"]]
    )


@pytest.mark.parametrize(
    "values", [np.ones((5, 2)), np.ones((1, 3)), np.array([[1, 2, 3], [1, 2, np.nan]])]
)
def test_too_little_to_rank(values) -> None:
    with pytest.raises(
        ValueError,
        match=(
            r"^ranks need three methods or more on two data sets or more, and all numbers, got \d"
            r" on \d$"
        ),
    ):
        rank_methods(pd.DataFrame(values))
