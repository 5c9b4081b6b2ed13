"""A parent whose rows say what it says, calibration rows around it, and Luo et al.'s Eq. 6 as two
loops.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from kdgraph.features import FeatureMap

ROWS = FeatureMap(source="rows", reduce="none", scale="none")
"""Distances between the rows themselves, in their own units."""


class Told(ClassifierMixin, BaseEstimator):
    """Its first three features are the probabilities of three classes; the others are where a row
    lies.
    """

    def fit(self, X, y=None):
        self.classes_ = np.arange(3)
        return self

    def predict_proba(self, X):
        return np.asarray(X)[:, :3]


PARENT = FrozenEstimator(Told().fit(None))


def drawn(n: int, seed: int = 0, places: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows Float[n, 3 + places] and labels: probabilities that are right more often on one side."""
    rng = np.random.default_rng(seed)
    proba, where = rng.dirichlet(np.ones(3), size=n), rng.normal(size=(n, places))
    y = np.where(
        rng.random(n) < 0.3 + 0.5 * (where[:, 0] > 0), proba.argmax(axis=1), rng.integers(3, size=n)
    )
    return np.column_stack([proba, where]), y


def fit(model, X, y, **more):
    """``model`` with these calibration rows; the training rows are of no consequence behind a
    frozen parent.
    """
    train = {"X": np.eye(3, X.shape[1]), "y": np.arange(3)}
    if "groups_calibration" in more:
        more["groups"] = np.zeros(3, dtype=int)
    return model.fit(**train, X_calibration=X, y_calibration=y, **more)


def bin_of(confidence: float, bins: int) -> int:
    """(lower, upper], by looking at one bin after the other."""
    return next(b for b in range(bins) if confidence <= (b + 1) / bins)


def laplacian(a: np.ndarray, b: np.ndarray, gamma: float) -> float:
    return float(np.exp(-np.abs(a - b).sum() / (len(a) * gamma)))


def gaussian(a: np.ndarray, b: np.ndarray, gamma: float) -> float:
    return float(np.exp(-np.square(a - b).sum() / (2 * len(a) * gamma**2)))


def naive(
    at: np.ndarray,
    X: np.ndarray,
    values: np.ndarray,
    kernel: Callable[[int, int], float],
    bins: int,
    weight: np.ndarray | None = None,
    leave_one_out: bool = False,
) -> np.ndarray:
    """Eq. 6, place by place and row by row; ``kernel`` is of the numbers of a place and a row. The
    bin, then the parent, where nobody is.

    ``values`` are Float[n] or Float[n, K]; the parent's own are those of the place.
    """
    weight, found = np.ones(len(X)) if weight is None else weight, []
    bin_of_row = [bin_of(row[:3].max(), bins) for row in X]
    for i, place in enumerate(at):
        mine = bin_of(place[:3].max(), bins)
        same = [j for j in range(len(X)) if bin_of_row[j] == mine]
        same = [j for j in same if weight[j] > 0 and not (leave_one_out and i == j)]
        near = sum(weight[j] * kernel(i, j) for j in same)
        if near > 0:
            found.append(sum(weight[j] * kernel(i, j) * values[j] for j in same) / near)
        elif same:
            found.append(sum(weight[j] * values[j] for j in same) / sum(weight[j] for j in same))
        else:
            found.append(place[:3] if np.ndim(values) > 1 else place[:3].max())
    return np.array(found)
