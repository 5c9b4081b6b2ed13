"""True against predicted classes, of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure


@run_figure("joint_distribution")
def joint_distribution_of_run(run: Drawing) -> Any:
    """True against predicted class on test rows: how many rows, and the shares of each true and of each predicted class."""
    from kdgraph.figures import joint_distribution as draw

    tops = run.top(run.test)
    if tops is None:
        return None
    n = len(run.splits.train.classes)
    cell = np.asarray(run.test.y) * n + tops[run.names[1]].predicted
    return draw(np.bincount(cell, minlength=n * n).reshape(n, n), [str(label) for label in run.splits.train.classes])
