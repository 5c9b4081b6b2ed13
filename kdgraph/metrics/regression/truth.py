"""Comparison of predictive with true distributions, where a simulation provides them.

:func:`kl` is the divergence of the true from the predicted distributions. The ``…_excess`` metrics
are differences of scores to those of the true distributions on the same outcomes. The truth also
has scores above 0, which vary with the sampled rows. Most of this variation cancels in a difference
by row, so its standard error is small, and 0 is the best expected value of any forecaster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np

from kdgraph.metrics.registry import mean_over_rows, table
from kdgraph.metrics.regression.scores import checked_level, coverage, interval_scores, smis
from kdgraph.parameters import OpenFraction, Range, Seed, check_value

_DRAWS, _BINS, _ADDED = 1000, 30, 0.5
"""Constants of :func:`kl_hist30_sym`: draws, bins, and the number that is added to each count."""
_ROWS_AT_A_TIME = 500
"""Number of rows in a block."""
_NODES = 128
"""Nodes of the quadrature of two densities."""


@mean_over_rows("KL from truth", better="lower", unit="nats")
def kl(
    distribution: Any,
    true_distribution: Any,
    *,
    bins: Annotated[int, Range(2)] = 30,
    estimator: Literal["auto", "binned"] = "auto",
) -> np.ndarray:
    """Measure the mean of KL(true || predicted) in nats, which is 0 for the truth.

    Table 1 of Torres et al. (2024) contains a KL divergence without its estimator. On the same
    problem the divergence of the linear model is 0.298, and the table has 0.8455, so only rankings
    can be compared. :func:`kl_hist30_sym` is closest to these numbers.

    Parameters
    ----------
    bins : int, default=30
        Number of bins of equal predicted mass, as in :func:`binned_kl`.
    estimator : {"auto", "binned"}, default="auto"
        "auto": quadrature of the densities if both exist, otherwise bins. It agrees with the closed
        form of normal and gamma distributions to six digits; densities are at least 2e-308.
        "binned": always bins, so that methods with and without a density are comparable.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> truth, wide = Normal(np.zeros(1), np.ones(1)), Normal(np.zeros(1), np.full(1, 2.0))
    >>> round(kl(wide, truth), 4)  # log 2 + 1/8 - 1/2
    0.3181
    >>> round(kl(wide, truth, estimator="binned"), 4)
    0.3163
    """
    check_value("bins", bins, Annotated[int, Range(2)])
    check_value("estimator", estimator, Literal["auto", "binned"])
    exact = (
        estimator == "auto" and hasattr(distribution, "pdf") and hasattr(true_distribution, "pdf")
    )
    divergence = np.empty(len(distribution))
    for rows in _row_blocks(len(divergence)):
        predicted, truth = distribution[rows], true_distribution[rows]
        divergence[rows] = (
            _kl_of_densities(truth, predicted) if exact else binned_kl(predicted, truth, bins)
        )
    return divergence


def _row_blocks(n: int) -> Iterator[slice]:
    yield from (slice(first, first + _ROWS_AT_A_TIME) for first in range(0, n, _ROWS_AT_A_TIME))


def binned_kl(distribution: Any, true_distribution: Any, bins: int) -> np.ndarray:
    """Return Σ_b p_b log(B p_b) for each row, Float[n].

    p_b is the true mass between the predicted quantiles at (b - 1)/B and b/B.

    The PIT values G(Y) of an outcome Y from the true distribution, with G the predicted
    distribution function, have the same divergence from the uniform distribution as the true from
    the predicted one, because G is increasing. Here it is that of their masses in B equal bins. It
    requires neither densities nor draws, and it is finite, at most log B. It is never above the
    divergence itself (Cover and Thomas, "Elements of information theory", 2006, section 2.8) and
    approaches it from below as B grows, slowly if predictions are far too narrow. It is 0 for the
    truth. If the predicted distribution is the empirical one of k draws from the truth, the result
    is (B - 1)/2k on average: 0.0145 for 1,000 draws and 30 bins.
    """
    edges = distribution.ppf(np.arange(1, bins) / bins)
    below = true_distribution.cdf(edges)
    mass = np.diff(below, axis=1, prepend=0.0, append=1.0)
    divergence = (mass * np.log(np.where(mass > 0, bins * mass, 1.0))).sum(axis=1)
    return np.maximum(divergence, 0.0)  # only rounding makes it negative


@mean_over_rows("KL, symmetric histograms", better="lower", unit="nats")
def kl_hist30_sym(
    distribution: Any, true_distribution: Any, *, random_state: Seed = 0
) -> np.ndarray:
    """Measure the symmetric KL divergence of histograms of 1,000 draws, only for comparison.

    It is KL(p || q) + KL(q || p) of histograms in 30 bins, with ½ added to every count.

    Torres et al. (2024) do not state the estimator of the divergence in their Table 1. Of several
    estimators that were compared, this one is the closest to their numbers. It is biased: the truth
    has about 0.05. For all other purposes use :func:`kl`.

    Parameters
    ----------
    random_state : int, default=0
        Seed of the draws.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> truth, wide = Normal(np.zeros(1), np.ones(1)), Normal(np.zeros(1), np.full(1, 2.0))
    >>> round(kl_hist30_sym(truth, truth), 2), round(kl_hist30_sym(wide, truth), 1)
    (0.05, 0.7)
    """
    check_value("random_state", random_state, Seed)
    rng = np.random.default_rng(random_state)
    divergence = np.empty(len(distribution))
    for rows in _row_blocks(len(divergence)):
        divergence[rows] = _symmetric_kl_of_draws(
            distribution[rows].sample(_DRAWS, rng), true_distribution[rows].sample(_DRAWS, rng)
        )
    return divergence


def _symmetric_kl_of_draws(predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return the symmetric KL divergence of histograms of draws Float[n, m], Float[n].

    The 30 equal bins of a row range from its smallest to its largest draw of either kind.
    """
    low = np.minimum(predicted.min(axis=1), true.min(axis=1))[:, None]
    width = np.maximum(predicted.max(axis=1), true.max(axis=1))[:, None] - low
    # Draws that are all equal have no width; they belong to the first bin.
    p, q = (
        _bin_fractions(np.where(width > 0, (draws - low) / np.where(width > 0, width, 1.0), 0.0))
        for draws in (predicted, true)
    )
    return ((p - q) * np.log(p / q)).sum(axis=1)


