"""Whether the stated confidence is right."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.figures.reliability import Interval
from kdgraph.metrics import ece, reliability_bins
from kdgraph.metrics.calibration import Strategy
from kdgraph.parameters import Count


@run_figure("reliability_diagram")
def reliability_diagram_of_run(run: Drawing, *, bins: Count = 15, strategy: Strategy = "uniform", interval: Interval = "wilson") -> Any:
    """Accuracy against confidence on test rows, by bin.

    Parameters
    ----------
    bins, strategy : as of :func:`kdgraph.metrics.reliability_bins`.
    interval : of the share right in each bin, as of :func:`kdgraph.figures.reliability_diagram`.
    """
    from kdgraph.figures import reliability_diagram as draw

    tops = run.top(run.test)
    if tops is None:
        return None
    y = np.asarray(run.test.y)
    found = {name: reliability_bins(top.confidence, top.correct(y), bins=bins, strategy=strategy) for name, top in tops.items()}
    errors = {name: ece(y, top, bins=bins, strategy=strategy) for name, top in tops.items()}
    return draw(found, ece=errors, interval=interval)
