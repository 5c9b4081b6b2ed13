"""Time the kernel density forest out of bag against the same forest on held-out rows.

Both get the same number of rows. Out of bag the forest is fitted on all of them, on held-out rows
on 70 %; the fit of the forest is part of both. Every figure is a ratio of wall times in one process
with two threads, taken in turns; the bars are the goals. ``--rows 1000 4000`` is the short form.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from kdgraph import KernelDensityForest
from kdgraph.data.simulations import Spiral

FIT_BAR = PREDICT_BAR = 1.5
N_NEW_ROWS = 10_000
Way = Literal["oob", "held_out"]
WAYS: tuple[Way, ...] = ("held_out", "oob")


def draw(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a spiral in two features, or classes in clusters."""
    if n_features == 2:
        return Spiral().sample(n_rows, np.random.default_rng(0))
    return make_classification(
        n_rows,
        n_features,
        n_informative=10,
        n_redundant=0,
        n_classes=4,
        flip_y=0.05,
        random_state=0,
    )


def fit(way: Way, X: np.ndarray, y: np.ndarray) -> KernelDensityForest:
    """Return a fitted forest of 100 trees with its graph."""
    forest = RandomForestClassifier(100, random_state=0, n_jobs=2)
    return KernelDensityForest(forest, calibration=way, n_jobs=2, random_state=0).fit(X, y)


def compare(n_rows: int, n_features: int, repeats: int) -> None:
    """Print the ratios of fitting and predicting at one size."""
    X, y = draw(n_rows, n_features)
    new = draw(N_NEW_ROWS, n_features)[0]
    fit_ratios, predict_ratios, seconds = [], [], 0.0
    for _ in range(repeats):
        fit_times, predict_times = {}, {}
        for way in WAYS:
            start = time.perf_counter()
            model = fit(way, X, y)
            fit_times[way] = time.perf_counter() - start
            model.predict_proba(new[:10])  # builds the index
            start = time.perf_counter()
            model.predict_proba(new)
            predict_times[way] = time.perf_counter() - start
        fit_ratios.append(fit_times["oob"] / fit_times["held_out"])
        predict_ratios.append(predict_times["oob"] / predict_times["held_out"])
        seconds = fit_times["oob"]
    print(
        f"{n_rows:>7,} rows × {n_features:>3}: fit {statistics.median(fit_ratios):5.2f}"
        f" (bar {FIT_BAR:g}), predict {N_NEW_ROWS:,} rows {statistics.median(predict_ratios):5.2f}"
        f" (bar {PREDICT_BAR:g}); fit {seconds:.1f} s",
        flush=True,
    )


def print_peak(way: Way, n_rows: int) -> None:
    """Print by how many MB a fit and a prediction raise the memory of this process (Linux)."""
    X, y = draw(n_rows, 2)
    fit(way, X[:200], y[:200])
    before = _status_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    fit(way, X, y).predict_proba(X[:N_NEW_ROWS])
    print(f"{_status_mb('VmHWM') - before:.0f}")


def _status_mb(field: str) -> float:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(field)
    )
    return int(line.split()[1]) / 1024


def memory(n_rows: int) -> None:
    """Print the peak memory of both ways, each in a process of its own."""
    peaks = {
        way: subprocess.run(
            [sys.executable, __file__, "--peak", way, str(n_rows)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for way in WAYS
    }
    print(
        f"{n_rows:>7,} rows: {peaks['oob']} MB out of bag, {peaks['held_out']} MB on held-out rows"
    )


def main() -> None:
    """Print every ratio beside its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 4000, 10_000, 100_000])
    parser.add_argument("--wide", type=int, nargs="*", default=[20, 100], help="features")
    parser.add_argument("--memory", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(arguments.peak[0], int(arguments.peak[1]))
        return
    for way in WAYS:  # compiles the loops
        fit(way, *draw(300, 2)).predict_proba(draw(10, 2)[0])
    for n_rows in arguments.rows:
        compare(n_rows, 2, repeats=5 if n_rows <= 10_000 else 1)
    for n_features in arguments.wide:
        compare(10_000, n_features, repeats=3)
    for n_rows in arguments.memory:
        memory(n_rows)


if __name__ == "__main__":
    main()
