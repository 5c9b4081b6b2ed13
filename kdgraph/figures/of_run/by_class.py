"""Confidence class by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import figure
from kdgraph.metrics import reliability_bins
from kdgraph.metrics.calibration import Strategy
from kdgraph.parameters import Count


@figure
def confidence_by_class(run: Drawing, *, bins: Count = 10, strategy: Strategy = "uniform", at_most: Count = 10) -> Any:
    """Confidence against the parent's score on test rows, a panel for each of the classes that are predicted most often.

    Parameters
    ----------
    bins, strategy : of the shares of right predictions, as of :func:`kdgraph.metrics.reliability_bins`.
    at_most : panels.
    """
    from kdgraph.figures import OfClass
    from kdgraph.figures import confidence_by_class as draw

    tops = run.top(run.test)
    if tops is None or len(run.splits.train.classes) < 2:
        return None
    parent, method = (tops[name] for name in run.names)
    y, labels = np.asarray(run.test.y), run.splits.train.classes.tolist()
    often = np.bincount(parent.predicted, minlength=len(labels))
    found = {}
    for k in sorted(np.argsort(-often, kind="stable")[:at_most].tolist()):
        mine = parent.predicted == k
        if mine.any():
            score = parent.confidence[mine]
            right = reliability_bins(score, (y == k)[mine], bins=bins, strategy=strategy)
            found[f"{labels[k]}: {mine.sum():,} rows"] = OfClass(score, {run.names[1]: method.confidence[mine]}, right)
    return draw(found, run.names[0])
