"""Search for the nearest mean, by products of matrices and in cells, against exact distances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from kdgraph.smoothing import neighbours
from kdgraph.smoothing.neighbours import NearestMean


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n_means=st.integers(1, 300),
    n_features=st.integers(4, 12),
    log_size=st.floats(-3, 60),
)
@example(seed=0, n_means=2, n_features=4, log_size=39.0)  # beyond numbers of 32 bits
def test_matrix_product_matches_exact_distances(seed, n_means, n_features, log_size):
    rng = np.random.default_rng(seed)
    # Repeated means, and rows on a grid, are at equal distances.
    means = np.round(rng.normal(size=(n_means, n_features)), 1)
    means[rng.integers(n_means, size=n_means // 4)] = means[0]
    rows = np.concatenate(
        [
            np.round(rng.normal(size=(20, n_features)), 1),
            means[rng.integers(n_means, size=10)],
            10**log_size * rng.normal(size=(10, n_features)),
        ]
    )
    search = NearestMean(means + 5, scale=np.linspace(0.5, 2, n_features))
    np.testing.assert_array_equal(search(rows + 5), search.nearest(rows + 5, 1)[:, 0])


@pytest.fixture(scope="module")
def many_means():
    """Return 6,000 means of six features in three clusters, and rows in and around them."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(6000, 6)) + 4 * rng.integers(0, 3, size=(6000, 1))
    rows = np.concatenate([rng.normal(size=(300, 6)), rng.uniform(-10, 20, size=(300, 6))])
    return means, rows


def test_cells_find_one_of_the_nearest_means(many_means):
    means, rows = many_means
    search = NearestMean(means, scale=np.linspace(0.5, 2, 6))
    assert search._cells is not None
    distance = cdist(rows / search.scale, means / search.scale)
    actual = distance[np.arange(len(rows)), search(rows)]
    # The ratio is 1.02 here; all cells would make it 1.
    assert 1 <= (actual / distance.min(axis=1)).mean() < 1.05
    assert (actual < np.median(distance, axis=1)).all()


def test_all_cells_find_the_nearest_means_of_exact_distances(many_means, monkeypatch):
    means, rows = many_means
    search = NearestMean(means)
    monkeypatch.setattr(neighbours, "_N_VISITED", len(means) // neighbours._MEANS_PER_CELL)
    order = np.argsort(cdist(rows, means), axis=1)[:, :5]
    # Distances of 32-bit numbers have the order of exact ones where these differ by 1e-5.
    np.testing.assert_array_equal(search.nearest(rows, 5), order)


def test_results_in_cells_do_not_depend_on_other_rows(many_means):
    means, rows = many_means
    search = NearestMean(means)
    several = search.nearest(rows, 3)
    np.testing.assert_array_equal(search(rows), several[:, 0])
    for i in (0, 17, 599):
        np.testing.assert_array_equal(search.nearest(rows[i : i + 1], 3)[0], several[i])


def test_rows_far_away_and_cells_of_few_means_have_nearest_means(many_means, monkeypatch):
    means, _ = many_means
    means = np.concatenate([means, 1e6 * np.arange(1.0, 51.0)[:, None] * np.ones(6)])
    search = NearestMean(means)
    monkeypatch.setattr(neighbours, "_N_VISITED", 1)
    far = np.array([[1e200] * 6, [-1e30] * 6, [2.7e7] * 6])
    actual = search.nearest(far, 40)
    assert ((actual >= 0) & (actual < len(means))).all()
    # The cell of the means far away has fewer than 40, so that the exact search is used.
    np.testing.assert_array_equal(
        actual[2], np.argsort(cdist(far[2:], means)[0], kind="stable")[:40]
    )


def test_few_features_and_few_means_are_searched_exactly():
    rng = np.random.default_rng(0)
    for shape in ((5000, 3), (4096, 5)):
        means, rows = rng.normal(size=shape), rng.normal(size=(200, shape[1]))
        np.testing.assert_array_equal(NearestMean(means)(rows), cdist(rows, means).argmin(axis=1))
