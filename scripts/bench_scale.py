"""Time fits and predictions from a thousand to a million training rows. Run it after any change to
geometry or density.

For each number of rows a forest of 50 trees with at least 5 rows a leaf is fitted on 20 features,
then on 100 (``--features``), and read by one process for each method, so that its peak memory is
its own. Recalibrators follow a forest of regression and predict intervals of 95 %. What is fitted
after the forest takes multiples of the forest's own time: of its fit, and of its prediction of
100,000 new rows, which the method's includes wherever it calls the forest. Everything is on one
core, in processor time. The last lines have the exponents by which times grow with the training
rows, from 10,000 rows on. With 100 features there are at most 100,000 rows. ``--rows 1000 10000``
is the short form.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

ROWS, N_NEW, CALIBRATION_SHARE = [1000, 10_000, 100_000, 1_000_000], 100_000, 0.2
FIT_BAR, PREDICT_BAR, MEMORY_BAR_GB = 3.0, 1.5, 16.0
# Without limits the time of a prediction grows with the training rows; so many show that.
UNLIMITED, MAX_UNLIMITED_ROWS = "KDF, no limit", 100_000
MAX_ROWS_OF_MANY_FEATURES = 100_000
FEATURES_OF_REGRESSION = 20
FIT_EXPONENT_BAR, PREDICT_EXPONENT_BAR, FIRST_OF_EXPONENT = 1.15, 1.05, 10_000


def main() -> None:
    """Print a table for each number of training rows, and the exponents."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--features", type=int, nargs="+", default=[20, 100])
    known = [*methods(), *recalibrators()]
    parser.add_argument("--methods", nargs="+", choices=known, default=known)
    parser.add_argument("--one", metavar="METHOD", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.folder)))
        return
    for n_features in arguments.features:
        rows = [n for n in arguments.rows if n_features <= 20 or n <= MAX_ROWS_OF_MANY_FEATURES]
        compare(rows, n_features, [name for name in arguments.methods if name in methods()])
    if names := [name for name in arguments.methods if name in recalibrators()]:
        compare(arguments.rows, FEATURES_OF_REGRESSION, names, regression=True)


def compare(
    rows: list[int], n_features: int, names: list[str], *, regression: bool = False
) -> None:
    """Print a table for each number of training rows, and the exponents."""
    if not names:
        return
    task = ", regression" if regression else ""
    print(
        f"\n{n_features} features{task}, one core; bars: fit {FIT_BAR:g} ×, prediction"
        f" {PREDICT_BAR:g} × the forest's, {MEMORY_BAR_GB:g} GB"
    )
    figures: dict[str, dict[int, dict[str, float]]] = {}
    for n_rows in rows:
        with tempfile.TemporaryDirectory() as folder:
            make_problem(Path(folder), n_rows, n_features, regression)
            forest = run("forest", folder)
            figures.setdefault("forest", {})[n_rows] = forest
            print(
                f"\n{n_rows:,} rows: forest {forest['fit']:.3g} s, {forest['predict']:.1f} µs a new"
                f" row, {forest['peak_gb']:.2f} GB"
            )
            for name in names:
                if name == UNLIMITED and n_rows > MAX_UNLIMITED_ROWS:
                    continue
                found = run(name, folder)
                figures.setdefault(name, {})[n_rows] = found
                fit, predict = (found[part] / forest[part] for part in ("fit", "predict"))
                print(
                    f"  {name:<22} fit {fit:6.2f} ×{_missed(fit, FIT_BAR)}  predict {predict:6.2f}"
                    f" ×{_missed(predict, PREDICT_BAR)}  peak {found['peak_gb']:5.2f} GB"
                    f"{_missed(found['peak_gb'], MEMORY_BAR_GB)}",
                    flush=True,
                )
    counted = [n for n in rows if n >= FIRST_OF_EXPONENT]
    if len(counted) < 2:
        return
    print(
        f"\ngrowth from {counted[0]:,} to {counted[-1]:,} rows; bars: fit n^{FIT_EXPONENT_BAR:g},"
        f" prediction of n rows n^{PREDICT_EXPONENT_BAR:g} beyond that of the forest"
    )
    base = _exponent({n: figures["forest"][n]["predict"] for n in counted})
    print(f"  {'forest':<22} fit n^{_fit_exponent(figures['forest'], counted):.2f}", end="")
    print(f"  predict n^{1 + base:.2f}")
    for name in names:
        if len(figures.get(name, {})) < len(rows):
            continue
        predict = 1 + _exponent({n: figures[name][n]["predict"] for n in counted})
        fit = _fit_exponent(figures[name], counted)
        print(
            f"  {name:<22} fit n^{fit:.2f}{_missed(fit, FIT_EXPONENT_BAR)}"
            f"  predict n^{predict:.2f}, beyond the forest n^{predict - base:.2f}"
            f"{_missed(predict - base, PREDICT_EXPONENT_BAR)}"
        )


def _missed(value: float, bar: float) -> str:
    return " MISSED" if value > bar else ""


def _fit_exponent(figures: dict[int, dict[str, float]], counted: list[int]) -> float:
    return _exponent({n: figures[n]["fit"] for n in counted})


def _exponent(seconds: dict[int, float]) -> float:
    """Slope of the logarithm of a time over that of the number of rows, by least squares."""
    x, y = np.log(list(seconds)), np.log(list(seconds.values()))
    return float(np.polyfit(x, y, 1)[0])


