"""Estimated against true means, of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.parameters import Count


@run_figure("mean_and_sd")
def mean_and_sd_of_run(run: Drawing, at_most: Count = 2000) -> Any:
    """Estimated against true means and standard deviations of the test rows; None where nobody knows the true ones.

    Parameters
    ----------
    at_most : rows that are drawn, the first ones.
    """
    from kdgraph.figures import Moments
    from kdgraph.figures import mean_and_sd as draw

    said, truth = run.said("distribution", run.test), run.test.truth
    if said is None or truth is None:
        return None
    true, *others = (Moments(each[:at_most].mean(), np.sqrt(each[:at_most].var())) for each in (truth, *said.values()))
    return draw(true, dict(zip(said, others, strict=True)))
