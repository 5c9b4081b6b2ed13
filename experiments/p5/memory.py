"""What Section 4.3 of Torres et al. states beside its figure: the truth's error, and how the memory
of prediction grows.
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
ROWS = 500, 4000
"""Test rows that memory is compared between."""
NEIGHBOURS = 100, 1000
CALIBRATION_ROWS = 3000
TEST_ROWS = 100_000
"""Of the largest study but one of the paper's; a tenth of a million."""
_BYTES = 8


def section43() -> pd.DataFrame:
    """In the terms of ``published.csv``, for each of five samples."""
    shared = {"item": "Section 4.3", "dataset": "tran20", "level": None, "variant": ""}
    rows = [{**shared, "seed": seed, **row} for seed in range(SAMPLES) for row in _of_sample(seed)]
    return pd.DataFrame(rows)


def _of_sample(seed: int) -> Iterable[dict[str, object]]:
    rng, problem = np.random.default_rng(seed), Tran20()
    X, y = problem.sample(TEST_ROWS, rng)
    yield {"method": "truth", "metric": "MSE", "value": mse_y(y, problem.distribution(X))}
    model_of = _models(problem, rng)
    few, many = ({n: kept(model_of[k], X[:n]) for n in ROWS} for k in NEIGHBOURS)
    exponent = np.log(many[ROWS[1]] / many[ROWS[0]]) / np.log(ROWS[1] / ROWS[0])
    factor = (many[ROWS[1]] - few[ROWS[1]]) / (NEIGHBOURS[1] - NEIGHBOURS[0]) / ROWS[1]
    for metric, value in (
        ("exponent of n in the memory of prediction", exponent),
        ("factor of k in the memory of prediction", factor),
    ):
        yield {"method": "local_pit", "metric": metric, "value": value}


def _models(problem: Tran20, rng: np.random.Generator) -> dict[int, LocalPit]:
    """By number of neighbours in the input; the line before them keeps nothing that grows with
    both.
    """
    X, y = problem.sample(CALIBRATION_ROWS, rng)
    frozen = FrozenEstimator(GaussianLinear().fit(X, y))
    return {
        k: LocalPit(frozen, k=k).fit(X, y, X_calibration=X, y_calibration=y) for k in NEIGHBOURS
    }


def kept(model: LocalPit, X: np.ndarray) -> float:
    """Numbers of 8 bytes that the predicted distributions of the rows keep."""
    model.predict_dist(X[:10])  # what is compiled or imported at the first call is not theirs
    tracemalloc.start()
    said = model.predict_dist(X)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / _BYTES if len(said) else 0.0
