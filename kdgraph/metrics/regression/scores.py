"""Errors of the mean, central prediction intervals, and proper scores of predictive distributions.

An interval may be infinite: if there are too few held-out rows for a guarantee, only the whole line
satisfies it. Such an interval always covers, and its width and its score are infinite. The means
over rows are then infinite, too, however few rows are concerned, because an infinite interval is
not informative. In a record an infinite number is null; :func:`unbounded_fraction` is the fraction
of rows with infinite intervals, original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.registry import mean_over_rows, metric, table
from kdgraph.parameters import OpenFraction, check_value


@metric("RMSE", better="lower", unit="units of y")
def rmse(y: np.ndarray, distribution: Any) -> float:
    """Measure the root mean squared error of the predicted mean, in the units of y.

    It is scikit-learn's ``root_mean_squared_error``.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> round(rmse([3.0, -1.0], Normal(np.zeros(2), np.ones(2))), 3)  # √((9 + 1) / 2)
    2.236
    """
    return float(np.sqrt(np.mean((distribution.mean() - y) ** 2)))


@mean_over_rows("MSE to y", better="lower", unit="squared units of y")
def mse_y(y: np.ndarray, distribution: Any) -> np.ndarray:
    """Measure the mean squared error of the predicted mean to y, in squared units of y.

    It includes the noise of y, so it is not 0 for the true distribution. It is the MSE in Table 2
    of Torres et al. (2024), where the true model has 59.64.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> mse_y([3.0, -1.0], Normal(np.zeros(2), np.ones(2)))
    5.0
    """
    return (distribution.mean() - y) ** 2


@mean_over_rows("MSE to the true mean", better="lower", unit="squared units of y")
def mse_mean(distribution: Any, true_distribution: Any) -> np.ndarray:
    """Measure the mean squared error of the predicted to the true mean, in squared units of y.

    It excludes the noise of y, which no prediction can remove. It is the MSE in Table 1 of Torres
    et al. (2024), who estimate the predicted means from draws.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> mse_mean(Normal(np.zeros(2), np.ones(2)), Normal(np.array([1.0, 2.0]), np.ones(2)))
    2.5
    """
    return (distribution.mean() - true_distribution.mean()) ** 2


LEVELS = (*(i / 20 for i in range(1, 20)), 0.99)
"""Nominal coverages of :func:`coverage_curve`."""


@mean_over_rows("coverage", better=None)
def coverage(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Measure the fraction of outcomes in the central interval, ends included.

    The ideal value is ``level`` (Gneiting, Balabdaoui, Raftery, "Probabilistic forecasts,
    calibration and sharpness", JRSS B 69, 2007).

    Parameters
    ----------
    level : float, default=0.95
        Nominal coverage, in (0, 1). The interval ranges from the quantile at (1 - level)/2 to that
        at (1 + level)/2.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> coverage([-3.0, -0.5, 0.5, 1.0], Normal(np.zeros(4), np.ones(4)))  # one is beyond ±1.96
    0.75
    """
    low, high = distribution.interval(checked_level(level))
    return ((low <= y) & (y <= high)).astype(np.float64)


