"""The maps of Figure 4: models of finished runs, from the runs' own store, on a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.common.runs import Record
from kdgraph.config import RunConfig
from kdgraph.runner import stages
from kdgraph.runner.stored import StoredStages
from kdgraph.runner.watch import Watch

REACH, SIDE = 2.0, 200  # the square [-2, 2]², points along each side
EXTENT = (-REACH, REACH, -REACH, REACH)
ID_BOX = (-1.0, 1.0, -1.0, 1.0)


def grid_points() -> np.ndarray:
    """Float[SIDE², 2], centres of the cells of the square, x₁ fastest."""
    centres = (np.arange(SIDE) + 0.5) * (2 * REACH / SIDE) - REACH
    return np.column_stack([axis.ravel() for axis in np.meshgrid(centres, centres)])


def models_of(record: Record, folder: Path) -> tuple[Any, Any, Any]:
    """Splits, parent and calibrated model of a finished run: from the store below ``folder``, else fitted again, which gives the same."""
    config = RunConfig(**record["config"], out=str(folder), method=record["method"])
    splits = stages.split(config.dataset, config.seed)
    stored = StoredStages(config, splits, Watch())
    parent = stored.fit().value
    return splits, parent, stored.calibrate(parent).value


def first_class(model: Any) -> np.ndarray:
    """Float[SIDE, SIDE], what ``model`` gives the first class on the grid."""
    return model.predict_proba(grid_points())[:, 0].reshape(SIDE, SIDE)


def truth(splits: Any) -> np.ndarray:
    """The same of the true posterior, one half outside the data's box, as the paper has it."""
    points = grid_points()
    inside = np.abs(points).max(axis=1) <= 1
    exact = np.full(len(points), 0.5)
    exact[inside] = splits.test.posterior(points[inside])[:, 0]
    return exact.reshape(SIDE, SIDE)
