"""Uniformity of PIT values F(y): distances, p-values and the histogram.

If F has a step at an outcome (outcomes are counts or rounded, or quantiles are tied), F(y) alone is
at the upper end of the step, and is not uniform even if F is correct. The PIT value of the row is
then uniform on the step, as a distribution: no number depends on a draw (Czado, Gneiting and Held,
"Predictive model assessment for count data", Biometrics 65, 2009, Section 2.2). An outcome beyond
an ensemble has the PIT value 0 or 1. Recalibrators draw a position within the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.metrics.registry import IdentityKey, metric, scope_cache, table
from kdgraph.parameters import Count, Seed, check_value

MIN_STEP = 1e-9
"""Rise of F, from just below an outcome to the outcome, above which F has a step there.

Rounding makes rises of less than 1e-15.
"""

_MIN_WIDTH = 1e-6
"""Width below which a step is a point, so that sums of 1/width keep 9 digits."""
_VALUES_AT_A_TIME = 1 << 20
"""Block size of simulated values: 8 MB. The draws, and so the p-value, do not depend on it."""


def pit_steps(y: np.ndarray, distribution: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper end of the step of F at each outcome, Float[n] each.

    Both are F(y) if F has no step there. A step is a rise of F by more than 1e-9 from the next
    smaller float to y, as for recalibrators (:func:`~kdgraph.recalibration.base.compute_pits`).
    They are P_x and P_{x-1} of Czado, Gneiting and Held, Eq. 2.
    """
    cache = scope_cache("steps of PIT values", IdentityKey(y), IdentityKey(distribution))
    if "steps" not in cache:
        outcomes = np.asarray(y, dtype=np.float64)
        upper = distribution.cdf(outcomes)
        lower = distribution.cdf(np.nextafter(outcomes, -np.inf))
        cache["steps"] = np.where(upper - lower > MIN_STEP, lower, upper), upper
    return cache["steps"]


