"""What every detector that is exported keeps to, found by itself: scikit-learn's contract, one row
by itself, which way is out, files.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neighbors import LocalOutlierFactor

import kdgraph.detection
from kdgraph.detection import PostHocDetector, SetDetector
from kdgraph.features import FeatureMap
from kdgraph.metrics import auroc
from kdgraph.persistence import from_bytes, to_bytes
from tests.companions import assert_rows_agree
from tests.sklearn_checks import with_checks

EXPORTED = [
    found
    for name in kdgraph.detection.__all__
    if isinstance(found := getattr(kdgraph.detection, name), type)
]
DETECTORS = [
    cls
    for cls in EXPORTED
    if issubclass(cls, PostHocDetector)
    and not any(other is not cls and issubclass(other, cls) for other in EXPORTED)
]
"""Those that nothing else stands on."""
OF_ROWS = [cls for cls in DETECTORS if not issubclass(cls, SetDetector)]
FEW = pytest.mark.filterwarnings("ignore:.* held-out rows are fewer than set_size")


def network():
    from kdgraph.parents.networks import MultilayerPerceptron

    quick = {"learning_rate": 0.05, "batch_size": 32, "max_epochs": 5, "patience": None}
    return MultilayerPerceptron(hidden=(8,), **quick, device="cpu", random_state=0)


def parent_of(cls: type[PostHocDetector]):
    """The parent it must have, or the least it can do with: none, where it says so."""
    if cls.required_partition == "network":
        return network()
    if (
        cls.required_partition is None
        and cls.required_method is None
        and cls(None)._default_estimator() is None
    ):
        return None
    return ExtraTreesClassifier(10, random_state=0)


def make_detector(cls: type[PostHocDetector], **parameters) -> PostHocDetector:
    quick = {"set_size": 30, "repeats": 4, "detector": LocalOutlierFactor(3)}
    return cls(parent_of(cls), **{"random_state": 0, **of_class(cls, quick), **parameters})


def of_class(cls: type[PostHocDetector], parameters: dict) -> dict:
    """Those of the parameters that it has."""
    return {
        name: value
        for name, value in parameters.items()
        if name in cls(None).get_params(deep=False)
    }


def unsupervised(cls: type[PostHocDetector]) -> PostHocDetector:
    """Without a need of labels where it can do without; the network of these checks need not learn
    anything.
    """
    parent = parent_of(cls)
    parent = parent.set_params(max_epochs=1) if cls.required_partition == "network" else parent
    return cls(
        parent,
        target_fpr=0.3,
        random_state=0,
        **of_class(cls, {"labels": "none", "detector": LocalOutlierFactor(3)}),
    )


NO_LABELS = dict.fromkeys(
    ("check_outliers_train", "check_outliers_fit_predict"),
    "they fit without labels, and its parent needs them",
)
ONE_ROW = {
    "check_methods_subset_invariance": "the score of a row belongs to it and the rows of its set"
}


def expected_failures(detector: PostHocDetector) -> dict[str, str]:
    """scikit-learn's own outlier detectors know no labels and no sets."""
    return (NO_LABELS if detector._needs_labels() else {}) | (
        ONE_ROW if isinstance(detector, SetDetector) else {}
    )


