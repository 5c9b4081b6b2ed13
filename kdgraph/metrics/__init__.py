"""Metrics: pure functions on arrays, each stating its convention; and :func:`score`, which finds one by name and adds its error.

A new metric is a function decorated with :func:`metric` or :func:`mean_over_rows`; what it needs is read from the names of its parameters,
such as ``y`` (Int[n], positions in the classes) and ``proba`` (Float[n, K]); :data:`INPUTS` has all of them. Every other parameter is
an option.
"""

from __future__ import annotations

from kdgraph.metrics.accuracy import brier, error, nll, nll_clipped
from kdgraph.metrics.calibration import ReliabilityBins, reliability_bins
from kdgraph.metrics.calibration.by_class import classwise_ece, top_label_ece, top_label_ece_if_calibrated
from kdgraph.metrics.calibration.kernel import mmce
from kdgraph.metrics.calibration.numbers import ece, ece_by_edges, ece_if_calibrated, mce
from kdgraph.metrics.calibration.smooth import smooth_ece
from kdgraph.metrics.confidence import mmc, mmc_wrong, oce, oce_of_mean
from kdgraph.metrics.decisions import aurc, e_aurc, prr, reward, reward_by_ratio, risk_coverage
from kdgraph.metrics.grouping import Groups
from kdgraph.metrics.groups import by_group, group_ece, group_mce
from kdgraph.metrics.improvement import Improvement, absolute_improvement, relative_improvement
from kdgraph.metrics.inputs import INPUTS
from kdgraph.metrics.local.errors import LocalErrors, local_errors, local_errors_at
from kdgraph.metrics.local.numbers import lce, lce_n_eff, mlce, mlce_n_eff
from kdgraph.metrics.local.tables import lce_by_bandwidth, lce_map, slce
from kdgraph.metrics.mean_score import mean_ood_score
from kdgraph.metrics.ood import aupr_in, aupr_out, auroc, delong_stderr, fpr90, fpr95
from kdgraph.metrics.ood_summary import OodMetrics, ood_metrics
from kdgraph.metrics.posterior import hellinger
from kdgraph.metrics.registry import METRICS, Metric, mean_over_rows, metric, table
from kdgraph.metrics.regression import (
    beside_truth,
    coverage,
    coverage_curve,
    crps,
    crps_excess,
    group_coverage,
    interval_score,
    interval_score_excess,
    kl,
    kl_hist30_sym,
    local_coverage,
    local_pit,
    log_score,
    mean_sd,
    mean_width,
    mse_excess,
    mse_mean,
    mse_y,
    pit_cvm,
    pit_frosini,
    pit_histogram,
    pit_ks,
    pit_tests,
    quantile_score,
    rmse,
    smis,
    unbounded_share,
    worst_cell_gap,
    worst_group_gap,
)
from kdgraph.metrics.scoring import Score, about, asked, check_metric, needs, options_of, score, space_of, tabulate
from kdgraph.metrics.set_tests import contamination, power_curve, set_p_values
from kdgraph.metrics.shared import sharing
from kdgraph.metrics.top_label import TopLabel
from kdgraph.metrics.top_label_accuracy import brier_top, nll_top, nll_top_clipped
from kdgraph.smoothing import LocalMeans, local_means, rms_of

__all__ = [
    "INPUTS",
    "METRICS",
    "Groups",
    "Improvement",
    "LocalErrors",
    "LocalMeans",
    "Metric",
    "OodMetrics",
    "ReliabilityBins",
    "Score",
    "TopLabel",
    "about",
    "absolute_improvement",
    "asked",
    "aupr_in",
    "aupr_out",
    "aurc",
    "auroc",
    "beside_truth",
    "brier",
    "brier_top",
    "by_group",
    "check_metric",
    "classwise_ece",
    "contamination",
    "coverage",
    "coverage_curve",
    "crps",
    "crps_excess",
    "delong_stderr",
    "e_aurc",
    "ece",
    "ece_by_edges",
    "ece_if_calibrated",
    "error",
    "fpr90",
    "fpr95",
    "group_coverage",
    "group_ece",
    "group_mce",
    "hellinger",
    "interval_score",
    "interval_score_excess",
    "kl",
    "kl_hist30_sym",
    "lce",
    "lce_by_bandwidth",
    "lce_map",
    "lce_n_eff",
    "local_coverage",
    "local_errors",
    "local_errors_at",
    "local_means",
    "local_pit",
    "log_score",
    "mce",
    "mean_ood_score",
    "mean_over_rows",
    "mean_sd",
    "mean_width",
    "metric",
    "mlce",
    "mlce_n_eff",
    "mmc",
    "mmc_wrong",
    "mmce",
    "mse_excess",
    "mse_mean",
    "mse_y",
    "needs",
    "nll",
    "nll_clipped",
    "nll_top",
    "nll_top_clipped",
    "oce",
    "oce_of_mean",
    "ood_metrics",
    "options_of",
    "pit_cvm",
    "pit_frosini",
    "pit_histogram",
    "pit_ks",
    "pit_tests",
    "power_curve",
    "prr",
    "quantile_score",
    "relative_improvement",
    "reliability_bins",
    "reward",
    "reward_by_ratio",
    "risk_coverage",
    "rms_of",
    "rmse",
    "score",
    "set_p_values",
    "sharing",
    "slce",
    "smis",
    "smooth_ece",
    "space_of",
    "table",
    "tabulate",
    "top_label_ece",
    "top_label_ece_if_calibrated",
    "unbounded_share",
    "worst_cell_gap",
    "worst_group_gap",
]
