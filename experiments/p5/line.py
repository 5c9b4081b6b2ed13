"""The one point and the one test that Section 4.1 of Torres et al. prints numbers of: what ``kdg
reproduce p5 'Section 4.1'`` computes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from kdgraph.data.simulations import Heteroscedastic
from kdgraph.distributions import Distribution
from kdgraph.parents import GaussianLinear

POINT = 17.68, 2146.22
"""x and y of the highlighted point of Figure 1."""
TRAINING_ROWS, CALIBRATION_ROWS, SAMPLES = 80_000, 10_000, 20
DRAWS = 9999
"""Of uniform samples, for the distribution of Frosini's statistic under its null hypothesis: no
p-value is less than 1 / 10,000.
"""


def section41() -> pd.DataFrame:
    """What the line says of the point, and the p-value of its PIT values, in the terms of
    ``published.csv``, for each of 20 samples.
    """
    null = frosini_null(CALIBRATION_ROWS, DRAWS)
    shared = {
        "item": "Section 4.1",
        "dataset": "heteroscedastic",
        "method": "linear",
        "level": None,
        "variant": "",
    }
    return pd.DataFrame(
        {**shared, "metric": metric, "seed": seed, "value": value}
        for seed in range(SAMPLES)
        for metric, value in _of_sample(seed, null).items()
    )


def _of_sample(seed: int, null: np.ndarray) -> dict[str, float]:
    rng, problem = np.random.default_rng(seed), Heteroscedastic()
    line = GaussianLinear().fit(*problem.sample(TRAINING_ROWS, rng))
    X, y = problem.sample(CALIBRATION_ROWS, rng)
    statistic = frosini(line.predict_dist(X).cdf(y))
    p = (1 + int((null >= statistic).sum())) / (1 + len(null))
    return of_point(line.predict_dist(np.array([[POINT[0]]]))) | {
        "p-value of Frosini's test, at most": p
    }


def of_point(said: Distribution) -> dict[str, float]:
    """Mean, standard deviation and PIT value of the point, of one row's distribution."""
    sd = float(np.sqrt(said.var()[0]))
    return {
        "mean": float(said.mean()[0]),
        "SD": sd,
        "PIT value": float(said.cdf(np.array([POINT[1]]))[0]),
    }


def frosini(pits: np.ndarray) -> float:
    """Frosini's statistic of uniformity, (1/√n) Σ |u_(i) - (i - ½)/n| of the n sorted values,
    Float[..., n] → Float[...].
    """
    n = pits.shape[-1]
    return np.abs(np.sort(pits) - (np.arange(n) + 0.5) / n).sum(axis=-1) / np.sqrt(n)


def frosini_null(n: int, draws: int, seed: int = 0) -> np.ndarray:
    """Float[draws]: the statistic of so many samples of n uniform values."""
    rng = np.random.default_rng(seed)
    return np.array([frosini(rng.random(n)) for _ in range(draws)])
