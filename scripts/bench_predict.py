"""Time predictions of repaired models against the predictions of their parent. Run it after any
change to what a prediction calls.

Parents are a random forest and boosted trees of three libraries on 20 features; what is fitted
after them is saved, read from the file and timed as a service uses it: one row at a time, as
milliseconds beyond the parent's own, and 10,000 rows at once, as a multiple of the parent's. A line
has the largest numbers of a component over the parents that it was timed with, and names those
parents. Everything is on one core in this process, in processor time, and parent and component take
turns. ``--rows 2000`` is the short form.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

import kdgraph
from kdgraph import DensityGate, KernelDensityForest, ScoreGate
from kdgraph.calibration import (
    BestCalibrator,
    ConformalClassifier,
    DirichletCalibration,
    LinearPool,
    MatrixScaling,
    ScoreMap,
)
from kdgraph.calibration.top_label import BetaCalibration, HistogramBinning, TemperatureScaling
from kdgraph.detection import (
    ForestScoreEnsemble,
    GeodesicDistance,
    GraphDensity,
    KthNeighbourDistance,
    LeafBox,
    LeafOccupancy,
    MaxProbability,
)

D, N_CALIBRATION, N_BATCH, ONE_ROW_CALLS, BATCH_ROUNDS = 20, 1000, 10_000, 60, 3
ONE_ROW_BAR_MS, BATCH_BAR = 2.0, 1.5


def main() -> None:
    """Print a line for each component and number of training rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--parents", nargs="+", default=list(parents()), choices=list(parents()))
    arguments = parser.parse_args()
    print(
        f"{D} features, one core; bars: {ONE_ROW_BAR_MS:g} ms for one row beyond the parent's own"
        f" time, {BATCH_BAR:g} × the parent's for {N_BATCH:,} rows"
    )
    with threadpool_limits(1):
        for n_rows in arguments.rows:
            for name in arguments.parents:
                bench_parent(name, n_rows)


def parents() -> dict[str, Callable[[], Any]]:
    """Parents by name; those of libraries that are not installed are left out."""

    def lightgbm() -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)

    def xgboost() -> Any:
        from xgboost import XGBClassifier

        return XGBClassifier(n_jobs=1, random_state=0)

    by_name: dict[str, Callable[[], Any]] = {
        "forest": lambda: RandomForestClassifier(100, n_jobs=1, random_state=0),
        "hist": lambda: HistGradientBoostingClassifier(random_state=0),
        "lightgbm": lightgbm,
        "xgboost": xgboost,
    }
    return {
        name: make
        for name, make in by_name.items()
        if name in ("forest", "hist") or importlib.util.find_spec(name)
    }


def components(parent: Any, name: str) -> dict[str, tuple[Any, str]]:
    """What is fitted after a parent, and the method that a service calls."""
    isotonic = ScoreMap(parent)
    by_name: dict[str, tuple[Any, str]] = {
        "isotonic": (isotonic, "predict_proba"),
        "temperature": (ScoreMap(parent, method="temperature"), "predict_proba"),
        "linear pool": (LinearPool(parent), "predict_proba"),
        "matrix scaling": (MatrixScaling(parent), "predict_proba"),
        "Dirichlet": (DirichletCalibration(parent), "predict_proba"),
        "best of these": (
            BestCalibrator(
                parent,
                candidates={
                    "temperature": ScoreMap(None, method="temperature"),
                    "isotonic": ScoreMap(None),
                    "matrix": MatrixScaling(None),
                },
                random_state=0,
            ),
            "predict_proba",
        ),
        "top-label temperature": (TemperatureScaling(parent), "predict_confidence"),
        "top-label beta": (BetaCalibration(parent), "predict_confidence"),
        "top-label histogram": (HistogramBinning(parent), "predict_confidence"),
        "conformal APS": (
            ConformalClassifier(isotonic, conformity_score="aps", random_state=0),
            "predict_set",
        ),
        "density gate, isotonic": (
            DensityGate(isotonic, n_jobs=1, random_state=0),
            "predict_proba",
        ),
        "density gate, own forest": (
            DensityGate(isotonic, partition=RandomForestClassifier(100), n_jobs=1, random_state=0),
            "predict_proba",
        ),
        "score gate by boxes": (
            ScoreGate(isotonic, detector=LeafBox(None, n_jobs=1), random_state=0),
            "predict_proba",
        ),
        "KDF": (
            KernelDensityForest(parent, calibration="held_out", n_jobs=1, random_state=0),
            "predict_proba",
        ),
        "leaf box": (LeafBox(parent, n_jobs=1), "ood_score"),
        "leaf occupancy": (LeafOccupancy(parent, n_jobs=1), "ood_score"),
        "geodesic distance": (GeodesicDistance(parent, n_jobs=1), "ood_score"),
        "graph density": (GraphDensity(parent, n_jobs=1), "ood_score"),
        "k-th neighbour": (KthNeighbourDistance(parent), "ood_score"),
        "maximum probability": (MaxProbability(parent), "ood_score"),
    }
    if name == "forest":
        by_name["score ensemble"] = (ForestScoreEnsemble(parent, n_jobs=1), "ood_score")
    return by_name


