"""A parent that reads its probabilities from the rows, and Luo et al.'s Eq. 6 as two loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from kdgraph.features import FeatureMap

ROWS = FeatureMap(source="rows", reduce="none", scale="none")
"""Distances between the rows themselves, in their own units."""


class FeatureProbabilities(ClassifierMixin, BaseEstimator):
    """The first three features are the probabilities of three classes; the others are the position
    of the row.
    """

    def fit(self, X, y=None):
        self.classes_ = np.arange(3)
        return self

    def predict_proba(self, X):
        return np.asarray(X)[:, :3]


PARENT = FrozenEstimator(FeatureProbabilities().fit(None))


def random_rows(n: int, seed: int = 0, n_features: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return rows Float[n, 3 + n_features] and labels that are predicted better on one side."""
    rng = np.random.default_rng(seed)
    proba, features = rng.dirichlet(np.ones(3), size=n), rng.normal(size=(n, n_features))
    y = np.where(
        rng.random(n) < 0.3 + 0.5 * (features[:, 0] > 0),
        proba.argmax(axis=1),
        rng.integers(3, size=n),
    )
    return np.column_stack([proba, features]), y


def fit(model, X, y, **options):
    """Fit ``model`` to calibration rows; a frozen parent ignores the training rows."""
    train = {"X": np.eye(3, X.shape[1]), "y": np.arange(3)}
    if "groups_calibration" in options:
        options["groups"] = np.zeros(3, dtype=int)
    return model.fit(**train, X_calibration=X, y_calibration=y, **options)


def bin_by_scan(confidence: float, bins: int) -> int:
    """Return the bin (lower, upper] of a confidence, by a scan of all bins."""
    return next(b for b in range(bins) if confidence <= (b + 1) / bins)


def laplacian(a: np.ndarray, b: np.ndarray, gamma: float) -> float:
    return float(np.exp(-np.abs(a - b).sum() / (len(a) * gamma)))


def gaussian(a: np.ndarray, b: np.ndarray, gamma: float) -> float:
    return float(np.exp(-np.square(a - b).sum() / (2 * len(a) * gamma**2)))


def average_by_loops(
    queries: np.ndarray,
    X: np.ndarray,
    values: np.ndarray,
    kernel: Callable[[int, int], float],
    bins: int,
    weight: np.ndarray | None = None,
    leave_one_out: bool = False,
) -> np.ndarray:
    """Return Eq. 6 by loops over query rows and calibration rows.

    ``kernel`` is a function of the positions of both, and ``values`` are Float[n] or Float[n, K]. A
    query without a neighbour has the mean of its bin, or else the output of the parent.
    """
    weight, averages = np.ones(len(X)) if weight is None else weight, []
    bin_of_row = [bin_by_scan(row[:3].max(), bins) for row in X]
    for i, query in enumerate(queries):
        query_bin = bin_by_scan(query[:3].max(), bins)
        in_bin = [j for j in range(len(X)) if bin_of_row[j] == query_bin]
        in_bin = [j for j in in_bin if weight[j] > 0 and not (leave_one_out and i == j)]
        total = sum(weight[j] * kernel(i, j) for j in in_bin)
        if total > 0:
            averages.append(sum(weight[j] * kernel(i, j) * values[j] for j in in_bin) / total)
        elif in_bin:
            averages.append(
                sum(weight[j] * values[j] for j in in_bin) / sum(weight[j] for j in in_bin)
            )
        else:
            averages.append(query[:3] if np.ndim(values) > 1 else query[:3].max())
    return np.array(averages)
