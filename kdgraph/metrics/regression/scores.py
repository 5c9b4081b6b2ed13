"""How far the mean of a predictive distribution is from the outcome, and from the true mean where a
simulation knows it.

Central prediction intervals: how often they hold, how wide they are, and both in one number.

An interval may be infinite: where too few held-out rows stand behind a guarantee, the whole line is
the only one that keeps it. Such an interval covers, and its width and its score are infinite, and
so are their means, however few rows it concerns: who may say anything has said nothing. In a record
an infinite number is null; :func:`unbounded_share` says how many rows it is about.

Proper scores of whole predictive distributions, of one quantile, and how wide they are.
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
    """Root of the mean of (mean of the distribution - y)², in the units of y; scikit-learn's
    ``root_mean_squared_error`` of the mean.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.
    """
    return float(np.sqrt(np.mean((distribution.mean() - y) ** 2)))


@mean_over_rows("MSE to y", better="lower", unit="squared units of y")
def mse_y(y: np.ndarray, distribution: Any) -> np.ndarray:
    """Mean of (mean of the distribution - y)², in squared units of y: the noise of y is in it, so
    that the truth itself is not at 0.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows, with means Float[n].

    Notes
    -----
    The MSE of Torres et al., "Model-free local recalibration of neural networks", 2024, Table 2,
    where the true model has 59.64; that of Table 1 is :func:`mse_mean`.
    """
    return (distribution.mean() - y) ** 2


@mean_over_rows("MSE to the true mean", better="lower", unit="squared units of y")
def mse_mean(distribution: Any, true_distribution: Any) -> np.ndarray:
    """Mean of (mean of the distribution - true mean)², in squared units of y: without the noise of
    y, which no prediction can reach.

    Parameters
    ----------
    distribution : Distribution
        Predicted distributions of the n rows, with means Float[n].
    true_distribution : Distribution
        True distributions of the same rows, available in simulations.

    Notes
    -----
    The MSE of Torres et al., "Model-free local recalibration of neural networks", 2024, Table 1,
    whose means are of resampled draws.
    """
    return (distribution.mean() - true_distribution.mean()) ** 2


LEVELS = (
    0.05,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.45,
    0.5,
    0.55,
    0.6,
    0.65,
    0.7,
    0.75,
    0.8,
    0.85,
    0.9,
    0.95,
    0.99,
)


@mean_over_rows("coverage", better=None)
def coverage(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Share of rows whose outcome lies in the central interval of this level, its ends included;
    ``level`` itself is ideal.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.
    level : in (0, 1); the interval goes from the quantile at (1 - level)/2 to that at (1 +
        level)/2.

    References
    ----------
    Gneiting, Balabdaoui, Raftery, "Probabilistic forecasts, calibration and sharpness", JRSS B 69,
    2007.
    """
    low, high = distribution.interval(checked_level(level))
    return ((low <= y) & (y <= high)).astype(np.float64)


