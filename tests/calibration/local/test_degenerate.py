"""Few rows, bins without any, features and confidences that are all alike: every answer is
defined.
"""

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
from tests.calibration.local.conftest import PARENT, ROWS, drawn, fit, naive

MAPS = {
    "rows": {"features": ROWS},
    "principal components": {"features": FeatureMap(source="rows")},
    "groups": {"kernel": "group"},
}
LOCAL = [
    (kind, options) for kind in (LocalRecalibration, LocalClassShares) for options in MAPS.values()
]
OF_PROXIMITY = [
    (kind, {"features": map_})
    for kind in (DensityRatio, BinMeanShift)
    for map_ in (ROWS, FeatureMap(source="rows"))
]


def confidence(model, X, groups=None) -> np.ndarray:
    more = {} if groups is None or not getattr(model, "takes_groups", False) else {"groups": groups}
    says_rows = isinstance(model, LocalClassShares)
    return model.predict_proba(X, **more) if says_rows else model.predict_confidence(X, **more)


def fitted(kind, options, X, y):
    groups = (
        {"groups_calibration": np.arange(len(X)) % 2} if options.get("kernel") == "group" else {}
    )
    return fit(kind(PARENT, random_state=0, **options), X, y, **groups)


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = drawn(30)
    if name == "one row":
        return X[:1], y[:1]
    if name == "two rows":
        return X[:2], y[:2]
    if name == "features all alike":
        X[:, 3:] = 0.1
    if name == "confidence all alike":
        X[:, :3] = [0.2, 0.7, 0.1]
    if name == "rows all alike":
        X[:] = X[0]
    if name == "always right":
        y = X[:, :3].argmax(axis=1)
    if name == "never right":
        y = (X[:, :3].argmax(axis=1) + 1) % 3
    if name == "right once":
        y = (X[:, :3].argmax(axis=1) + 1) % 3
        y[3] = X[3, :3].argmax()
    if name == "certain":
        X[:, :3] = np.eye(3)[X[:, :3].argmax(axis=1)]
    return X, y


NAMES = [
    "one row",
    "two rows",
    "features all alike",
    "confidence all alike",
    "rows all alike",
    "always right",
    "never right",
    "right once",
    "certain",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("kind", "options"), LOCAL + OF_PROXIMITY, ids=lambda value: getattr(value, "__name__", "")
)
def test_degenerate_rows_have_finite_confidences(kind, options, name):
    X, y = rows_of(name)
    model, (new, _) = fitted(kind, options, X, y), drawn(50, 1)
    new[:3, :3] = np.eye(3)
    for at in (X, new, new * [1, 1, 1, 1e6, 1e6]):
        result = confidence(model, at, np.zeros(len(at), dtype=int))
        assert np.isfinite(result).all() and (result >= 0).all() and (result <= 1).all()
        if isinstance(model, LocalClassShares):
            np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("name", ["features all alike", "rows all alike"])
@pytest.mark.parametrize("bandwidth", [1e-9, 0.2, "cv"])
@pytest.mark.parametrize(
    "features", [ROWS, FeatureMap(source="rows")], ids=["rows", "principal components"]
)
def test_identical_rows_get_the_accuracy_of_their_bin(name, bandwidth, features):
    X, y = rows_of(name)
    X[:, :3] = X[0, :3]  # for the features are those of the rows
    model = fit(LocalRecalibration(PARENT, features=features, bandwidth=bandwidth), X, y)
    np.testing.assert_allclose(
        model.predict_confidence(X), np.mean(X[:, :3].argmax(axis=1) == y), atol=1e-12
    )
    np.testing.assert_allclose(model.predict_n_eff(X), 30)


def test_empty_bin_keeps_parent_confidence_and_single_row_decides_its_bin():
    X, y = drawn(40)
    X[:, :3] = [0.25, 0.35, 0.4]
    X[0, :3], y[0] = [0.0, 0.05, 0.95], 0
    model = fit(LocalRecalibration(PARENT, features=ROWS, bandwidth=0.5, bins=5), X, y)
    new = np.vstack([X[0], [0.3, 0.7, 0.0, 0.0, 0.0], [0.1, 0.9, 0.0, 9.0, 9.0]])
    assert model.predict_confidence(new).tolist() == [0.0, 0.7, 0.0]
    assert model.predict_n_eff(new).tolist() == [1.0, 0.0, 1.0]
    assert model.fallback_ == {"bin": 0, "confidence": 1}


def test_groups_with_one_class_or_one_row_are_finite():
    X, y = drawn(50)
    groups = np.array([0] * 30 + [1] * 19 + [2])
    y[30:49] = X[30:49, :3].argmax(axis=1)  # always right
    model = fit(LocalRecalibration(PARENT, kernel="group", bins=1), X, y, groups_calibration=groups)
    right = X[:, :3].argmax(axis=1) == y
    assert model.predict_confidence(X[:3], [0, 1, 2]).tolist() == [
        right[:30].mean(),
        1.0,
        float(right[49]),
    ]
    assert model.fallback_ == {"bin": 1, "confidence": 0}  # the group of one row, without it
    left_out = naive(
        X, X, right.astype(float), lambda i, j: float(groups[i] == groups[j]), 1, leave_one_out=True
    )
    assert left_out[49] == pytest.approx(right[:49].mean())
