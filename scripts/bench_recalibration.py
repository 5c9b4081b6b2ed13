"""Time local recalibration against nearest-neighbour regression and a row loop. Run it after any
change to it or to its search.

10,000 new rows, 10,000 calibration rows, 1,000 neighbours, in 2, 20 and 100 features: mean and
three intervals, behind a normal distribution; and 1,000 new rows among 100,000 calibration rows, of
which 20,000 can be neighbours. Everything is on one core in this process, and every bar is a ratio
of processor times taken one after the other, so that it means the same on another machine. The row
loop does for each row what Algorithm 1 of Torres et al. (2024) says, with scipy's tree: once by
exact weighted sums, and once, as their R package recalibratiNN does, by 1,000 draws. It is timed on
some rows and extrapolated. ``--large`` adds 100,000 rows among 100,000, in one run.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import norm
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_limits

from kdgraph.parents import GaussianLinear
from kdgraph.recalibration import LocalPit
from kdgraph.runner.monitoring import measure_cost

N, K, LOOP_ROWS, ROUNDS = 10_000, 1_000, 300, 3
ENDS = [q for level in (0.8, 0.9, 0.95) for q in ((1 - level) / 2, (1 + level) / 2)]
"""Levels at which the three intervals end."""


def rows(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """X: Float[n, d] and y: Float[n], which no line fits."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    return X, 3 * X[:, 0] ** 2 + X[:, 1] + (0.2 + np.abs(X[:, 1])) * rng.normal(size=n)


def fitted(
    n: int, d: int, n_reference: int | None = None
) -> tuple[LocalPit, np.ndarray, np.ndarray]:
    """A model, and its calibration rows Float[n, d], Float[n]."""
    X, y = rows(n, d, 0)
    parent = GaussianLinear().fit(X[:1000], y[:1000])
    model = LocalPit(
        FrozenEstimator(parent), k=K, units="raw", max_reference_rows=n_reference, random_state=0
    ).fit(X[:10], y[:10], X_calibration=X, y_calibration=y)
    return model, X, y


def full(model: LocalPit, at: np.ndarray) -> list[np.ndarray]:
    """Mean and intervals: Float[m] each."""
    said = model.predict_dist(at)
    return [said.mean(), *said.ppf(np.array(ENDS)).T]


def looped(model: LocalPit, X: np.ndarray, y: np.ndarray, at: np.ndarray) -> list[np.ndarray]:
    """The same, a row after the other."""
    parent = model.estimator_
    pits = norm.cdf(y, parent.predict(X), parent.estimator.sigma_)
    tree, found = cKDTree(X), []
    for x in at:
        distance, near = tree.query(x, K)
        sample = norm.ppf(pits[near], parent.predict([x])[0], parent.estimator.sigma_)
        weight = 1 - (distance / distance[-1]) ** 2
        order = np.argsort(sample)
        reached = np.cumsum(weight[order]) / weight.sum()
        found.append(
            [
                sample @ weight / weight.sum(),
                *(sample[order][np.searchsorted(reached, q * (1 - 1e-12))] for q in ENDS),
            ]
        )
    return list(np.transpose(found))


def drawn(model: LocalPit, X: np.ndarray, y: np.ndarray, at: np.ndarray) -> list[np.ndarray]:
    """About the same, and the variance, by draws for each row."""
    parent, rng = model.estimator_, np.random.default_rng(0)
    pits = norm.cdf(y, parent.predict(X), parent.estimator.sigma_)
    tree, found = cKDTree(X), []
    for x in at:
        distance, near = tree.query(x, K)
        sample = norm.ppf(pits[near], parent.predict([x])[0], parent.estimator.sigma_)
        weight = 1 - (distance / distance[-1]) ** 2
        draws = rng.choice(sample, K, p=weight / weight.sum())
        found.append([draws.mean(), draws.var(), *np.quantile(draws, ENDS)])
    return list(np.transpose(found))


def seconds(run: Callable[[], object]) -> float:
    """Processor time, which others on the machine hardly change."""
    start = time.process_time()
    run()
    return time.process_time() - start


