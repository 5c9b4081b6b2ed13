"""Tests of the contract of all exported detectors.

They cover scikit-learn's checks, independence of rows, the sign of scores, parameters and files.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neighbors import LocalOutlierFactor

import kdgraph.detection
from kdgraph.detection import LeafBox, PostHocDetector, SetDetector
from kdgraph.features import FeatureMap
from kdgraph.metrics import auroc
from kdgraph.persistence import from_bytes, to_bytes
from tests.companions import assert_rows_agree
from tests.variations import others_slow

EXPORTED = [
    exported
    for name in kdgraph.detection.__all__
    if isinstance(exported := getattr(kdgraph.detection, name), type)
]
DETECTORS = [
    cls
    for cls in EXPORTED
    if issubclass(cls, PostHocDetector)
    and not any(subclass is not cls and issubclass(subclass, cls) for subclass in EXPORTED)
]
"""Exported detectors without exported subclasses."""
ROW_DETECTORS = [cls for cls in DETECTORS if not issubclass(cls, SetDetector)]
IGNORE_SMALL_SETS = pytest.mark.filterwarnings("ignore:.* held-out rows are fewer than set_size")


def network():
    from kdgraph.parents.networks import MultilayerPerceptron

    quick = {"learning_rate": 0.05, "batch_size": 32, "max_epochs": 5, "patience": None}
    return MultilayerPerceptron(hidden=(8,), **quick, device="cpu", random_state=0)


def minimal_parent(cls: type[PostHocDetector]):
    """Return the parent that a detector requires, or None if it requires none."""
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
    quick = {
        "set_size": 30,
        "repeats": 4,
        "detector": LocalOutlierFactor(3),
        "classifier": "logistic",
        "layers": ["1", "2", "3"],
    }
    return cls(
        minimal_parent(cls), **{"random_state": 0, **supported_parameters(cls, quick), **parameters}
    )


def supported_parameters(cls: type[PostHocDetector], parameters: dict) -> dict:
    """Return the parameters that the class has."""
    return {
        name: value
        for name, value in parameters.items()
        if name in cls(None).get_params(deep=False)
    }


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three adjacent classes, their labels, and unseen rows."""
    centres = np.array([[-4.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 7.0, 0.0]])
    X, y = make_blobs(300, centers=centres, cluster_std=1.5, random_state=0)
    return X[:200], y[:200], X[200:]


@pytest.fixture(scope="module")
def fitted(rows):
    """Return fitted detectors by class."""
    X, y, _ = rows
    return {cls: make_detector(cls).fit(X, y) for cls in DETECTORS}


@pytest.mark.parametrize("cls", others_slow(ROW_DETECTORS))
def test_no_row_changes_the_score_of_another(fitted, rows, cls):
    X = np.concatenate([rows[2][:12], rows[2][:4] + 50.0, rows[2][:4] * 1e12])
    joint_scores = fitted[cls].score_samples(X)
    assert_rows_agree(
        np.concatenate([fitted[cls].score_samples(X[i : i + 1]) for i in range(len(X))]),
        joint_scores,
    )
    assert_rows_agree(fitted[cls].score_samples(X[::-1]), joint_scores[::-1])


