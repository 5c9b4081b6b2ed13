"""What all estimators share: rows and parents, checked; base classes of what is fitted after a
parent; fitted models with their outputs.
"""

from kdgraph.base.fitted_model import (
    OUTPUT_COLUMNS,
    OUTPUT_METHODS,
    Evaluation,
    FittedModel,
    Outputs,
    Predictions,
    SetScores,
    predictions_frame,
)
from kdgraph.base.posthoc import PostHoc, PostHocClassifier, seeded_clone
from kdgraph.base.rows import Rows, select_rows

__all__ = [
    "OUTPUT_COLUMNS",
    "OUTPUT_METHODS",
    "Evaluation",
    "FittedModel",
    "Outputs",
    "PostHoc",
    "PostHocClassifier",
    "Predictions",
    "Rows",
    "SetScores",
    "predictions_frame",
    "seeded_clone",
    "select_rows",
]