@mean_over_rows("interval score", better="lower", unit="units of y", like=coverage)
def interval_score(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Measure the mean interval score of the central interval, in the units of y.

    The score is width + 2/α·(distance of y to the interval), with α = 1 - level (Gneiting and
    Raftery, "Strictly proper scoring rules, prediction, and estimation", JASA 102, 2007, Eq. 43).
    It is not standardised; :func:`smis` is. It is infinite if any interval is infinite.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> normal = Normal(np.zeros(2), np.ones(2))
    >>> interval_score.by_row([0.0, 3.0], normal).round(2).tolist()  # 1.04 above costs 40 · 1.04
    [3.92, 45.52]
    """
    low, high = distribution.interval(checked_level(level))
    return interval_scores(y, low, high, level)


@mean_over_rows("sMIS", better="lower", like=coverage)
def smis(
    y: np.ndarray, distribution: Any, mean_abs_y: float, *, level: OpenFraction = 0.95
) -> np.ndarray:
    """Measure the standardised mean interval score (sMIS).

    It is :func:`interval_score` divided by the mean of ``|y|`` on the calibration rows, and is
    infinite if any interval is infinite (Torres et al. 2024, Eq. 5, in whose print the signs of the
    width and of the penalties differ; so computed, their Table 1 is reproduced).

    Parameters
    ----------
    mean_abs_y : float
        Mean of ``|y|``, above 0, on rows that are not test rows. A run uses its calibration rows.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> normal = Normal(np.zeros(2), np.ones(2))
    >>> round(smis([0.0, 3.0], normal, mean_abs_y=2.0), 2)  # the interval score is 24.72
    12.36
    """
    low, high = distribution.interval(checked_level(level))
    return interval_scores(y, low, high, level) / mean_abs_y


@mean_over_rows("mean width", better=None, unit="units of y", like=coverage)
def mean_width(distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Measure the mean width of the central intervals, in the units of y.

    It measures sharpness, which is meaningful only if the coverage is correct (Gneiting et al.
    2007). It is infinite if any interval is infinite.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> round(mean_width(Normal(np.zeros(2), np.array([1.0, 2.0]))), 2)  # 2 · 1.96 · 1.5
    5.88
    """
    low, high = distribution.interval(checked_level(level))
    return high - low


@mean_over_rows("fraction of infinite intervals", better="lower", like=coverage)
def unbounded_fraction(distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Measure the fraction of rows whose central interval has an infinite end.

    Examples
    --------
    >>> import warnings
    >>> from kdgraph.distributions import ConformalIntervals, Normal
    >>> normal, y = Normal(np.zeros(40), np.ones(40)), np.linspace(-2, 2, 40)
    >>> cells = np.repeat([0, 1], [30, 10])  # 95 % require 19 held-out rows in a cell
    >>> with warnings.catch_warnings(action="ignore"):
    ...     unbounded_fraction(ConformalIntervals(normal, normal, y, cells, cells))
    0.25
    """
    low, high = distribution.interval(checked_level(level))
    return (np.isinf(low) | np.isinf(high)).astype(np.float64)


@table("coverage curve")
def coverage_curve(
    y: np.ndarray, distribution: Any, *, levels: Sequence[OpenFraction] = LEVELS
) -> dict[str, np.ndarray]:
    """Tabulate :func:`coverage` and mean width of the central intervals of several levels.

    Sharpness (the width) is judged subject to calibration (the coverage; Gneiting et al. 2007).

    The columns are ``level``, ``coverage`` and ``width`` (mean, in the units of y), each Float[l].

    Parameters
    ----------
    levels : sequence of float
        Nominal coverages, each in (0, 1). The default ranges from 0.05 to 0.99.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> normal = Normal(np.zeros(4), np.ones(4))
    >>> table = coverage_curve([-3.0, -0.5, 0.5, 1.0], normal, levels=[0.5, 0.95])
    >>> {column: values.round(2).tolist() for column, values in table.items()}
    {'level': [0.5, 0.95], 'coverage': [0.5, 0.75], 'width': [1.35, 3.92]}
    """
    check_value("levels", levels, Sequence[OpenFraction])
    intervals = [distribution.interval(level) for level in levels]
    covered = np.array([np.mean((low <= y) & (y <= high)) for low, high in intervals])
    width = np.array([np.mean(high - low) for low, high in intervals])
    return {"level": np.array(levels, dtype=np.float64), "coverage": covered, "width": width}


def interval_scores(y: np.ndarray, low: np.ndarray, high: np.ndarray, level: float) -> np.ndarray:
    """Return the interval scores of [low, high], Float[n]: width + 2/α·(distance of y to it).

    α is 1 - level (Gneiting and Raftery, 2007, Eq. 43).
    """
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return high - low + 2 / (1 - level) * outside


def checked_level(level: float) -> float:
    """Return ``level``, or raise a :class:`ParameterError` unless it is in (0, 1)."""
    if not 0 < level < 1:
        raise ParameterError(f"level must be in (0, 1), got {level!r}")
    return level


@mean_over_rows("CRPS", better="lower", unit="units of y")
def crps(y: np.ndarray, distribution: Any) -> np.ndarray:
    """Measure the continuous ranked probability score (CRPS), in the units of y.

    It is the mean of ∫ (F(x) - [x >= y])² dx (Gneiting and Raftery 2007, Eq. 20, with the opposite
    sign); for a point prediction it is the absolute error. It is computed in closed form for normal
    distributions, weighted samples and grids of quantiles, and by quadrature of quantiles
    otherwise.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> round(crps([0.0], Normal(np.zeros(1), np.ones(1))), 4)  # (√2 - 1) / √π
    0.2337
    """
    return distribution.crps(y)


@mean_over_rows("quantile score", better="lower", unit="units of y")
def quantile_score(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.5) -> np.ndarray:
    """Measure the pinball loss of the quantile at ``level``, in the units of y.

    It is the mean of ([y <= q] - level)·(q - y), with q the quantile. At level 0.5 it is half the
    mean absolute error of the median. Twice its integral over all levels is the CRPS. It is
    scikit-learn's ``mean_pinball_loss`` (Gneiting and Raftery 2007, Section 6.1).

    Parameters
    ----------
    level : float, default=0.5
        Level of the quantile, in (0, 1).

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> quantile_score([3.0, 2.0], Normal(np.zeros(2), np.ones(2)))  # half of the mean error 2.5
    1.25
    """
    quantile = distribution.ppf(checked_level(level))
    return ((y <= quantile) - level) * (quantile - y)


@metric("log score", better="lower", unit="nats")
def log_score(y: np.ndarray, distribution: Any) -> float:
    """Measure the mean of -log density at the outcome, in nats.

    It depends on the units of y, so compare it only on the same data set (Good, "Rational
    decisions", JRSS B 14, 1952). It is NaN if the distributions have no density, such as empirical
    ones after recalibration, and infinite if a density is 0.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> round(log_score([0.0], Normal(np.zeros(1), np.ones(1))), 3)  # log √(2π)
    0.919
    """
    if not hasattr(distribution, "pdf"):
        return float("nan")
    with np.errstate(divide="ignore"):
        return float(-np.log(distribution.pdf(y)).mean())


@mean_over_rows("mean SD", better=None, unit="units of y")
def mean_sd(distribution: Any) -> np.ndarray:
    """Measure the mean standard deviation of the distributions, in the units of y.

    It is a measure of sharpness (Gneiting et al. 2007), like :func:`mean_width`.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> mean_sd(Normal(np.zeros(2), np.array([1.0, 3.0])))
    2.0
    """
    return np.sqrt(distribution.var())