@FEW
@with_checks(
    [unsupervised(cls) for cls in DETECTORS if cls.required_partition != "network"],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@with_checks(
    [unsupervised(cls) for cls in DETECTORS if cls.required_partition == "network"],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks_behind_a_network(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of three classes that touch, their labels, and as many that nobody has seen."""
    centres = np.array([[-4.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 7.0, 0.0]])
    X, y = make_blobs(300, centers=centres, cluster_std=1.5, random_state=0)
    return X[:200], y[:200], X[200:]


@pytest.fixture(scope="module")
def fitted(rows):
    """By class, fitted once."""
    X, y, _ = rows
    return {cls: make_detector(cls).fit(X, y) for cls in DETECTORS}


@pytest.mark.parametrize("cls", OF_ROWS)
def test_no_row_changes_the_score_of_another(fitted, rows, cls):
    X = np.concatenate([rows[2][:12], rows[2][:4] + 50.0, rows[2][:4] * 1e12])
    together = fitted[cls].score_samples(X)
    assert_rows_agree(
        np.concatenate([fitted[cls].score_samples(X[i : i + 1]) for i in range(len(X))]), together
    )
    assert_rows_agree(fitted[cls].score_samples(X[::-1]), together[::-1])


def distant(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Beyond everything, in every feature."""
    return X + 40.0


def between(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Around the middle of the three classes, where they meet."""
    return np.array([0.0, 2.0, 0.0]) + 0.3 * rng.normal(size=X.shape)


OUT = {
    **dict.fromkeys(
        ("MaxProbability", "Entropy", "MaxLogit", "Energy", "Odin"), between
    ),  # a network is surest far outside (Hein et al. 2019)
    **dict.fromkeys(
        ("LeafOccupancy", "GeodesicDistance"), between
    ),  # where leaves are small; far rows are in those at the border
}
"""What is out for a detector, where it is not what is far."""


@pytest.mark.parametrize("cls", DETECTORS)
def test_higher_is_farther_out(fitted, rows, cls):
    """Of nine in ten pairs what the detector looks for has the higher score, and more of it than of
    test rows is beyond the threshold.
    """
    _, _, test = rows
    out = OUT.get(cls.__name__, distant)(test, np.random.default_rng(0))
    normal, strange = fitted[cls].ood_score(test), fitted[cls].ood_score(out)
    assert auroc(strange, normal) > 0.9
    assert (fitted[cls].predict(out) == -1).mean() > (fitted[cls].predict(test) == -1).mean()
    np.testing.assert_array_equal(fitted[cls].predict(out), np.where(strange > 0, -1, 1))


OTHER = {
    "calibration_size": 0.5,
    "detector": LocalOutlierFactor(9),
    "dimensions": 2,
    "distance": "geodesic",
    "epsilon": 0.3,
    "epsilons": [0.2, 0.3],
    "features": FeatureMap(source="rows", reduce="pca", dimensions=2),
    "k": 2,
    "labels": "shuffled",
    "level": "set",
    "min_samples": 1,
    "neighbor": 3,
    "normalize": True,
    "measure": "distance",
    "random_state": 1,
    "relative": True,
    "repeats": 5,
    "scale": "log",
    "set_size": 20,
    "target_fpr": 0.3,
    "temperature": 2.0,
}
"""Another value of each parameter than the one that detectors here have."""
FOR = {("TreeHamming", "labels"): "given"}
"""Where a detector has another one by itself."""


@pytest.mark.parametrize("cls", DETECTORS)
def test_every_parameter_changes_the_score_and_n_jobs_none(fitted, rows, cls):
    X, y, test = rows
    parameters = set(fitted[cls].get_params(deep=False)) - {"estimator", "n_jobs"}
    assert parameters <= OTHER.keys(), "another value of a new parameter is to be named"
    usual = scores(fitted[cls], test)
    np.testing.assert_array_equal(usual, scores(make_detector(cls).fit(X, y), test))
    if "n_jobs" in fitted[cls].get_params(deep=False):
        np.testing.assert_array_equal(usual, scores(make_detector(cls, n_jobs=2).fit(X, y), test))
    for name in parameters:
        value = FOR.get((cls.__name__, name), OTHER[name])
        result = scores(make_detector(cls, **{name: value}).fit(X, y), test)
        assert result.shape != usual.shape or not np.allclose(
            result, usual, rtol=1e-6, atol=1e-9
        ), name


def scores(detector: PostHocDetector, X: np.ndarray) -> np.ndarray:
    return (
        detector.ood_score_of_sets(X, np.random.default_rng(0))
        if isinstance(detector, SetDetector)
        else detector.ood_score(X)
    )


@pytest.mark.parametrize("cls", DETECTORS)
def test_a_loaded_detector_scores_the_same_to_the_bit(fitted, rows, cls):
    test = rows[2]
    again = from_bytes(to_bytes(fitted[cls]), "it").value
    np.testing.assert_array_equal(scores(again, test), scores(fitted[cls], test))
    assert again.offset_ == fitted[cls].offset_ and again.describe() == fitted[cls].describe()
    assert not hasattr(clone(again), "estimator_")
