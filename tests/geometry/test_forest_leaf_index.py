"""Class masses and nearest polytopes against a dense numpy computation of all similarities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.geometry import LeafIndex, leaf_index, partition_of, polytopes_of
from tests.variations import others_slow

ROUNDING = 1e-12  # sums of at most 600 positive terms in float64, added in another order
EXPONENTS = np.array([0.02, 0.3, 1.0, 2.0, 7.5, 30.0, 138.0])
MEMBERS, COMPARISON = 2.0, -1.0  # values of _MAX_VISIT_FRACTION that force one of the counters
BOTH_COUNTERS = pytest.mark.parametrize(
    "visit_fraction", [MEMBERS, COMPARISON], ids=["members", "comparison"]
)


def dense_masses(codes, class_weights, queries, exponents, n_anchors=None):
    """Return masses Float[m, K, k] and nearest Int[m] from all m × p similarities."""
    similarity = (queries[:, None, :] == codes[None, :, :]).mean(axis=2)
    masses = np.stack([similarity**exponent @ class_weights for exponent in exponents], axis=2)
    candidates = similarity[:, :n_anchors]
    return masses, np.where(candidates.max(axis=1) > 0, candidates.argmax(axis=1), -1)


def make_index_problem(forest, X, y):
    """Return index, codes, class weights and queries of the polytopes of the first 400 rows.

    Queries are the other rows, distant points and some of these 400 rows.
    """
    partition = partition_of(forest)
    codes = partition.encode(X[:400])
    groups = polytopes_of(codes)
    weight = np.random.default_rng(3).uniform(0.1, 3, 400)
    labels = np.eye(y.max() + 1)[y[:400]] * weight[:, None]
    codes, class_weights = codes[groups.representatives], groups.sum_by_polytope(labels)
    queries = partition.encode(np.vstack([X[400:], 50 * X[:50], X[:40]]))
    return partition.index(codes, class_weights), codes, class_weights, queries


@pytest.fixture(scope="module")
def index_problems(spiral, blobs, spiral_forest, blob_forest):
    return {
        "spiral": make_index_problem(spiral_forest, *spiral),
        "blobs": make_index_problem(blob_forest, *blobs),
    }


@BOTH_COUNTERS
@pytest.mark.parametrize("name", ["spiral", "blobs"])
def test_masses_and_nearest_polytopes_match_dense_similarities(
    monkeypatch, index_problems, name, visit_fraction
):
    monkeypatch.setattr(leaf_index, "_MAX_VISIT_FRACTION", visit_fraction)
    index, codes, class_weights, queries = index_problems[name]
    masses, nearest = index.query(queries, EXPONENTS)
    expected, expected_nearest = dense_masses(codes, class_weights, queries, EXPONENTS)
    assert masses.shape == (len(queries), class_weights.shape[1], len(EXPONENTS))
    np.testing.assert_allclose(masses, expected, rtol=ROUNDING, atol=0)
    assert np.array_equal(nearest, expected_nearest)


@pytest.mark.parametrize("name", ["spiral", "blobs"])
def test_results_do_not_depend_on_counter_blocks_or_threads(monkeypatch, index_problems, name):
    _, codes, class_weights, queries = index_problems[name]
    starts = index_problems[name][0]._leaf_starts
    results = []
    for visit_fraction in (MEMBERS, COMPARISON):
        for block in (1, 7, 128, 1000):
            for n_jobs in (1, 2):
                monkeypatch.setattr(leaf_index, "_MAX_VISIT_FRACTION", visit_fraction)
                monkeypatch.setattr(leaf_index, "_QUERY_BLOCK", block)
                results.append(
                    LeafIndex(codes, class_weights, starts, n_jobs=n_jobs).query(queries, EXPONENTS)
                )
    for masses, nearest in results[1:]:
        assert np.array_equal(masses, results[0][0])
        assert np.array_equal(nearest, results[0][1])


@pytest.mark.parametrize(
    ("leaf_size", "expected"), [(1, "query_by_members"), (500, "query_by_comparison")]
)
def test_small_leaves_use_members_and_large_leaves_use_comparison(monkeypatch, leaf_size, expected):
    calls = []
    for kernel in ("query_by_members", "query_by_comparison"):
        compiled = getattr(leaf_index, kernel)
        monkeypatch.setattr(
            leaf_index,
            kernel,
            lambda *a, kernel=kernel, compiled=compiled: (calls.append(kernel), compiled(*a)),
        )
    i = np.arange(1000)
    codes = np.column_stack([i // leaf_size, i])
    LeafIndex(codes, np.ones((1000, 1)), np.array([0, 1000, 2000])).query(
        codes[:100], np.array([1.0])
    )
    assert calls == [expected]


@BOTH_COUNTERS
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_random_codes_match_dense_similarities(visit_fraction, data):
    n_trees, n_leaves = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    row = st.lists(st.integers(0, n_leaves - 1), min_size=n_trees, max_size=n_trees).map(tuple)
    codes = np.array(data.draw(st.lists(row, min_size=1, max_size=30, unique=True)))
    queries = np.array(data.draw(st.lists(row, min_size=1, max_size=8)))
    n_classes, n_anchors = data.draw(st.integers(1, 3)), data.draw(st.integers(1, len(codes)))
    weights = np.random.default_rng(0).integers(0, 3, (len(codes), n_classes)).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_index, "_MAX_VISIT_FRACTION", visit_fraction)
        index = LeafIndex(codes, weights, np.arange(n_trees + 1) * n_leaves, n_anchors=n_anchors)
        masses, nearest = index.query(queries, np.array([0.5, 3.0]))
    expected, expected_nearest = dense_masses(codes, weights, queries, [0.5, 3.0], n_anchors)
    np.testing.assert_allclose(masses, expected, rtol=ROUNDING, atol=0)
    assert np.array_equal(nearest, expected_nearest)


@BOTH_COUNTERS
def test_lowest_of_equally_near_polytopes_is_nearest(monkeypatch, visit_fraction):
    monkeypatch.setattr(leaf_index, "_MAX_VISIT_FRACTION", visit_fraction)
    codes = np.array([[3, 3], [2, 0], [0, 2], [2, 1], [1, 2]])  # the order by leaf differs
    index = LeafIndex(codes, np.ones((5, 1)), np.array([0, 4, 8]))
    assert index.query(np.array([[2, 2], [0, 3], [1, 0]]), np.array([1.0]))[1].tolist() == [
        1,
        0,
        1,
    ]


@BOTH_COUNTERS
def test_only_anchors_are_nearest_but_all_polytopes_add_mass(monkeypatch, visit_fraction):
    monkeypatch.setattr(leaf_index, "_MAX_VISIT_FRACTION", visit_fraction)
    codes = np.array([[0, 0], [0, 1], [1, 1], [2, 2]])
    index = LeafIndex(codes, np.eye(4), np.array([0, 3, 6]), n_anchors=2)
    masses, nearest = index.query(np.array([[1, 1], [2, 2], [0, 1]]), np.array([1.0]))
    assert nearest.tolist() == [1, -1, 1]
    assert np.array_equal(masses[:, :, 0], [[0, 0.5, 1, 0], [0, 0, 0, 1], [0.5, 1, 0.5, 0]])


@BOTH_COUNTERS
def test_query_without_common_leaf_has_no_mass_and_no_neighbour(monkeypatch, visit_fraction):
    monkeypatch.setattr(leaf_index, "_MAX_VISIT_FRACTION", visit_fraction)
    codes = np.array([[0, 0], [1, 1], [1, 0]])
    # Leaves 2 and 3 of each tree contain no polytope.
    index = LeafIndex(codes, np.ones((3, 2)), np.array([0, 4, 8]))
    masses, nearest = index.query(np.array([[2, 3], [3, 2], [1, 3]]), np.array([0.5]))
    assert nearest.tolist() == [-1, -1, 1]
    assert np.array_equal(masses[:2], np.zeros((2, 2, 1)))
    assert masses[2, 0, 0] == pytest.approx(2 * 0.5**0.5, rel=ROUNDING)


def test_empty_queries_and_empty_exponents():
    index = LeafIndex(np.array([[0, 0], [1, 1]]), np.ones((2, 3)), np.array([0, 2, 4]))
    masses, nearest = index.query(np.empty((0, 2), dtype=np.int32), np.array([1.0]))
    assert (masses.shape, nearest.shape) == ((0, 3, 1), (0,))
    masses, nearest = index.query(np.array([[1, 1]]), np.empty(0))
    assert (masses.shape, nearest.tolist()) == ((1, 3, 0), [1])


@BOTH_COUNTERS
@pytest.mark.parametrize("p", others_slow([2**16 - 2, 2**16 - 1, 2**16, 2**16 + 1], 2**16))
def test_polytope_numbers_may_exceed_16_bits(monkeypatch, visit_fraction, p):
    monkeypatch.setattr(leaf_index, "_MAX_VISIT_FRACTION", visit_fraction)
    index = LeafIndex(np.arange(p)[:, None], np.ones((p, 1)), np.array([0, p + 1]))
    queries = np.array([[0], [p - 3], [p - 2], [p - 1], [p]])  # no row is in leaf p
    masses, nearest = index.query(queries, np.array([1.0]))
    assert nearest.tolist() == [0, p - 3, p - 2, p - 1, -1]
    assert masses.ravel().tolist() == [1, 1, 1, 1, 0]


@BOTH_COUNTERS
def test_nearest_polytope_of_seventy_thousand(monkeypatch, visit_fraction):
    monkeypatch.setattr(leaf_index, "_MAX_VISIT_FRACTION", visit_fraction)
    i = np.random.default_rng(0).permutation(70_000)
    codes = np.column_stack([i // 300, i % 300, i % 7])
    weights = np.column_stack([i % 2, 1 - i % 2]).astype(float)
    queries = codes[[0, 65_535, 65_536, 69_999]] + np.array(
        [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]
    )
    queries[:, 2] %= 7
    masses, nearest = LeafIndex(codes, weights, np.array([0, 300, 600, 607])).query(
        queries, np.array([1.0, 4.0])
    )
    expected, expected_nearest = dense_masses(codes, weights, queries, [1.0, 4.0])
    np.testing.assert_allclose(masses, expected, rtol=1e-10)  # 10,000 terms
    assert np.array_equal(nearest, expected_nearest)
