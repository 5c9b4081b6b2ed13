"""Whitening by the steps between neighbouring polytopes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import NearestNeighbors

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.density.graph import KernelDensityGraph, PolytopeDistance
from kdgraph.density.whitening import neighbour_whitening
from kdgraph.geometry import partition_of
from kdgraph.metrics import auroc

DISTANCES: tuple[PolytopeDistance, PolytopeDistance] = ("scaled", "whitened")


def draw_correlated(n: int, rng: np.random.Generator, d: int = 4) -> np.ndarray:
    """Draw features that are correlated in pairs."""
    return np.repeat(rng.normal(size=(n, d // 2)), 2, axis=1) + 0.05 * rng.normal(size=(n, d))


def test_whitened_steps_are_uncorrelated_and_of_size_one():
    """Up to a fifth, because neighbours by the fitted axes differ from those that the axes were
    fitted to.
    """
    points = draw_correlated(2000, np.random.default_rng(0))
    along = neighbour_whitening(points)(points)
    nearest = (
        NearestNeighbors(n_neighbors=2).fit(along).kneighbors(along, return_distance=False)[:, 1]
    )
    steps = along - along[nearest]
    covariance = steps.T @ steps / len(steps)
    size = np.sqrt(np.diag(covariance))
    assert np.abs(covariance / np.outer(size, size) - np.eye(4)).max() < 0.1
    assert np.allclose(size, size.mean(), rtol=0.2)


@given(st.integers(0, 2**32 - 1), st.integers(1, 70), st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_whitening_of_a_point_does_not_depend_on_other_points(seed, n, d):
    rng = np.random.default_rng(seed)
    axes = neighbour_whitening(rng.normal(size=(30, d)))
    points = rng.normal(size=(n, d)) * 10 ** rng.uniform(-3, 3)
    one_by_one = np.concatenate([axes(points[i : i + 1]) for i in range(n)])
    np.testing.assert_allclose(
        axes(points), one_by_one, rtol=1e-10, atol=1e-10 * np.abs(one_by_one).max()
    )
    assert np.allclose(
        one_by_one, points @ axes.directions.T, rtol=1e-9, atol=1e-9 * np.abs(one_by_one).max()
    )


@pytest.mark.parametrize(
    "points", [np.zeros((5, 3)), np.ones((2, 3)), np.eye(6)[:, :4], np.arange(4.0)[:, None]]
)
def test_whitening_is_finite_for_nearly_constant_points(points):
    axes = neighbour_whitening(points)
    assert np.isfinite(axes.directions).all()
    assert np.isfinite(axes.log_volume)


@pytest.mark.parametrize("constant", [0.0, 0.1, 0.5, 1e9])
def test_whitening_keeps_the_scale_of_constant_features(constant):
    """Up to a factor of two, because the average step is measured between other neighbours."""
    rng = np.random.default_rng(4)
    X, y = (
        np.column_stack([rng.normal(size=(300, 3)), np.full(300, constant)]),
        rng.integers(2, size=300),
    )
    rows = X[:1] + np.array([[0, 0, 0, 1e-9], [0, 0, 0, 0.1]])
    scaled, whitened = (fit_graph(X, y, distance) for distance in DISTANCES)
    inside_density, moved_density = whitened.log_density(rows)
    assert np.isclose(inside_density, whitened.log_density(X[:1])[0], atol=1e-3)
    assert 2 * scaled.log_density(rows)[1] < moved_density < 0


def test_whitening_cancels_units_of_features():
    rng = np.random.default_rng(1)
    points, unit = draw_correlated(300, rng), np.array([1e-6, 1.0, 1e3, 10.0])
    a, b = (
        neighbour_whitening(points)(points[:5]),
        neighbour_whitening(points * unit)(points[:5] * unit),
    )
    between = [np.linalg.norm(points_[:, None] - points_[None], axis=2) for points_ in (a, b)]
    assert np.allclose(*between, rtol=1e-6)  # Ledoit and Wolf's sums are rounded differently


def fit_graph(X: np.ndarray, y: np.ndarray, distance: PolytopeDistance) -> KernelDensityGraph:
    partition = partition_of(ExtraTreesClassifier(20, random_state=0).fit(X, y))
    return KernelDensityGraph(partition, partition.locate(X), np.eye(2)[y], distance=distance)


def test_whitened_density_integrates_over_the_original_features():
    """For uncorrelated features, both densities agree within half a nat at the median."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 2)) * [1.0, 1e4], rng.integers(2, size=1000)
    sample = rng.normal(size=(500, 2)) * [1.0, 1e4]
    scaled, whitened = (fit_graph(X, y, distance).log_density(sample) for distance in DISTANCES)
    assert abs(np.median(scaled - whitened)) < 0.5


def test_whitened_density_detects_broken_correlations():
    rng = np.random.default_rng(2)
    X, y = draw_correlated(600, rng), rng.integers(2, size=600)
    test = draw_correlated(300, rng)
    broken = np.column_stack([rng.permutation(column) for column in test.T])
    auroc_by_distance = {}
    for distance in DISTANCES:
        graph = fit_graph(X, y, distance)
        auroc_by_distance[distance] = auroc(-graph.log_density(broken), -graph.log_density(test))
    assert 1 - auroc_by_distance["whitened"] < 0.5 * (1 - auroc_by_distance["scaled"])


@pytest.mark.parametrize("kind", [DensityGate, KernelDensityForest])
@pytest.mark.filterwarnings(
    "ignore:.*X_calibration="
)  # the parent is fitted on the calibration rows
def test_whitened_classifiers_tend_to_the_prior(kind):
    X, y = load_wine(return_X_y=True)
    forest = ExtraTreesClassifier(20, random_state=0).fit(X, y)
    model = kind(FrozenEstimator(forest), distance="whitened", random_state=0).fit(X, y)
    far_rows = X[:3] + 10.0 ** np.array([[6], [18], [37]])  # the largest that a forest takes
    assert np.allclose(model.predict_proba(far_rows), model.prior_, atol=1e-8)
    assert np.array_equal(model.predict_proba(X[7:8])[0], model.predict_proba(X)[7])
