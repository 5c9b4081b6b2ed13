"""Confidence along families of sets that leave the data, of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.answers import Predictions
from kdgraph.figures.of_run.drawing import Drawing, mean_confidence, parameter_of
from kdgraph.figures.of_run.registry import run_figure


@run_figure("confidence_against_shift")
def confidence_against_shift_of_run(run: Drawing) -> Any:
    """Mean confidence along each family of sets that leads away from the data."""
    from kdgraph.figures import confidence_against_shift as draw

    families = {axis_label(family[0]): family for family in run.families() if len(family) > 1 and "radius" not in family[0].params}
    curves = {label: means for label, family in families.items() if (means := mean_confidence(run, family)) is not None}
    if not curves or run.prior is None:
        return None
    values = {label: np.array([parameter_of(one)[1] for one in families[label]]) for label in curves}
    return draw(curves, values, run.prior, id_values={label: families[label][0].id_values for label in curves})


def axis_label(found: Predictions) -> str:
    """``axis of the ellipse``; ``intensity`` alone where family and parameter have one name."""
    name = parameter_of(found)[0]
    return name if name == found.ood else f"{name} of the {found.ood}"
