"""Simple detectors for the tests of the base class, and rows in and out of distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from kdgraph.base import Rows
from kdgraph.detection import PostHocDetector

QUICK = {
    "learning_rate": 0.02,
    "batch_size": 64,
    "max_epochs": 4,
    "patience": None,
    "device": "cpu",
    "random_state": 0,
}
"""Parameters of a network that is trained in a fraction of a second."""


@dataclass(eq=False, repr=False)
class LeastConfident(PostHocDetector):
    """Detector by the largest probability of the parent."""

    estimator: Any = None

    required_method: ClassVar = "predict_proba"

    def _score(self, X: Any) -> np.ndarray:
        return self.estimator_.predict_proba(X).max(axis=1)


class DistanceToMean(LeastConfident):
    """Detector by the distance to the mean of the training rows, without a parent."""

    required_method: ClassVar = None

    def _default_estimator(self) -> Any:
        return self.estimator

    def _needs_labels(self) -> bool:
        return False

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self.mean_ = np.mean(train.X, axis=0)

    def _score(self, X: Any) -> np.ndarray:
        return -np.linalg.norm(X - self.mean_, axis=1)


def normal_rows(n: int, seed: int, shift: float = 0.0, d: int = 3) -> np.ndarray:
    """Return rows with independent normal features, Float[n, d]."""
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


@pytest.fixture(scope="session")
def blobs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three classes, their labels, and distant rows."""
    X, y = make_blobs(600, centers=3, n_features=4, cluster_std=2.0, random_state=0)
    return X, y, X[:200] + 60.0
