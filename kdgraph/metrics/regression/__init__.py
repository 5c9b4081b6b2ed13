"""How good predictive distributions of a continuous outcome are. A distribution has ``len``, ``cdf``, ``ppf``, ``mean``, ``var``,
``interval`` and ``crps``, vectorised over rows; outcomes are continuous, and PIT values are not randomised.
"""

from __future__ import annotations

from kdgraph.metrics.regression.divergence import binned_kl, kl, kl_hist30_sym
from kdgraph.metrics.regression.excess import beside_truth, crps_excess, interval_score_excess, mse_excess
from kdgraph.metrics.regression.intervals import LEVELS, coverage, coverage_curve, interval_score, mean_width, smis, unbounded_share
from kdgraph.metrics.regression.local import group_coverage, local_coverage, local_pit, worst_cell_gap, worst_group_gap
from kdgraph.metrics.regression.pit import histogram_of_pits, pit_cvm, pit_frosini, pit_histogram, pit_ks, pit_tests
from kdgraph.metrics.regression.points import mse_mean, mse_y, rmse
from kdgraph.metrics.regression.scores import crps, log_score, mean_sd, quantile_score
from kdgraph.metrics.regression.uniformity import cramer_von_mises, distance_to_uniform, frosini, simulated_p_value

__all__ = [
    "LEVELS",
    "beside_truth",
    "binned_kl",
    "coverage",
    "coverage_curve",
    "cramer_von_mises",
    "crps",
    "crps_excess",
    "distance_to_uniform",
    "frosini",
    "group_coverage",
    "histogram_of_pits",
    "interval_score",
    "interval_score_excess",
    "kl",
    "kl_hist30_sym",
    "local_coverage",
    "local_pit",
    "log_score",
    "mean_sd",
    "mean_width",
    "mse_excess",
    "mse_mean",
    "mse_y",
    "pit_cvm",
    "pit_frosini",
    "pit_histogram",
    "pit_ks",
    "pit_tests",
    "quantile_score",
    "rmse",
    "simulated_p_value",
    "smis",
    "unbounded_share",
    "worst_cell_gap",
    "worst_group_gap",
]
