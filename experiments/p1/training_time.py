"""Growth of the training time with rows, O(n² l_f) by Section 6 of Dey et al.: ``kdg reproduce p1
'Section 6'``.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.data.simulations import Spiral
from kdgraph.density.published import PaperForest

ROWS = 1000, 8000  # Training rows whose times are compared, besides 30 % of all rows that calibrate
TREES = 100
SEEDS = 3


def section6() -> pd.DataFrame:
    """Return the exponent of the time by seed, with the keys of ``published.csv``."""
    shared = {"item": "Section 6", "dataset": None}
    shared |= {"metric": "exponent of n in the time of training", "method": "KDF and KDN"}
    shared |= {"ood": None, "n_train": None, "radius": None, "variant": ""}
    return pd.DataFrame(
        [{**shared, "seed": seed, "value": exponent(*ROWS, seed)} for seed in range(SEEDS)]
    )


def exponent(few: int, many: int, seed: int) -> float:
    """Return the exponent of the processor time of the paper's estimator by rows."""
    seconds(few, seed)  # compiles
    return float(np.log(seconds(many, seed) / seconds(few, seed)) / np.log(many / few))


def seconds(n: int, seed: int) -> float:
    """Return the processor time of the fit, k searched, after a forest; the least of three."""
    rng, source = np.random.default_rng(seed), Spiral()
    X, y = source.sample(n, rng)
    X_calibration, y_calibration = source.sample(round(0.43 * n), rng)
    forest = FrozenEstimator(RandomForestClassifier(TREES, random_state=seed).fit(X, y))
    # Other work on the machine only adds time, so the least of three is nearest to the fit's own.
    times = []
    for _ in range(3):
        model = PaperForest(forest)
        start = time.process_time()
        model.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
        times.append(time.process_time() - start)
    return min(times)
