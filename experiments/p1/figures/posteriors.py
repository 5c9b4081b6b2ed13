"""The maps of Figure 4: models of finished runs on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

REACH, SIDE = 2.0, 150  # the square [-2, 2]², points along each side
EXTENT = (-REACH, REACH, -REACH, REACH)
ID_BOX = (-1.0, 1.0, -1.0, 1.0)


def grid_points() -> np.ndarray:
    """Float[SIDE², 2], centres of the cells of the square, x₁ fastest."""
    centres = (np.arange(SIDE) + 0.5) * (2 * REACH / SIDE) - REACH
    return np.column_stack([axis.ravel() for axis in np.meshgrid(centres, centres)])


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