def shift_far_away(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return rows beyond all training rows in every feature."""
    return X + 40.0


def draw_between_classes(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return rows around the point where the three classes meet."""
    return np.array([0.0, 2.0, 0.0]) + 0.3 * rng.normal(size=X.shape)


OOD_ROWS = {
    **dict.fromkeys(
        ("MaxProbability", "Entropy", "MaxLogit", "Energy", "Odin", "SetMean"),
        draw_between_classes,
    ),  # networks are most confident far away (Hein et al. 2019)
    **dict.fromkeys(
        ("LeafOccupancy", "GeodesicDistance"), draw_between_classes
    ),  # leaves are small there; distant rows share the outermost leaves
}
"""Function of OOD rows by class name, for detectors that do not detect distant rows."""


@pytest.mark.parametrize("cls", DETECTORS)
def test_ood_rows_have_higher_ood_scores(fitted, rows, cls):
    """Compare the scores of OOD rows with those of test rows: AUROC, and rate of detections."""
    _, _, test = rows
    ood_rows = OOD_ROWS.get(cls.__name__, shift_far_away)(test, np.random.default_rng(0))
    test_scores, ood_scores = fitted[cls].ood_score(test), fitted[cls].ood_score(ood_rows)
    assert auroc(ood_scores, test_scores) > 0.9
    assert (fitted[cls].predict(ood_rows) == -1).mean() > (fitted[cls].predict(test) == -1).mean()
    np.testing.assert_array_equal(fitted[cls].predict(ood_rows), np.where(ood_scores > 0, -1, 1))


ALTERNATIVES = {
    "adversarial_step": 0.5,
    "bandwidth": 0.5,
    "calibration": "cross_fit",
    "calibration_size": 0.5,
    "classifier": "forest",
    "detector": LocalOutlierFactor(9),
    "dimensions": 2,
    "distance": "geodesic",
    "epsilon": 0.3,
    "epsilons": [0.2, 0.3],
    "features": FeatureMap(source="rows", reduce="pca", dimensions=2),
    "k": 2,
    "labels": "shuffled",
    "layers": ["1"],
    "level": "set",
    "max_reference_rows": 30,
    "min_samples": 1,
    "n_folds": 3,
    "n_left_out": 0,
    "n_reference": 50,
    "neighbor": 3,
    "normalize": True,
    "max_polytopes": 20,
    "measure": "distance",
    "random_state": 1,
    "relative": True,
    "repeats": 5,
    "row_detector": LeafBox(),
    "scale": "log",
    "set_size": 20,
    "target_fpr": 0.3,
    "temperature": 2.0,
    "weights": "nonnegative",
}
"""Value of each parameter that differs from its value in these tests."""
CLASS_ALTERNATIVES = {("TreeHamming", "labels"): "given"}
"""Values for detectors whose default is that of ALTERNATIVES."""


@pytest.mark.parametrize("cls", others_slow(DETECTORS, LeafBox))
def test_every_parameter_of_the_method_changes_the_score(fitted, rows, cls):
    X, y, test = rows
    no_parameters = {"estimator", "n_jobs", "device", "cv"}
    parameters = set(fitted[cls].get_params(deep=False)) - no_parameters
    assert parameters <= ALTERNATIVES.keys(), "ALTERNATIVES needs a value of each new parameter"
    default_scores = ood_scores_of(fitted[cls], test)
    np.testing.assert_array_equal(default_scores, ood_scores_of(make_detector(cls).fit(X, y), test))
    if "n_jobs" in fitted[cls].get_params(deep=False):
        np.testing.assert_array_equal(
            default_scores, ood_scores_of(make_detector(cls, n_jobs=2).fit(X, y), test)
        )
    for name in parameters:
        value = CLASS_ALTERNATIVES.get((cls.__name__, name), ALTERNATIVES[name])
        changed_scores = ood_scores_of(make_detector(cls, **{name: value}).fit(X, y), test)
        assert changed_scores.shape != default_scores.shape or not np.allclose(
            changed_scores, default_scores, rtol=1e-6, atol=1e-9
        ), name


def ood_scores_of(detector: PostHocDetector, X: np.ndarray) -> np.ndarray:
    return (
        detector.ood_score_of_sets(X, np.random.default_rng(0))
        if isinstance(detector, SetDetector)
        else detector.ood_score(X)
    )


@pytest.mark.parametrize("cls", DETECTORS)
def test_loaded_detector_gives_identical_scores(fitted, rows, cls):
    test = rows[2]
    loaded = from_bytes(to_bytes(fitted[cls]), "detector").value
    np.testing.assert_array_equal(ood_scores_of(loaded, test), ood_scores_of(fitted[cls], test))
    assert loaded.offset_ == fitted[cls].offset_ and loaded.describe() == fitted[cls].describe()
    assert not hasattr(clone(loaded), "estimator_")
