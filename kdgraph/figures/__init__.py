"""Figures of calibration, confidence and out-of-distribution detection.

Each function takes arrays and returns a :class:`matplotlib.figure.Figure`. All figures share one
style sheet. None uses pyplot, so any thread may draw. The first name of a mapping is the parent,
the others are methods.

Examples
--------
Draw a reliability diagram of two models and write it to a PDF file:

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> import numpy as np
>>> from kdgraph.figures import plot_reliability_diagram, save_figure
>>> from kdgraph.metrics import reliability_bins
>>> rng = np.random.default_rng(0)
>>> confidence = rng.uniform(0.5, 1, 1000)
>>> correct = rng.random(1000) < 0.8 * confidence
>>> bins = {
...     "forest": reliability_bins(confidence, correct),
...     "isotonic": reliability_bins(0.8 * confidence, correct),
... }
>>> figure = plot_reliability_diagram(bins, ece={"forest": 0.15, "isotonic": 0.01})
>>> with TemporaryDirectory() as folder:
...     paths = save_figure(figure, Path(folder) / "reliability", formats=["pdf"])
>>> [path.name for path in paths]
['reliability.pdf']
"""

from __future__ import annotations

from kdgraph.figures.by_set import plot_confidence_by_set
from kdgraph.figures.confidence import plot_confidence_against_radius
from kdgraph.figures.confidence_curves import ClassPanel, plot_confidence_curves
from kdgraph.figures.contamination import plot_power_against_contamination
from kdgraph.figures.critical_difference import RankSummary, plot_critical_difference_diagram
from kdgraph.figures.gains import plot_gains, plot_mean_confidence
from kdgraph.figures.groups import GroupTable, plot_group_tables
from kdgraph.figures.images import plot_image_row
from kdgraph.figures.joint_distribution import plot_joint_distribution
from kdgraph.figures.local import ConfidenceBin, plot_lce_landscape, plot_lce_of_bins
from kdgraph.figures.local_by_bandwidth import LceCurves, plot_lce_against_bandwidth
from kdgraph.figures.misses import plot_interval_misses
from kdgraph.figures.moments import RowMoments, plot_mean_and_sd
from kdgraph.figures.ood_scores import plot_ood_scores
from kdgraph.figures.pit import (
    CoverageCurve,
    plot_coverage_against_level,
    plot_local_pit_histograms,
    plot_pit_histogram,
)
from kdgraph.figures.posterior import plot_posterior_maps
from kdgraph.figures.prediction_sets import SetCoverage, plot_coverage_of_sets
from kdgraph.figures.predictive import PredictedRow, plot_predictive_densities
from kdgraph.figures.reliability import plot_reliability_diagram
from kdgraph.figures.reward import plot_reward_against_ratio
from kdgraph.figures.shift import plot_confidence_against_shift
from kdgraph.figures.style import posterior_colormap, save_figure, style_context

__all__ = [
    "ClassPanel",
    "ConfidenceBin",
    "CoverageCurve",
    "GroupTable",
    "LceCurves",
    "PredictedRow",
    "RankSummary",
    "RowMoments",
    "SetCoverage",
    "plot_confidence_against_radius",
    "plot_confidence_against_shift",
    "plot_confidence_by_set",
    "plot_confidence_curves",
    "plot_coverage_against_level",
    "plot_coverage_of_sets",
    "plot_critical_difference_diagram",
    "plot_gains",
    "plot_group_tables",
    "plot_image_row",
    "plot_interval_misses",
    "plot_joint_distribution",
    "plot_lce_against_bandwidth",
    "plot_lce_landscape",
    "plot_lce_of_bins",
    "plot_local_pit_histograms",
    "plot_mean_and_sd",
    "plot_mean_confidence",
    "plot_ood_scores",
    "plot_pit_histogram",
    "plot_posterior_maps",
    "plot_power_against_contamination",
    "plot_predictive_densities",
    "plot_reliability_diagram",
    "plot_reward_against_ratio",
    "posterior_colormap",
    "save_figure",
    "style_context",
]
