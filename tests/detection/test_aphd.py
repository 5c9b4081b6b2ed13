"""Average pairwise Hamming distance by leaf counts: that of the definition, pair by pair."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from kdgraph.detection import aphd

EXACT = 1e-12
"""Counts are integers, so one division is rounded; the definition adds m·T shares."""
LEAVES = arrays(
    np.int64, st.tuples(st.integers(2, 30), st.integers(1, 12)), elements=st.integers(0, 5)
)


def by_definition(leaves: np.ndarray) -> np.ndarray:
    return cdist(leaves, leaves, "hamming").sum(axis=1) / (len(leaves) - 1)


@given(LEAVES)
def test_aphd_is_the_mean_over_all_pairs(leaves):
    np.testing.assert_allclose(aphd(leaves), by_definition(leaves), rtol=0, atol=EXACT)


def test_aphd_of_a_forest_does_not_depend_on_the_layout_of_codes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 5))
    leaves = (
        RandomForestClassifier(60, random_state=0).fit(X, rng.integers(3, size=800)).apply(X[:500])
    )
    expected = by_definition(leaves)
    assert 0.8 < expected.min() < expected.max() < 1
    for codes in (leaves, np.asfortranarray(leaves.astype(np.int32)), np.ascontiguousarray(leaves)):
        np.testing.assert_allclose(aphd(codes), expected, rtol=0, atol=EXACT)


def test_figure_1_of_the_paper():
    np.testing.assert_array_equal(aphd([[4, 4], [3, 2], [1, 1], [2, 3]]), np.ones(4))


def test_aphd_equals_a_hand_calculation():
    """Rows 0 and 1 share one leaf of two, row 2 shares none with row 0 and one with row 1."""
    np.testing.assert_array_equal(aphd([[7, 0], [7, 1], [3, 1]]), [0.75, 0.5, 0.75])
    np.testing.assert_array_equal(
        aphd([[2, 9, 4]] * 3), np.zeros(3)
    )  # Lemma 4.1: the same leaves, no distance


@given(LEAVES, st.integers(0, 1000))
def test_names_of_leaves_and_order_of_rows_and_trees_do_not_matter(leaves, seed):
    rng = np.random.default_rng(seed)
    expected = aphd(leaves)
    renamed = np.column_stack([rng.permutation(6)[of_tree] for of_tree in leaves.T])
    rows = rng.permutation(len(leaves))
    np.testing.assert_array_equal(aphd(renamed), expected)
    np.testing.assert_array_equal(aphd(leaves[rows]), expected[rows])
    np.testing.assert_array_equal(aphd(leaves[:, rng.permutation(leaves.shape[1])]), expected)


@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2), (2, 4)])
def test_theorem_4_2_holds_exactly_where_every_region_is_as_probable(k, d):
    """K = k^d training rows of K classes, so every tree has K leaves with one of them; the test
    rows are c copies of each.

    Two rows drawn independently, the same one twice included, are in different leaves with
    probability 1 - 1/K.
    """
    grid = np.array(list(product(range(k), repeat=d)), dtype=float)
    n_regions, copies = len(grid), 7
    forest = ExtraTreesClassifier(20, random_state=0).fit(grid, np.arange(n_regions))
    rows = np.repeat(grid, copies, axis=0)
    leaves = forest.apply(rows)
    assert all(len(np.unique(of_tree)) == n_regions for of_tree in leaves.T)
    m = len(rows)
    np.testing.assert_allclose(aphd(leaves) * (m - 1) / m, 1 - 1 / n_regions, rtol=0, atol=EXACT)


def test_theorem_4_2_in_expectation():
    """Of rows that are drawn, APHD has the mean 1 - 1/K at any set size: it is a mean over pairs of
    different rows.
    """
    rng, n_regions = np.random.default_rng(0), 8
    for m in (2, 5, 50):
        means = [aphd(rng.integers(n_regions, size=(m, 1))).mean() for _ in range(2000)]
        error = np.std(means) / np.sqrt(len(means))
        assert abs(np.mean(means) - (1 - 1 / n_regions)) < 4 * error


@pytest.mark.parametrize(
    "leaves",
    [np.zeros((1, 3), dtype=int), np.zeros(3, dtype=int), np.zeros((0, 2), dtype=int)],
    ids=str,
)
def test_fewer_than_two_rows_cannot_be_compared(leaves):
    with pytest.raises(
        ValueError,
        match=r"leaves must have shape \(rows, trees\) with at least two rows, got shape",
    ):
        aphd(leaves)
