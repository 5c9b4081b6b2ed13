"""Numbers of Section 4.1 of Torres et al. on one point of a line and on a test of its PIT values:
``kdg reproduce p5 'Section 4.1'``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from kdgraph.data.simulations import Heteroscedastic
from kdgraph.distributions import Distribution
from kdgraph.parents import GaussianLinear

POINT = 17.68, 2146.22  # x and y of the highlighted point of Figure 1
TRAINING_ROWS, CALIBRATION_ROWS, SAMPLES = 80_000, 10_000, 20
# Uniform samples for the null distribution of Frosini's statistic: no p-value is less than 1 /
# 10,000.
DRAWS = 9999


def section41() -> pd.DataFrame:
    """Return the line's prediction of the point and the p-value of its PIT values, by sample."""
    null = frosini_null(CALIBRATION_ROWS, DRAWS)
    shared = {"item": "Section 4.1", "dataset": "heteroscedastic", "method": "linear"}
    shared |= {"level": None, "variant": ""}
    return pd.DataFrame(
        {**shared, "metric": metric, "seed": seed, "value": value}
        for seed in range(SAMPLES)
        for metric, value in _sample_numbers(seed, null).items()
    )


def _sample_numbers(seed: int, null: np.ndarray) -> dict[str, float]:
    rng, problem = np.random.default_rng(seed), Heteroscedastic()
    line = GaussianLinear().fit(*problem.sample(TRAINING_ROWS, rng))
    X, y = problem.sample(CALIBRATION_ROWS, rng)
    statistic = frosini(line.predict_dist(X).cdf(y))
    p = (1 + int((null >= statistic).sum())) / (1 + len(null))
    at_point = point_numbers(line.predict_dist(np.array([[POINT[0]]])))
    return at_point | {"p-value of Frosini's test, at most": p}


def point_numbers(predicted: Distribution) -> dict[str, float]:
    """Return mean, standard deviation and PIT value of the point."""
    return {
        "mean": float(predicted.mean()[0]),
        "SD": float(np.sqrt(predicted.var()[0])),
        "PIT value": float(predicted.cdf(np.array([POINT[1]]))[0]),
    }


def frosini(pits: np.ndarray) -> float:
    """Return Frosini's statistic of uniformity, (1/√n) Σ |u_(i) - (i - ½)/n|, of Float[..., n]."""
    n = pits.shape[-1]
    return np.abs(np.sort(pits) - (np.arange(n) + 0.5) / n).sum(axis=-1) / np.sqrt(n)


def frosini_null(n: int, draws: int, seed: int = 0) -> np.ndarray:
    """Return Float[draws], the statistic of samples of n uniform values."""
    rng = np.random.default_rng(seed)
    return np.array([frosini(rng.random(n)) for _ in range(draws)])
