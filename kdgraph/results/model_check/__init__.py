"""A fitted model and repairs of it, measured on rows outside of their fits; for ``kdg check``.

:mod:`~kdgraph.results.model_check.folds` reads the runs of all folds,
:mod:`~kdgraph.results.model_check.numbers` has what is computed from them, and
:mod:`~kdgraph.results.model_check.choice` chooses among the repairs.
"""

from kdgraph.results.model_check.choice import Choice, Interval, MethodLoss, choose_by_loss
from kdgraph.results.model_check.expected import Agreement, compare_with_file
from kdgraph.results.model_check.folds import GIVEN, MAX_GIVEN_ROWS, measure_models, pool_folds
from kdgraph.results.model_check.numbers import (
    UNREPAIRED,
    Calibration,
    FarRows,
    GroupNumbers,
    ModelCheck,
    PooledPredictions,
)

__all__ = [
    "GIVEN",
    "MAX_GIVEN_ROWS",
    "UNREPAIRED",
    "Agreement",
    "Calibration",
    "Choice",
    "FarRows",
    "GroupNumbers",
    "Interval",
    "MethodLoss",
    "ModelCheck",
    "PooledPredictions",
    "choose_by_loss",
    "compare_with_file",
    "measure_models",
    "pool_folds",
]
