"""Confidence class by class, of one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kdgraph.answers import Predictions
from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.metrics import ReliabilityBins, TopLabel, reliability_bins
from kdgraph.metrics.calibration import Strategy
from kdgraph.parameters import Count, Fraction

Curve = tuple[np.ndarray, np.ndarray]


_POINTS = 501


@run_figure("confidence_by_class")
def confidence_by_class_of_run(
    run: Drawing, *, bins: Count = 10, strategy: Strategy = "uniform", at_most: Count = 10, low: Fraction | None = None
) -> Any:
    """Confidence against the parent's score, a panel for each of the classes that are predicted most often, over shares of right rows.

    Where the method's confidence is a curve over the score its line runs over the scores of all rows; of other methods, each test row has
    a dot. Steps are shares of right rows among calibration rows and among test rows.

    Parameters
    ----------
    bins, strategy : of the shares of right predictions, as of :func:`kdgraph.metrics.reliability_bins`.
    at_most : panels.
    low : the least score that is drawn (default: that of any row).
    """
    from kdgraph.figures import ClassPanel, confidence_curves

    tops = run.top(run.test)
    if tops is None or len(run.splits.train.classes) < 2:
        return None
    sets = {"test rows": run.test} if run.calibration is None else {"calibration rows": run.calibration, "test rows": run.test}
    parents = {name: _parent(run, found) for name, found in sets.items()}
    often = np.bincount(tops[run.names[0]].predicted, minlength=len(run.splits.train.classes))
    shown = sorted(np.argsort(-often, kind="stable")[:at_most].tolist())
    panels = {}
    for k in (k for k in shown if often[k]):
        curve = _curve(run, k, parents) or _cloud(k, tops[run.names[0]], tops[run.names[1]])
        histograms = {name: _shares(k, top, np.asarray(sets[name].y), bins, strategy) for name, top in parents.items()}
        histograms = {name: found for name, found in histograms.items() if found is not None}
        panels[f"{run.splits.train.classes[k]}: {often[k]:,} test rows"] = ClassPanel({run.names[1]: curve}, histograms)
    n_classes = len(run.splits.train.classes)
    left_out = f"the {len(panels)} of {n_classes} classes that are predicted most often" if len(panels) < n_classes else None
    return confidence_curves(panels, identity=f"{run.names[0]} (the score)", low=low, note=left_out)


def _parent(run: Drawing, found: Predictions) -> TopLabel:
    tops = run.top(found)
    assert tops is not None  # as of the test rows
    return tops[run.names[0]]


def _curve(run: Drawing, k: int, parents: Mapping[str, TopLabel]) -> Curve | None:
    """The method's own curve over the scores of all rows that are predicted as the class, if it has one and nothing stands after it."""
    after = list(run.models[1].after.values())
    if len(after) != 1 or not hasattr(after[0], "confidence_at"):
        return None
    scores = np.concatenate([top.confidence[top.predicted == k] for top in parents.values()])
    grid = np.linspace(scores.min(), scores.max(), _POINTS)
    return grid, after[0].confidence_at(k, grid)


def _cloud(k: int, parent: TopLabel, method: TopLabel) -> Curve:
    mine = parent.predicted == k
    return parent.confidence[mine], method.confidence[mine]


def _shares(k: int, top: TopLabel, y: np.ndarray, bins: int, strategy: Strategy) -> ReliabilityBins | None:
    """Shares of right rows among those that are predicted as the class; None where there are none."""
    mine = top.predicted == k
    return reliability_bins(top.confidence[mine], (y == k)[mine], bins=bins, strategy=strategy) if mine.any() else None
