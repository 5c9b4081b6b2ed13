"""Wins, the paired test and Holm's adjustment against their definitions, scipy and a published
example.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kdgraph.metrics import holm
from kdgraph.results.comparison.significance import (
    PairedComparison,
    compare_arrays,
    compare_pairs,
    merge_noise,
    pairs_needed,
    wilcoxon,
)

NUMBERS = st.lists(st.integers(0, 4), min_size=1, max_size=7)


@given(st.integers(0, 1000), st.integers(1, 12))
def test_holm_agrees_with_its_definition(seed, m) -> None:
    p = np.random.default_rng(seed).choice([0.001, 0.01, 0.02, 0.04, 0.2, 0.9], size=m)
    naive = np.empty(m)
    order = sorted(range(m), key=lambda i: p[i])
    for rank, i in enumerate(order):
        naive[i] = min(1, max((m - j) * p[order[j]] for j in range(rank + 1)))
    np.testing.assert_allclose(holm(p), naive, rtol=1e-12)
    for level in (
        0.01,
        0.05,
    ):  # the step-down procedure: refuse in order of p until one is too large
        refused = set()
        for rank, i in enumerate(order):
            if p[i] > level / (m - rank):
                break
            refused.add(i)
        assert refused == set(np.flatnonzero(holm(p) <= level))


def test_no_test_has_nothing_to_adjust() -> None:
    assert holm([]).shape == (0,)


@given(NUMBERS, st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_wins_ties_and_losses_turn_round_with_the_two(first, seed) -> None:
    a = pd.Series(first, dtype=float) / 10
    b = pd.Series(np.random.default_rng(seed).integers(0, 5, len(a)) / 10)
    forward, reverse = compare_pairs(a, b), compare_pairs(b, a)
    assert (forward.wins, forward.ties, forward.losses) == (sum(a < b), sum(a == b), sum(a > b))
    assert (reverse.wins, reverse.ties, reverse.losses) == (
        forward.losses,
        forward.ties,
        forward.wins,
    )
    assert forward.p == pytest.approx(reverse.p) and 0 < forward.p <= 1 and forward.n == len(a)
    assert compare_pairs(a, a).p == 1


def test_the_test_is_paired_and_exact_where_it_can_be() -> None:
    parent = pd.Series(np.linspace(0.1, 0.9, 8))
    better = parent - 0.01 * np.arange(1, 9)
    assert compare_pairs(better, parent).p == pytest.approx(
        2 / 2**8
    )  # of 2^8 signs, the two most extreme
    assert (
        compare_pairs(better, parent.sample(frac=1, random_state=0)).p
        == compare_pairs(better, parent).p
    )  # by table, not by place


def test_numbers_are_compared_as_they_are_but_for_noise() -> None:
    first, second = (
        pd.Series([1e-9, 0.10001, 0.2, 0.1 + 0.2, np.nan]),
        pd.Series([3e-7, 0.1, 0.1999, 0.3, 1]),
    )
    assert str(compare_pairs(first, second)) == "1/1/2"
    assert str(compare_pairs(first, second, decimals=4)) == "0/3/1"  # published numbers are rounded
    assert (
        str(compare_pairs(first * 1e-17, second * 1e-17)) == "1/1/2"
    )  # in a unit, any number may be small
    assert (
        str(compare_pairs(first * 1e-17, second * 1e-17, scale=1.0)) == "0/4/0"
    )  # of shares, that is what floating point left of a difference


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=20),
    st.sampled_from([1e-300, 1e-6, 0.3, 7.0, 1e5, 1e200]),
)
@settings(deadline=None)
def test_another_unit_changes_nothing(pairs, unit) -> None:
    first, second = np.array(pairs, dtype=float).T / 7
    noise = 1 + 1e-12 * np.random.default_rng(len(pairs)).standard_normal(len(pairs))
    assert compare_arrays(first, second) == compare_arrays(unit * first * noise, unit * second)


def test_ties_that_noise_hides_are_one_chain() -> None:
    values, noise = np.array([3.0, 1.0, 1.0 + 1e-12, 1.0 - 1e-12, 2.0]), np.full(5, 1e-11)
    assert merge_noise(values, noise).tolist() == [
        3.0,
        1.0 - 1e-12,
        1.0 - 1e-12,
        1.0 - 1e-12,
        2.0,
    ]
    assert merge_noise(values, np.zeros(5)).tolist() == values.tolist()
    assert merge_noise(values[:0], noise[:0]).shape == (0,)


def test_without_a_pair_nothing_is_compared() -> None:
    assert compare_arrays(np.full(3, np.nan), np.ones(3)) == PairedComparison(0, 0, 0, 1.0)


@pytest.mark.parametrize("n", range(1, 6))
def test_five_pairs_or_fewer_are_never_significant(n) -> None:
    assert wilcoxon(np.linspace(1, 2, n)) == pytest.approx(2 / 2**n) and 2 / 2**n > 0.05


@pytest.mark.parametrize("zeros", [0, 1, 12, 60])
def test_zeros_add_no_evidence(zeros) -> None:
    """Whatever the number of ties, two wins and no loss are one of two equally probable outcomes,
    and so are three of four.
    """
    for wins, p in ((1, 1.0), (2, 0.5), (3, 0.25), (6, 0.03125)):
        assert wilcoxon(np.r_[np.zeros(zeros), np.linspace(1, 2, wins)]) == pytest.approx(p)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8).filter(any))
@settings(deadline=None, max_examples=60)
def test_few_differences_are_tested_exactly_with_ties(values) -> None:
    d = np.array(values) / 10
    ranks = stats.rankdata(np.abs(d)) * (d != 0)
    observed = ranks[d > 0].sum()
    sums = np.array(
        [ranks[np.array(signs, bool)].sum() for signs in product([0, 1], repeat=len(d))]
    )  # zeros count on neither side
    expected = min(1, 2 * min((sums <= observed).mean(), (sums >= observed).mean()))
    assert wilcoxon(d) == pytest.approx(expected)
    assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d, zero_method="zsplit").pvalue)


@pytest.mark.parametrize("n", [13, 40, 50, 101, 300])
def test_many_differences_are_tested_as_scipy_does(n) -> None:
    d = np.random.default_rng(n).normal(0.1, 1, n)
    assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d, zero_method="zsplit").pvalue, rel=1e-6)


@pytest.mark.parametrize("n", [14, 60, 100])
def test_ties_are_counted_exactly_where_scipy_approximates(n) -> None:
    """The normal curve is within 0.02 of the exact p here; the exact one is what 200,000 random
    signs give, four standard errors.
    """
    rng = np.random.default_rng(n)
    d = np.round(rng.normal(0.3, 1, n), 1)
    assert wilcoxon(d) == pytest.approx(stats.wilcoxon(d, zero_method="zsplit").pvalue, abs=0.02)
    ranks = stats.rankdata(np.abs(d)) * (d != 0)
    sums = np.array(
        [(ranks * rng.integers(0, 2, (2000, n))).sum(axis=1) for _ in range(100)]
    ).ravel()
    observed = ranks[d > 0].sum()
    expected = min(1, 2 * min((sums <= observed + 1e-9).mean(), (sums >= observed - 1e-9).mean()))
    assert wilcoxon(d) == pytest.approx(expected, abs=8 * np.sqrt(expected / 2 / len(sums)) + 1e-4)


def test_demsar_table_2() -> None:
    """C4.5 against C4.5 with m, AUC on 14 data sets: R+ = 93, R- = 12, significant at 0.05 (the
    critical value of the smaller is 21).
    """
    plain = pd.Series(
        [
            0.763,
            0.599,
            0.954,
            0.628,
            0.882,
            0.936,
            0.661,
            0.583,
            0.775,
            1.000,
            0.940,
            0.619,
            0.972,
            0.957,
        ]
    )
    with_m = pd.Series(
        [
            0.768,
            0.591,
            0.971,
            0.661,
            0.888,
            0.931,
            0.668,
            0.583,
            0.838,
            1.000,
            0.962,
            0.666,
            0.981,
            0.978,
        ]
    )
    difference = (with_m - plain).round(4)
    ranks = stats.rankdata(difference.abs())
    split = ranks[difference == 0].sum() / 2
    assert (ranks[difference > 0].sum() + split, ranks[difference < 0].sum() + split) == (93, 12)
    comparison = compare_pairs(-with_m, -plain)  # higher is better
    assert (str(comparison), comparison.n) == ("10/2/2", 14) and 0.005 < comparison.p < 0.02
    assert comparison.p == pytest.approx(
        stats.wilcoxon(difference, zero_method="zsplit").pvalue, abs=0.005
    )  # there, by the normal curve


@given(st.integers(1, 40))
def test_the_smallest_number_of_pairs_can_be_significant(m) -> None:
    n = pairs_needed(m)
    one_sided = np.arange(1, n + 1) / 100
    assert holm([wilcoxon(one_sided)] + [1.0] * (m - 1))[0] <= 0.05
    assert holm([wilcoxon(one_sided[:-1])] + [1.0] * (m - 1))[0] > 0.05
