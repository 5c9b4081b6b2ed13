"""Features of precomputed scores, which feature maps use and calibrators of scores ignore."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from kdgraph.calibration import ScoreMap, Uncalibrated
from kdgraph.calibration.local import DensityRatio, LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning, TemperatureScaling
from kdgraph.data.dataset import Dataset
from kdgraph.features import FeatureMap, features_of
from kdgraph.parents import PrecomputedScores
from kdgraph.runner.stages import fit

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=200)
NET, PIXELS = RNG.normal(size=(200, 2)), RNG.normal(size=(200, 4))
X = np.hstack([P, NET, PIXELS])
Y = np.array([RNG.choice(3, p=p) for p in P])
PARENT = PrecomputedScores((("net", 2), ("pixels", 4))).fit(X)
WITHOUT_FEATURES = PrecomputedScores().fit(P)


@pytest.mark.parametrize(
    "wrap",
    [lambda p: p, FrozenEstimator, lambda p: Uncalibrated(FrozenEstimator(p)).fit(X, Y)],
    ids=["alone", "frozen", "calibrated"],
)
def test_features_are_found_inside_wrappers(wrap):
    parent = wrap(PARENT)
    np.testing.assert_array_equal(features_of(parent, X), NET)
    np.testing.assert_array_equal(features_of(parent, X, "layer", "pixels"), PIXELS)
    np.testing.assert_array_equal(features_of(parent, X, "rows"), X)


def test_rows_are_used_without_features():
    np.testing.assert_array_equal(features_of(FrozenEstimator(WITHOUT_FEATURES), P), P)
    with pytest.raises(
        ValueError,
        match=r"^the given scores have no features; name arrays of the file in dataset.features$",
    ):
        features_of(FrozenEstimator(WITHOUT_FEATURES), P, "layer")


@pytest.mark.parametrize(
    ("calibrator", "method"),
    [
        (TemperatureScaling, "predict_confidence"),
        (HistogramBinning, "predict_confidence"),
        (ScoreMap, "predict_proba"),
    ],
)
# A class with few predictions, all of them correct, has a warning.
@pytest.mark.filterwarnings("ignore:.*the confidence there")
def test_calibrators_of_scores_ignore_features(calibrator, method):
    outputs = []
    for parent, rows in ((PARENT, X), (WITHOUT_FEATURES, P)):
        model = calibrator(FrozenEstimator(parent)).fit(
            rows, Y, X_calibration=rows[:100], y_calibration=Y[:100]
        )
        outputs.append(getattr(model, method)(rows))
    np.testing.assert_array_equal(*outputs)


def test_local_recalibration_uses_features():
    """The expected confidence is Luo et al., Eq. 6, with one bin."""
    features = FeatureMap(source="layer", layer="pixels", reduce="none", scale="none")
    model = LocalRecalibration(FrozenEstimator(PARENT), features=features, bandwidth=0.5, bins=1)
    model.fit(X, Y, X_calibration=X[:100], y_calibration=Y[:100])
    weight = np.exp(-np.abs(PIXELS[100:, None] - PIXELS[None, :100]).sum(axis=2) / (4 * 0.5))
    is_correct = P[:100].argmax(axis=1) == Y[:100]
    np.testing.assert_allclose(
        model.predict_confidence(X[100:]), weight @ is_correct / weight.sum(axis=1), atol=1e-12
    )


def test_proximity_uses_features():
    rows = np.hstack([P, NET + 100 * (np.arange(200) % 2)[:, None]])  # two clusters
    parent = PrecomputedScores((("net", 2),)).fit(rows)
    confidences = [
        DensityRatio(FrozenEstimator(parent))
        .fit(x, Y, X_calibration=x[:100], y_calibration=Y[:100])
        .predict_confidence(x[100:])
        for parent, x in ((parent, rows), (WITHOUT_FEATURES, P))
    ]
    assert np.abs(confidences[0] - confidences[1]).max() > 1e-3


def test_a_run_passes_feature_columns_to_the_parent():
    data = Dataset(
        "custom",
        X,
        Y,
        np.arange(3),
        tuple(map(str, range(9))),
        has_scores=True,
        layer_widths=(("net", 2), ("pixels", 4)),
    )
    parent = fit(
        {"name": "scores", "_target_": "kdgraph.parents.PrecomputedScores"},
        data.rows(np.arange(0)),
        seed=0,
        n_jobs=1,
    )
    np.testing.assert_array_equal(parent.predict_proba(X), P)
    np.testing.assert_array_equal(parent.transform(X, "pixels"), PIXELS)
    swapped_layers = Dataset(
        "custom",
        X,
        Y,
        np.arange(3),
        tuple(map(str, range(9))),
        has_scores=True,
        layer_widths=(("net", 4), ("pixels", 2)),
    )
    assert data.fingerprint != swapped_layers.fingerprint
