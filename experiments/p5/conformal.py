"""Coverage of conformal intervals on the problem of Table 1: many draws of calibration rows after
one straight line.

``python -m experiments.p5.conformal --repeats 200``. The coverage of an interval and its expected
score are known exactly, by the true distributions of :data:`PLACES` rows, so that the only chance
left is that of calibration rows. The mean over these is guaranteed; the largest gap of a tenth of
the rows, by x, shows how far intervals that hold on average are from it in some place.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.frozen import FrozenEstimator

from experiments.common import markdown
from experiments.common.command import study_options
from experiments.common.markdown import number
from kdgraph.data.simulations import Heteroscedastic
from kdgraph.distributions import Distribution, Normal
from kdgraph.parents import GaussianLinear
from kdgraph.recalibration import ConformalPit, LocalisedConformalPit, LocalPit, PostHocRegressor

# Calibration rows → neighbours of local recalibration, half as many if half of the rows correct.
SIZES = {50: 12, 200: 50, 1_000: 100, 10_000: 1_000}
LEVELS = (0.9, 0.95)
TRAINING_ROWS = 80_000
PLACES = 500  # Rows of equal probability at which intervals are compared
# Local recalibration alone; the line's own intervals, with one correction by all rows, which is
# split conformal by absolute residuals, or with a correction by the near rows of one half; local
# recalibration on one half of the rows, corrected by the other, in both ways.
METHODS = ("local", "conformal", "localised", "local, conformal", "local, localised")


def models(parent: GaussianLinear, k: int, seed: int) -> dict[str, PostHocRegressor]:
    """Return a model of each of :data:`METHODS` after a fitted line."""
    frozen = FrozenEstimator(parent)
    local = LocalPit(None, k=k // 2)
    models = [
        LocalPit(frozen, k=k),
        ConformalPit(frozen),
        LocalisedConformalPit(frozen, random_state=seed),
        ConformalPit(frozen, local, random_state=seed),
        LocalisedConformalPit(frozen, local, random_state=seed),
    ]
    return dict(zip(METHODS, models, strict=True))


def places(problem: Heteroscedastic, n: int) -> np.ndarray:
    """Return Float[n, 1], the middles of n parts of equal probability, increasing."""
    return problem.low + (problem.high - problem.low) * (np.arange(n)[:, None] + 0.5) / n


def coverage(truth: Normal, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return Float[n], the probability of an outcome in [low, high]."""
    return truth.cdf(high) - truth.cdf(low)


def expected_score(truth: Normal, low: np.ndarray, high: np.ndarray, level: float) -> np.ndarray:
    """Return the expected interval score; E(c - Z)₊ = φ(c) + c Φ(c) of a standard normal Z."""
    # Only a finite end can be missed, and φ and Φ of an infinite one have no product.
    below, above = truth.standardise(low), -truth.standardise(high)
    with np.errstate(invalid="ignore"):
        outside = sum(
            np.where(np.isfinite(c), truth.standard_pdf(c) + c * truth.standard_cdf(c), 0.0)
            for c in (below, above)
        )
    return high - low + 2 / (1 - level) * truth.scale * outside


def measured(predicted: Distribution, truth: Normal, level: float) -> dict[str, float]:
    """Return coverage, the largest gap of a tenth of the rows, and the score."""
    low, high = predicted.interval(level)
    covered = coverage(truth, low, high)
    gap = np.abs(covered.reshape(10, -1).mean(axis=1) - level).max()
    score = expected_score(truth, low, high, level).mean()
    return {"coverage": float(covered.mean()), "gap": float(gap), "score": float(score)}


def repeat(n: int, parent: GaussianLinear, seed: int) -> list[dict[str, float | str]]:
    """Return the numbers of each method and level for one draw of n calibration rows."""
    problem = Heteroscedastic()
    X, y = problem.sample(n, np.random.default_rng(seed))
    at = places(problem, PLACES)
    truth, rows = problem.distribution(at), []
    for name, model in models(parent, SIZES[n], seed).items():
        predicted = model.fit(X, y, X_calibration=X, y_calibration=y).predict_dist(at)
        rows += [
            {"n": n, "method": name, "level": v} | measured(predicted, truth, v) for v in LEVELS
        ]
    return rows


def repeats(sizes: Iterable[int], n_repeats: int, jobs: int = 1) -> pd.DataFrame:
    """Return ``n, method, level, coverage, gap, score`` of all draws."""
    sample = Heteroscedastic().sample(TRAINING_ROWS, np.random.default_rng(0))
    parent = GaussianLinear().fit(*sample)
    tasks = (delayed(repeat)(n, parent, 1 + seed) for n in sizes for seed in range(n_repeats))
    return pd.DataFrame([row for rows in Parallel(jobs)(tasks) for row in rows])


def table(frame: pd.DataFrame) -> str:
    """Return means over the draws, that of coverage with its standard error."""
    columns = ["calibration rows", "level", "method", "coverage", "standard error"]
    rows = []
    for (n, level, method), part in frame.groupby(["n", "level", "method"], sort=False):
        error = part.coverage.std() / np.sqrt(len(part))
        score = "∞" if np.isinf(part.score).any() else f"{part.score.mean():,.0f}"
        cells = [number(part.coverage.mean(), 4), number(error, 4), number(part.gap.mean()), score]
        rows.append([f"{n:,}", f"{level:g}", str(method), *cells])
    return markdown.table([*columns, "largest gap of a tenth", "interval score"], rows)


def main() -> None:
    """Print the table."""
    sizes = {"type": int, "nargs": "+", "default": list(SIZES), "choices": list(SIZES)}
    more = {"--repeats": {"type": int, "default": 200}, "--sizes": sizes}
    options = study_options(__doc__, jobs=1, more=more)
    print(table(repeats(options.sizes, options.repeats, options.jobs)))


if __name__ == "__main__":
    main()
