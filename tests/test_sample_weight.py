"""Weights of rows count by their ratios alone: a common factor changes nothing, and a row of weight
0 is not there.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.frozen import FrozenEstimator

from kdgraph import DensityGate
from kdgraph.calibration import Refit, Retrained
from kdgraph.parents.networks import (
    MultilayerPerceptronEnsemble,
    MultilayerPerceptronRegressor,
    QuantileNetwork,
)
from tests.test_estimators import ESTIMATORS, PUBLISHED, GroupWiseByPosition, forest, network

QUICK = {"max_epochs": 2, "device": "cpu", "random_state": 0}
X, Y = make_moons(200, noise=0.3, random_state=0)
HELD, HELD_Y = make_moons(120, noise=0.3, random_state=2)
NEW = make_moons(60, noise=0.3, random_state=1)[0]
TAKING = [
    each
    for each in (
        *ESTIMATORS,
        *PUBLISHED,
        DensityGate(forest(), max_mean_shift=0.01, random_state=0),
        network(),
        MultilayerPerceptronEnsemble(hidden=(8,), **QUICK),
        MultilayerPerceptronRegressor(hidden=(8,), **QUICK),
        QuantileNetwork(hidden=(8,), **QUICK),
    )
    if "sample_weight" in inspect.signature(each.fit).parameters
]
AFTER = [
    each
    for each in TAKING
    if "sample_weight_calibration" in inspect.signature(each.fit).parameters
    or hasattr(each, "estimator")
]
ROUNDING = 1e-6
"""Weights divided by their mean differ in the last bits, which a search for a minimum turns into
1e-8; a count would be .005 off.
"""
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*the (confidence|temperature) there is"),
    pytest.mark.filterwarnings("ignore:.*learnt nothing"),
]


def names(estimators) -> list[str]:
    return [f"{type(each).__name__} {number}" for number, each in enumerate(estimators)]


def targets(estimator) -> np.ndarray:
    return X[:, 0] if hasattr(estimator, "predict_dist") else Y


def predictions(fitted) -> list[np.ndarray]:
    found = [
        getattr(fitted, name)(NEW)
        for name in ("predict_proba", "predict_confidence", "ood_score")
        if hasattr(fitted, name)
    ]
    return [fitted.predict_dist(NEW).ppf(0.3)] if hasattr(fitted, "predict_dist") else found


def assert_same(fitted, other) -> None:
    for found, expected in zip(predictions(fitted), predictions(other), strict=True):
        np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING / 10)


@pytest.mark.parametrize("factor", [2.0, 1e-6, 1e12])
@pytest.mark.parametrize("estimator", TAKING, ids=names(TAKING))
def test_a_common_factor_changes_nothing(estimator, factor):
    weight, y = np.random.default_rng(0).integers(1, 4, len(X)).astype(float), targets(estimator)
    assert_same(clone(estimator).fit(X, y, weight * factor), clone(estimator).fit(X, y, weight))


@pytest.mark.parametrize("estimator", TAKING, ids=names(TAKING))
def test_rows_without_weight_are_left_out(estimator):
    weight, y = np.random.default_rng(0).integers(0, 3, len(X)).astype(float), targets(estimator)
    if isinstance(estimator, GroupWiseByPosition):
        pytest.skip("its groups follow from positions, which are others without the rows")
    some = weight > 0
    assert_same(
        clone(estimator).fit(X, y, weight), clone(estimator).fit(X[some], y[some], weight[some])
    )


def behind_a_fitted_parent(estimator):
    if isinstance(estimator, Refit | Retrained):
        pytest.skip("it fits the parent once more, with weights as they are")
    parent = FrozenEstimator(clone(estimator.estimator).fit(X, Y))
    return clone(estimator).set_params(estimator=parent)


def fit_behind(estimator, rows: np.ndarray, weight: np.ndarray):
    more = (
        {"groups_calibration": np.arange(len(HELD))[rows] % 2}
        if isinstance(estimator, GroupWiseByPosition)
        else {}
    )
    held = {
        "X_calibration": HELD[rows],
        "y_calibration": HELD_Y[rows],
        "sample_weight_calibration": weight[rows],
    }
    return clone(estimator).fit(X, Y, **held, **more)


@pytest.mark.parametrize("factor", [2.0, 1e-6])
@pytest.mark.parametrize("estimator", AFTER, ids=names(AFTER))
def test_a_common_factor_of_calibration_rows_changes_nothing(estimator, factor):
    frozen, everything = behind_a_fitted_parent(estimator), np.arange(len(HELD))
    weight = np.random.default_rng(0).integers(1, 4, len(HELD)).astype(float)
    assert_same(
        fit_behind(frozen, everything, weight * factor), fit_behind(frozen, everything, weight)
    )


@pytest.mark.parametrize("estimator", AFTER, ids=names(AFTER))
def test_calibration_rows_without_weight_are_left_out(estimator):
    frozen, everything = behind_a_fitted_parent(estimator), np.arange(len(HELD))
    weight = np.random.default_rng(0).integers(0, 3, len(HELD)).astype(float)
    assert_same(
        fit_behind(frozen, everything, weight), fit_behind(frozen, np.flatnonzero(weight), weight)
    )


@pytest.mark.filterwarnings(
    "ignore:DensityGate takes the"
)  # the rows of fit for unseen ones, which they are
@pytest.mark.parametrize("largest", [1e-300, 1e300])
def test_weights_of_any_size_are_divided_by_a_finite_mean(largest):
    estimator, weight = (
        DensityGate(FrozenEstimator(forest().fit(HELD, HELD_Y)), random_state=0),
        np.arange(1.0, len(X) + 1) / len(X),
    )
    assert_same(clone(estimator).fit(X, Y, weight * largest), clone(estimator).fit(X, Y, weight))


@pytest.mark.parametrize("rows", ["training", "calibration"])
def test_weights_that_are_all_0_are_refused(rows):
    weights = {
        "sample_weight" if rows == "training" else "sample_weight_calibration": np.zeros(120)
    }
    gate = DensityGate(forest(), random_state=0)
    with pytest.raises(
        ValueError, match=r"^Sample weights must contain at least one non-zero number\.$"
    ):
        gate.fit(X[:120], Y[:120], X_calibration=HELD, y_calibration=HELD_Y, **weights)
