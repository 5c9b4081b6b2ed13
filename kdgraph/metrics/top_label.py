"""The class that is predicted and how sure the model is of it: all that calibration of top-label confidence knows of a prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Top = Any
"""Float[n, K] or a :class:`TopLabel` from who calls a metric; its body always has a :class:`TopLabel`."""


@dataclass(frozen=True)
class TopLabel:
    """Predicted classes with their confidence; a slice is one of fewer rows.

    Calibration of this confidence alone is what Gupta and Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022,
    ask for where a classifier names one class.

    Attributes
    ----------
    predicted : Int[n], positions in the classes.
    confidence : Float[n] in [0, 1], the probability that the prediction is right. It may be less than 1/K, and another class may be more
        probable: a calibrator of the confidence alone leaves the prediction as it is.
    n_classes : K, or None where nobody said.
    """

    predicted: np.ndarray
    confidence: np.ndarray
    n_classes: int | None = None

    @classmethod
    def of(cls, proba: np.ndarray) -> TopLabel:
        """The most probable class of each row of Float[n, K], the first of equals, and its probability."""
        predicted = proba.argmax(axis=1)
        return cls(predicted, proba[np.arange(len(proba)), predicted], proba.shape[1])  # as proba.max(axis=1), in a fifth of its time

    def correct(self, y: np.ndarray) -> np.ndarray:
        """Bool[n]: whether the predicted class is the label, Int[n]."""
        return self.predicted == y

    def __len__(self) -> int:
        return len(self.confidence)

    def __getitem__(self, index: Any) -> TopLabel:
        return TopLabel(self.predicted[index], self.confidence[index], self.n_classes)
