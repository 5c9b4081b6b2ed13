"""How far values in [0, 1] are from uniform: three statistics, and a p-value by simulation."""

from __future__ import annotations

import numpy as np

_VALUES_AT_A_TIME = 1 << 20
"""Of simulated uniform values: 8 MB. The draws, and so the p-value, do not depend on it."""


def distance_to_uniform(pits: np.ndarray) -> float:
    """Kolmogorov-Smirnov distance of values Float[n] in [0, 1] from the uniform distribution, as SciPy's ``kstest``.

    >>> distance_to_uniform(np.array([0.25, 0.75]))
    0.25
    """
    pits, steps = np.sort(pits), np.arange(len(pits) + 1) / len(pits)
    return float(max((steps[1:] - pits).max(), (pits - steps[:-1]).max()))


def cramer_von_mises(pits: np.ndarray) -> float:
    """W² = 1/12n + Σ ((i - ½)/n - u_i)² of sorted values Float[n] in [0, 1], as SciPy's ``cramervonmises``.

    >>> round(cramer_von_mises(np.array([0.25, 0.75])), 6)
    0.041667
    """
    n = len(pits)
    return float(1 / (12 * n) + ((_middles(n) - np.sort(pits)) ** 2).sum())


def frosini(pits: np.ndarray) -> float:
    """B = Σ ``|u_i - (i - ½)/n|`` / √n of sorted values Float[n] in [0, 1]: Frosini (1987).

    >>> round(frosini(np.array([0.5, 0.5])), 3)  # (1/4 + 1/4) / √2
    0.354
    """
    return float(_frosini(pits[None])[0])


def simulated_p_value(statistic: float, n: int, draws: int, rng: np.random.Generator) -> float:
    """Share of Frosini statistics of n uniform values that are at least ``statistic``, itself among them: (1 + how many) / (1 + draws).

    So a test at level α rejects a calibrated forecaster in at most α of all cases (Davison and Hinkley, "Bootstrap methods and their
    application", 1997, section 4.2). Memory does not grow with ``draws``.

    Parameters
    ----------
    statistic : a value of :func:`frosini`.
    n : how many values it is of.
    draws : simulated samples.
    rng : draws them.
    """
    at_a_time = max(_VALUES_AT_A_TIME // n, 1)
    larger = 0
    for first in range(0, draws, at_a_time):
        simulated = _frosini(rng.random((min(at_a_time, draws - first), n)))
        larger += int((simulated >= statistic).sum())
    return (1 + larger) / (1 + draws)


def _frosini(samples: np.ndarray) -> np.ndarray:
    """Float[m] of Float[m, n]."""
    n = samples.shape[1]
    return np.abs(np.sort(samples, axis=1) - _middles(n)).sum(axis=1) / np.sqrt(n)


def _middles(n: int) -> np.ndarray:
    """(i - ½)/n."""
    return (np.arange(n) + 0.5) / n