def values_on_steps(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return n increasing PIT values, of rows whose PIT values are uniform on steps [lower, upper].

    They are the quantiles at (i - ½)/n, for i from 1 to n, of the mean of the uniform distributions
    on the steps (Czado, Gneiting and Held, Eq. 2 and 3; that all statistics take its quantiles is
    original to kdgraph). Without steps they are the sorted F(y). A calibrated forecaster thus has
    values near (i - ½)/n, whatever steps it has.

    Examples
    --------
    Half of the outcomes are 0, as predicted:

    >>> values_on_steps(np.array([0.0, 0.0, 0.6, 0.9]), np.array([0.5, 0.5, 0.6, 0.9])).tolist()
    [0.125, 0.375, 0.6, 0.9]
    """
    wide = upper - lower > _MIN_WIDTH
    if not wide.any():
        return np.sort(upper)
    # The mean distribution function is linear between the ends of steps. Its slope changes there by
    # 1/(width of the step), and it jumps at values without a step. Sums over the sorted ends give
    # its levels in n log n steps.
    n, width = len(lower), (upper - lower)[wide]
    ends = np.concatenate([lower[wide], upper[wide], upper[~wide]])
    slopes = np.concatenate([1 / width, -1 / width, np.zeros(n - len(width))])
    jumps = np.concatenate([np.zeros(2 * len(width)), np.ones(n - len(width))])
    order = np.argsort(ends, kind="stable")
    ends, jumps = ends[order], np.cumsum(jumps[order])
    rise = np.cumsum(slopes[order])[:-1] * np.diff(ends)
    rise = np.concatenate([[0.0], np.cumsum(np.maximum(rise, 0.0))])
    before = rise + np.concatenate([[0.0], jumps[:-1]])
    knots = np.repeat(ends, 2)
    levels = np.maximum.accumulate(np.stack([before, rise + jumps], axis=1).ravel())
    return np.interp(np.arange(n) + 0.5, levels, knots)


def distance_to_uniform(pits: np.ndarray) -> float:
    """Return the statistic of SciPy's ``kstest`` of values Float[n] in [0, 1] against uniform."""
    pits, steps = np.sort(pits), np.arange(len(pits) + 1) / len(pits)
    return float(max((steps[1:] - pits).max(), (pits - steps[:-1]).max()))


def cramer_von_mises(pits: np.ndarray) -> float:
    """Return 1/12n + Σ ((i - ½)/n - u_i)² of values Float[n], as SciPy's ``cramervonmises``."""
    n = len(pits)
    return float(1 / (12 * n) + ((_middles(n) - np.sort(pits)) ** 2).sum())


def frosini(pits: np.ndarray) -> float:
    """Return Σ ``|u_i - (i - ½)/n|`` / √n of sorted values Float[n] in [0, 1] (Frosini, 1987)."""
    return float(_frosini(pits[None])[0])


def simulated_p_value(statistic: float, n: int, draws: int, rng: np.random.Generator) -> float:
    """Return the p-value (1 + k) / (1 + draws) of a Frosini statistic of n values.

    k is the number of simulated statistics that are at least as large. A test at level α thus
    rejects a calibrated forecaster in at most α of all cases (Davison and Hinkley, "Bootstrap
    methods and their application", 1997, Section 4.2). Memory does not grow with ``draws``.
    """
    block_size = max(_VALUES_AT_A_TIME // n, 1)
    n_larger = 0
    for first in range(0, draws, block_size):
        simulated = _frosini(rng.random((min(block_size, draws - first), n)))
        n_larger += int((simulated >= statistic).sum())
    return (1 + n_larger) / (1 + draws)


def _frosini(samples: np.ndarray) -> np.ndarray:
    n = samples.shape[1]
    return np.abs(np.sort(samples, axis=1) - _middles(n)).sum(axis=1) / np.sqrt(n)


def _middles(n: int) -> np.ndarray:
    """Return (i - ½)/n for i = 1 to n."""
    return (np.arange(n) + 0.5) / n


_ROUNDING = 1e-10
"""Tolerance at the edges of bins: a step of F that ends there is a rounded sum of weights."""


@metric("PIT distance", better="lower")
def pit_ks(y: np.ndarray, distribution: Any) -> float:
    """Measure the Kolmogorov-Smirnov distance of the PIT values from uniform, in [1/2n, 1].

    It is the largest ``|fraction of values <= p - p|``, the statistic of SciPy's ``kstest(...,
    "uniform")``. Calibrated distributions of n rows have about 0.87/√n, and more than 1.36/√n in 5
    of 100 cases (Kolmogorov's limit), and less if F has steps at outcomes.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> pit_ks([0.0, 0.0], Normal(np.zeros(2), np.ones(2)))
    0.5
    """
    return distance_to_uniform(values_on_steps(*pit_steps(y, distribution)))


@metric("PIT Cramér-von Mises", better="lower")
def pit_cvm(y: np.ndarray, distribution: Any) -> float:
    """Measure the Cramér-von Mises statistic of the PIT values against uniform.

    It is 1/12n + Σ ((i - ½)/n - u_i)² of the sorted values, the statistic of SciPy's
    ``cramervonmises(..., "uniform")``. Calibrated distributions have 1/6 on average and more than
    0.461 in 5 of 100 cases, for any n, and less if F has steps at outcomes. For other distributions
    it grows in proportion to n.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> round(pit_cvm([0.0, 0.0], Normal(np.zeros(2), np.ones(2))), 4)  # 1/24 + 1/16 + 1/16
    0.1667
    """
    return cramer_von_mises(values_on_steps(*pit_steps(y, distribution)))


@metric("PIT Frosini", better="lower")
def pit_frosini(y: np.ndarray, distribution: Any) -> float:
    """Measure Frosini's statistic of the PIT values against uniform.

    It is Σ ``|u_i - (i - ½)/n|`` / √n of the sorted values (Frosini, in "Goodness-of-fit", 1987;
    Torres et al. 2024, Section 4.1). Calibrated distributions have about √(2π)/8 = 0.313 on
    average, for any n, and less if F has steps at outcomes. For other distributions it grows in
    proportion to √n. :func:`pit_tests` returns its p-value.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> round(pit_frosini([0.0, 0.0], Normal(np.zeros(2), np.ones(2))), 4)  # (1/4 + 1/4) / √2
    0.3536
    """
    return frosini(values_on_steps(*pit_steps(y, distribution)))


@table("tests of uniform PIT values")
def pit_tests(
    y: np.ndarray, distribution: Any, *, draws: Count = 999, random_state: Seed = 0
) -> dict[str, np.ndarray]:
    """Tabulate three tests of uniform PIT values, with their p-values.

    A small p-value is evidence against calibration. A large one is no proof of calibration: errors
    of opposite signs in different regions cancel (:func:`~kdgraph.metrics.local_coverage`). If F
    has steps at outcomes, p-values are too large: the tests are conservative.

    The columns are ``test``, ``statistic`` and ``p_value``, each [3]. The first two p-values are
    SciPy's.

    Parameters
    ----------
    distribution : Distribution
        Predicted distributions of the n rows. A method that is fitted on other rows does not
        predict the true distributions exactly, so over many tests small p-values are more frequent
        than under calibration.
    draws : int, default=999
        Number of simulated samples for Frosini's p-value, which is at least 1/(draws + 1).
    random_state : int, default=0
        Seed of the samples.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> y = np.random.default_rng(0).normal(size=200)
    >>> table = pit_tests(y, Normal(np.zeros(200), np.full(200, 2.0)), draws=199)  # twice as wide
    >>> dict(zip(table["test"].tolist(), table["p_value"].round(3).tolist(), strict=True))
    {'kolmogorov_smirnov': 0.0, 'cramer_von_mises': 0.0, 'frosini': 0.005}
    """
    from scipy import stats

    check_value("draws", draws, Count)
    check_value("random_state", random_state, Seed)
    pits = values_on_steps(*pit_steps(y, distribution))
    ks, cvm = stats.kstest(pits, "uniform"), stats.cramervonmises(pits, "uniform")
    frosini_statistic, rng = frosini(pits), np.random.default_rng(random_state)
    return {
        "test": np.array(["kolmogorov_smirnov", "cramer_von_mises", "frosini"]),
        "statistic": np.array([ks.statistic, cvm.statistic, frosini_statistic]),
        "p_value": np.array(
            [
                ks.pvalue,
                cvm.pvalue,
                simulated_p_value(frosini_statistic, len(pits), draws, rng),
            ]
        ),
    }


@table("PIT histogram")
def pit_histogram(y: np.ndarray, distribution: Any, *, bins: Count = 20) -> dict[str, np.ndarray]:
    """Tabulate the histogram of the PIT values, which is flat for calibrated distributions.

    A bin holds lower < F(y) <= upper; the first bin also holds 0. Where F has steps at outcomes,
    the rows of a step are spread over it (Dawid, JRSS A 147, 1984, for the PIT; Gneiting et al.,
    JRSS B 69, 2007, for its histogram).

    The columns are ``lower`` and ``upper`` (edges), ``count`` (rows) and ``density`` (fraction of
    rows divided by the width; 1 is ideal), each [bins].

    Parameters
    ----------
    bins : int, default=20
        Number of equal bins of [0, 1].

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> table = pit_histogram([-2.0, 0.5, 0.75, 1.0], Normal(np.zeros(4), np.ones(4)), bins=2)
    >>> {column: values.tolist() for column, values in table.items()}
    {'lower': [0.0, 0.5], 'upper': [0.5, 1.0], 'count': [1, 3], 'density': [0.5, 1.5]}
    """
    check_value("bins", bins, Count)
    return histogram_of_pits(values_on_steps(*pit_steps(y, distribution)), bins)


def histogram_of_pits(pits: np.ndarray, bins: int) -> dict[str, np.ndarray]:
    """Return the columns of :func:`pit_histogram` for PIT values Float[n]."""
    edges = np.arange(bins + 1) / bins
    position = np.searchsorted(edges + _ROUNDING, pits, side="left") - 1
    count = np.bincount(np.clip(position, 0, bins - 1), minlength=bins)
    return {
        "lower": edges[:-1],
        "upper": edges[1:],
        "count": count,
        "density": count * bins / len(pits),
    }