def bench_parent(name: str, n_rows: int) -> None:
    """Fit, save, read and time every component after one parent."""
    X, y = make_classification(
        n_rows + N_CALIBRATION + N_BATCH, D, n_informative=10, n_classes=3, random_state=0
    )
    train, held_out, batch = np.split(np.arange(len(X)), [n_rows, n_rows + N_CALIBRATION])
    parent = parents()[name]().fit(X[train], y[train])
    print(f"\n{name}, {n_rows:,} training rows", flush=True)
    for label, (component, method) in components(FrozenEstimator(parent), name).items():
        component.fit(X[train], y[train], X_calibration=X[held_out], y_calibration=y[held_out])
        model = reloaded(component)
        time_component(label, parent, getattr(model, method), X[batch])


def reloaded(model: BaseEstimator) -> Any:
    """The model as it is read from its file."""
    with tempfile.TemporaryDirectory() as folder:
        kdgraph.save(model, Path(folder) / "model.kdg")
        return kdgraph.load(Path(folder) / "model.kdg")


def time_component(
    label: str, parent: Any, predict: Callable[[np.ndarray], Any], X: np.ndarray
) -> None:
    """Print milliseconds of one row beyond the parent's, and the ratio of a batch."""
    first = milliseconds(lambda: predict(X[:1]))  # compiles, or loads what is compiled
    parent.predict_proba(X[:1])
    one_row = [
        (
            milliseconds(lambda row=row: parent.predict_proba(row)),
            milliseconds(lambda row=row: predict(row)),
        )
        for row in (X[i : i + 1] for i in range(ONE_ROW_CALLS))
    ]
    batches = [
        (milliseconds(lambda: parent.predict_proba(X)), milliseconds(lambda: predict(X)))
        for _ in range(BATCH_ROUNDS)
    ]
    own = statistics.median(a for a, _ in one_row)
    extra = statistics.median(b - a for a, b in one_row)
    batch = statistics.median(a for a, _ in batches)
    ratio = statistics.median(b / a for a, b in batches)
    print(
        f"  {label:26} one row {own:6.2f} ms {extra:+7.2f} ms{missed(extra > ONE_ROW_BAR_MS)}"
        f"   {len(X):,} rows {batch:7.1f} ms × {ratio:6.2f}{missed(ratio > BATCH_BAR)}"
        f"   first call {first:6.0f} ms",
        flush=True,
    )


def missed(is_missed: bool) -> str:
    """A mark of a missed bar, as wide as its absence."""
    return " MISSED" if is_missed else " " * 7


def milliseconds(run: Callable[[], object]) -> float:
    """Processor time, which others on the machine hardly change."""
    start = time.process_time()
    run()
    return 1000 * (time.process_time() - start)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
