"""Uniformity of PIT values F(y): distances, p-values and the histogram.

F(y) is evaluated at the upper end of a step of F and without randomisation, so that no number
depends on a draw. If a distribution has steps (ensembles, outcomes of neighbours, recalibrated
distributions with m atoms of 1/m), its PIT values are therefore not uniform even if it is correct:
they are too large, by half a step on average and by one step at most. This is visible only with
many rows for each step. An outcome beyond an ensemble has the PIT value 0 or 1. Recalibrators draw
a position within the step (Czado, Gneiting and Held, "Predictive model assessment for count data",
Biometrics 65, 2009).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.metrics.registry import metric, table
from kdgraph.parameters import Count, Seed, check_value

_VALUES_AT_A_TIME = 1 << 20
"""Block size of simulated values: 8 MB. The draws, and so the p-value, do not depend on it."""


def distance_to_uniform(pits: np.ndarray) -> float:
    """Return the Kolmogorov-Smirnov distance of values Float[n] in [0, 1] from uniform.

    It is that of SciPy's ``kstest``.

    >>> distance_to_uniform(np.array([0.25, 0.75]))
    0.25
    """
    pits, steps = np.sort(pits), np.arange(len(pits) + 1) / len(pits)
    return float(max((steps[1:] - pits).max(), (pits - steps[:-1]).max()))


def cramer_von_mises(pits: np.ndarray) -> float:
    """Return W² = 1/12n + Σ ((i - ½)/n - u_i)² of values Float[n] in [0, 1], sorted.

    It is that of SciPy's ``cramervonmises``.

    >>> round(cramer_von_mises(np.array([0.25, 0.75])), 6)
    0.041667
    """
    n = len(pits)
    return float(1 / (12 * n) + ((_middles(n) - np.sort(pits)) ** 2).sum())


def frosini(pits: np.ndarray) -> float:
    """Return B = Σ ``|u_i - (i - ½)/n|`` / √n of values Float[n] in [0, 1], sorted (Frosini, 1987).

    >>> round(frosini(np.array([0.5, 0.5])), 3)  # (1/4 + 1/4) / √2
    0.354
    """
    return float(_frosini(pits[None])[0])


def simulated_p_value(statistic: float, n: int, draws: int, rng: np.random.Generator) -> float:
    """Return the p-value of a Frosini statistic, (1 + k) / (1 + draws).

    k is the number of simulated statistics that are at least as large. A test at level α thus
    rejects a calibrated forecaster in at most α of all cases (Davison and Hinkley, "Bootstrap
    methods and their application", 1997, section 4.2). Memory does not grow with ``draws``.

    Parameters
    ----------
    statistic : float
        Value of :func:`frosini`.
    n : int
        Number of values behind it.
    draws : int
        Number of simulated samples.
    rng : numpy.random.Generator
        Source of the samples.
    """
    at_a_time = max(_VALUES_AT_A_TIME // n, 1)
    larger = 0
    for first in range(0, draws, at_a_time):
        simulated = _frosini(rng.random((min(at_a_time, draws - first), n)))
        larger += int((simulated >= statistic).sum())
    return (1 + larger) / (1 + draws)


def _frosini(samples: np.ndarray) -> np.ndarray:
    """Return the Frosini statistics of samples Float[m, n], Float[m]."""
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

    It is the largest ``|fraction of values <= p - p|``. Calibrated distributions of n rows have
    about 0.87/√n, and more than 1.36/√n in 5 of 100 cases; where F has steps, at least half the
    largest of them. It is SciPy's ``kstest(..., "uniform").statistic``; the 0.87 and 1.36 are of
    Kolmogorov's limit.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> forecast = Normal(np.zeros(3), np.ones(3))
    >>> round(pit_ks([-0.6745, 0.0, 0.6745], forecast), 3)
    0.25
    """
    return distance_to_uniform(distribution.cdf(y))


@metric("PIT Cramér-von Mises", better="lower")
def pit_cvm(y: np.ndarray, distribution: Any) -> float:
    """Measure the Cramér-von Mises statistic of the PIT values against uniform.

    It is 1/12n + Σ ((i - ½)/n - u_i)² of the sorted values. Calibrated distributions have 1/6 on
    average and more than 0.461 in 5 of 100 cases, whatever n is; others grow as n, and so do those
    with steps: by about n s²/3 of equal steps s, F being at their upper ends. It is SciPy's
    ``cramervonmises(..., "uniform").statistic``.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> forecast = Normal(np.zeros(3), np.ones(3))
    >>> round(pit_cvm([-0.6745, 0.0, 0.6745], forecast), 4)
    0.0417
    """
    return cramer_von_mises(distribution.cdf(y))


@metric("PIT Frosini", better="lower")
def pit_frosini(y: np.ndarray, distribution: Any) -> float:
    """Measure Frosini's statistic of the PIT values against uniform.

    It is Σ ``|u_i - (i - ½)/n|`` / √n of the sorted values. Calibrated distributions have about
    √(2π)/8 = 0.313 on average, whatever n is; others grow as √n, and so do those with steps:
    towards s√n/2 of equal steps s, F being at their upper ends. Its p-value is in
    :func:`pit_tests`.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.

    References
    ----------
    Frosini, "On the distribution and power of a goodness-of-fit statistic with parametric and
    nonparametric applications", in "Goodness-of-fit", Colloquia Mathematica Societatis János Bolyai
    45, 1987; the test of Torres et al. (2024), section 4.1.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> forecast = Normal(np.zeros(3), np.ones(3))
    >>> round(pit_frosini([-0.6745, 0.0, 0.6745], forecast), 3)
    0.096
    """
    return frosini(distribution.cdf(y))


@table("tests of uniform PIT values")
def pit_tests(
    y: np.ndarray, distribution: Any, *, draws: Count = 999, random_state: Seed = 0
) -> dict[str, np.ndarray]:
    """Tabulate three tests of uniform PIT values, with their p-values.

    A small p-value is evidence against calibration. A large one is no proof of calibration: errors
    of opposite signs in different regions cancel (:func:`~kdgraph.metrics.local_coverage`). For
    distributions with steps, p-values are too small if there are many rows for each step, because
    F(y) is at the upper end of the step.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : of n rows. Where a method has learnt from other rows, its distributions are not
        exactly those of the rows, and over many such p-values small ones are more frequent than
        they say.
    draws : int, default=999
        Number of simulated samples for Frosini's p-value, which is at least 1/(draws + 1).
    random_state : int, default=0
        Seed of the samples.

    Returns
    -------
    Columns ``test``, ``statistic``, ``p_value``; the first two p-values are SciPy's.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> y = np.random.default_rng(0).normal(size=200)
    >>> tests = pit_tests(y, Normal(np.zeros(200), np.full(200, 3.0)), draws=99)
    >>> tests["test"].tolist(), (tests["p_value"] < 0.05).tolist()
    (['kolmogorov_smirnov', 'cramer_von_mises', 'frosini'], [True, True, True])
    """
    from scipy import stats

    check_value("draws", draws, Count)
    check_value("random_state", random_state, Seed)
    pits = distribution.cdf(y)
    ks, cvm, third = (
        stats.kstest(pits, "uniform"),
        stats.cramervonmises(pits, "uniform"),
        frosini(pits),
    )
    return {
        "test": np.array(["kolmogorov_smirnov", "cramer_von_mises", "frosini"]),
        "statistic": np.array([ks.statistic, cvm.statistic, third]),
        "p_value": np.array(
            [
                ks.pvalue,
                cvm.pvalue,
                simulated_p_value(third, len(pits), draws, np.random.default_rng(random_state)),
            ]
        ),
    }


@table("PIT histogram")
def pit_histogram(y: np.ndarray, distribution: Any, *, bins: Count = 20) -> dict[str, np.ndarray]:
    """Tabulate the histogram of the PIT values, which is flat for calibrated distributions.

    A bin holds lower < F(y) <= upper, the first one 0 too. Where F has steps, F(y) is at the upper
    end of one, so that m equal steps fill the bins alike if m is a multiple of ``bins``.
    ``density`` is the fraction of rows over the width: 1 is ideal.

    Parameters
    ----------
    y : Float[n]
        Outcomes.
    distribution : Distribution
        Predicted distributions of the n rows.
    bins : int, default=20
        Number of equal bins of [0, 1].

    References
    ----------
    Dawid, "Statistical theory: the prequential approach", JRSS A 147, 1984, for the PIT; Gneiting
    et al., JRSS B 69, 2007, for its histogram.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> histogram = pit_histogram([-2.0, -1.0, 0.5, 3.0], Normal(np.zeros(4), np.ones(4)), bins=2)
    >>> {name: column.tolist() for name, column in histogram.items()}
    {'lower': [0.0, 0.5], 'upper': [0.5, 1.0], 'count': [2, 2], 'density': [1.0, 1.0]}
    """
    check_value("bins", bins, Count)
    return histogram_of_pits(distribution.cdf(y), bins)


def histogram_of_pits(pits: np.ndarray, bins: int) -> dict[str, np.ndarray]:
    """Return the columns of :func:`pit_histogram` for PIT values Float[n] (Gneiting et al., 2007).

    >>> histogram_of_pits(np.array([0.0, 0.5, 0.6]), 2)["count"].tolist()
    [2, 1]
    """
    edges = np.arange(bins + 1) / bins
    bin_ids = np.clip(np.searchsorted(edges + _ROUNDING, pits, side="left") - 1, 0, bins - 1)
    count = np.bincount(bin_ids, minlength=bins)
    return {
        "lower": edges[:-1],
        "upper": edges[1:],
        "count": count,
        "density": count * bins / len(pits),
    }
