"""scikit-learn's checks for every estimator of the library."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import _num_samples

from kdgraph import DensityGate, KernelDensityForest, KernelDensityNetwork
from kdgraph.calibration import (
    BestCalibrator,
    ConformalClassifier,
    DirichletCalibration,
    GroupWise,
    LinearPool,
    MatrixScaling,
    OdinCalibration,
    ScoreMap,
    Uncalibrated,
)
from kdgraph.calibration.local import (
    BinMeanShift,
    DensityRatio,
    LocalClassShares,
    LocalRecalibration,
)
from kdgraph.calibration.top_label import (
    BestConfidence,
    BetaCalibration,
    ClassPrecision,
    CrossFittedConfidence,
    CumulativeConfidence,
    HistogramBinning,
    IsotonicConfidence,
    KernelDensityConfidence,
    TemperatureScaling,
    VennAbers,
)
from kdgraph.density.published import Figure1Forest, Figure1Network, PaperForest, ReferenceForest
from kdgraph.detection import (
    GraphDensity,
    LeafBox,
    Mahalanobis,
    PostHocDetector,
    ScoreGate,
    SetDetector,
    SetMean,
    SetStatisticDetector,
    TreeHamming,
)
from kdgraph.parents import (
    ExtraTreesOutcomes,
    GammaGlm,
    GaussianLinear,
    NearestNeighbourRegressor,
    QuantileBoosting,
    RandomForestOutcomes,
)
from kdgraph.parents.networks import (
    MonteCarloDropout,
    MultilayerPerceptron,
    MultilayerPerceptronEnsemble,
    MultilayerPerceptronRegressor,
    QuantileNetwork,
)
from kdgraph.parents.networks.exposure import OutlierExposure
from kdgraph.parents.preprocessing import SelectAndLog
from kdgraph.recalibration import (
    ConformalPit,
    DensityPit,
    GlobalPit,
    LocalisedConformalPit,
    LocalPit,
)
from tests.detection.test_contract import DETECTORS as DETECTOR_CLASSES
from tests.detection.test_contract import minimal_parent, supported_parameters
from tests.sklearn_checks import with_checks

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight two is drawn once, two equal rows twice: by the split that holds rows out,"
        " and by the bootstrap of the forest, for which scikit-learn lists the same failure, or the"
        " batches of the network"
    )
}
PAPER = EXPECTED_FAILURES | {
    "check_classifiers_train": (
        "the floor printed in the paper takes most rows to the prior, the training rows of this"
        " check among them"
    )
}


def forest(n_trees: int = 5) -> RandomForestClassifier:
    """Return a forest that is fitted to the blobs of the checks in 5 ms."""
    return RandomForestClassifier(n_trees, random_state=0)


def tree() -> DecisionTreeClassifier:
    """Return a tree that is fitted to the blobs of the checks in 1 ms.

    It is the parent of estimators that use only its predictions.
    """
    return DecisionTreeClassifier(max_depth=4, random_state=0)


def network() -> MultilayerPerceptron:
    """Return a network that is fitted to the blobs of the checks in 40 ms."""
    return MultilayerPerceptron(
        hidden=(16,),
        learning_rate=0.1,
        batch_size=32,
        max_epochs=4,
        patience=None,
        device="cpu",
        random_state=0,
    )


class GroupWiseByPosition(GroupWise):
    """GroupWise with groups by position, because the checks pass no groups."""

    def fit(self, X, y, sample_weight=None, **calibration):
        return super().fit(
            X, y, sample_weight, groups=np.arange(_num_samples(X)) % 2, **calibration
        )


PUBLISHED = [
    *(
        version(forest(20), random_state=0)
        for version in (PaperForest, ReferenceForest, Figure1Forest)
    ),
    Figure1Network(network(), random_state=0),
]
"""Published versions of the kernel density graph."""
QUICK = {"sts": TemperatureScaling(None), "isotonic": IsotonicConfidence(None, pool=10.0)}
"""Candidates that are fitted in 10 ms, without the choice among pools of the default ones."""
ESTIMATORS = [
    KernelDensityForest(forest(), random_state=0),
    KernelDensityNetwork(network(), random_state=0),
    KernelDensityForest(make_pipeline(SimpleImputer(), forest()), random_state=0),
    DensityGate(forest(), random_state=0),
    DensityGate(network(), random_state=0),
    ScoreGate(forest(), random_state=0),
    ScoreGate(network(), detector=Mahalanobis(None), random_state=0),
    Uncalibrated(forest(), random_state=0),
    ScoreMap(tree(), method="isotonic", random_state=0),
    ScoreMap(tree(), method="sigmoid", random_state=0),
    ScoreMap(tree(), method="temperature", random_state=0),
    ScoreMap(network(), method="temperature", random_state=0),
    OdinCalibration(network(), random_state=0),
    BestCalibrator(tree(), folds=2, random_state=0),
    LinearPool(tree(), random_state=0),
    MatrixScaling(tree(), random_state=0),
    MatrixScaling(tree(), structure="vector", mix_before_temperature=False, random_state=0),
    DirichletCalibration(tree(), folds=2, random_state=0),
    ClassPrecision(tree(), random_state=0),
    HistogramBinning(tree(), random_state=0),
    CumulativeConfidence(tree(), theta="best", random_state=0),
    KernelDensityConfidence(tree(), random_state=0),
    KernelDensityConfidence(
        tree(), bandwidth="b_opt", condition="all", boundary="reflect", random_state=0
    ),
    TemperatureScaling(tree(), random_state=0),
    TemperatureScaling(tree(), by_class=True, awards=True, fallback="shared", random_state=0),
    TemperatureScaling(network(), awards=True, ridge=1.0, random_state=0),
    BetaCalibration(tree(), random_state=0),
    VennAbers(tree(), random_state=0),
    IsotonicConfidence(tree(), random_state=0),
    HistogramBinning(tree(), pool="cv", random_state=0),
    TemperatureScaling(tree(), by_class=True, pool=10.0, random_state=0),
    BestConfidence(tree(), candidates=QUICK, folds=2, random_state=0),
    CrossFittedConfidence(tree(), calibrator=TemperatureScaling(None), folds=2, random_state=0),
    LocalRecalibration(forest(), random_state=0),
    LocalRecalibration(network(), bins="cv", random_state=0),
    LocalClassShares(forest(), bins="cv", random_state=0),
    DensityRatio(forest(), random_state=0),
    BinMeanShift(network(), random_state=0),
    GroupWiseByPosition(tree(), ScoreMap(None, method="temperature"), random_state=0),
    ConformalClassifier(tree(), random_state=0),
    ConformalClassifier(tree(), conformity_score="raps", conditional="class", random_state=0),
    GaussianLinear(),
    GlobalPit(GaussianLinear(), random_state=0),
    ConformalPit(GaussianLinear(), LocalPit(None), random_state=0),
    LocalisedConformalPit(GaussianLinear(), LocalPit(None), random_state=0),
    DensityPit(GaussianLinear(), max_epochs=2, random_state=0),
]


WITHOUT_HOLD_OUT = [
    KernelDensityForest(forest(20), calibration="oob", random_state=0),
    KernelDensityForest(forest(), calibration="cross_fit", cv=2, random_state=0),
    KernelDensityNetwork(network(), calibration="cross_fit", cv=2, random_state=0),
    DensityGate(forest(), calibration="oob", random_state=0),
    DensityGate(forest(20), calibration="oob", max_mean_shift=0.01, random_state=0),
    DensityGate(tree(), calibration="cross_fit", max_mean_shift=0.01, cv=2, random_state=0),
    DensityGate(ScoreMap(forest(20)), partition=forest(), calibration="oob", random_state=0),
    ScoreGate(ScoreMap(forest(20)), calibration="oob", random_state=0),
    ScoreGate(tree(), detector=GraphDensity(None), calibration="cross_fit", cv=2, random_state=0),
    Uncalibrated(forest(20), calibration="oob", random_state=0),
    ScoreMap(forest(20), method="isotonic", calibration="oob", random_state=0),
    ScoreMap(network(), method="sigmoid", calibration="cross_fit", cv=2, random_state=0),
    OdinCalibration(network(), calibration="cross_fit", cv=2, random_state=0),
    BestCalibrator(forest(20), folds=2, calibration="oob", random_state=0),
    LinearPool(forest(20), calibration="oob", random_state=0),
    HistogramBinning(forest(20), calibration="oob", random_state=0),
    TemperatureScaling(tree(), calibration="cross_fit", cv=2, random_state=0),
    BestConfidence(forest(20), candidates=QUICK, folds=2, calibration="oob", random_state=0),
    LocalRecalibration(forest(20), calibration="oob", random_state=0),
    DensityRatio(forest(20), calibration="oob", random_state=0),
    GroupWiseByPosition(
        forest(20), ScoreMap(None, method="temperature"), calibration="oob", random_state=0
    ),
    GlobalPit(GaussianLinear(), calibration="cross_fit", cv=2, random_state=0),
    ConformalPit(GaussianLinear(), LocalPit(None), calibration="cross_fit", cv=2, random_state=0),
    LocalisedConformalPit(
        GaussianLinear(), LocalPit(None), calibration="cross_fit", cv=2, random_state=0
    ),
]
"""Estimators that hold no row out."""


QUICK_NETWORK = {
    "hidden": (16,),
    "learning_rate": 0.1,
    "batch_size": 32,
    "max_epochs": 5,
    "device": "cpu",
    "random_state": 0,
}
"""Options of a network that is fitted to the blobs of the checks in 50 ms."""
PARENTS = [
    MultilayerPerceptron(**QUICK_NETWORK),
    MultilayerPerceptron(
        **QUICK_NETWORK,
        patience=None,
        optimizer="sgd",
        batch_norm=True,
        dropout=0.1,
        exposure=OutlierExposure(start="trained", epochs=2),
    ),
    MultilayerPerceptron(
        **QUICK_NETWORK,
        loss="mmce",
        mmce_weight=(0.0, 2.0),
        stop_on="validation_accuracy",
        dropout=[0.1],
    ),
    MultilayerPerceptronEnsemble(members=3, **QUICK_NETWORK),
    MultilayerPerceptronRegressor(**QUICK_NETWORK, patience=None),
    MultilayerPerceptronRegressor(**QUICK_NETWORK, patience=5, head="normal_scale", dropout=0.1),
    MonteCarloDropout(**QUICK_NETWORK, dropout=0.1, masks=20, patience=None),
    QuantileNetwork(**QUICK_NETWORK, levels=(0.1, 0.25, 0.5, 0.9), patience=None),
    GammaGlm(),
    GammaGlm(dispersion="ml"),
    NearestNeighbourRegressor(k=5),
    RandomForestOutcomes(n_estimators=5, min_samples_leaf=1, random_state=0),
    ExtraTreesOutcomes(n_estimators=5, min_samples_leaf=1, random_state=0),
    QuantileBoosting(levels=(0.25, 0.75), max_iter=50, min_samples_leaf=5, patience=None),
    SelectAndLog([0]),
]


def unsupervised(cls: type[PostHocDetector]) -> PostHocDetector:
    """Return a detector without labels if possible; its network is trained for one epoch only."""
    parent = minimal_parent(cls)
    parent = parent.set_params(max_epochs=1) if cls.required_partition == "network" else parent
    return cls(
        parent,
        target_fpr=0.3,
        random_state=0,
        **supported_parameters(
            cls, {"labels": "none", "detector": LocalOutlierFactor(3), "classifier": "logistic"}
        ),
    )


DETECTORS = [
    *(unsupervised(cls) for cls in DETECTOR_CLASSES),
    TreeHamming(forest(20), labels="given", random_state=0),
    TreeHamming(make_pipeline(SimpleImputer(), forest(20)), level="set", random_state=0),
]

NO_LABELS = dict.fromkeys(
    ("check_outliers_train", "check_outliers_fit_predict"),
    "the check fits without labels, and the parent needs them",
)
SET_SCORES = {
    "check_methods_subset_invariance": "the score of a row depends on the rows of its set"
}
SET_PREDICTIONS = dict.fromkeys(
    ("check_outliers_train", "check_outliers_fit_predict"),
    "all rows of a set have the same prediction",
)
BOOTSTRAP = {
    f"check_sample_weight_equivalence_on_{kind}_data": "bootstrap samples differ"
    for kind in ("dense", "sparse")
}


def expected_failures(estimator) -> dict[str, str]:
    """Return check → reason why the estimator does not pass it."""
    if isinstance(estimator, PostHocDetector):
        return (
            (NO_LABELS if estimator._needs_labels() else {})
            | (SET_SCORES if isinstance(estimator, SetDetector) else {})
            | (
                SET_PREDICTIONS
                if isinstance(estimator, SetStatisticDetector)
                or getattr(estimator, "level", None) == "set"
                else {}
            )
        )
    if isinstance(estimator, RandomForestOutcomes):
        return BOOTSTRAP
    if hasattr(estimator, "batch_size"):
        return EXPECTED_FAILURES
    if not hasattr(estimator, "calibration"):
        return {}
    if isinstance(estimator, PaperForest):
        return PAPER
    # The out-of-bag probabilities of the two blobs are 0 and 1 with and without the weights, and
    # functions of ranks or bins of them are equal.
    has_own_partition = isinstance(estimator, DensityGate) and estimator.partition is not None
    if has_own_partition or (isinstance(estimator, ScoreGate) and estimator.calibration == "oob"):
        return expected_failures(clone(estimator.estimator).set_params(calibration="oob"))
    is_step_function = isinstance(
        estimator,
        HistogramBinning | BestConfidence | LocalRecalibration | DensityRatio,
    ) or (isinstance(estimator, ScoreMap) and estimator.method == "isotonic")
    return {} if is_step_function and estimator.calibration == "oob" else EXPECTED_FAILURES


QUICK_CLASSES = {
    KernelDensityForest,
    ScoreMap,
    TemperatureScaling,
    LocalRecalibration,
    ConformalPit,
    MultilayerPerceptron,
    GammaGlm,
    SelectAndLog,
    LeafBox,
    SetMean,
}
"""One class of each family, which share the validation of rows, labels and weights."""


@with_checks(
    [*ESTIMATORS, *WITHOUT_HOLD_OUT, *PUBLISHED, *PARENTS, *DETECTORS],
    expected_failed_checks=expected_failures,
    quick=QUICK_CLASSES,
)
# In checks of very few rows:
@pytest.mark.filterwarnings("ignore:a class has fewer than two calibration rows")
@pytest.mark.filterwarnings("ignore:fewer than two calibration rows are correct, or incorrect")
@pytest.mark.filterwarnings("ignore:coverage=0.9 needs 9 calibration rows")
@pytest.mark.filterwarnings("ignore:DensityRatio keeps the parent's confidence")
@pytest.mark.filterwarnings(
    "ignore:. of . calibration rows lie where the predicted distribution function"
)
@pytest.mark.filterwarnings("ignore:k=5 is more than")
@pytest.mark.filterwarnings("ignore:.* held-out rows are fewer than set_size")
# Likewise, and where blobs lie far apart:
@pytest.mark.filterwarnings("ignore:.*the (confidence|temperature) there is")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(
    scope="module",
    params=[
        KernelDensityForest(forest(), random_state=0),
        KernelDensityNetwork(network(), random_state=0),
    ],
)
def fitted_estimator(request):
    """Return an estimator with two threads, rows of several blocks, and their probabilities."""
    estimator = request.param.set_params(n_jobs=2).fit(*make_moons(400, noise=0.2, random_state=0))
    X = make_moons(600, noise=0.2, random_state=1)[0]
    return estimator, X, estimator.predict_proba(X)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_configuration_changes_no_bit(fitted_estimator, backend, n_jobs):
    estimator, X, expected = fitted_estimator
    with parallel_config(backend=backend, n_jobs=n_jobs):
        assert np.array_equal(estimator.predict_proba(X), expected)
        refitted = (
            estimator.set_params(n_jobs=None)
            .fit(*make_moons(400, noise=0.2, random_state=0))
            .predict_proba(X)
        )
    estimator.set_params(n_jobs=2)
    assert np.array_equal(refitted, expected)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_parallel_predictions_change_no_bit(fitted_estimator, backend):
    estimator, X, expected = fitted_estimator
    with parallel_config(backend=backend, n_jobs=2):
        parts = Parallel()(delayed(estimator.predict_proba)(part) for part in (X[:300], X[300:]))
    assert np.array_equal(np.concatenate(parts), expected)
