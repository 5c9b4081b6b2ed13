"""Index of training rows by out-of-bag trees, compared with dense arrays of all pairs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from kdgraph.base.rows import OutOfBag
from kdgraph.geometry import leaf_index, partition_of
from kdgraph.geometry.leaf_index import IN_BAG, OutOfBagIndex, RowIndex

EXPONENTS = np.array([0.3, 1.0, 5.0])


@pytest.fixture(params=[(1, 70), (40, 130)], ids=["full trees", "large leaves"])
def problem(request):
    """Return rows of three classes with weights, and their codes in a forest."""
    min_samples_leaf, n_trees = request.param
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    forest = RandomForestClassifier(n_trees, min_samples_leaf=min_samples_leaf, random_state=0).fit(
        X, y
    )
    partition, is_out = partition_of(forest), OutOfBag(forest, X).is_out
    codes, weights = partition.encode(X), rng.uniform(0.5, 2, 300)
    new_codes = partition.encode(rng.normal(size=(50, 3)))
    masked = np.where(is_out, codes, IN_BAG)
    index = OutOfBagIndex(masked, y, weights, 3, partition.leaf_starts)
    return SimpleNamespace(
        index=index,
        codes=codes,
        masked=masked,
        new_codes=new_codes,
        is_out=is_out,
        labels=np.eye(3)[y] * weights[:, None],
        make_index=lambda n_jobs: OutOfBagIndex(
            masked, y, weights, 3, partition.leaf_starts, n_jobs=n_jobs
        ),
    )


def dense_masses(similarity: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the class masses of a matrix of similarities, Float[m, K, k]."""
    powers = [np.where(similarity > 0, similarity**p, 0.0) @ labels for p in EXPONENTS]
    return np.stack(powers, axis=-1)


def test_training_rows_are_compared_in_common_out_of_bag_trees(problem):
    both_out = problem.is_out[:, None] & problem.is_out[None]
    equal = (problem.codes[:, None] == problem.codes[None]) & both_out
    similarity = equal.sum(axis=2) / np.maximum(both_out.sum(axis=2), 1)
    np.fill_diagonal(similarity, 0)
    masses = problem.index.query_training(problem.masked, np.arange(300), EXPONENTS)
    # Sums of up to 300 terms of size 1, added in another order.
    np.testing.assert_allclose(masses, dense_masses(similarity, problem.labels), atol=1e-11)
    # A row that is not in the index has all other rows as partners.
    stranger = problem.index.query_training(problem.masked[:1], np.array([-1]), EXPONENTS)
    own = problem.labels[0, :, None] * problem.is_out[0].any()
    np.testing.assert_allclose(stranger[0], masses[0] + own, atol=1e-11)


def test_new_rows_are_compared_in_trees_without_the_training_row(problem):
    equal = (problem.new_codes[:, None] == problem.codes[None]) & problem.is_out[None]
    similarity = equal.sum(axis=2) / problem.is_out.sum(axis=1)
    masses, nearest = problem.index.query(problem.new_codes, EXPONENTS)
    np.testing.assert_allclose(masses, dense_masses(similarity, problem.labels), atol=1e-11)
    expected = np.where(similarity.max(axis=1) > 0, similarity.argmax(axis=1), -1)
    np.testing.assert_array_equal(nearest, expected)
    again, nearest = problem.index.query(problem.new_codes, EXPONENTS, with_nearest=False)
    np.testing.assert_array_equal(again, masses)
    assert not len(nearest)


def test_results_do_not_depend_on_blocks_threads_or_other_queries(problem, monkeypatch):
    rows = np.random.default_rng(1).permutation(300)[:97]
    codes = problem.masked[rows]
    masses = problem.index.query_training(codes, rows, EXPONENTS)
    new_masses, _ = problem.index.query(problem.new_codes, EXPONENTS)
    one_by_one = [
        problem.index.query_training(codes[i : i + 1], rows[i : i + 1], EXPONENTS) for i in range(5)
    ]
    np.testing.assert_array_equal(np.concatenate(one_by_one), masses[:5])
    monkeypatch.setattr(leaf_index, "_QUERY_BLOCK", 7)
    threaded = problem.make_index(2)
    np.testing.assert_array_equal(threaded.query_training(codes, rows, EXPONENTS), masses)
    np.testing.assert_array_equal(threaded.query(problem.new_codes, EXPONENTS)[0], new_masses)


def test_rows_in_bag_everywhere_have_no_mass(problem):
    masked = problem.masked.copy()
    masked[:250] = IN_BAG
    y = problem.labels.argmax(axis=1)
    index = OutOfBagIndex(masked, y, np.ones(300), 3, problem.index._leaf_starts)
    assert not index.query_training(masked[:250], np.arange(250), EXPONENTS).any()
    masses, _ = index.query(problem.new_codes, np.array([1e-9]))
    # At an exponent near 0 each counted row adds 1, and only the last 50 rows are counted.
    assert masses.sum(axis=1).max() <= 50


def test_a_code_beyond_in_bag_is_refused(problem):
    masked = problem.masked.copy()
    masked[0, 0] = -2
    with pytest.raises(ValueError, match="codes name nodes that their trees do not have"):
        OutOfBagIndex(masked, np.zeros(300, int), np.ones(300), 3, problem.index._leaf_starts)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_exponents", [1, 2, 24])
@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("counts_everywhere", [False, True])
def test_every_way_of_adding_pairs_matches_dense_similarities(
    problem, n_classes, n_exponents, has_weights, counts_everywhere
):
    rng, exponents = np.random.default_rng(2), np.geomspace(0.1, 30, n_exponents)
    y = rng.integers(0, n_classes, 300)
    weights = rng.uniform(0.5, 2, 300) if has_weights else np.ones(300)
    is_counted = np.ones_like(problem.is_out) if counts_everywhere else problem.is_out
    codes = np.where(is_counted, problem.codes, IN_BAG)
    index = RowIndex(codes, y, weights, n_classes, problem.index._leaf_starts)
    equal = (problem.new_codes[:, None] == problem.codes[None]) & is_counted[None]
    similarity = equal.sum(axis=2) / is_counted.sum(axis=1)
    labels = np.eye(n_classes)[y] * weights[:, None]
    expected = np.stack([similarity**p @ labels for p in exponents], axis=-1)
    masses, _ = index.query(problem.new_codes, exponents, with_nearest=False)
    np.testing.assert_allclose(masses, expected, rtol=1e-11, atol=0)
    one_by_one = [index.query(codes, exponents)[0] for codes in problem.new_codes[:9, None]]
    np.testing.assert_array_equal(np.concatenate(one_by_one), masses[:9])
