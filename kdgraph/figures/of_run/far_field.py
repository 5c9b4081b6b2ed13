"""How sure the models are out of distribution: against a radius, against a shift, by set."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.answers import Predictions
from kdgraph.figures.of_run.drawing import Drawing, parameter_of, title_of
from kdgraph.figures.of_run.registry import figure


@figure
def confidence_against_radius(run: Drawing) -> Any:
    """Mean confidence on spheres around the data."""
    from kdgraph.figures import confidence_against_radius as draw

    shells = [found for found in run.evaluation.predictions if "radius" in found.params]
    shells.sort(key=lambda shell: shell.params["radius"])
    if len(shells) < 2 or (curves := _means(run, shells)) is None or run.prior is None:
        return None
    return draw(curves, np.array([shell.params["radius"] for shell in shells]), run.prior)


@figure
def confidence_against_shift(run: Drawing) -> Any:
    """Mean confidence along each family of sets that leads away from the data."""
    from kdgraph.figures import confidence_against_shift as draw

    families = {axis_label(family[0]): family for family in run.families() if len(family) > 1 and "radius" not in family[0].params}
    curves = {label: means for label, family in families.items() if (means := _means(run, family)) is not None}
    if not curves or run.prior is None:
        return None
    values = {label: np.array([parameter_of(one)[1] for one in families[label]]) for label in curves}
    return draw(curves, values, run.prior, id_values={label: families[label][0].id_values for label in curves})


@figure
def confidence_by_set(run: Drawing) -> Any:
    """Histograms of confidence on the sets that are one of a kind; a family of many has a curve."""
    from kdgraph.figures import confidence_by_set as draw

    alone = [family[0] for family in run.families() if len(family) == 1]
    if not alone or run.prior is None:
        return None
    titles = {"test, in distribution": run.test} | {title_of(found).replace("\n", ", "): found for found in alone}
    sets = {f"{title}: {found.n:,} rows": said for title, found in titles.items() if (said := run.confidence(found)) is not None}
    return draw(sets, run.prior) if sets else None


def _means(run: Drawing, sets: list[Predictions]) -> dict[str, np.ndarray] | None:
    """Name → Float[s], mean confidence on each of the sets; None where a model does not classify."""
    said = [run.confidence(found) for found in sets]
    if any(each is None for each in said):
        return None
    return {name: np.array([each[name].mean() for each in said if each]) for name in run.names}


def axis_label(found: Predictions) -> str:
    """``axis of the ellipse``; ``intensity`` alone where family and parameter have one name."""
    name = parameter_of(found)[0]
    return name if name == found.ood else f"{name} of the {found.ood}"
