"""What all estimators share: rows and parents, checked; base classes of what is fitted after a
parent; fitted models with their outputs.
"""

from kdgraph.base.fitted_model import (
    COLUMNS,
    METHODS,
    Evaluation,
    Model,
    Predictions,
    Said,
    SetScores,
    frame_of,
)
from kdgraph.base.posthoc import PostHoc, PostHocClassifier, seeded_clone
from kdgraph.base.rows import Rows, take

__all__ = [
    "COLUMNS",
    "METHODS",
    "Evaluation",
    "Model",
    "PostHoc",
    "PostHocClassifier",
    "Predictions",
    "Rows",
    "Said",
    "SetScores",
    "frame_of",
    "seeded_clone",
    "take",
]
