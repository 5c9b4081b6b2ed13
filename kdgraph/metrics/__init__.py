"""Metrics: pure functions on arrays, each stating its convention; and :func:`score`, which finds one by name and adds its error.

A new metric is a function decorated with :func:`metric` or :func:`mean_over_rows`; what it needs is read from the names of its parameters,
such as ``y`` (Int[n], positions in the classes) and ``proba`` (Float[n, K]); :data:`INPUTS` has all of them. Every other parameter is
an option.
"""

from __future__ import annotations

from kdgraph.metrics.accuracy import brier, error, nll
from kdgraph.metrics.calibration import ReliabilityBins, ece, ece_by_edges, mce, reliability_bins
from kdgraph.metrics.confidence import mmc, mmc_wrong, oce, oce_of_mean
from kdgraph.metrics.improvement import Improvement, absolute_improvement, relative_improvement
from kdgraph.metrics.inputs import INPUTS
from kdgraph.metrics.posterior import hellinger
from kdgraph.metrics.registry import METRICS, Metric, mean_over_rows, metric, table
from kdgraph.metrics.scoring import Score, check_metric, needs, options_of, score, tabulate
from kdgraph.metrics.top_label import TopLabel

__all__ = [
    "INPUTS",
    "METRICS",
    "Improvement",
    "Metric",
    "ReliabilityBins",
    "Score",
    "TopLabel",
    "absolute_improvement",
    "brier",
    "check_metric",
    "ece",
    "ece_by_edges",
    "error",
    "hellinger",
    "mce",
    "mean_over_rows",
    "metric",
    "mmc",
    "mmc_wrong",
    "needs",
    "nll",
    "oce",
    "oce_of_mean",
    "options_of",
    "relative_improvement",
    "reliability_bins",
    "score",
    "table",
    "tabulate",
]