def methods() -> dict[str, Callable[[Any], Any]]:
    """What is fitted after the forest, by name."""
    from kdgraph import DensityGate, KernelDensityForest
    from kdgraph.calibration.top_label import HistogramBinning
    from kdgraph.detection import LeafBox

    return {
        "isotonic, scikit-learn": lambda forest: CalibratedClassifierCV(forest, method="isotonic"),
        "top-label histogram": lambda forest: HistogramBinning(forest, random_state=0),
        "KDF": lambda forest: KernelDensityForest(forest, n_jobs=1, random_state=0),
        UNLIMITED: lambda forest: KernelDensityForest(
            forest, max_polytopes=None, n_jobs=1, random_state=0
        ),
        "gate": lambda forest: DensityGate(forest, calibration="oob", n_jobs=1, random_state=0),
        "gate, whitened": lambda forest: DensityGate(
            forest, distance="whitened", calibration="oob", n_jobs=1, random_state=0
        ),
        "leaf box": lambda forest: LeafBox(forest, n_jobs=1, random_state=0),
    }


def recalibrators() -> dict[str, Callable[[Any], Any]]:
    """What is fitted after the forest of regression, by name."""
    from kdgraph.recalibration import ConformalPit, GlobalPit, IsotonicPit, LocalPit

    return {
        "global PIT": lambda forest: GlobalPit(forest, random_state=0),
        "isotonic PIT": lambda forest: IsotonicPit(forest, random_state=0),
        "conformal PIT": lambda forest: ConformalPit(forest, random_state=0),
        "local PIT, 50,000 rows": lambda forest: LocalPit(
            forest, k=200, max_reference_rows=50_000, random_state=0
        ),
    }


class NormalForest(RandomForestRegressor):
    """Forest of regression whose distributions have one spread."""

    def predict_dist(self, X: np.ndarray) -> Any:
        """Return a normal distribution around the mean of the trees for each row."""
        from kdgraph.distributions import Normal

        return Normal(self.predict(X), np.ones(len(X)))


def make_problem(folder: Path, n_rows: int, n_features: int, regression: bool) -> None:
    """Write rows, and the forest with the seconds of its fit."""
    X, y = make_classification(
        n_rows + N_NEW,
        n_features,
        n_informative=n_features // 2,
        n_redundant=n_features // 4,
        flip_y=0.1,
        class_sep=0.8,
        random_state=0,
    )
    options: dict[str, Any] = {"min_samples_leaf": 5, "n_jobs": 2, "random_state": 0}
    forest: Any = RandomForestClassifier(50, **options)
    if regression:
        # The spread depends on the row, so that intervals of one width cover too little in places.
        spread = 0.3 + (X[:, 1] > 0)
        y = y + X[:, 0] + spread * np.random.default_rng(0).normal(size=len(X))
        forest = NormalForest(50, max_features="sqrt", **options)
    np.savez(folder / "rows.npz", X=X.astype(np.float32), y=y)
    start = time.process_time()
    forest.fit(X[:n_rows].astype(np.float32), y[:n_rows])
    seconds = time.process_time() - start
    forest.n_jobs = 1
    joblib.dump((forest, seconds), folder / "forest.joblib")


def run(name: str, folder: str) -> dict[str, float]:
    """Return what :func:`measure` finds in a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--folder", folder]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(name: str, folder: Path) -> dict[str, float]:
    """Return seconds of the fit, microseconds of a prediction and the peak memory in GB."""
    arrays = np.load(folder / "rows.npz")
    X, y = arrays["X"], arrays["y"]
    train, new = (X[:-N_NEW], y[:-N_NEW]), X[-N_NEW:]
    forest, fit = joblib.load(folder / "forest.joblib")
    with threadpool_limits(1):
        model, predict = forest, _predictor(forest)
        if name != "forest":
            model = {**methods(), **recalibrators()}[name](FrozenEstimator(forest))
            fit, predict = _fit(model, *train)
            predict(new[:1000])  # compiles the loops
        seconds = min(_seconds(lambda: predict(new)) for _ in range(2))
    return {"fit": fit, "predict": seconds / N_NEW * 1e6, "peak_gb": _peak_gb()}


def _fit(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, Callable[[Any], Any]]:
    """Return the seconds of the fit, compiled before, and the method that predicts."""
    few = np.linspace(0, len(X) - 1, 600).astype(int)
    if not hasattr(model, "calibration"):
        n_calibration = math.ceil(CALIBRATION_SHARE * len(X))
        few, X, y = few % n_calibration, X[-n_calibration:], y[-n_calibration:]
    given, given_few = {}, {}
    if hasattr(model, "predict_dist"):
        # Recalibrators take calibration rows by name, beside training rows that they do not use.
        given = {"X_calibration": X, "y_calibration": y}
        given_few = {name: rows[few] for name, rows in given.items()}
    model.fit(X[few], y[few], **given_few)
    seconds = _seconds(lambda: model.fit(X, y, **given))
    return seconds, _predictor(model)


def _predictor(model: Any) -> Callable[[Any], Any]:
    """Return the function of rows that a model predicts with."""
    if hasattr(model, "predict_dist"):
        return lambda X: model.predict_dist(X).interval(0.95)
    for method in ("predict_proba", "predict_confidence", "ood_score"):
        if hasattr(model, method):
            return getattr(model, method)
    raise TypeError(f"{type(model).__name__} predicts nothing")


def _peak_gb() -> float:
    """Peak memory of this process alone: the resource module counts that of its parent, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1e6


def _seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    main()
