"""How good predictive distributions of a continuous outcome are. A distribution has ``len``, ``cdf``, ``ppf``, ``mean``, ``interval`` and
``crps``, vectorised over rows; outcomes are continuous, and PIT values are not randomised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.registry import mean_over_rows, metric, table
from kdgraph.parameters import Count, OpenFraction, check_value

LEVELS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)


@metric("RMSE", better="lower", unit="units of y")
def rmse(y: np.ndarray, distribution: Any) -> float:
    """Root of the mean of (mean of the distribution - y)², in the units of y; scikit-learn's ``root_mean_squared_error`` of the mean.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    """
    return float(np.sqrt(np.mean((distribution.mean() - y) ** 2)))


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


@mean_over_rows("coverage", better=None)
def coverage(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Share of rows whose outcome lies in the central interval of this level, its ends included; ``level`` itself is ideal.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    level : in (0, 1); the interval goes from the quantile at (1 - level)/2 to that at (1 + level)/2.

    References
    ----------
    Gneiting, Balabdaoui, Raftery, "Probabilistic forecasts, calibration and sharpness", JRSS B 69, 2007.
    """
    low, high = distribution.interval(_checked_level(level))
    return ((low <= y) & (y <= high)).astype(np.float64)


@mean_over_rows("interval score", better="lower", unit="units of y")
def interval_score(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.95) -> np.ndarray:
    """Mean of width + 2/α·(distance of y to the interval), α = 1 - level, of the central interval; in the units of y.

    Not divided by anything (the standard mean interval score of some papers is: by the mean of ``|y|`` on held-out rows), and smaller is
    better.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    level : in (0, 1), as of :func:`coverage`.

    References
    ----------
    Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation", JASA 102, 2007, Eq. 43.
    """
    low, high = distribution.interval(_checked_level(level))
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return high - low + 2 / (1 - level) * outside


@mean_over_rows("CRPS", better="lower", unit="units of y")
def crps(y: np.ndarray, distribution: Any) -> np.ndarray:
    """Continuous ranked probability score, the mean of ∫ (F(x) - [x >= y])² dx, in the units of y; of a point it is the absolute error.

    In closed form for normal distributions, exact for weighted samples, by quadrature of quantiles for others: the distribution says it.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows, with ``crps(y)``.

    References
    ----------
    Gneiting and Raftery, JASA 102, 2007, who turn its sign; here smaller is better.
    """
    return distribution.crps(y)


@metric("PIT distance", better="lower")
def pit_ks(y: np.ndarray, distribution: Any) -> float:
    """Kolmogorov-Smirnov distance of the PIT values F(y) from uniform: the largest ``|share of values <= p - p|``, in [1/2n, 1].

    Calibrated distributions of n rows have about 0.87/√n, and more than 1.36/√n in 5 of 100 cases; where F has steps, at least half the
    largest of them. It is SciPy's ``kstest(..., "uniform").statistic``; the 0.87 and 1.36 are of Kolmogorov's limit.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    """
    return distance_to_uniform(distribution.cdf(y))


def distance_to_uniform(pits: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of values Float[n] in [0, 1] from the uniform distribution, as SciPy's ``kstest``.

    >>> distance_to_uniform(np.array([0.25, 0.75]))
    0.25
    """
    pits, steps = np.sort(pits), np.arange(len(pits) + 1) / len(pits)
    return float(max((steps[1:] - pits).max(), (pits - steps[:-1]).max()))


@table("PIT histogram")
def pit_histogram(y: np.ndarray, distribution: Any, *, bins: Count = 20) -> dict[str, np.ndarray]:
    """How many PIT values F(y) lie in each of ``bins`` equal bins of [0, 1]: flat where distributions are calibrated.

    A bin holds lower < F(y) <= upper, the first one 0 too. ``density`` is the share of rows over the width: 1 is ideal.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    bins : how many, from 1.

    References
    ----------
    Dawid, "Statistical theory: the prequential approach", JRSS A 147, 1984, for the PIT; Gneiting et al., JRSS B 69,
    2007, for its histogram.
    """
    check_value("bins", bins, Count)
    edges = np.arange(bins + 1) / bins
    pits = distribution.cdf(y)
    found = np.clip(np.searchsorted(edges, pits, side="left") - 1, 0, bins - 1)
    count = np.bincount(found, minlength=bins)
    return {"lower": edges[:-1], "upper": edges[1:], "count": count, "density": count * bins / len(pits)}


@table("coverage curve")
def coverage_curve(y: np.ndarray, distribution: Any, *, levels: Sequence[OpenFraction] = LEVELS) -> dict[str, np.ndarray]:
    """:func:`coverage` of the central intervals of several levels, and their mean ``width`` in the units of y.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    levels : each in (0, 1).

    References
    ----------
    Gneiting et al., JRSS B 69, 2007, who judge sharpness (the width) subject to calibration (the coverage).
    """
    check_value("levels", levels, Sequence[OpenFraction])
    intervals = [distribution.interval(level) for level in levels]
    covered = np.array([np.mean((low <= y) & (y <= high)) for low, high in intervals])
    width = np.array([np.mean(high - low) for low, high in intervals])
    return {"level": np.array(levels, dtype=np.float64), "coverage": covered, "width": width}


def _checked_level(level: float) -> float:
    if not 0 < level < 1:
        raise ParameterError(f"level must be in (0, 1), got {level!r}")
    return level
