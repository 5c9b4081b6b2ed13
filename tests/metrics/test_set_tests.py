"""Permutation tests of sets, against SciPy and theory, and their power by contamination."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ks_2samp, permutation_test

from kdgraph.errors import ParameterError
from kdgraph.metrics import contamination, power_curve, score, set_p_values, tabulate
from kdgraph.metrics.set_tests import _STATISTICS

PERMUTATIONS = 4000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


TWO_SAMPLE_STATISTICS = {
    "mean": lambda a, b: a.mean(),
    "max": lambda a, b: a.max(),
    "ks": lambda a, b: ks_2samp(a, b, method="asymp").statistic,  # only the statistic is used
}


@pytest.mark.parametrize("statistic", TWO_SAMPLE_STATISTICS)
def test_p_values_match_scipys_permutation_test(statistic):
    """Compare with all 35 choices of four rows of seven, with ties.

    A fraction of 4,000 permutations has a standard error of at most 0.008.
    """
    a, b = np.array([3.0, 1.0, 4.0, 2.0]), np.array([0.0, 2.0, 1.5])
    exact = permutation_test(
        (a, b), TWO_SAMPLE_STATISTICS[statistic], alternative="greater", n_resamples=np.inf
    ).pvalue
    (p,) = set_p_values(a, b, statistic=statistic, n_permutations=PERMUTATIONS, rng=rng())
    assert p == pytest.approx(exact, abs=0.03)


SCORES = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=12).map(np.array)


@given(SCORES, SCORES)
@settings(max_examples=50, deadline=None)
def test_statistics_of_two_samples_with_ties(a, b):
    pooled, first = np.concatenate([a, b])[None], np.arange(len(a))[None]
    for name, two_sample_statistic in TWO_SAMPLE_STATISTICS.items():
        assert _STATISTICS[name](pooled, first)[0, 0] == pytest.approx(
            two_sample_statistic(a, b), abs=1e-12
        ), name


def test_extreme_set_has_the_smallest_p_value():
    """Only permutations that draw the set itself have a statistic as large."""
    a, b = np.array([10.0, 11.0]), np.arange(8.0)
    p = set_p_values([a, -a, b[3:5]], b, n_permutations=PERMUTATIONS, rng=rng())
    assert p[0] == pytest.approx(1 / 45, abs=0.01)  # one of 45 pairs
    assert p[1] == 1 and 0.2 < p[2] < 0.8
    assert set_p_values(a, b, n_permutations=19, rng=rng())[0] in (1 / 20, 2 / 20, 3 / 20)
    assert (set_p_values(np.ones(5), np.ones(9), rng=rng()) == 1).all()


@pytest.mark.parametrize("statistic", TWO_SAMPLE_STATISTICS)
def test_p_value_is_uniform_under_the_null(statistic):
    """600 sets of 8 rows against 40, with p-values in steps of 1/20.

    The fractions at .1, .25 and .5 are inside binomial limits of 1 in 1,000.
    """
    p = [
        set_p_values(
            rng(i).normal(size=8),
            rng(10_000 + i).normal(size=40),
            statistic=statistic,
            n_permutations=19,
            rng=rng(i),
        )[0]
        for i in range(600)
    ]
    for level in (0.1, 0.25, 0.5):
        result = int((np.array(p) <= level + 1e-9).sum())
        at_most = binomtest(result, 600, level, alternative="greater").pvalue
        assert at_most > 0.001, (level, result)  # rejections are never too frequent
        if statistic == "mean":  # the others have few values and many ties, so they reject less
            assert binomtest(result, 600, level).pvalue > 0.001, (level, result)


def test_infinite_scores_are_the_farthest():
    reference = np.append(rng().normal(size=30), [np.inf, -np.inf])
    infinite = np.full(10, np.inf)
    for statistic in ("mean", "ks"):
        assert (
            set_p_values(infinite, reference, statistic=statistic, n_permutations=99, rng=rng())[0]
            == 0.01
        )
    assert set_p_values([infinite, infinite], np.full(9, np.inf), rng=rng()).tolist() == [1, 1]


def test_ks_detects_scores_that_are_too_low():
    low, reference = rng(1).normal(-2, 1, 20), rng(2).normal(size=100)
    assert set_p_values(low, reference, statistic="ks", n_permutations=99, rng=rng())[0] == 0.01
    assert set_p_values(low, reference, n_permutations=99, rng=rng())[0] == 1


def test_p_values_of_sets_do_not_depend_on_other_sets():
    sets, reference = rng(1).normal(size=(3, 8)), rng(2).normal(size=40)
    p_values = set_p_values(sets, reference, rng=rng())
    np.testing.assert_array_equal(
        p_values, [set_p_values(ood_set, reference, rng=rng())[0] for ood_set in sets]
    )


def test_power_grows_with_contamination_and_set_size():
    ood_score, id_score = rng(1).normal(1.5, 1, 300), rng(2).normal(size=400)
    small, large = (
        power_curve(ood_score, id_score, set_size=size, n_sets=300, rng=rng()) for size in (10, 60)
    )
    for curve in (small, large):
        assert (
            curve["fraction"][0] == 0 and abs(curve["power"][0] - 0.05) < 0.04
        )  # 3 standard errors of 300 sets
        assert all(b >= a - 0.04 for a, b in pairwise(curve["power"])) and curve["power"][-1] > 0.95
    assert (
        large["power"][large["fraction"] == 0.2][0]
        > small["power"][small["fraction"] == 0.2][0] + 0.1
    )
    assert small["fraction"].tolist() == [
        0,
        0.1,
        0.2,
        0.5,
        1,
    ]  # 2 % of ten rows are rounded to one row


def test_sets_are_no_larger_than_the_rows_allow():
    result = power_curve(np.arange(30.0), np.arange(9.0), set_size=50, n_sets=5, rng=rng())
    assert set(result["set_size"]) == {4}
    assert {
        len(column) for column in power_curve(np.arange(3.0), np.arange(3.0), rng=rng()).values()
    } == {0}


def test_contamination_is_a_function_of_scores_and_seed():
    ood_score, id_score = rng(1).normal(2, 1, 60), rng(2).normal(size=80)
    options = {"shares": [0, 0.5, 1], "set_sizes": [5, 20, 70, 500], "n_sets": 20}
    rows = tabulate("contamination", {"ood_score": ood_score, "id_score": id_score}, options)
    assert rows == tabulate(
        "contamination", {"ood_score": ood_score, "id_score": id_score}, options
    )
    assert rows != tabulate(
        "contamination", {"ood_score": ood_score, "id_score": id_score}, {**options, "seed": 1}
    )
    assert [row["set_size"] for row in rows] == [5] * 3 + [20] * 3 + [40] * 3
    assert {row["power"] for row in rows if row["fraction"] == 1 and row["set_size"] > 5} == {1.0}
    single_size = contamination(ood_score, id_score, shares=[0, 0.5, 1], set_sizes=[20], n_sets=20)
    assert single_size["power"].tolist() == [row["power"] for row in rows if row["set_size"] == 20]
    with pytest.raises(Exception, match="contamination is a table, not a number; use tabulate"):
        score("contamination", {"ood_score": ood_score, "id_score": id_score})


@pytest.mark.parametrize(
    ("sets", "reference", "more", "sentence"),
    [
        ([1.0], [], {}, "reference must have the scores of at least one row, got shape (0,)"),
        (
            np.empty((2, 0)),
            [1.0],
            {},
            "sets must have the scores of at least one row, got shape (2, 0)",
        ),
        ([np.nan], [1.0], {}, "sets must be scores, and 1 of them are NaN"),
        (
            [1.0],
            [1.0],
            {"statistic": "median"},
            "statistic must be one of mean, max, ks, got 'median'",
        ),
        ([1.0], [1.0], {"n_permutations": 0}, "n_permutations must be in [1, inf), got 0"),
    ],
)
def test_invalid_sets_are_refused(sets, reference, more, sentence):
    with pytest.raises(ParameterError, match=f"^{re.escape(sentence)}$"):
        set_p_values(sets, reference, rng=rng(), **more)