def told(
    name: str,
    ours: list[float],
    theirs: list[float],
    what: str,
    bar: float | None,
    at_least: bool = False,
) -> None:
    """Print a line: seconds, the median of the ratios to what is named, and the bar, if there is
    one.
    """
    ratio = statistics.median(
        b / a if at_least else a / b for a, b in zip(ours, theirs, strict=True)
    )
    rule = ""
    if bar is not None:
        rule = f"   bar {'≥' if at_least else '≤'} {bar:g} ×" + (
            "   MISSED" if (ratio < bar if at_least else ratio > bar) else ""
        )
    words = f"{ratio:7.2f} × {'as fast as' if at_least else 'the time of'} {what}"
    print(f"{name:44}{statistics.median(ours):7.2f} s{words}{rule}", flush=True)


def compare(d: int, bar: float, rounds: int = ROUNDS) -> None:
    """Print the lines of d features."""
    model, X, y = fitted(N, d)
    at = rows(N, d, 1)[0]
    off = max(
        np.abs(a - b).max()
        for a, b in zip(full(model, at[:20]), looped(model, X, y, at[:20]), strict=True)
    )
    assert off < 1e-5, off  # weights are kept in float32
    times: dict[str, list[float]] = {
        name: [] for name in ("ours", "half", "regression", "loop", "draws")
    }
    for _ in range(rounds):
        times["ours"].append(seconds(lambda: full(model, at)))
        times["half"].append(seconds(lambda: full(model, at[: N // 2])))
        times["regression"].append(
            seconds(lambda: KNeighborsRegressor(K, weights=_epanechnikov).fit(X, y).predict(at))
        )
        times["loop"].append(seconds(lambda: looped(model, X, y, at[:LOOP_ROWS])) * N / LOOP_ROWS)
        times["draws"].append(seconds(lambda: drawn(model, X, y, at[:LOOP_ROWS])) * N / LOOP_ROWS)
    told(
        f"mean and three intervals, {d} features",
        times["ours"],
        times["regression"],
        "KNeighborsRegressor",
        bar,
    )
    for name, what, least in (
        ("draws", "a loop that draws", 5.0),
        ("loop", "a loop of exact sums", None),
    ):
        told(
            "",
            times["ours"],
            times[name],
            f"{what} ({statistics.median(times[name]):.0f} s)",
            least,
            at_least=True,
        )
    told("", times["ours"], times["half"], "half of the rows", 2.3)


def _epanechnikov(distance: np.ndarray) -> np.ndarray:
    return 1 - np.square(distance / distance[:, -1:])


def memory() -> None:
    """Print what is held beyond what comes in."""
    model, at = fitted(N, 2)[0], rows(N, 2, 1)[0]
    with measure_cost() as before:
        pass
    with measure_cost() as during:
        full(model, at)
    extra = during.peak_memory_mb - before.peak_memory_mb
    print(
        f"{'memory beyond what came in':44}{extra:7.0f} MB   bar ≤ 100 MB"
        + ("" if extra <= 100 else "   MISSED"),
        flush=True,
    )


def bounded(d: int, n: int = 100_000, n_reference: int = 20_000, n_new: int = 1_000) -> None:
    """Print the time of new rows among n, of which a sample can be neighbours."""
    at = rows(n_new, d, 1)[0]
    model, few = fitted(n, d, n_reference)[0], fitted(n_reference, d)[0]
    ours, theirs = ([seconds(partial(full, m, at)) for _ in range(ROUNDS)] for m in (model, few))
    name = f"{n:,} rows, {d} features, a sample of {n_reference:,}"
    told(name, ours, theirs, f"all of {n_reference:,} rows", 1.2)


def large(n: int = 100_000) -> None:
    """Print the time of one run of n rows among n."""
    model, at = fitted(n, 2)[0], rows(n, 2, 1)[0]
    print(
        f"{f'{n:,} rows among {n:,}, 2 features':44}{seconds(lambda: full(model, at)):7.2f} s",
        flush=True,
    )


def main() -> None:
    """Print a line for each comparison."""
    print(f"{N:,} rows among {N:,}, {K:,} neighbours; one core")
    with threadpool_limits(1):
        memory()
        compare(2, 1.3)
        compare(20, 1.0)
        compare(100, 1.0, 1)
        bounded(20)
        bounded(100)
        if "--large" in sys.argv:
            large()


if __name__ == "__main__":
    main()
