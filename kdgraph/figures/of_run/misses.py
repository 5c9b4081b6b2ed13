"""Rows outside of their intervals, of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.parameters import OpenFraction


@run_figure("interval_misses")
def interval_misses_of_run(run: Drawing, level: OpenFraction = 0.95) -> Any:
    """Test rows outside of the central interval of this level, over the plane; None unless there are two features."""
    from kdgraph.figures import interval_misses as draw

    said, X = run.said("distribution", run.test), run.splits.test.X
    if said is None or X.ndim != 2 or X.shape[1] != 2:
        return None
    y, missed = np.asarray(run.test.y), {}
    for name, given in said.items():
        low, high = given.interval(level)
        missed[name] = (y > high).astype(int) - (y < low)
    first, second = run.splits.test.feature_names
    return draw(X, missed, level, (first, second))
