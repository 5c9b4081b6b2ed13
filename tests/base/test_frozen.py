"""Calibration after a frozen parent, and the recognition of its training rows."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.base.frozen import was_fitted_on
from kdgraph.calibration import BestCalibrator, LinearPool, ScoreMap, Uncalibrated
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning, TemperatureScaling
from kdgraph.detection import LeafOccupancy, Mahalanobis, MaxProbability, ScoreGate, TreeHamming
from kdgraph.parents import GaussianLinear, NearestNeighbourRegressor, PrecomputedScores
from kdgraph.recalibration import ConformalPit, GlobalPit, LocalPit

rng = np.random.default_rng(7)
X = rng.normal(size=(500, 3))
Y = np.where(X[:, 0] + X[:, 1] ** 2 + rng.normal(size=500) > 1, "ill", "well")
TARGET = X[:, 0] + rng.normal(size=500)
FIT_ROWS, NEW_ROWS = slice(0, 200), slice(200, 400)
ADVICE = "fit(X, y, X_calibration=…, y_calibration=…)"
CALIBRATORS = [
    ScoreMap,
    LinearPool,
    BestCalibrator,
    HistogramBinning,
    TemperatureScaling,
    LocalRecalibration,
]
WITH_TRAINING_ROWS = [KernelDensityForest, DensityGate, ScoreGate, Mahalanobis, LeafOccupancy]
FOREST = RandomForestClassifier(10, random_state=0).fit(X[FIT_ROWS], Y[FIT_ROWS])
NETWORK = LogisticRegression().fit(X[FIT_ROWS], Y[FIT_ROWS])


def frozen_warnings(model, *rows, **calibration) -> list[str]:
    """Return the warnings of a fit about frozen parents, which must point at this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*rows, **calibration)
    records = [warning for warning in caught if "frozen" in str(warning.message)]
    assert all(Path(warning.filename).name == Path(__file__).name for warning in records)
    return [str(warning.message) for warning in records]


@pytest.mark.parametrize("kind", [*CALIBRATORS, *WITH_TRAINING_ROWS, MaxProbability, TreeHamming])
def test_training_rows_of_a_frozen_forest_are_recognised(kind):
    name = kind.__name__
    message = (
        "the 200 {} are those that the frozen RandomForestClassifier was fitted on, where it is"
        f" more confident than on new rows: give {name} held-out rows, {ADVICE}"
    )
    model = kind(FrozenEstimator(FOREST), random_state=0)
    if kind is KernelDensityForest:
        # By default it takes the training rows of a bagged forest as such, out of bag.
        assert frozen_warnings(model, X[FIT_ROWS], Y[FIT_ROWS]) == []
        model.set_params(calibration="held_out")
    if kind is TreeHamming:
        model.set_params(labels="given", set_size=10)
    assert frozen_warnings(model, X[FIT_ROWS], Y[FIT_ROWS]) == [message.format("rows of fit")]
    calibration_rows = {"X_calibration": X[FIT_ROWS], "y_calibration": Y[FIT_ROWS]}
    assert frozen_warnings(model, X[FIT_ROWS], Y[FIT_ROWS], **calibration_rows) == [
        message.format("calibration rows")
    ]
    assert (
        frozen_warnings(
            model, X[FIT_ROWS], Y[FIT_ROWS], X_calibration=X[NEW_ROWS], y_calibration=Y[NEW_ROWS]
        )
        == []
    )


@pytest.mark.parametrize("kind", [ScoreMap, KernelDensityForest, MaxProbability])
def test_possibly_new_rows_count_as_new_with_a_warning(kind):
    expected = (
        f"{kind.__name__} takes the 200 rows of fit for rows that the frozen RandomForestClassifier"
        " was not fitted on; if it was, or to mark them as held out, give calibration rows:"
        f" {ADVICE}"
    )
    assert frozen_warnings(
        kind(FrozenEstimator(FOREST), random_state=0), X[NEW_ROWS], Y[NEW_ROWS]
    ) == [expected]


@pytest.mark.parametrize(
    "parent",
    [FOREST, KNeighborsClassifier(1).fit(X[FIT_ROWS], Y[FIT_ROWS])],
    ids=lambda parent: type(parent).__name__,
)
def test_part_of_the_training_rows_is_recognised_by_correct_predictions(parent):
    rows = slice(50, 150)
    expected = (
        f"the frozen {type(parent).__name__} predicts the labels of all 100 rows of fit correctly,"
        " as those of rows that it was fitted on, where it is more confident than on new rows:"
        f" give ScoreMap held-out rows, {ADVICE}"
    )
    memorised = (parent.predict(X[rows]) == Y[rows]).all()
    assert memorised == isinstance(parent, KNeighborsClassifier)
    forest = RandomForestClassifier(100, random_state=0).fit(X[FIT_ROWS], Y[FIT_ROWS])
    model = ScoreMap(FrozenEstimator(parent if memorised else forest))
    expected = expected.replace(type(parent).__name__, type(model.estimator.estimator).__name__)
    assert frozen_warnings(model, X[rows], Y[rows]) == [expected]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.filterwarnings("ignore:ScoreMap takes the 200 rows of fit")
