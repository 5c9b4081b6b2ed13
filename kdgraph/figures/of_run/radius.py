"""Confidence against the distance from the data, of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing, mean_confidence
from kdgraph.figures.of_run.registry import run_figure


@run_figure("confidence_against_radius")
def confidence_against_radius_of_run(run: Drawing) -> Any:
    """Mean confidence on spheres around the data."""
    from kdgraph.figures import confidence_against_radius as draw

    shells = [found for found in run.evaluation.predictions if "radius" in found.params]
    shells.sort(key=lambda shell: shell.params["radius"])
    if len(shells) < 2 or (curves := mean_confidence(run, shells)) is None or run.prior is None:
        return None
    return draw(curves, np.array([shell.params["radius"] for shell in shells]), run.prior)
