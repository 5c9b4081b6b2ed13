"""Tests of the neighbour search: each back-end against all distances, sorted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from kdgraph.smoothing.neighbour_weights import NeighbourWeighting
from kdgraph.smoothing.neighbours import (
    NeighbourSearch,
    distances_of,
    draw_reference_rows,
    rank_in_sample,
)

BACKENDS = [(1, "window"), (1, "tree"), (3, "tree"), (3, "brute"), (12, "brute")]


def normal_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize(("d", "backend"), BACKENDS)
@pytest.mark.parametrize("k", [1, 7, 40])
def test_nearest_rows_are_the_first_of_all_sorted_distances(d, backend, k):
    X, at = normal_rows(40, d), normal_rows(9, d, 1) * 2
    all_distances = cdist(at, X)
    distance, rows = NeighbourSearch(X, backend=backend).nearest(at, k)
    np.testing.assert_array_equal(rows, np.argsort(all_distances, axis=1)[:, :k])
    np.testing.assert_allclose(distance, np.sort(all_distances, axis=1)[:, :k], rtol=1e-12)


def test_brute_force_finds_the_rows_of_scikit_learn():
    X, at = normal_rows(300, 12), normal_rows(20, 12, 1)
    expected = NearestNeighbors(algorithm="brute").fit(X).kneighbors(at, 15, return_distance=False)
    np.testing.assert_array_equal(NeighbourSearch(X).nearest(at, 15)[1], expected)


@pytest.mark.parametrize(("d", "backend"), BACKENDS)
def test_blocks_and_other_query_points_change_no_bit(d, backend, monkeypatch):
    X, at = normal_rows(60, d), normal_rows(20, d, 1)
    search = NeighbourSearch(X, backend=backend)
    together = search.nearest(at, 9)
    alone = [search.nearest(at[i : i + 1], 9) for i in range(20)]
    np.testing.assert_array_equal(together[0], np.concatenate([distance for distance, _ in alone]))
    monkeypatch.setattr("kdgraph.smoothing.neighbours.BLOCK_SIZE", 60)
    np.testing.assert_array_equal(together[0], search.nearest(at, 9)[0])


@pytest.mark.parametrize(("d", "backend"), BACKENDS)
def test_count_within_counts_rows_within_the_radius(d, backend):
    X, at = normal_rows(200, d), normal_rows(30, d, 1)
    counts = NeighbourSearch(X, backend=backend).count_within(at, 1.5)
    np.testing.assert_array_equal(counts, (cdist(at, X) <= 1.5).sum(axis=1))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(-2, 8), st.data())
def test_window_distances_are_exact_with_ties(values, x, data):
    """Any of several rows at the same distance may be selected; the distances are exact."""
    k = data.draw(st.integers(1, len(values)))
    X = np.array(values, dtype=float)[:, None]
    distance, rows = NeighbourSearch(X).nearest(np.array([[float(x)]]), k)
    assert distance[0].tolist() == sorted(abs(v - x) for v in values)[:k]
    assert (
        len(set(rows[0].tolist())) == k
        and np.abs(X[rows[0], 0] - x).tolist() == distance[0].tolist()
    )


def test_auto_chooses_the_backend_by_the_number_of_features():
    suited = [NeighbourSearch(np.zeros((n, d))).backend for n, d in ((5, 1), (5, 8), (5, 9))]
    assert suited == ["window", "tree", "brute"]


@pytest.mark.parametrize("k", [1, 7])
def test_a_few_query_points_have_the_neighbours_that_many_have(k):
    X, at = normal_rows(12_000, 10), normal_rows(300, 10, 1)
    search = NeighbourSearch(X, backend="brute")
    assert search.heaps is not None
    one_by_one = [search.nearest(at[i : i + 1], k) for i in range(20)]
    for of_one, of_many in zip(zip(*one_by_one, strict=True), search.nearest(at, k), strict=True):
        np.testing.assert_array_equal(np.concatenate(of_one), of_many[:20])


def test_equal_rows_have_distance_0_by_brute_force():
    """The product formula gives 1e-8 instead, and far more for rows away from the origin."""
    X = normal_rows(30, 12) + 1e4
    distance, rows = NeighbourSearch(X, backend="brute").nearest(X, 1)
    assert distance.ravel().tolist() == [0.0] * 30 and rows.ravel().tolist() == list(range(30))


def test_sparse_leaves_are_compared_by_inner_product():
    """Three trees of two leaves each, as one-hot rows of length 1."""
    codes = np.random.default_rng(0).integers(0, 2, size=(12, 3))
    onehot = np.concatenate([codes == 0, codes == 1], axis=1) / np.sqrt(3)
    distance, rows = NeighbourSearch(csr_array(onehot)).nearest(csr_array(onehot[:4]), 5)
    expected = (codes[:4, None] != codes[None]).mean(axis=2)
    np.testing.assert_allclose(distance, np.sort(expected, axis=1)[:, :5], atol=1e-12)
    np.testing.assert_allclose(distance, np.take_along_axis(expected, rows, axis=1), atol=1e-12)


def test_approximate_neighbours_are_at_most_1_plus_eps_farther():
    X, at = normal_rows(3000, 6), normal_rows(50, 6, 1)
    exact, approximate = (
        NeighbourSearch(X).nearest(at, 10)[0],
        NeighbourSearch(X, eps=1.0).nearest(at, 10)[0],
    )
    assert (
        (approximate >= exact - 1e-12).all()
        and (approximate <= 2 * exact + 1e-12).all()
        and (approximate > exact).any()
    )


def test_more_neighbours_than_rows_are_refused():
    with pytest.raises(ValueError, match=r"^k must be from 1 to the 3 rows, got 4$"):
        NeighbourSearch(np.zeros((3, 1))).nearest(np.zeros((1, 1)), 4)


def weights_by_definition(
    x: float, X: np.ndarray, kernel: str, u: float, is_neighbour: np.ndarray
) -> np.ndarray:
    t = np.abs(X - x) / u
    inside = t <= 1
    kernels = {
        "epanechnikov": np.where(inside, 1 - t**2, 0),
        "uniform": inside.astype(float),
        "gaussian": np.exp(-(t**2) / 2),
    }
    return np.where(is_neighbour, kernels[kernel], 0.0)


@pytest.mark.parametrize("kernel", ["epanechnikov", "uniform", "gaussian"])
@pytest.mark.parametrize("rule", ["last", "next", "radius"])
def test_weights_follow_their_definition(kernel, rule):
    X, at = normal_rows(50, 1)[:, 0], normal_rows(8, 1, 1)[:, 0]
    search = NeighbourSearch(X[:, None])
    weighting = (
        NeighbourWeighting(radius=0.4, kernel=kernel, n_fallback=1)
        if rule == "radius"
        else NeighbourWeighting(k=12, kernel=kernel, scale=rule)
    )
    neighbours = weighting.find_neighbours(search, at[:, None])
    for i, x in enumerate(at):
        sorted_distances = np.sort(np.abs(X - x))
        u = 0.4 if rule == "radius" else sorted_distances[12 if rule == "next" else 11]
        is_neighbour = np.abs(X - x) <= (0.4 if rule == "radius" else sorted_distances[11])
        if not is_neighbour.any():
            continue
        dense = np.zeros(50)
        dense[neighbours.rows[i]] = neighbours.weight[i]
        np.testing.assert_allclose(
            dense, weights_by_definition(x, X, kernel, u, is_neighbour), atol=1e-12
        )
        assert neighbours.n_eff[i] == pytest.approx(dense.sum() ** 2 / (dense**2).sum())


def test_weights_without_positive_distances():
    """Weights are equal if all neighbours coincide with the query point.

    If none is within the radius, the nearest ones are used and flagged. A single neighbour, whose
    distance is u, has weight 1.
    """
    search = NeighbourSearch(np.r_[np.zeros(6), 5.0, 9.0][:, None])
    assert NeighbourWeighting(k=4).find_neighbours(search, np.zeros((1, 1))).weight.tolist() == [
        [1.0] * 4
    ]
    neighbours = NeighbourWeighting(radius=0.5, n_fallback=3).find_neighbours(
        search, np.array([[7.1], [0.0]])
    )
    assert neighbours.empty.tolist() == [True, False] and neighbours.weight.sum(
        axis=1
    ).tolist() == [3.0, 6.0]
    assert sorted(neighbours.rows[0, :2].tolist()) == [6, 7]
    assert NeighbourWeighting(k=1).find_neighbours(search, np.array([[5.5]])).weight.tolist() == [
        [1.0]
    ]
    with pytest.warns(
        UserWarning, match=r"^k=9 is larger than the number of rows, 8: all are used$"
    ):
        assert NeighbourWeighting(k=9, kernel="uniform").find_neighbours(
            search, np.zeros((1, 1))
        ).weight.shape == (1, 8)


@pytest.mark.parametrize(
    "weighting",
    [
        NeighbourWeighting(k=5),
        NeighbourWeighting(k=5, scale="next"),
        NeighbourWeighting(radius=0.7, n_fallback=2),
    ],
)
def test_a_row_is_left_out_of_its_own_neighbourhood(weighting):
    """The result is that of a search without the row, also if equal rows displace it."""
    X = np.r_[normal_rows(20, 1)[:, 0], np.zeros(9)][:, None]
    neighbours = weighting.find_neighbours(NeighbourSearch(X), X, np.arange(29))
    assert (neighbours.rows != np.arange(29)[:, None])[neighbours.weight > 0].all()
    for i in range(29):
        other_rows = np.delete(np.arange(29), i)
        expected = weighting.find_neighbours(NeighbourSearch(X[other_rows]), X[i : i + 1])
        np.testing.assert_allclose(
            np.sort(neighbours.weight[i])[::-1][: expected.weight.size],
            np.sort(expected.weight[0])[::-1][: neighbours.weight.shape[1]],
            atol=1e-12,
        )


def test_radius_finds_all_rows_for_any_eps_and_other_query_points():
    rng = np.random.default_rng(0)
    X, at = rng.normal(size=(3000, 2)), rng.normal(size=(40, 2))
    weighting, search = NeighbourWeighting(radius=0.5), NeighbourSearch(X, eps=3.0)
    together = weighting.find_neighbours(search, at)
    for i, query in enumerate(at):
        inside = np.flatnonzero(np.linalg.norm(X - query, axis=1) < 0.5)
        alone = weighting.find_neighbours(search, query[None])
        for neighbours, row in ((together, i), (alone, 0)):
            assert (
                set(neighbours.rows[row][neighbours.weight[row] > 0]) == set(inside)
                or len(inside) == 0
            )


@pytest.mark.parametrize(("d", "backend"), [(3, "tree"), (3, "brute"), (30, "brute")])
@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_ties_go_to_the_lowest_positions(d, backend, k, offset):
    """Integers repeat most distances; an offset leaves few digits to a sum of squares."""
    rng = np.random.default_rng(d)
    X, at = (offset + rng.integers(0, 2, (n, d)).astype(float) for n in (200, 50))
    squared = ((at[:, None] - X) ** 2).sum(axis=2)  # exact
    distance, rows = NeighbourSearch(X, backend=backend).nearest(at, k)
    expected = np.argsort(squared, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(distance, np.sqrt(np.take_along_axis(squared, expected, axis=1)))


def test_sparse_ties_go_to_the_lowest_positions():
    leaves = np.random.default_rng(0).integers(0, 3, (60, 4))
    X = csr_array(np.hstack([leaves == value for value in range(3)]) / 2.0)
    n_shared = (leaves[:, None] == leaves).sum(axis=2)
    rows = NeighbourSearch(X).nearest(X[:9], 7)[1]
    np.testing.assert_array_equal(rows, np.argsort(-n_shared[:9], axis=1, kind="stable")[:, :7])


def test_brute_force_resolves_ties_as_the_tree_does():
    X = np.random.default_rng(0).integers(0, 2, (300, 12)).astype(float)
    by_brute_force = NeighbourSearch(X, backend="brute").nearest(X[:40], 9)
    by_tree = NeighbourSearch(X, backend="tree").nearest(X[:40], 9)
    np.testing.assert_array_equal(by_brute_force, by_tree)


@pytest.fixture
def searches_with_and_without_heaps(monkeypatch):
    """Return a function of rows that returns two searches by brute force, the second by heaps."""

    def make(X: np.ndarray) -> list[NeighbourSearch]:
        searches = []
        for least in (len(X) + 1, 1):
            monkeypatch.setattr("kdgraph.smoothing.neighbours.HEAP_ROWS", least)
            searches.append(NeighbourSearch(X, backend="brute"))
        monkeypatch.setattr("kdgraph.smoothing.neighbours.HEAP_FRACTION", 0.5)
        monkeypatch.setattr("kdgraph.smoothing.neighbours._FEW_DISTANCES", 0)
        return searches

    return make


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("n_values", [2, 10**6])
@pytest.mark.parametrize("k", [1, 9, 45, 60])
def test_heaps_find_the_rows_of_a_partition(searches_with_and_without_heaps, k, n_values, offset):
    """Also with ties that take more candidates than heaps are used for, which are 100."""
    rng = np.random.default_rng(k)
    X, at = (offset + rng.integers(0, n_values, (n, 12)) / 3 for n in (200, 50))
    by_partition, by_heaps = searches_with_and_without_heaps(X)
    assert by_partition.heaps is None and by_heaps.heaps is not None
    for a, b in zip(by_partition.nearest(at, k), by_heaps.nearest(at, k), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [1e100, 1e155, 1e200])
def test_coordinates_whose_squares_overflow_have_neighbours(searches_with_and_without_heaps, size):
    X, at = normal_rows(60, 12), normal_rows(5, 12, 1)
    at[0] *= size
    expected = np.argsort(cdist(at[1:], X), axis=1)[:, :7]
    by_partition, by_heaps = searches_with_and_without_heaps(X)
    with np.errstate(over="ignore"):
        for search in (by_partition, by_heaps):
            np.testing.assert_array_equal(search.nearest(at, 7)[1][1:], expected)
        np.testing.assert_array_equal(by_partition.nearest(at, 7), by_heaps.nearest(at, 7))
        distant = np.concatenate([X, X[:50] * size])
        assert (searches_with_and_without_heaps(distant)[1].heaps is None) == (size > 1e150)


@pytest.mark.parametrize("d", [3, 30])
@pytest.mark.parametrize("few", [0, 10**6])
def test_distances_of_an_index_of_scikit_learn_have_all_digits(d, few, monkeypatch):
    """Far from the origin, products of matrices give equal rows a distance of about 1e-5."""
    monkeypatch.setattr("kdgraph.smoothing.neighbours._FEW_DISTANCES", few)
    X = np.repeat(1e3 + normal_rows(20, d), 4, axis=0)
    at = np.concatenate([X[:6], X[:6] + 1e-7, 1e3 + normal_rows(6, d, 1)])
    index = NearestNeighbors(n_neighbors=6).fit(X)
    np.testing.assert_allclose(
        distances_of(index, at, 6), np.sort(cdist(at, X), axis=1)[:, :6], rtol=1e-12
    )
    other_distances = cdist(X, X)
    np.fill_diagonal(other_distances, np.inf)
    np.testing.assert_allclose(
        distances_of(index, None, 6), np.sort(other_distances, axis=1)[:, :6], rtol=1e-12
    )


@pytest.mark.parametrize("n_features", [1, 6, 20])
def test_eps_is_honoured_for_any_number_of_features(n_features):
    """Distances may be up to 1 + eps times the true ones, and with a large eps some are longer."""
    X, at = normal_rows(2000, n_features), normal_rows(50, n_features, 1)
    exact = NeighbourSearch(X).nearest(at, 20)[0]
    approximate = NeighbourSearch(X, eps=3.0).nearest(at, 20)[0]
    # 1e-12: the tree and the exact search sum squares in another order.
    assert (approximate <= 4 * exact + 1e-12).all() and (approximate > exact + 1e-9).any()


def test_eps_is_refused_by_an_exact_back_end():
    message = r"^eps=0\.5 needs the tree, and backend=brute is exact; use eps=0$"
    for rows in (normal_rows(30, 3), csr_array(np.eye(3))):
        with pytest.raises(ValueError, match=message):
            NeighbourSearch(rows, eps=0.5, backend="brute")
    with pytest.raises(ValueError, match=message):
        NeighbourSearch(csr_array(np.eye(3)), eps=0.5)


def test_reference_rows_are_an_ordered_random_sample():
    rows = draw_reference_rows(1000, 100, 0)
    assert len(rows) == 100 and (np.diff(rows) > 0).all() and 0 <= rows.min() < rows.max() < 1000
    np.testing.assert_array_equal(rows, draw_reference_rows(1000, 100, 0))
    assert (rows != draw_reference_rows(1000, 100, 1)).any()
    # Each of 20 rows is in one sample in four: 50 of 200, with a standard deviation of 6.
    samples = [draw_reference_rows(20, 5, seed) for seed in range(200)]
    counts = np.bincount(np.concatenate(samples))
    assert counts.min() > 20 and counts.max() < 85


@pytest.mark.parametrize("max_rows", [None, 50, 60])
def test_reference_rows_are_all_rows_if_there_are_no_more(max_rows):
    rng = np.random.RandomState(0)
    assert draw_reference_rows(50, max_rows, rng) == slice(None)
    assert rng.randint(2**31) == np.random.RandomState(0).randint(2**31)


@pytest.mark.parametrize(
    ("k", "n", "n_sampled", "rank"),
    [
        (5, 1000, 1000, 5),
        (200, 1000, 100, 20),
        (5, 1000, 100, 4),
        (3, 1000, 100, 3),
        (5, 1000, 2, 2),
        (1, 1000, 999, 1),
    ],
)
def test_rank_in_a_sample_is_proportional_beyond_the_nearest(k, n, n_sampled, rank):
    assert rank_in_sample(k, n, n_sampled) == rank
