"""What is predicted over the plane of two features."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.parameters import Count, Positive


@run_figure("posterior_maps")
def posterior_maps_of_run(run: Drawing, *, grid: Count = 150, reach: Positive = 2.0) -> Any:
    """Maps of the first class's probability, beside the truth where it is known.

    Parameters
    ----------
    grid : points along each side.
    reach : a map goes this many times as far from its centre as the training data.
    """
    from kdgraph.figures import posterior_maps as draw

    X = run.splits.learning.X
    if X.shape[1:] != (2,) or not all(model.gives("proba") for model in run.models):
        return None
    low, high = X.min(axis=0), X.max(axis=0)
    half = reach * (high - low) / 2
    x, y = np.linspace((low + high) / 2 - half, (low + high) / 2 + half, grid).T
    points = np.column_stack([axis.ravel() for axis in np.meshgrid(x, y)])
    truth = run.splits.test.posterior
    probabilities = {} if truth is None else {"truth": truth(points)}
    for name, model in zip(run.names, run.models, strict=True):
        probabilities[name] = model.predict_proba(points)
    maps = {name: proba[:, 0].reshape(len(y), len(x)) for name, proba in probabilities.items()}
    step_x, step_y = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
    extent = (x[0] - step_x, x[-1] + step_x, y[0] - step_y, y[-1] + step_y)
    id_box = (low[0], high[0], low[1], high[1])
    return draw(maps, extent, id_box, class_label=f"P(class {run.splits.train.classes[0]} | x)")
