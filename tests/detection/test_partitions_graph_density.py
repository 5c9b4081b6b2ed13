"""Tests of the density of a kernel density graph as a score, near the data and far away."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from kdgraph.density import DensityGate
from kdgraph.detection import GraphDensity
from kdgraph.metrics import auroc

DECADES = np.logspace(1, 99, 50)


def forest():
    return ExtraTreesClassifier(15, random_state=0)


def network():
    from kdgraph.parents.networks import MultilayerPerceptron

    return MultilayerPerceptron(
        hidden=(12,), max_epochs=5, patience=None, device="cpu", random_state=0
    )


@pytest.mark.parametrize("make_parent", [forest, network])
@pytest.mark.parametrize("distance", ["scaled", "whitened", "euclidean", "geodesic"])
def test_score_is_the_log_density_of_the_gate(blobs, make_parent, distance):
    """Compare on the same parent and rows; labels do not change the density of all classes."""
    X, y, distant_rows = blobs
    parent = FrozenEstimator(make_parent().fit(X[:400], y[:400]))
    detector = GraphDensity(parent, distance=distance).fit(X[:400], X_calibration=X[400:])
    gate = DensityGate(parent, distance=distance).fit(
        X[:400], y[:400], X_calibration=X[400:], y_calibration=y[400:]
    )
    rows = np.concatenate([X[400:], distant_rows])
    np.testing.assert_array_equal(detector.score_samples(rows), gate.log_density(rows))
    assert auroc(detector.ood_score(distant_rows), detector.ood_score(X[400:])) == 1


@pytest.mark.parametrize(
    ("make_parent", "distance"), [(forest, "scaled"), (forest, "whitened"), (network, "scaled")]
)
def test_scores_of_distant_rows_are_ordered(blobs, make_parent, distance):
    """Test distances up to the resolution of whitened coordinates and the largest square."""
    X, y, _ = blobs
    detector = GraphDensity(make_parent(), distance=distance, random_state=0).fit(X, y)
    score = detector.ood_score(np.ones((1, 4)) * DECADES[:, None])
    assert (np.diff(score) > 0).all() and np.isfinite(score).all()
    assert detector.ood_score(np.full((1, 4), 1e200)) > score[-1]


def test_missing_labels_and_continuous_targets(blobs):
    X, distant_rows = blobs[0], blobs[2]
    for detector in (
        GraphDensity(forest(), labels="none", random_state=0),
        GraphDensity(RandomForestRegressor(5), random_state=0),
    ):
        fitted = detector.fit(X[:400], None if detector.labels == "none" else X[:400, 0])
        assert auroc(fitted.ood_score(distant_rows), fitted.ood_score(X[400:])) == 1
    with pytest.raises(ValueError, match="GraphDensity requires y to be passed"):
        GraphDensity(forest()).fit(X)


def test_missing_values_require_an_imputer(blobs):
    X, y, _ = blobs
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    assert np.isfinite(
        GraphDensity(make_pipeline(SimpleImputer(), forest()), random_state=0)
        .fit(X, y)
        .ood_score(X)
    ).all()
    with pytest.raises(
        ValueError,
        match=(
            "Input X contains NaN, and GraphDensity measures distances; impute in the parent's"
            " pipeline"
        ),
    ):
        GraphDensity(forest()).fit(X, y)
