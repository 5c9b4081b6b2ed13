"""Numbers of Section 4.3 of Torres et al. in the text: the truth's error, and how the memory of
prediction grows.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from kdgraph.data.simulations import Tran20
from kdgraph.metrics import mse_y
from kdgraph.parents import GaussianLinear
from kdgraph.recalibration import LocalPit

SAMPLES = 5
ROWS = 500, 4000  # Numbers of test rows between which memory is compared
NEIGHBOURS = 100, 1000
CALIBRATION_ROWS = 3000
TEST_ROWS = 100_000  # Test rows of the paper's largest study but one, a tenth of a million
_BYTES = 8


def section43() -> pd.DataFrame:
    """Return the numbers of five samples with the keys of ``published.csv``."""
    shared = {"item": "Section 4.3", "dataset": "tran20", "level": None, "variant": ""}
    return pd.DataFrame(
        {**shared, "seed": seed, **row} for seed in range(SAMPLES) for row in _sample_numbers(seed)
    )


def _sample_numbers(seed: int) -> Iterable[dict[str, object]]:
    rng, problem = np.random.default_rng(seed), Tran20()
    X, y = problem.sample(TEST_ROWS, rng)
    yield {"method": "truth", "metric": "MSE", "value": mse_y(y, problem.distribution(X))}
    models = _models(problem, rng)
    few, many = ({n: memory(models[k], X[:n]) for n in ROWS} for k in NEIGHBOURS)
    exponent = np.log(many[ROWS[1]] / many[ROWS[0]]) / np.log(ROWS[1] / ROWS[0])
    factor = (many[ROWS[1]] - few[ROWS[1]]) / (NEIGHBOURS[1] - NEIGHBOURS[0]) / ROWS[1]
    for metric, value in (
        ("exponent of n in the memory of prediction", exponent),
        ("factor of k in the memory of prediction", factor),
    ):
        yield {"method": "local_pit", "metric": metric, "value": value}


def _models(problem: Tran20, rng: np.random.Generator) -> dict[int, LocalPit]:
    """Return models by k, after a line, whose own memory does not grow with both numbers."""
    X, y = problem.sample(CALIBRATION_ROWS, rng)
    frozen = FrozenEstimator(GaussianLinear().fit(X, y))
    return {
        k: LocalPit(frozen, k=k).fit(X, y, X_calibration=X, y_calibration=y) for k in NEIGHBOURS
    }


def memory(model: LocalPit, X: np.ndarray) -> float:
    """Return how many numbers of 8 bytes the predicted distributions of the rows hold."""
    model.predict_dist(X[:10])  # compiles and imports what the first call needs
    tracemalloc.start()
    predicted = model.predict_dist(X)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / _BYTES if len(predicted) else 0.0
