"""Proper scores of whole predictive distributions, of one quantile, and how wide they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.metrics.registry import mean_over_rows, metric
from kdgraph.metrics.regression.intervals import checked_level
from kdgraph.parameters import OpenFraction


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


@mean_over_rows("quantile score", better="lower", unit="units of y")
def quantile_score(y: np.ndarray, distribution: Any, *, level: OpenFraction = 0.5) -> np.ndarray:
    """Mean of ([y <= q] - level)·(q - y) with q the quantile at this level, in the units of y: the pinball or check loss.

    At level 0.5 it is half the mean absolute error of the median; twice its integral over all levels is the CRPS.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows.
    level : in (0, 1), of the quantile.

    References
    ----------
    Gneiting and Raftery, JASA 102, 2007, section 6.1; scikit-learn's ``mean_pinball_loss`` of the quantiles.
    """
    quantile = distribution.ppf(checked_level(level))
    return ((y <= quantile) - level) * (quantile - y)


@metric("log score", better="lower", unit="nats")
def log_score(y: np.ndarray, distribution: Any) -> float:
    """Mean of -log density at the outcome, in nats; it changes with the units of y, so compare it on one data set only.

    NaN where distributions have no density, as those that are empirical behind a recalibrator, and infinite where a density is 0.

    Parameters
    ----------
    y : Float[n], outcomes.
    distribution : of n rows, with ``pdf``.

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
    """Mean standard deviation of the distributions, in the units of y: sharpness, as :func:`mean_width`.

    Parameters
    ----------
    distribution : of n rows, with ``var()``.

    References
    ----------
    Gneiting, Balabdaoui, Raftery, JRSS B 69, 2007, for sharpness.
    """
    return np.sqrt(distribution.var())
