"""Time the kernel density forest against the forest it wraps, and against plain numpy. Run it after
any change to geometry or density.

Every figure is a ratio of wall times in one process with the same number of threads, so that it
means the same on another machine. Calibration rows are 30 % of all rows; the fit includes the whole
search. ``--rows 1000 4000`` is the short form.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph import KernelDensityForest
from kdgraph.data.simulations import Spiral
from kdgraph.density.posterior import EXPONENT_FACTOR_GRID
from kdgraph.density.published import PaperForest

CALIBRATION_PER_TRAIN = 0.43
VERSIONS = {"kdgraph": KernelDensityForest, "paper": PaperForest}
BARS: dict[str, dict[int, float]] = {
    "kdgraph": {4000: 0.25, 10_000: 0.3, 40_000: 0.4},
    "paper": {4000: 0.4, 10_000: 0.6, 40_000: 1.0},
}
PREDICT_BAR, SEPARABLE_BAR, NAIVE_BAR, MEMORY_BAR_MB = 2.0, 1.5, 50, 600
NAIVE_ROWS = 4000
N_JOBS = 2


def seconds(run: Callable[[], object], repeats: int = 1) -> float:
    """Median wall time."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_mb(run: Callable[[], object]) -> float:
    """How far the resident memory of this process rises above where it stood (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_mb("VmRSS")
    run()
    return _status_mb("VmHWM") - before


def _status_mb(field: str) -> float:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(field)
    )
    return int(line.split()[1]) / 1024


def spiral(n: int) -> tuple[np.ndarray, ...]:
    """Training and calibration rows, and 1,000 more."""
    rng, source = np.random.default_rng(0), Spiral()
    draws = (source.sample(m, rng) for m in (n, round(CALIBRATION_PER_TRAIN * n), 1000))
    return tuple(array for draw in draws for array in draw)


def blobs(n: int) -> tuple[np.ndarray, ...]:
    """Three separable clusters: the leaves are large, and every tree puts many rows together."""
    X, y = make_blobs(
        round((1 + CALIBRATION_PER_TRAIN) * n) + 1000, centers=3, cluster_std=0.5, random_state=0
    )
    return X[:n], y[:n], X[n:-1000], y[n:-1000], X[-1000:], y[-1000:]


def against_forest(
    name: str, data: tuple[np.ndarray, ...], forest, version: str, forest_seconds: float
) -> float:
    """Print fit and predict times of one version on a fitted ``forest`` as ratios to its own;
    returns the fit's seconds.
    """
    X, y, X_calibration, y_calibration, X_test, _ = data
    kdf = VERSIONS[version](FrozenEstimator(forest), n_jobs=N_JOBS)
    fit_seconds = seconds(
        lambda: kdf.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration),
        _repeats(len(X)),
    )
    predict = seconds(lambda: kdf.predict_proba(X_test), 7) / seconds(
        lambda: forest.predict_proba(X_test), 7
    )
    bar = BARS[version].get(len(X)) if name == "spiral" else SEPARABLE_BAR
    ratio = f"{fit_seconds / forest_seconds:5.2f}×{f' (bar {bar:.2f})' if bar else '':<12}"
    fit = f"forest {forest_seconds:6.2f} s   fit {fit_seconds:6.2f} s = {ratio}"
    print(
        f"{name:>14} {len(X):>6} {version:>8}   {fit}   predict 1,000 rows {predict:4.2f}× (bar"
        f" {PREDICT_BAR:.0f})",
        flush=True,
    )
    return fit_seconds


def _repeats(n: int) -> int:
    return 5 if n <= 10_000 else 1


def naive_seconds(data: tuple[np.ndarray, ...], forest) -> float:
    """Wall time of the paper's Algorithm 1 in plain numpy: n × n similarities, class masses,
    held-out NLL on the grid of k.
    """
    X, y, X_calibration, y_calibration, _, _ = data
    start = time.perf_counter()
    codes, held_out = forest.apply(X), forest.apply(X_calibration)
    similarity, nearest = (
        _dense_similarity(codes, codes),
        _dense_similarity(held_out, codes).argmax(axis=1),
    )
    labels = np.eye(2)[y]
    scores = []
    for exponent in EXPONENT_FACTOR_GRID * np.log(len(X)):
        masses = similarity**exponent @ labels
        share = masses / masses.sum(axis=0)
        posterior = (share / share.sum(axis=1, keepdims=True))[nearest, y_calibration]
        scores.append(-np.log(np.maximum(posterior, 1e-6)).mean())
    return time.perf_counter() - start


def _dense_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    matches = np.zeros((len(a), len(b)))
    for t in range(a.shape[1]):
        matches += a[:, t, None] == b[None, :, t]
    return matches / a.shape[1]


def spirals(rows: list[int]) -> None:
    """The spiral at every size, with the exponent at which the fit's time grows from 4,000 rows
    on.
    """
    times: dict[str, dict[int, float]] = {version: {} for version in BARS}
    for n in rows:
        data = spiral(n)
        forest = RandomForestClassifier(500, n_jobs=N_JOBS, random_state=0)
        forest_seconds = seconds(
            lambda forest=forest, data=data: forest.fit(*data[:2]), _repeats(n)
        )
        for version in BARS:
            times[version][n] = against_forest("spiral", data, forest, version, forest_seconds)
        if n == NAIVE_ROWS:
            naive = naive_seconds(data, forest)
            ratios = ", ".join(
                f"{version} is {naive / measured[n]:.0f} times as fast"
                for version, measured in times.items()
            )
            print(
                f"{'':>14} {n:>6}    naive   {naive:6.2f} s: {ratios} (bar {NAIVE_BAR})", flush=True
            )
    for version, measured in times.items():
        large = {n: spent for n, spent in measured.items() if n >= NAIVE_ROWS}
        if len(large) > 1:
            exponent = np.polyfit(np.log(list(large)), np.log(list(large.values())), 1)[0]
            print(
                f"{version}: time grows as n^{exponent:.2f} from {min(large):,} to {max(large):,}"
                " rows"
            )


def separable(n: int) -> None:
    """Separable blobs, with a forest that needs few leaves and one that keeps nearly every row
    apart.
    """
    data = blobs(n)
    forests = {"blobs forest": RandomForestClassifier, "blobs extra": ExtraTreesClassifier}
    for name, kind in forests.items():
        forest = kind(500, n_jobs=N_JOBS, random_state=0)
        forest_seconds = seconds(lambda forest=forest: forest.fit(*data[:2]))
        for version in BARS:
            against_forest(name, data, forest, version, forest_seconds)


def memory(rows: list[int]) -> None:
    """Peak memory of the fit above what the process held before, each in a process of its own, and
    how it grows.
    """
    for version in BARS:
        peaks = [
            float(subprocess.check_output([sys.executable, __file__, "--peak", version, str(n)]))
            for n in rows
        ]
        exponent = np.polyfit(np.log(rows), np.log(peaks), 1)[0]
        found = ", ".join(f"{peak:.0f} MB at {n:,}" for n, peak in zip(rows, peaks, strict=True))
        print(
            f"{version}: peak memory of the fit {found} (bar {MEMORY_BAR_MB} MB at 50,000), grows"
            f" as n^{exponent:.2f}",
            flush=True,
        )


def print_peak(version: str, n: int) -> None:
    """What :func:`memory` asks its processes for."""
    X, y, X_calibration, y_calibration, *_ = spiral(n)
    warm_up()
    forest = FrozenEstimator(RandomForestClassifier(500, n_jobs=N_JOBS, random_state=0).fit(X, y))
    kdf = VERSIONS[version](forest, n_jobs=N_JOBS)
    print(peak_mb(lambda: kdf.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)))


def warm_up() -> None:
    """Compile the kernels, or load them."""
    KernelDensityForest(RandomForestClassifier(5)).fit(*spiral(200)[:2])


def main() -> None:
    """Print every ratio beside its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[1000, 4000, 10_000, 40_000, 50_000],
        help="spirals of these sizes",
    )
    parser.add_argument("--separable", type=int, default=10_000, help="blobs of this size")
    parser.add_argument(
        "--memory", type=int, nargs="+", default=[10_000, 50_000], help="memory at these sizes"
    )
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(cast("str", arguments.peak[0]), int(arguments.peak[1]))
        return
    warm_up()
    spirals(arguments.rows)
    separable(arguments.separable)
    memory(arguments.memory)


if __name__ == "__main__":
    main()
