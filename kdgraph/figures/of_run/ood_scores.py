"""How well a score for being out of distribution tells sets from test rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.answers import Predictions, SetScores
from kdgraph.figures.of_run.drawing import Drawing, title_of
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.parameters import Count

RADIUS = 2.0
"""Of many spheres the one that is shown."""


@run_figure("ood_scores")
def ood_scores_of_run(run: Drawing, *, at_most: Count = 3) -> Any:
    """Histograms of the out-of-distribution score on test rows and on sets out of distribution.

    Parameters
    ----------
    at_most : so many sets, the first ones: all that are one of a kind, and of a family of many the sphere of radius 2 or the one in the
        middle.
    """
    from kdgraph.figures import ood_scores as draw

    found = {title_of(one).replace("\n", ", "): one for one in map(_typical, run.families())}
    scores = {f"{title}: {one.n:,} rows": _scores(run, one) for title, one in found.items()}
    sets = {title: said for title, said in list(scores.items())[:at_most] if said}
    test = _scores(run, run.test)
    if not sets or not test:
        return None
    marked = [name for name, model in zip(test, run.models, strict=True) if model.gives("ood_score")]
    return draw(test, sets, thresholds=marked)


def _scores(run: Drawing, found: Predictions) -> dict[str, np.ndarray]:
    """Name → Float[n]; nothing unless both models have a score. A model that scores sets is named so."""
    said = run.said("ood_score", found) or {}
    return {_named(name, given): np.asarray(given) for name, given in said.items()}


def _named(name: str, given: Any) -> str:
    """Sets are named by the size that was drawn; a test set that is smaller is one set."""
    return f"{name}, {'rows in ' if given.level == 'instance' else ''}sets of {given.set_size}" if isinstance(given, SetScores) else name


def _typical(family: list[Predictions]) -> Predictions:
    """One set of a family: at :data:`RADIUS`, or in the middle of those that are out of distribution."""
    outside = [found for found in family if not found.in_distribution] or family
    middle = outside[(len(outside) - 1) // 2]
    return next((found for found in outside if found.params.get("radius") == RADIUS), middle)
