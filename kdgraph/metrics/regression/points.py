"""How far the mean of a predictive distribution is from the outcome, and from the true mean where a simulation knows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.metrics.registry import mean_over_rows, metric


@metric("RMSE", better="lower", unit="units of y")
def rmse(y: np.ndarray, distribution: Any) -> float:
    """Root of the mean of (mean of the distribution - y)², in the units of y; scikit-learn's ``root_mean_squared_error`` of the mean.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    """
    return float(np.sqrt(np.mean((distribution.mean() - y) ** 2)))


@mean_over_rows("MSE to y", better="lower", unit="squared units of y")
def mse_y(y: np.ndarray, distribution: Any) -> np.ndarray:
    """Mean of (mean of the distribution - y)², in squared units of y: the noise of y is in it, so that the truth itself is not at 0.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows, whose mean is Float[n].

    Notes
    -----
    The MSE of Torres et al., "Model-free local recalibration of neural networks", 2024, Table 2, where the true model has 59.64; that of
    Table 1 is :func:`mse_mean`.
    """
    return (distribution.mean() - y) ** 2


@mean_over_rows("MSE to the true mean", better="lower", unit="squared units of y")
def mse_mean(distribution: Any, true_distribution: Any) -> np.ndarray:
    """Mean of (mean of the distribution - true mean)², in squared units of y: without the noise of y, which no prediction can reach.

    Parameters
    ----------
    distribution : of n rows, whose mean is Float[n].
    true_distribution : of the same rows; simulations know them.

    Notes
    -----
    The MSE of Torres et al., "Model-free local recalibration of neural networks", 2024, Table 1, whose means
    are of resampled draws.
    """
    return (distribution.mean() - true_distribution.mean()) ** 2
