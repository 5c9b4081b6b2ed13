"""Recognition of the rows of a fit, calibration after frozen parents, and out-of-bag rows."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multinomial, multivariate_hypergeom
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
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
from sklearn.preprocessing import StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeClassifier

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.base import frozen
from kdgraph.base.frozen import was_fitted_on
from kdgraph.base.rows import OutOfBag
from kdgraph.calibration import BestCalibrator, LinearPool, ScoreMap, Uncalibrated
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning, TemperatureScaling
from kdgraph.detection import LeafOccupancy, Mahalanobis, MaxProbability, ScoreGate, TreeHamming
from kdgraph.errors import DataError
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
        f" more confident than on new rows: give {name} held-out rows, {ADVICE}, or"
        " calibration='oob' and none"
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
def test_subset_of_training_rows_is_recognised(parent):
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


def nearly_separable_table(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return 215 rows of five features and of three classes with 150, 35 and 30 rows."""
    rng = np.random.default_rng(seed)
    centre = np.array([[110, 9, 2, 1.3, 2.5], [90, 18, 4, 1, 0], [125, 4, 1, 13, 15]])
    spread = np.array([[6, 1.5, 0.3, 0.4, 0.8], [8, 2.5, 1, 0.3, 0.5], [6, 1.2, 0.4, 4, 6]])
    y = np.repeat([0, 1, 2], [150, 35, 30])
    return centre[y] + spread[y] * rng.normal(size=(215, 5)), y


EASY_TABLES = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "nearly separable": nearly_separable_table(),
}