def test_all_rows_calibrate_like_calibrated_classifier_cv(method):
    reference = CalibratedClassifierCV(FrozenEstimator(NETWORK), method=method).fit(
        X[NEW_ROWS], Y[NEW_ROWS]
    )
    model = ScoreMap(FrozenEstimator(NETWORK), method=method).fit(X[NEW_ROWS], Y[NEW_ROWS])
    explicit = ScoreMap(FrozenEstimator(NETWORK), method=method)
    explicit.fit(X[FIT_ROWS], Y[FIT_ROWS], X_calibration=X[NEW_ROWS], y_calibration=Y[NEW_ROWS])
    expected = reference.predict_proba(X)  # the same fit, up to the last bits of its sums
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    np.testing.assert_allclose(explicit.predict_proba(X), expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*takes the 200 rows of fit")
def test_rows_are_split_if_training_rows_are_required():
    graph = (
        KernelDensityForest(FrozenEstimator(FOREST), random_state=0)
        .fit(X[NEW_ROWS], Y[NEW_ROWS])
        .graph_
    )
    assert len(graph.polytopes.polytope_of_row) == 140
    pool = LinearPool(FrozenEstimator(FOREST), members={"kdf": KernelDensityForest(None)})
    member = pool.set_params(random_state=0).fit(X[NEW_ROWS], Y[NEW_ROWS]).members_["kdf"]
    assert len(member.graph_.polytopes.polytope_of_row) == 140
    recalibrated = LocalPit(
        FrozenEstimator(GaussianLinear().fit(X[FIT_ROWS], TARGET[FIT_ROWS])), k=20
    )
    for feature_space, n in (("input", 200), ("geodesic", 60)):
        model = recalibrated.set_params(feature_space=feature_space, random_state=0).fit(
            X[NEW_ROWS], TARGET[NEW_ROWS]
        )
        assert len(model.pits_) == n
        conformal = ConformalPit(recalibrated.estimator, recalibrated, random_state=0)
        assert len(conformal.fit(X[NEW_ROWS], TARGET[NEW_ROWS]).y_held_out_) == n // 2


def test_frozen_regressors_warn_too():
    parent = FrozenEstimator(NearestNeighbourRegressor(k=20).fit(X[FIT_ROWS], TARGET[FIT_ROWS]))
    expected = (
        "GlobalPit takes the 200 rows of fit for rows that the frozen NearestNeighbourRegressor was"
        f" not fitted on; if it was, or to mark them as held out, give calibration rows: {ADVICE}"
    )
    assert frozen_warnings(GlobalPit(parent, random_state=0), X[NEW_ROWS], TARGET[NEW_ROWS]) == [
        expected
    ]


def test_no_warning_if_unseen_rows_are_not_needed():
    frozen = FrozenEstimator(FOREST)
    for model in (
        Uncalibrated(frozen),
        DensityGate(frozen, partition=RandomForestClassifier(5, random_state=0)),
        TreeHamming(frozen, labels="shuffled", set_size=10),
        ScoreMap(RandomForestClassifier(10)),
    ):
        assert frozen_warnings(model.set_params(random_state=0), X[FIT_ROWS], Y[FIT_ROWS]) == []
    proba = FOREST.predict_proba(X[NEW_ROWS])
    labels = np.searchsorted(FOREST.classes_, Y[NEW_ROWS])
    scores = ScoreMap(FrozenEstimator(PrecomputedScores().fit(proba)), method="sigmoid")
    # Precomputed scores are not trained on rows.
    assert frozen_warnings(scores, proba, labels) == []


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(3, class_weight="balanced", random_state=1),
        RandomForestClassifier(3, max_samples=0.5, random_state=1),
        RandomForestRegressor(3, min_samples_leaf=5, random_state=1),
        ExtraTreesClassifier(3, max_depth=6, random_state=1),
        DecisionTreeClassifier(random_state=1),
        GradientBoostingRegressor(n_estimators=3, max_depth=5, random_state=1),
        make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=1)),
    ],
    ids=[
        "class weights",
        "subsamples",
        "regression forest",
        "extra trees",
        "tree",
        "boosting",
        "pipeline",
    ],
)
def test_tree_ensembles_recognise_their_training_rows(estimator):
    regresses = "Regressor" in type(estimator).__name__
    fitted = estimator.fit(X[FIT_ROWS], TARGET[FIT_ROWS] if regresses else Y[FIT_ROWS])
    assert was_fitted_on(fitted, X[FIT_ROWS]) and was_fitted_on(
        FrozenEstimator(fitted), X[FIT_ROWS]
    )
    assert not was_fitted_on(fitted, X[NEW_ROWS]) and not was_fitted_on(fitted, X[:190])
    frame = pd.DataFrame(X[FIT_ROWS], columns=list("abc"))
    if not hasattr(fitted, "steps"):  # a scaler would warn of names that it was not fitted with
        assert was_fitted_on(fitted, frame)


def test_few_leaves_and_other_models_are_not_recognised():
    stump = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X[FIT_ROWS], Y[FIT_ROWS])
    for parent in (stump, NETWORK, KNeighborsClassifier().fit(X[FIT_ROWS], Y[FIT_ROWS])):
        assert not was_fitted_on(parent, X[FIT_ROWS])
