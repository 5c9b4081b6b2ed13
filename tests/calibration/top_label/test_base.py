"""Scores that differ only by rounding are on the same side of every step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.frozen import FrozenEstimator

from kdgraph.base import FittedModel
from kdgraph.calibration.local import BinMeanShift, DensityRatio, LocalRecalibration
from kdgraph.calibration.top_label import (
    CumulativeConfidence,
    HistogramBinning,
    IsotonicConfidence,
    VennAbers,
)
from kdgraph.calibration.top_label.base import SAME, distinct, first_above, first_from
from kdgraph.features import FeatureMap
from tests.calibration.counted_forest import CountedForest
from tests.companions import RoundedScores, assert_independent

RAW = FeatureMap(source="rows", reduce="none", scale="none")
CALIBRATORS = {
    "cumulative": CumulativeConfidence(None),
    "cumulative from the median": CumulativeConfidence(None, theta="median"),
    "cumulative from the best": CumulativeConfidence(None, theta="best"),
    "Venn-Abers": VennAbers(None),
    "isotonic": IsotonicConfidence(None),
    "bins of equal mass": HistogramBinning(None, strategy="mass"),
    "bins of equal width": HistogramBinning(None),
    "bins of proximity": BinMeanShift(None, features=RAW),
}


@pytest.mark.filterwarnings("ignore:.*the confidence there is")
@pytest.mark.parametrize("name", CALIBRATORS)
def test_rounding_of_parent_scores_does_not_change_the_confidence(name):
    """Without a tolerance the last bit of a score k/40 decides between sides of steps of .1 to .5."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 41, 400) / 40
    X, y = np.column_stack([first, 1 - first]), (rng.random(400) > first).astype(int)
    parent = FrozenEstimator(RoundedScores().fit(X, y))
    model = (
        CALIBRATORS[name]
        .set_params(estimator=parent, random_state=0)
        .fit(X, y, X_calibration=X, y_calibration=y)
    )
    first = (
        np.setdiff1d(np.arange(41), 20) / 40
    )  # for two equal scores the last bit decides the predicted class
    assert_independent(model.predict_confidence, np.column_stack([first, 1 - first]), rng)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.integers(0, 1000))
def test_distinct_is_unique_up_to_rounding(numbers, seed):
    exact = np.array(numbers) / 20
    rounded = exact * (
        1 + np.random.default_rng(seed).integers(-9, 10, len(exact)) * np.finfo(float).eps
    )
    values, position = distinct(rounded)
    expected, expected_position = np.unique(exact, return_inverse=True)
    np.testing.assert_allclose(values, expected, rtol=0, atol=SAME)
    assert position.tolist() == expected_position.tolist()
    low, high = (np.searchsorted(expected, exact, side) for side in ("left", "right"))
    assert (
        first_from(values, rounded).tolist() == low.tolist()
        and first_above(values, rounded).tolist() == high.tolist()
    )


@pytest.mark.parametrize("name", ["histogram", "local", "proximity"])
def test_parent_predicts_once_for_class_and_confidence(name):
    X, y = make_moons(300, noise=0.3, random_state=0)
    forest = FrozenEstimator(CountedForest(10, random_state=0).fit(X[:100], y[:100]))
    calibrator = {
        "histogram": HistogramBinning(forest),
        "local": LocalRecalibration(forest, features=RAW, bandwidth=1.0),
        "proximity": DensityRatio(forest, features=RAW),
    }[name]
    calibrator.fit(X[:100], y[:100], X_calibration=X[100:200], y_calibration=y[100:200])
    model = FittedModel(forest, {"calibrator": calibrator})
    before = CountedForest.n_predictions
    top_label = model.predict_outputs(["top_label"], X[200:])["top_label"]
    assert CountedForest.n_predictions == before + 1
    np.testing.assert_array_equal(
        calibrator.classes_[top_label.predicted], calibrator.predict(X[200:])
    )
    np.testing.assert_array_equal(top_label.confidence, calibrator.predict_confidence(X[200:]))