@pytest.mark.parametrize("name", EASY_TABLES)
def test_forests_of_few_leaves_recognise_their_training_rows(name):
    rows, labels = EASY_TABLES[name]
    forest = RandomForestClassifier(30, random_state=0).fit(rows, labels)
    assert forest.estimators_[0].get_n_leaves() < 12  # a single tree is no evidence
    assert was_fitted_on(forest, rows)
    assert not was_fitted_on(forest, rows[::-1])
    half = np.random.default_rng(0).permutation(len(rows))[: len(rows) // 2]
    others = np.setdiff1d(np.arange(len(rows)), half)[: len(half)]
    forest.fit(rows[half], labels[half])
    assert was_fitted_on(forest, rows[half]) and not was_fitted_on(forest, rows[others])


@pytest.mark.parametrize("name", EASY_TABLES)
def test_kdf_after_a_frozen_forest_equals_one_fitted_together(name):
    rows, labels = EASY_TABLES[name]
    forest = RandomForestClassifier(30, random_state=0)
    unfrozen = KernelDensityForest(forest, random_state=0).fit(rows, labels)
    frozen = KernelDensityForest(FrozenEstimator(clone(forest).fit(rows, labels)), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frozen.fit(rows, labels)
    assert frozen.calibration_ == unfrozen.calibration_ == "oob"
    np.testing.assert_array_equal(frozen.predict_proba(rows), unfrozen.predict_proba(rows))
    assert frozen.log_floor_ == unfrozen.log_floor_


@pytest.mark.parametrize("bootstrap", [True, False])
def test_other_rows_are_hardly_ever_taken_for_those_of_a_fit(bootstrap):
    """Two leaves of two classes: one tree matches other rows often, many never do."""
    kinds = RandomForestClassifier if bootstrap else ExtraTreesClassifier
    n_matches = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        labels, other_labels = rng.integers(2, size=(2, 40))
        rows, other_rows = labels[:, None] + 0.1 * rng.normal(size=(40, 1)), other_labels[:, None]
        forest = kinds(30, random_state=seed).fit(rows, labels)
        assert was_fitted_on(forest, rows) == bootstrap  # without samples, all trees are alike
        n_matches += was_fitted_on(forest, other_rows)
    assert n_matches == 0


def test_chance_of_a_sample_is_multivariate_hypergeometric():
    rng = np.random.default_rng(0)
    leaves, is_in = rng.integers(1, 6, size=50), rng.random(50) < 0.6
    total, inside = np.bincount(leaves)[1:], np.bincount(leaves[is_in], minlength=6)[1:]
    expected = multivariate_hypergeom.logpmf(inside, total, is_in.sum())
    assert frozen._log_chance_of_sample(leaves, is_in) == pytest.approx(expected, rel=1e-10)


def test_chance_of_counts_is_the_largest_multinomial():
    counts = np.array([7, 0, 12, 1])
    own = frozen._log_chance_of_counts(counts)
    assert own == pytest.approx(multinomial.logpmf(counts, 20, counts / 20), rel=1e-10)
    others = np.random.default_rng(0).dirichlet(np.ones(4), size=1000)
    assert (multinomial.logpmf(counts, 20, others) <= own).all()


OUT_OF_BAG = (
    "calibration='oob' needs the rows that the {} was fitted on, as it got them and in their"
)


class UnderSampledForest(RandomForestClassifier):
    """Forest of a user that is fitted on the first rows of each class, equally many."""

    def fit(self, X, y, sample_weight=None):
        size = np.unique(y, return_counts=True)[1].min()
        rows = np.concatenate([np.flatnonzero(y == label)[:size] for label in np.unique(y)])
        return super().fit(X[rows], y[rows])


class ShufflingForest(RandomForestClassifier):
    """Forest of a user that is fitted on all rows in another order."""

    def fit(self, X, y, sample_weight=None):
        order = np.random.default_rng(0).permutation(len(X))
        return super().fit(X[order], y[order])


@pytest.mark.parametrize(
    ("forest", "evidence"),
    [
        (UnderSampledForest(20, random_state=0), r"it got \d+ rows, not 500"),
        (ShufflingForest(20, random_state=0), "these 500 rows fill its leaves otherwise"),
    ],
    ids=["fewer rows", "another order"],
)
@pytest.mark.parametrize("is_frozen", [False, True])
def test_out_of_bag_behind_other_rows_is_refused_with_a_way_out(forest, evidence, is_frozen):
    parent = FrozenEstimator(clone(forest).fit(X, Y)) if is_frozen else forest
    with pytest.raises(DataError, match=evidence) as caught:
        ScoreMap(parent, calibration="oob").fit(X, Y)
    assert str(caught.value).startswith(OUT_OF_BAG.format(type(forest).__name__))
    assert str(caught.value).endswith("; pass those, or use calibration='cross_fit'")
    ScoreMap(parent, calibration="cross_fit", cv=2).fit(X, Y)  # the remedy works


def test_rows_after_a_sampler_are_refused_out_of_bag():
    reason = "the samplers are those of imbalanced-learn"
    under_sampling = pytest.importorskip("imblearn.under_sampling", reason=reason)
    pipeline = pytest.importorskip("imblearn.pipeline", reason=reason)
    parent = pipeline.make_pipeline(
        under_sampling.RandomUnderSampler(random_state=0),
        StandardScaler(),
        RandomForestClassifier(20, random_state=0),
    )
    with pytest.raises(DataError, match="rows, not 500"):
        OutOfBag(parent.fit(X, Y), X)
    assert ScoreMap(parent, calibration="cross_fit", cv=2).fit(X, Y).predict_proba(X).shape == (
        500,
        2,
    )


def test_forests_with_balanced_trees_are_refused_out_of_bag():
    ensemble = pytest.importorskip(
        "imblearn.ensemble", reason="the forest is that of imbalanced-learn"
    )
    forest = ensemble.BalancedRandomForestClassifier(
        10, bootstrap=True, replacement=False, sampling_strategy="all", random_state=0
    )
    with pytest.raises(DataError, match="does not record which rows each tree was fitted on"):
        OutOfBag(forest.fit(X, Y), X)


def test_trees_added_on_other_rows_are_refused_out_of_bag():
    forest = RandomForestClassifier(10, warm_start=True, random_state=0).fit(X, Y)
    forest.set_params(n_estimators=20).fit(X[::-1], Y[::-1])
    for rows in (X, X[::-1]):
        with pytest.raises(DataError, match="these 500 rows fill its leaves otherwise"):
            OutOfBag(forest, rows)


@pytest.mark.parametrize(
    "transformer",
    [TargetEncoder(), PCA(2, svd_solver="randomized", iterated_power=0, random_state=0)],
    ids=["target encoder", "approximate components"],
)
def test_rows_changed_after_the_fit_of_a_transformer_are_refused(transformer):
    """A target encoder leaves the label of a training row out of its code, and no new row."""
    codes = np.random.default_rng(0).integers(30, size=(500, 20)).astype(float)
    parent = make_pipeline(transformer, RandomForestClassifier(20, random_state=0))
    with pytest.raises(DataError, match="these 500 rows fill its leaves otherwise"):
        ScoreMap(parent, calibration="oob").fit(codes, Y)


def test_kdf_uses_folds_if_a_step_changes_rows():
    rows = np.random.default_rng(0).normal(size=(500, 20))
    approximate = PCA(2, svd_solver="randomized", iterated_power=0, random_state=0)
    parent = make_pipeline(approximate, RandomForestClassifier(20))
    model = KernelDensityForest(parent, cv=2, random_state=0)
    expected = clone(model).set_params(calibration="cross_fit").fit(rows, Y)
    with pytest.warns(UserWarning, match="cannot find out") as caught:
        model.fit(rows, Y)
    assert str(caught[0].message) == (
        "KernelDensityForest cannot find out which of the 500 rows are out of bag in"
        " RandomForestClassifier, and fits it on folds besides, as calibration='cross_fit' does"
    )
    assert model.calibration_ == "cross_fit"
    np.testing.assert_array_equal(model.predict_proba(rows), expected.predict_proba(rows))
    with pytest.raises(DataError):
        model.set_params(calibration="oob").fit(rows, Y)