def _bin_fractions(positions: np.ndarray) -> np.ndarray:
    n, m = positions.shape
    # ½ is added to every count, so that no fraction is 0.
    # All rows are counted at once: the bins of row i have the numbers from 30 i on.
    bin_index = np.minimum((positions * _BINS).astype(np.intp), _BINS - 1)
    bin_index += _BINS * np.arange(n)[:, None]
    count = np.bincount(bin_index.ravel(), minlength=n * _BINS).reshape(n, _BINS)
    return (count + _ADDED) / (m + _BINS * _ADDED)


def _kl_of_densities(p: Any, q: Any) -> np.ndarray:
    """Return KL(p || q) = ∫₀¹ log f(F⁻¹(u)) - log g(F⁻¹(u)) du for densities f and g, Float[n].

    The integral is a Gauss-Legendre quadrature in s with u = sin²(πs/2), whose nodes are dense at
    both ends, where the logarithms grow.
    """
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    s = np.pi * (x + 1) / 4
    quantiles = p.ppf(np.sin(s) ** 2)
    smallest = np.finfo(np.float64).tiny
    p_density, q_density = (np.maximum(d.pdf(quantiles), smallest) for d in (p, q))
    ratio = np.log(p_density) - np.log(q_density)
    divergence = (weight * np.pi / 4 * np.sin(2 * s) * ratio).sum(axis=1)
    return np.maximum(divergence, 0.0)  # only rounding makes it negative


@mean_over_rows("CRPS above the truth's", better="lower", unit="units of y")
def crps_excess(y: np.ndarray, distribution: Any, true_distribution: Any) -> np.ndarray:
    """Measure the mean of :func:`crps` minus that of the true distribution on the same rows.

    Its expected value, the mean of ∫ (F - G)² dx, is at least 0, which only the truth reaches
    (Gneiting and Raftery 2007, Section 2.2).

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> truth, wide = Normal(np.zeros(1), np.ones(1)), Normal(np.zeros(1), np.full(1, 2.0))
    >>> round(crps_excess([0.0], wide, truth), 4)  # the CRPS is 0.4674 and 0.2337
    0.2337
    """
    return distribution.crps(y) - true_distribution.crps(y)


