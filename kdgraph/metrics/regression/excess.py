"""How much worse than the truth itself predictive distributions are, row by row on the same outcomes, where a simulation knows it.

The truth has scores above 0 too, which move with the rows that were drawn; of a difference by row most of that goes, so its standard error
is small, and 0 is what no forecaster can beat on average.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.metrics.registry import mean_over_rows, table
from kdgraph.metrics.regression.intervals import checked_level, interval_scores
from kdgraph.parameters import OpenFraction


@mean_over_rows("CRPS above the truth's", better="lower", unit="units of y")
def crps_excess(y: np.ndarray, distribution: Any, true_distribution: Any) -> np.ndarray:
    """Mean of :func:`crps` less that of the true distribution on the same rows: on average from 0, which only the truth reaches.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    true_distribution : of the same rows; simulations know them.

    References
    ----------
    Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation", JASA 102, 2007, section 2.2: the divergence of a
    score, here its sample version; of the CRPS it is the mean of ∫ (F - G)² dx.
    """
    return distribution.crps(y) - true_distribution.crps(y)


@mean_over_rows("interval score above the truth's", better="lower", unit="units of y")
def interval_score_excess(y: np.ndarray, distribution: Any, true_distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Mean of :func:`interval_score` less that of the true central interval on the same rows: on average from 0.

    Infinite where an interval is, as the score itself.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    true_distribution : of the same rows; simulations know them.
    level : in (0, 1), as of :func:`coverage`.

    References
    ----------
    As :func:`crps_excess`, with the score of Eq. 43.
    """
    (low, high), (true_low, true_high) = (each.interval(checked_level(level)) for each in (distribution, true_distribution))
    return interval_scores(y, low, high, level) - interval_scores(y, true_low, true_high, level)


@mean_over_rows("MSE above the truth's", better="lower", unit="squared units of y")
def mse_excess(y: np.ndarray, distribution: Any, true_distribution: Any) -> np.ndarray:
    """Mean of :func:`mse_y` less that of the true mean on the same rows: what a table of MSE to y says beside its row of the truth.

    On average over outcomes it is :func:`mse_mean`, which has less noise; so it may be below 0.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    true_distribution : of the same rows; simulations know them.

    Notes
    -----
    Table 2 of Torres et al., "Model-free local recalibration of neural networks", 2024: the MSE of a row less that of "True model".
    """
    return (distribution.mean() - y) ** 2 - (true_distribution.mean() - y) ** 2


@table("beside the truth")
def beside_truth(
    y: np.ndarray, distribution: Any, true_distribution: Any, mean_abs_y: float, *, level: OpenFraction = 0.95
) -> dict[str, np.ndarray]:
    """Scores of the predicted and of the true distributions on the same rows, and their difference with its standard error.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    true_distribution : of the same rows; simulations know them.
    mean_abs_y : as of :func:`smis`.
    level : in (0, 1), of the central intervals.

    Returns
    -------
    Columns ``score`` (mse_y, crps, coverage, interval_score, smis), ``predicted``, ``truth``, ``excess`` (predicted - truth) and ``stderr``
    of the excess, that of the mean of the differences by row; NaN of one row, and where an interval is infinite.

    Notes
    -----
    The rows "True model" of the tables of Torres et al., "Model-free local recalibration of neural networks", 2024.
    """
    predicted, truth = (_by_row(y, each, mean_abs_y, checked_level(level)) for each in (distribution, true_distribution))
    excess = [_mean_and_stderr(predicted[name] - truth[name]) for name in predicted]
    return {
        "score": np.array(list(predicted)),
        "predicted": np.array([values.mean() for values in predicted.values()]),
        "truth": np.array([values.mean() for values in truth.values()]),
        "excess": np.array([mean for mean, _ in excess]),
        "stderr": np.array([stderr for _, stderr in excess]),
    }


def _by_row(y: np.ndarray, distribution: Any, mean_abs_y: float, level: float) -> dict[str, np.ndarray]:
    """Float[n] by name of the metric whose mean over rows it is."""
    low, high = distribution.interval(level)
    score = interval_scores(y, low, high, level)
    return {
        "mse_y": (distribution.mean() - y) ** 2,
        "crps": distribution.crps(y),
        "coverage": ((low <= y) & (y <= high)).astype(np.float64),
        "interval_score": score,
        "smis": score / mean_abs_y,
    }


def _mean_and_stderr(values: np.ndarray) -> tuple[float, float]:
    n, mean = len(values), float(values.mean())
    return mean, float(values.std(ddof=1) / np.sqrt(n)) if n > 1 and np.isfinite(mean) else float("nan")
