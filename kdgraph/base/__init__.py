"""Foundations that all estimators share.

Its modules contain:

- the base classes of everything that is fitted after a parent (held-out rows, cloning) in
  :mod:`kdgraph.base.posthoc`;
- the base class of estimators around another one, and the inputs that an estimator accepts (missing
  values, data frames, categories, labels, numbers that are too large or too close) in
  :mod:`kdgraph.base.validation`;
- rows with their weights and groups, and outputs of a parent for its own training rows, out of bag
  or by cross-fitting, in :mod:`kdgraph.base.rows`; rows that are held out in
  :mod:`kdgraph.base.held_out`;
- a parent and the components fitted after it as one model, its outputs, and the columns of
  ``predictions.parquet`` in :mod:`kdgraph.base.fitted_model`;
- parents in ``FrozenEstimator``, advice about unsuitable parents, which rows a parent was fitted
  on, and its trees that were fitted without a row, in :mod:`kdgraph.base.frozen`;
- logits, layers and input gradients of the network inside a parent in
  :mod:`kdgraph.base.network_access`.
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
    write_predictions,
)
from kdgraph.base.posthoc import PostHoc, PostHocClassifier, seeded_clone
from kdgraph.base.rows import Rows
from kdgraph.base.validation import select_rows

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
    "write_predictions",
]