@mean_over_rows(
    "interval score above the truth's", better="lower", unit="units of y", like=coverage
)
def interval_score_excess(
    y: np.ndarray, distribution: Any, true_distribution: Any, *, level: OpenFraction = 0.95
) -> np.ndarray:
    """Measure the mean of :func:`interval_score` minus that of the true central interval.

    Its expected value is at least 0 (Gneiting and Raftery 2007, Section 2.2). It is infinite if an
    interval is infinite.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> truth, wide = Normal(np.zeros(1), np.ones(1)), Normal(np.zeros(1), np.full(1, 2.0))
    >>> round(interval_score_excess([0.0], wide, truth), 2)  # widths of 7.84 and 3.92
    3.92
    """
    (low, high), (true_low, true_high) = (
        d.interval(checked_level(level)) for d in (distribution, true_distribution)
    )
    return interval_scores(y, low, high, level) - interval_scores(y, true_low, true_high, level)


@mean_over_rows("MSE above the truth's", better="lower", unit="squared units of y")
def mse_excess(y: np.ndarray, distribution: Any, true_distribution: Any) -> np.ndarray:
    """Measure the mean of :func:`mse_y` minus that of the true mean on the same rows.

    Its expected value is :func:`mse_mean`, which has less noise. It may be below 0. In Table 2 of
    Torres et al. (2024) it is the MSE of a method minus that of "True model".

    Examples
    --------
    >>> from kdgraph.distributions import Normal  # an outcome closer to the wrong mean
    >>> mse_excess([2.0], Normal(np.ones(1), np.ones(1)), Normal(np.zeros(1), np.ones(1)))
    -3.0
    """
    return (distribution.mean() - y) ** 2 - (true_distribution.mean() - y) ** 2


@table("comparison with the truth", like=smis)
def truth_comparison(
    y: np.ndarray,
    distribution: Any,
    true_distribution: Any,
    mean_abs_y: float,
    *,
    level: OpenFraction = 0.95,
) -> dict[str, np.ndarray]:
    """Tabulate scores of predicted and true distributions on the same rows, and their difference.

    The columns are ``score`` (mse_y, crps, coverage, interval_score, smis), ``predicted``,
    ``truth`` ("True model" in the tables of Torres et al. 2024), ``excess`` (predicted - truth) and
    ``stderr``, the standard error of the mean of the differences by row, each [5]. ``stderr`` is
    NaN for a single row, and if an interval is infinite.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> truth, wide = Normal(np.zeros(2), np.ones(2)), Normal(np.zeros(2), np.full(2, 2.0))
    >>> table = truth_comparison([0.0, 1.0], wide, truth, mean_abs_y=1.0)
    >>> for name, excess in zip(table["score"], table["excess"], strict=True):
    ...     print(name, excess.round(2))
    mse_y 0.0
    crps 0.15
    coverage 0.0
    interval_score 3.92
    smis 3.92
    """
    predicted, truth = (
        _by_row(y, d, mean_abs_y, checked_level(level)) for d in (distribution, true_distribution)
    )
    excess = [_mean_and_stderr(predicted[name] - truth[name]) for name in predicted]
    return {
        "score": np.array(list(predicted)),
        "predicted": np.array([values.mean() for values in predicted.values()]),
        "truth": np.array([values.mean() for values in truth.values()]),
        "excess": np.array([mean for mean, _ in excess]),
        "stderr": np.array([stderr for _, stderr in excess]),
    }


def _by_row(
    y: np.ndarray, distribution: Any, mean_abs_y: float, level: float
) -> dict[str, np.ndarray]:
    """Return the scores by row, Float[n], by the name of the metric that is their mean."""
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
    """Return the mean of Float[n] with its standard error; NaN for one value, or infinite ones."""
    n, mean = len(values), float(values.mean())
    return mean, (
        float(values.std(ddof=1) / np.sqrt(n)) if n > 1 and np.isfinite(mean) else float("nan")
    )
