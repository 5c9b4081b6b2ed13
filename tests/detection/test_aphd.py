"""Tests of the average pairwise Hamming distance against its definition by pairs."""

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

ROUNDING = 1e-12
"""Tolerance; one division of integers is rounded, and the definition adds m·T fractions."""
LEAVES = arrays(
    np.int64, st.tuples(st.integers(2, 30), st.integers(1, 12)), elements=st.integers(0, 5)
)


def pairwise_aphd(leaves: np.ndarray) -> np.ndarray:
    return cdist(leaves, leaves, "hamming").sum(axis=1) / (len(leaves) - 1)


@given(LEAVES)
def test_aphd_is_the_mean_over_all_pairs(leaves):
    np.testing.assert_allclose(aphd(leaves), pairwise_aphd(leaves), rtol=0, atol=ROUNDING)


def test_aphd_of_a_forest_for_any_memory_layout():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 5))
    leaves = (
        RandomForestClassifier(60, random_state=0).fit(X, rng.integers(3, size=800)).apply(X[:500])
    )
    expected = pairwise_aphd(leaves)
    assert 0.8 < expected.min() < expected.max() < 1
    for codes in (leaves, np.asfortranarray(leaves.astype(np.int32)), np.ascontiguousarray(leaves)):
        np.testing.assert_allclose(aphd(codes), expected, rtol=0, atol=ROUNDING)


def test_aphd_of_figure_1_of_the_paper():
    np.testing.assert_array_equal(aphd([[4, 4], [3, 2], [1, 1], [2, 3]]), np.ones(4))


def test_aphd_equals_a_hand_calculation():
    """Rows 0 and 1 share one leaf of two, row 2 shares none with row 0 and one with row 1."""
    np.testing.assert_array_equal(aphd([[7, 0], [7, 1], [3, 1]]), [0.75, 0.5, 0.75])
    # Rows in the same leaves have distance 0 (Lemma 4.1).
    np.testing.assert_array_equal(aphd([[2, 9, 4]] * 3), np.zeros(3))


@given(LEAVES, st.integers(0, 1000))
def test_aphd_is_invariant_to_leaf_numbers_and_order(leaves, seed):
    rng = np.random.default_rng(seed)
    expected = aphd(leaves)
    renumbered = np.column_stack([rng.permutation(6)[tree_leaves] for tree_leaves in leaves.T])
    rows = rng.permutation(len(leaves))
    np.testing.assert_array_equal(aphd(renumbered), expected)
    np.testing.assert_array_equal(aphd(leaves[rows]), expected[rows])
    np.testing.assert_array_equal(aphd(leaves[:, rng.permutation(leaves.shape[1])]), expected)


@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2), (2, 4)])
def test_theorem_4_2_is_exact_for_equally_probable_regions(k, d):
    """Test K = k^d training rows of K classes, and c copies of each row as test rows.

    Every tree has K leaves with one training row each. Two rows that are drawn independently, with
    replacement, are in different leaves with probability 1 - 1/K.
    """
    grid = np.array(list(product(range(k), repeat=d)), dtype=float)
    n_regions, copies = len(grid), 7
    forest = ExtraTreesClassifier(20, random_state=0).fit(grid, np.arange(n_regions))
    rows = np.repeat(grid, copies, axis=0)
    leaves = forest.apply(rows)
    assert all(len(np.unique(tree_leaves)) == n_regions for tree_leaves in leaves.T)
    m = len(rows)
    np.testing.assert_allclose(aphd(leaves) * (m - 1) / m, 1 - 1 / n_regions, rtol=0, atol=ROUNDING)


def test_theorem_4_2_holds_in_expectation():
    """Test the mean 1 - 1/K at any set size, since APHD is a mean over pairs of rows."""
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
def test_fewer_than_two_rows_raise(leaves):
    with pytest.raises(
        ValueError,
        match=r"leaves must have shape \(rows, trees\) with at least two rows, got shape",
    ):
        aphd(leaves)
