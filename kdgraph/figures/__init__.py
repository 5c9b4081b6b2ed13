"""Figures: functions from arrays to a matplotlib Figure, one module a figure, one style sheet; no
pyplot, so any thread may draw.
"""

from __future__ import annotations

from kdgraph.figures.by_set import confidence_by_set
from kdgraph.figures.confidence import confidence_against_radius
from kdgraph.figures.confidence_curves import ClassPanel, confidence_curves
from kdgraph.figures.contamination import power_against_contamination
from kdgraph.figures.convergence import convergence
from kdgraph.figures.correlation import metric_against_metrics
from kdgraph.figures.critical_difference import Ranked, critical_difference_diagram
from kdgraph.figures.groups import GroupTable, group_tables
from kdgraph.figures.images import image_row
from kdgraph.figures.improvement import improvement_summary
from kdgraph.figures.joint_distribution import joint_distribution
from kdgraph.figures.local import BinOfRows, lce_landscape, lce_of_bins
from kdgraph.figures.local_by_bandwidth import LceCurves, lce_against_bandwidth
from kdgraph.figures.method_bars import method_bars
from kdgraph.figures.misses import interval_misses
from kdgraph.figures.moments import Moments, mean_and_sd
from kdgraph.figures.ood_scores import ood_scores
from kdgraph.figures.panels import Repeated, dataset_pages, simulation_summary
from kdgraph.figures.pit import (
    CoverageCurve,
    coverage_against_level,
    local_pit_histograms,
    pit_histogram,
)
from kdgraph.figures.posterior import posterior_maps
from kdgraph.figures.posterior_grid import posterior_grid
from kdgraph.figures.predictive import PredictedRow, predictive_densities
from kdgraph.figures.reliability import reliability_diagram
from kdgraph.figures.reward import reward_against_ratio
from kdgraph.figures.score_densities import score_densities
from kdgraph.figures.setting_boxes import boxes_by_setting
from kdgraph.figures.shift import confidence_against_shift
from kdgraph.figures.style import posterior_colormap, save, styled

__all__ = [
    "BinOfRows",
    "ClassPanel",
    "CoverageCurve",
    "GroupTable",
    "LceCurves",
    "Moments",
    "PredictedRow",
    "Ranked",
    "Repeated",
    "boxes_by_setting",
    "confidence_against_radius",
    "confidence_against_shift",
    "confidence_by_set",
    "confidence_curves",
    "convergence",
    "coverage_against_level",
    "critical_difference_diagram",
    "dataset_pages",
    "group_tables",
    "image_row",
    "improvement_summary",
    "interval_misses",
    "joint_distribution",
    "lce_against_bandwidth",
    "lce_landscape",
    "lce_of_bins",
    "local_pit_histograms",
    "mean_and_sd",
    "method_bars",
    "metric_against_metrics",
    "ood_scores",
    "pit_histogram",
    "posterior_colormap",
    "posterior_grid",
    "posterior_maps",
    "power_against_contamination",
    "predictive_densities",
    "reliability_diagram",
    "reward_against_ratio",
    "save",
    "score_densities",
    "simulation_summary",
    "styled",
]
