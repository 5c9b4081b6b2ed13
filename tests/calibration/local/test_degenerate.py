"""Local calibration of few rows, empty bins, and equal features or confidences: finite predictions."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.calibration.local import (
    BinMeanShift,
    DensityRatio,
    LocalClassShares,
    LocalRecalibration,
)
from kdgraph.features import FeatureMap
from tests.calibration.local.conftest import PARENT, ROWS, average_by_loops, fit, random_rows

MAPS = {
    "rows": {"features": ROWS},
    "principal components": {"features": FeatureMap(source="rows")},
    "groups": {"kernel": "group"},
}
LOCAL = [
    (calibrator, options)
    for calibrator in (LocalRecalibration, LocalClassShares)
    for options in MAPS.values()
]
PROXIMITY = [
    (calibrator, {"features": map_})
    for calibrator in (DensityRatio, BinMeanShift)
    for map_ in (ROWS, FeatureMap(source="rows"))
]


def predictions(model, X, groups=None) -> np.ndarray:
    kwargs = (
        {} if groups is None or not getattr(model, "takes_groups", False) else {"groups": groups}
    )
    has_rows = isinstance(model, LocalClassShares)
    return model.predict_proba(X, **kwargs) if has_rows else model.predict_confidence(X, **kwargs)


def fit_calibrator(calibrator, options, X, y):
    groups = (
        {"groups_calibration": np.arange(len(X)) % 2} if options.get("kernel") == "group" else {}
    )
    return fit(calibrator(PARENT, random_state=0, **options), X, y, **groups)


def degenerate_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = random_rows(30)
    if name == "one row":
        return X[:1], y[:1]
    if name == "two rows":
        return X[:2], y[:2]
    if name == "features all equal":
        X[:, 3:] = 0.1
    if name == "confidence all equal":
        X[:, :3] = [0.2, 0.7, 0.1]
    if name == "rows all equal":
        X[:] = X[0]
    if name == "always correct":
        y = X[:, :3].argmax(axis=1)
    if name == "never correct":
        y = (X[:, :3].argmax(axis=1) + 1) % 3
    if name == "correct once":
        y = (X[:, :3].argmax(axis=1) + 1) % 3
        y[3] = X[3, :3].argmax()
    if name == "certain":
        X[:, :3] = np.eye(3)[X[:, :3].argmax(axis=1)]
    return X, y


CASES = [
    "one row",
    "two rows",
    "features all equal",
    "confidence all equal",
    "rows all equal",
    "always correct",
    "never correct",
    "correct once",
    "certain",
]


@pytest.mark.filterwarnings("ignore:DensityRatio keeps the parent's confidence")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("calibrator", "options"), LOCAL + PROXIMITY, ids=lambda value: getattr(value, "__name__", "")
)
def test_degenerate_rows_have_finite_probabilities(calibrator, options, name):
    X, y = degenerate_rows(name)
    model, (new, _) = fit_calibrator(calibrator, options, X, y), random_rows(50, 1)
    new[:3, :3] = np.eye(3)
    for queries in (X, new, new * [1, 1, 1, 1e6, 1e6]):
        predicted = predictions(model, queries, np.zeros(len(queries), dtype=int))
        assert np.isfinite(predicted).all() and (predicted >= 0).all() and (predicted <= 1).all()
        if isinstance(model, LocalClassShares):
            np.testing.assert_allclose(predicted.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("name", ["features all equal", "rows all equal"])
@pytest.mark.parametrize("bandwidth", [1e-9, 0.2, "cv"])
@pytest.mark.parametrize(
    "features", [ROWS, FeatureMap(source="rows")], ids=["rows", "principal components"]
)
def test_equal_rows_have_the_accuracy_of_the_bin(name, bandwidth, features):
    X, y = degenerate_rows(name)
    X[:, :3] = X[0, :3]  # because the features include the probabilities
    model = fit(LocalRecalibration(PARENT, features=features, bandwidth=bandwidth), X, y)
    np.testing.assert_allclose(
        model.predict_confidence(X), np.mean(X[:, :3].argmax(axis=1) == y), atol=1e-12
    )
    np.testing.assert_allclose(model.predict_n_eff(X), 30)


def test_empty_bin_keeps_parent_confidence():
    X, y = random_rows(40)
    X[:, :3] = [0.25, 0.35, 0.4]
    X[0, :3], y[0] = [0.0, 0.05, 0.95], 0
    model = fit(LocalRecalibration(PARENT, features=ROWS, bandwidth=0.5, bins=5), X, y)
    new = np.vstack([X[0], [0.3, 0.7, 0.0, 0.0, 0.0], [0.1, 0.9, 0.0, 9.0, 9.0]])
    assert model.predict_confidence(new).tolist() == [0.0, 0.7, 0.0]
    assert model.predict_n_eff(new).tolist() == [1.0, 0.0, 1.0]
    assert model.fallback_ == {"bin": 0, "confidence": 1}


def test_group_of_one_class_and_group_of_one_row():
    X, y = random_rows(50)
    groups = np.array([0] * 30 + [1] * 19 + [2])
    y[30:49] = X[30:49, :3].argmax(axis=1)  # always correct
    model = fit(LocalRecalibration(PARENT, kernel="group", bins=1), X, y, groups_calibration=groups)
    is_correct = X[:, :3].argmax(axis=1) == y
    assert model.predict_confidence(X[:3], [0, 1, 2]).tolist() == [
        is_correct[:30].mean(),
        1.0,
        float(is_correct[49]),
    ]
    assert model.fallback_ == {"bin": 1, "confidence": 0}  # the group of one row, without it
    without_itself = average_by_loops(
        X,
        X,
        is_correct.astype(float),
        lambda i, j: float(groups[i] == groups[j]),
        1,
        leave_one_out=True,
    )
    assert without_itself[49] == pytest.approx(is_correct[:49].mean())
