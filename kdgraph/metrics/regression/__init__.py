"""Metrics of predictive distributions of a continuous outcome.

A distribution has ``len``, ``cdf``, ``ppf``, ``mean``, ``var``, ``interval`` and ``crps``, which
are vectorised over rows. PIT values of rows at a step of F are spread over the step, not drawn.
"""

from __future__ import annotations

from kdgraph.metrics.regression.local import (
    group_coverage,
    local_coverage,
    local_pit,
    worst_cell_gap,
    worst_group_gap,
)
from kdgraph.metrics.regression.pit import (
    cramer_von_mises,
    distance_to_uniform,
    frosini,
    histogram_of_pits,
    pit_cvm,
    pit_frosini,
    pit_histogram,
    pit_ks,
    pit_steps,
    pit_tests,
    simulated_p_value,
    values_on_steps,
)
from kdgraph.metrics.regression.scores import (
    LEVELS,
    coverage,
    coverage_curve,
    crps,
    interval_score,
    log_score,
    mean_sd,
    mean_width,
    mse_mean,
    mse_y,
    quantile_score,
    rmse,
    smis,
    unbounded_fraction,
)
from kdgraph.metrics.regression.truth import (
    binned_kl,
    crps_excess,
    interval_score_excess,
    kl,
    kl_hist30_sym,
    mse_excess,
    truth_comparison,
)

__all__ = [
    "LEVELS",
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
    "pit_steps",
    "pit_tests",
    "quantile_score",
    "rmse",
    "simulated_p_value",
    "smis",
    "truth_comparison",
    "unbounded_fraction",
    "values_on_steps",
    "worst_cell_gap",
    "worst_group_gap",
]