@mean_over_rows("interval score", better="lower", unit="units of y")
def interval_score(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Mean of width + 2/α·(distance of y to the interval), α = 1 - level, of the central interval;
    in the units of y.

    Not divided by anything (:func:`smis` is), and smaller is better. Infinite where one interval
    is.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.
    level : float, default=0.95
        Nominal coverage, in (0, 1), as for :func:`coverage`.

    References
    ----------
    Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation", JASA 102,
    2007, Eq. 43.
    """
    low, high = distribution.interval(checked_level(level))
    return interval_scores(y, low, high, level)


@mean_over_rows("sMIS", better="lower")
def smis(
    y: np.ndarray, distribution: Any, mean_abs_y: float, *, level: OpenFraction = 0.95
) -> np.ndarray:
    """Standardised mean interval score: :func:`interval_score` over the mean of ``|y|`` on the
    calibration rows; smaller is better.

    Infinite where one interval is.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.
    mean_abs_y : above 0, the mean of ``|y|`` of rows that do not test; a run takes its calibration
    rows.
    level : float, default=0.95
        Nominal coverage, in (0, 1), as for :func:`coverage`.

    Notes
    -----
    Eq. 5 of Torres et al. (2024), whose quantiles are "standardized by the validation set mean
    absolute values". As printed its sign is turned and the width counts against the penalties; with
    the score of Gneiting and Raftery (2007), Eq. 43, its Table 1 comes out.
    """
    low, high = distribution.interval(checked_level(level))
    return interval_scores(y, low, high, level) / mean_abs_y


@mean_over_rows("mean width", better=None, unit="units of y")
def mean_width(distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Mean width of the central intervals of this level, in the units of y: sharpness, which is
    good only where coverage holds.

    Infinite where one interval is.

    Parameters
    ----------
    distribution : Distribution
        Predicted distributions of the n rows.
    level : float, default=0.95
        Nominal coverage, in (0, 1), as for :func:`coverage`.

    References
    ----------
    Gneiting, Balabdaoui, Raftery, JRSS B 69, 2007: as sharp as can be, subject to calibration.
    """
    low, high = distribution.interval(checked_level(level))
    return high - low


@mean_over_rows("share of infinite intervals", better="lower")
def unbounded_share(distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Share of rows whose central interval of this level has an infinite end; ours.

    Parameters
    ----------
    distribution : Distribution
        Predicted distributions of the n rows.
    level : float, default=0.95
        Nominal coverage, in (0, 1), as for :func:`coverage`.
    """
    low, high = distribution.interval(checked_level(level))
    return (np.isinf(low) | np.isinf(high)).astype(np.float64)


@table("coverage curve")
def coverage_curve(
    y: np.ndarray, distribution: Any, *, levels: Sequence[OpenFraction] = LEVELS
) -> dict[str, np.ndarray]:
    """:func:`coverage` of the central intervals of several levels, and their mean ``width`` in the
    units of y.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.
    levels : each in (0, 1).

    References
    ----------
    Gneiting et al., JRSS B 69, 2007, who judge sharpness (the width) subject to calibration (the
    coverage).
    """
    check_value("levels", levels, Sequence[OpenFraction])
    intervals = [distribution.interval(level) for level in levels]
    covered = np.array([np.mean((low <= y) & (y <= high)) for low, high in intervals])
    width = np.array([np.mean(high - low) for low, high in intervals])
    return {"level": np.array(levels, dtype=np.float64), "coverage": covered, "width": width}


def interval_scores(y: np.ndarray, low: np.ndarray, high: np.ndarray, level: float) -> np.ndarray:
    """Float[n]: width + 2/α·(distance of y to [low, high]) with α = 1 - level: Gneiting and Raftery
    (2007), Eq. 43.

    >>> interval_scores(np.array([0.0, 3.0]), np.array([-1.0, -1.0]), np.array([1.0, 1.0]), 0.5).tolist()
    [2.0, 10.0]
    """
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return high - low + 2 / (1 - level) * outside


def checked_level(level: float) -> float:
    """``level`` itself, if it is in (0, 1); else a ParameterError. Ours."""
    if not 0 < level < 1:
        raise ParameterError(f"level must be in (0, 1), got {level!r}")
    return level


@mean_over_rows("CRPS", better="lower", unit="units of y")
def crps(y: np.ndarray, distribution: Any) -> np.ndarray:
    """Continuous ranked probability score, the mean of ∫ (F(x) - [x >= y])² dx, in the units of y;
    of a point it is the absolute error.

    In closed form for normal distributions, exact for weighted samples, by quadrature of quantiles
    for others: the distribution says it.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows, with ``crps(y)``.

    References
    ----------
    Gneiting and Raftery, JASA 102, 2007, who turn its sign; here smaller is better.
    """
    return distribution.crps(y)


@mean_over_rows("quantile score", better="lower", unit="units of y")
def quantile_score(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.5) -> np.ndarray:
    """Mean of ([y <= q] - level)·(q - y) with q the quantile at this level, in the units of y: the
    pinball or check loss.

    At level 0.5 it is half the mean absolute error of the median; twice its integral over all
    levels is the CRPS.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.
    level : in (0, 1), of the quantile.

    References
    ----------
    Gneiting and Raftery, JASA 102, 2007, section 6.1; scikit-learn's ``mean_pinball_loss`` of the
    quantiles.
    """
    quantile = distribution.ppf(checked_level(level))
    return ((y <= quantile) - level) * (quantile - y)


@metric("log score", better="lower", unit="nats")
def log_score(y: np.ndarray, distribution: Any) -> float:
    """Mean of -log density at the outcome, in nats; it changes with the units of y, so compare it
    on one data set only.

    NaN where distributions have no density, as those that are empirical behind a recalibrator, and
    infinite where a density is 0.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows, with ``pdf``.

    References
    ----------
    Good, "Rational decisions", JRSS B 14, 1952; Gneiting and Raftery, JASA 102, 2007, section 4.
    """
    if not hasattr(distribution, "pdf"):
        return float("nan")
    with np.errstate(divide="ignore"):
        return float(-np.log(distribution.pdf(y)).mean())


@mean_over_rows("mean SD", better=None, unit="units of y")
def mean_sd(distribution: Any) -> np.ndarray:
    """Mean standard deviation of the distributions, in the units of y: sharpness, as
    :func:`mean_width`.

    Parameters
    ----------
    distribution : Distribution
        Predicted distributions of the n rows, with ``var()``.

    References
    ----------
    Gneiting, Balabdaoui, Raftery, JRSS B 69, 2007, for sharpness.
    """
    return np.sqrt(distribution.var())
