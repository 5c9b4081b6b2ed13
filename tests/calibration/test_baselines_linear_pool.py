"""The linear pool against the mean of separately fitted members."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph import DensityGate
from kdgraph.calibration import LinearPool, ScoreMap
from kdgraph.errors import ParameterError
from kdgraph.metrics import nll
from tests.calibration.counted_forest import CountedForest


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(900, 6, n_informative=4, n_classes=3, random_state=0)
    y = np.array(["c", "a", "b"])[y]
    return X[:300], y[:300], X[300:600], y[300:600], X[600:], y[600:]


@pytest.fixture(scope="module")
def parent(rows):
    return FrozenEstimator(RandomForestClassifier(40, random_state=0).fit(*rows[:2]))


def predict_with_map(parent, rows, method):
    X, y, X_calibration, y_calibration, X_test, _ = rows
    calibrator = ScoreMap(parent, method=method).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    return calibrator.predict_proba(X_test)


def test_pool_is_the_mean_of_its_members(parent, rows):
    X, y, X_calibration, y_calibration, X_test, y_test = rows
    pool = LinearPool(parent).fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    members = [predict_with_map(parent, rows, method) for method in ("temperature", "isotonic")]
    np.testing.assert_allclose(
        pool.predict_proba(X_test), (members[0] + members[1]) / 2, rtol=1e-15
    )
    # the logarithm is concave: the NLL of the pool is at most the mean NLL of the members
    code = np.searchsorted(pool.classes_, y_test)
    assert (
        nll(code, pool.predict_proba(X_test))
        <= np.mean([nll(code, proba) for proba in members]) + 1e-12
    )


def test_parent_predicts_once_for_all_members(rows):
    X, y, X_calibration, y_calibration, X_test, _ = rows
    forest = CountedForest(10, random_state=0).fit(X, y)
    pool = LinearPool(FrozenEstimator(forest), members=None)
    pool.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    before = CountedForest.n_predictions
    pool.predict_proba(X_test)
    assert CountedForest.n_predictions == before + 1


def test_members_can_be_passed(parent, rows):
    X, y, X_calibration, y_calibration, X_test, _ = rows
    pool = LinearPool(parent, members={"platt": ScoreMap(None, method="sigmoid")})
    pool.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    assert np.array_equal(pool.predict_proba(X_test), predict_with_map(parent, rows, "sigmoid"))
    with pytest.raises(ParameterError, match="members must name at least one calibrator, got none"):
        LinearPool(parent, members={}).fit(
            X, y, X_calibration=X_calibration, y_calibration=y_calibration
        )


def test_gate_finds_the_forest_in_the_pool(parent, rows):
    X, y, X_calibration, y_calibration, *_ = rows
    gate = DensityGate(LinearPool(parent), max_mean_shift=0.005).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    assert gate.graph_.partition.forest is parent.estimator
    np.testing.assert_allclose(
        gate.predict_proba(X[:5] + 100), np.tile(gate.prior_, (5, 1)), atol=1e-8
    )
