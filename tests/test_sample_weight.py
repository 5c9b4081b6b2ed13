"""Only ratios of sample weights count: a common factor is irrelevant, and rows of weight 0 are
left out.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.frozen import FrozenEstimator

from kdgraph import DensityGate
from kdgraph.parents.networks import (
    MultilayerPerceptronEnsemble,
    MultilayerPerceptronRegressor,
    QuantileNetwork,
)
from tests.test_estimators import ESTIMATORS, PUBLISHED, GroupWiseByPosition, forest, network
from tests.variations import others_slow

QUICK = {"max_epochs": 2, "device": "cpu", "random_state": 0}
X, Y = make_moons(200, noise=0.3, random_state=0)
X_CALIBRATION, Y_CALIBRATION = make_moons(120, noise=0.3, random_state=2)
X_NEW = make_moons(60, noise=0.3, random_state=1)[0]
WEIGHTED = [
    model
    for model in (
        *ESTIMATORS,
        *PUBLISHED,
        DensityGate(forest(), max_mean_shift=0.01, random_state=0),
        network(),
        MultilayerPerceptronEnsemble(hidden=(8,), **QUICK),
        MultilayerPerceptronRegressor(hidden=(8,), **QUICK),
        QuantileNetwork(hidden=(8,), **QUICK),
    )
    if "sample_weight" in inspect.signature(model.fit).parameters
]
POST_HOC = [
    model
    for model in WEIGHTED
    if "sample_weight_calibration" in inspect.signature(model.fit).parameters
    or hasattr(model, "estimator")
]
ROUNDING = 1e-6
"""Weights divided by their mean differ in the last bits, which a minimisation amplifies to 1e-8. An
incorrect number of rows would change results by .005.
"""
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*the (confidence|temperature) there is"),
    pytest.mark.filterwarnings("ignore:.*learnt nothing"),
]


def estimator_ids(estimators) -> list[str]:
    return [f"{type(model).__name__} {number}" for number, model in enumerate(estimators)]


def targets(estimator) -> np.ndarray:
    return X[:, 0] if hasattr(estimator, "predict_dist") else Y


def predictions(model) -> list[np.ndarray]:
    outputs = [
        getattr(model, name)(X_NEW)
        for name in ("predict_proba", "predict_confidence", "ood_score")
        if hasattr(model, name)
    ]
    return [model.predict_dist(X_NEW).ppf(0.3)] if hasattr(model, "predict_dist") else outputs


def assert_same(model, expected_model) -> None:
    for actual, expected in zip(predictions(model), predictions(expected_model), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=ROUNDING, atol=ROUNDING / 10)


@pytest.mark.parametrize("factor", others_slow([2.0, 1e-6, 1e12], 1e12))
@pytest.mark.parametrize(
    "estimator", others_slow(WEIGHTED, *WEIGHTED[::4]), ids=estimator_ids(WEIGHTED)
)
def test_common_factor_of_weights_is_irrelevant(estimator, factor):
    weight, y = np.random.default_rng(0).integers(1, 4, len(X)).astype(float), targets(estimator)
    assert_same(clone(estimator).fit(X, y, weight * factor), clone(estimator).fit(X, y, weight))


@pytest.mark.parametrize(
    "estimator", others_slow(WEIGHTED, *WEIGHTED[::4]), ids=estimator_ids(WEIGHTED)
)
def test_rows_of_weight_0_are_left_out(estimator):
    weight, y = np.random.default_rng(0).integers(0, 3, len(X)).astype(float), targets(estimator)
    if isinstance(estimator, GroupWiseByPosition):
        pytest.skip("its groups depend on positions, which change without the rows")
    mask = weight > 0
    assert_same(
        clone(estimator).fit(X, y, weight), clone(estimator).fit(X[mask], y[mask], weight[mask])
    )


def freeze_parent(estimator):
    parent = FrozenEstimator(clone(estimator.estimator).fit(X, Y))
    return clone(estimator).set_params(estimator=parent)


def fit_to_calibration_rows(estimator, rows: np.ndarray, weight: np.ndarray):
    groups = (
        {"groups_calibration": np.arange(len(X_CALIBRATION))[rows] % 2}
        if isinstance(estimator, GroupWiseByPosition)
        else {}
    )
    calibration = {
        "X_calibration": X_CALIBRATION[rows],
        "y_calibration": Y_CALIBRATION[rows],
        "sample_weight_calibration": weight[rows],
    }
    return clone(estimator).fit(X, Y, **calibration, **groups)


@pytest.mark.parametrize("factor", others_slow([2.0, 1e-6], 1e-6))
@pytest.mark.parametrize(
    "estimator", others_slow(POST_HOC, *POST_HOC[::4]), ids=estimator_ids(POST_HOC)
)
def test_common_factor_of_calibration_weights_is_irrelevant(estimator, factor):
    frozen, everything = freeze_parent(estimator), np.arange(len(X_CALIBRATION))
    weight = np.random.default_rng(0).integers(1, 4, len(X_CALIBRATION)).astype(float)
    assert_same(
        fit_to_calibration_rows(frozen, everything, weight * factor),
        fit_to_calibration_rows(frozen, everything, weight),
    )


@pytest.mark.parametrize(
    "estimator", others_slow(POST_HOC, *POST_HOC[::4]), ids=estimator_ids(POST_HOC)
)
def test_calibration_rows_of_weight_0_are_left_out(estimator):
    frozen, everything = freeze_parent(estimator), np.arange(len(X_CALIBRATION))
    weight = np.random.default_rng(0).integers(0, 3, len(X_CALIBRATION)).astype(float)
    assert_same(
        fit_to_calibration_rows(frozen, everything, weight),
        fit_to_calibration_rows(frozen, np.flatnonzero(weight), weight),
    )


@pytest.mark.filterwarnings(
    "ignore:DensityGate takes the"
)  # rows of fit as unseen rows, which is correct here
@pytest.mark.parametrize("largest", [1e-300, 1e300])
def test_extreme_weights_have_a_finite_mean(largest):
    estimator, weight = (
        DensityGate(FrozenEstimator(forest().fit(X_CALIBRATION, Y_CALIBRATION)), random_state=0),
        np.arange(1.0, len(X) + 1) / len(X),
    )
    assert_same(clone(estimator).fit(X, Y, weight * largest), clone(estimator).fit(X, Y, weight))


@pytest.mark.parametrize("rows", ["training", "calibration"])
def test_weights_of_0_only_are_refused(rows):
    weights = {
        "sample_weight" if rows == "training" else "sample_weight_calibration": np.zeros(120)
    }
    gate = DensityGate(forest(), random_state=0)
    with pytest.raises(
        ValueError, match=r"^sample_weight is zero in all of 120 rows, and must be above 0 in one;"
    ):
        gate.fit(
            X[:120], Y[:120], X_calibration=X_CALIBRATION, y_calibration=Y_CALIBRATION, **weights
        )
