"""A forest that counts its predictions."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier


class CountedForest(RandomForestClassifier):
    """Forest that counts its predictions."""

    n_predictions = 0

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return probabilities, Float[n, K]."""
        type(self).n_predictions += 1
        return super().predict_proba(X)
