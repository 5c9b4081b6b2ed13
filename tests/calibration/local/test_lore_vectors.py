"""LoRe for full rows, against Eq. 6 with labels in place of correctness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.calibration.local import LocalClassShares
from tests.calibration.local.conftest import (
    PARENT,
    ROWS,
    average_by_loops,
    bin_by_scan,
    fit,
    laplacian,
    random_rows,
)


def class_shares(**options) -> LocalClassShares:
    return LocalClassShares(PARENT, **{"features": ROWS, "random_state": 0, **options})


@settings(deadline=None, max_examples=25)
@given(
    st.integers(1, 30),
    st.integers(1, 12),
    st.sampled_from([0.3, 1.0, 10.0]),
    st.integers(0, 10_000),
)
def test_probabilities_are_eq_6_with_labels(n, bins, gamma, seed):
    (X, y), (new, _) = random_rows(n, seed), random_rows(12, seed + 1)
    probabilities = fit(class_shares(bandwidth=gamma, bins=bins), X, y).predict_proba(new)
    expected = average_by_loops(
        new, X, np.eye(3)[y], lambda i, j: laplacian(new[i], X[j], gamma), bins
    )
    np.testing.assert_allclose(
        probabilities, expected, atol=1e-5
    )  # distances are in single precision
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)


def test_wide_bandwidth_gives_class_frequencies_of_the_bin():
    (X, y), (new, _) = random_rows(300), random_rows(50, 1)
    predicted = fit(class_shares(bandwidth=1e9, bins=5), X, y).predict_proba(new)
    for query, row in zip(new, predicted, strict=True):
        in_bin = [
            j
            for j in range(300)
            if bin_by_scan(X[j, :3].max(), 5) == bin_by_scan(query[:3].max(), 5)
        ]
        expected = [np.mean(y[in_bin] == k) for k in range(3)] if in_bin else query[:3]
        np.testing.assert_allclose(row, expected, atol=1e-7)  # weights are within 1e-8 of 1


def test_predictions_can_differ_from_the_parent_by_group():
    X, _ = random_rows(60)
    X[:, :3] = [0.5, 0.3, 0.2]
    groups = np.arange(60) % 2
    y = np.where(groups == 0, 1, 2)
    model = fit(class_shares(kernel="group", bins=1), X, y, groups_calibration=groups)
    assert model.predict_proba(X[:2], groups[:2]).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert model.predict(X[:2], groups[:2]).tolist() == [1, 2]
    assert model.predict_proba(X[:1]).tolist() == [[0, 0.5, 0.5]]


@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_geodesic_kernel(gamma):
    X, y = make_moons(200, noise=0.3, random_state=0)
    forest = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:100], y[:100])
    model = LocalClassShares(FrozenEstimator(forest), kernel="geodesic", bandwidth=gamma, bins=1)
    model.fit(X[100:], y[100:], X_calibration=X[100:], y_calibration=y[100:])
    K = (forest.apply(X[:20])[:, None] == forest.apply(X[100:])[None]).mean(axis=2) ** (1 / gamma)
    assert (K.sum(axis=1) > 0).all()
    np.testing.assert_allclose(
        model.predict_proba(X[:20]),
        K @ np.eye(2)[y[100:]] / K.sum(axis=1, keepdims=True),
        atol=1e-12,
    )
