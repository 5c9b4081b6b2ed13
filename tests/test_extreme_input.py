"""Weights and numbers of any size in front of every public estimator: one line, or finite numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from kdgraph import DensityGate
from kdgraph.base.validation import check_weights
from kdgraph.calibration import GroupWise, ScoreMap
from kdgraph.detection import Entropy, LeafBox
from kdgraph.errors import DataError
from kdgraph.parents import (
    ExtraTreesOutcomes,
    GammaGlm,
    GaussianLinear,
    NearestNeighbourRegressor,
    RandomForestOutcomes,
)
from kdgraph.parents.networks import (
    MultilayerPerceptron,
    MultilayerPerceptronRegressor,
    QuantileNetwork,
)
from kdgraph.recalibration import LocalisedConformalPit, LocalPit
from tests.test_estimator_errors import CLASSIFIERS, build

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=60) > 0).astype(int)
FOREST = RandomForestClassifier(5, random_state=0)
NETWORKS = [
    MultilayerPerceptron(hidden=(4,), max_epochs=1, device="cpu", random_state=0),
    MultilayerPerceptronRegressor(hidden=(4,), max_epochs=1, device="cpu", random_state=0),
    QuantileNetwork(hidden=(4,), max_epochs=1, device="cpu", random_state=0),
]
OUTCOMES = [RandomForestOutcomes(3, random_state=0), ExtraTreesOutcomes(3, random_state=0)]
WEIGHTED = [
    *(ScoreMap(FOREST), DensityGate(FOREST), GroupWise(FOREST, ScoreMap(None))),
    *NETWORKS,
    *OUTCOMES,
]


def with_one(value: float, row: int = 3) -> np.ndarray:
    weight = np.ones(60)
    weight[row] = value
    return weight


def beyond(value: float) -> np.ndarray:
    rows = X.copy()
    rows[3, 1] = value
    return rows


def name_of(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("model", WEIGHTED, ids=name_of)
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (with_one(-1), "sample_weight must be finite and at least 0, got -1 in row 3; give 0"),
        (with_one(np.inf), "sample_weight must be finite and at least 0, got inf in row 3; give"),
        (with_one(np.nan), "sample_weight must be finite and at least 0, got nan in row 3; give"),
        (np.zeros(60), "sample_weight is zero in all of 60 rows, and must be above 0 in one; leav"),
        (
            np.full(60, 1e308),
            "sample_weight is up to 1e+308 and has no finite sum over 60 rows; di",
        ),
    ],
    ids=["negative", "infinite", "missing", "zero", "huge"],
)
def test_unusable_weights_are_refused_with_value_rule_and_way_out(model, weight, message):
    groups = {"groups": np.arange(60) % 2} if isinstance(model, GroupWise) else {}
    with pytest.raises(DataError) as caught:
        clone(model).fit(X, Y, weight, **groups)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_weights_of_any_finite_sum_are_kept():
    np.testing.assert_array_equal(check_weights(with_one(1e308), X), with_one(1e308))
    np.testing.assert_array_equal(check_weights(None, X), np.ones(60))
    np.testing.assert_array_equal(check_weights(2.0, X), np.full(60, 2.0))


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("value", [1e39, -1e300])
def test_numbers_beyond_float32_are_refused_after_a_forest(name, value):
    model = build(name, FOREST)
    groups = {"groups": np.arange(60) % 2} if isinstance(model, GroupWise) else {}
    with pytest.raises((DataError, TypeError)) as caught:  # TypeError: no model for a forest
        model.fit(beyond(value), Y, **groups)
    refuses_forest = "RandomForestClassifier" in str(caught.value) and "network" in str(
        caught.value
    )
    assert refuses_forest or str(caught.value) == (
        f"column 1 has {value:g} in row 3, beyond single precision, in which RandomForestClassifier"
        " computes, at 3.4e+38; correct it, or scale the columns: make_pipeline(MaxAbsScaler(),"
        " RandomForestClassifier())"
    )


@pytest.mark.parametrize("model", [*NETWORKS, *OUTCOMES], ids=name_of)
def test_numbers_beyond_float32_are_refused_by_the_model(model):
    with pytest.raises(DataError, match="column 1 has 1e\\+39 in row 3, beyond single precision"):
        clone(model).fit(beyond(1e39), Y)


@pytest.mark.parametrize("value", [1e39, 1e300])
def test_scaled_columns_of_any_size_are_fitted(value):
    """Return the remedy of the message."""
    scaled = make_pipeline(MaxAbsScaler(), RandomForestClassifier(5, random_state=0))
    proba = DensityGate(scaled, random_state=0).fit(beyond(value), Y).predict_proba(beyond(value))
    assert np.isfinite(proba).all()


@pytest.mark.parametrize("model", [NearestNeighbourRegressor(k=5), GammaGlm()], ids=name_of)
def test_numbers_without_a_finite_square_are_refused(model):
    with pytest.raises(DataError, match="beyond finite squares of distances at 1e\\+150"):
        model.fit(beyond(1e300), Y + 1.0)


@pytest.mark.parametrize("model", [LocalPit, LocalisedConformalPit])
def test_rows_to_predict_may_be_as_far_as_numbers_go(model):
    fitted = model(GaussianLinear(), random_state=0).fit(X, X[:, 0] + RNG.normal(size=60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distribution = fitted.predict_dist(beyond(1e300)[3:4])
    assert np.isfinite(distribution.ppf(0.5)).all()


@pytest.mark.parametrize("detector", [Entropy, LeafBox])
@pytest.mark.parametrize("n_rows", [3, 4])
def test_detectors_of_few_rows_leave_each_class_to_the_parent(detector, n_rows):
    labels = np.array([0, 1, 0, 0])[:n_rows]
    for seed in range(5):
        parent = LogisticRegression() if detector is Entropy else FOREST
        fitted = detector(parent, random_state=seed).fit(X[:n_rows], labels)
        assert fitted.estimator_.classes_.tolist() == [0, 1]
