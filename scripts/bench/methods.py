"""What is fitted after a parent, against the parent's own fit and prediction.

A cell is a number of rows, features and classes with a parent that is fitted on the rows. A method
is fitted after the frozen parent, out of bag or on a fifth of the rows that are held out. Its fit
is a multiple of the parent's fit, its prediction of new rows one of the parent's ``predict_proba``
of them, and one row takes milliseconds beyond the parent's own. Peers are measured in the same way.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from table import Table, Value, cpu_seconds, peak_in_process, peak_mb, ratio

from kdgraph import DensityGate, KernelDensityForest, ScoreGate
from kdgraph.calibration import ConformalClassifier, LinearPool, MatrixScaling, ScoreMap
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning, KernelDensityConfidence
from kdgraph.detection import ForestScoreEnsemble, KthNeighbourDistance, LeafBox
from kdgraph.distributions import Normal
from kdgraph.recalibration import ConformalPit, GlobalPit, IsotonicPit, LocalPit

HELD_OUT, N_NEW, ONE_ROW_CALLS, INFORMATIVE = 0.2, 10_000, 40, 12
BOOSTED = ("hist", "lightgbm", "xgboost")


@dataclass(frozen=True)
class Cell:
    """A problem, and the parent that is fitted on it."""

    n_rows: int
    n_features: int = 20
    n_classes: int = 2
    parent: str = "forest"
    n_trees: int = 100
    min_samples_leaf: int = 1

    @property
    def name(self) -> str:
        """Name in the table."""
        trees = f" of {self.n_trees}" if self.parent == "forest" else ""
        shape = f"{self.n_rows:,} × {self.n_features} × {self.n_classes}"
        return f"{shape}, {self.parent}{trees}"

    @property
    def is_boosted(self) -> bool:
        """Whether the parent is boosted trees."""
        return self.parent in BOOSTED


QUICK = [
    Cell(1_000),
    Cell(10_000),
    Cell(10_000, n_features=100),
    Cell(2_000, n_classes=100),
    Cell(10_000, parent="hist"),
    Cell(10_000, parent="lightgbm"),
]
FULL = [
    *QUICK,
    *(Cell(n_rows) for n_rows in (20_000, 50_000, 100_000, 200_000)),
    Cell(10_000, n_features=2),
    Cell(1_000, n_features=784, n_classes=10),
    Cell(10_000, n_classes=10),
    Cell(10_000, n_classes=100),
    Cell(10_000, n_trees=500),
    Cell(10_000, parent="xgboost"),
    *(Cell(50_000, parent=parent) for parent in BOOSTED),
]
GROWTH, FIRST_OF_GROWTH = [1_000, 10_000, 100_000, 1_000_000], 10_000
GROWTH_METHODS = ("KDF", "density gate", "density gate, whitened", "leaf box", "isotonic")


class Method(NamedTuple):
    """How a method is made after a frozen parent, and the method that predicts."""

    make: Callable[[Any], Any]
    predicts: str = "predict_proba"


def _own(kind: type, **options: Any) -> Callable[[Any], Any]:
    return lambda parent: kind(parent, n_jobs=1, random_state=0, **options)


def methods(cell: Cell) -> dict[str, Method]:
    """Return the methods that suit the parent of a cell, by name."""
    way = "held_out" if cell.is_boosted else "oob"
    by_name = {
        "isotonic": Method(lambda parent: ScoreMap(parent, calibration=way)),
        "temperature": Method(
            lambda parent: ScoreMap(parent, method="temperature", calibration=way)
        ),
        "matrix scaling": Method(lambda parent: MatrixScaling(parent, calibration=way)),
        "linear pool": Method(lambda parent: LinearPool(parent, calibration=way)),
        "top-label histogram": Method(
            lambda parent: HistogramBinning(parent, calibration=way, random_state=0),
            "predict_confidence",
        ),
        "top-label density": Method(
            lambda parent: KernelDensityConfidence(parent, calibration=way, random_state=0),
            "predict_confidence",
        ),
        "conformal APS": Method(
            lambda parent: ConformalClassifier(
                parent, conformity_score="aps", calibration=way, random_state=0
            ),
            "predict_set",
        ),
        "LoRe": Method(
            lambda parent: LocalRecalibration(parent, calibration=way, random_state=0),
            "predict_confidence",
        ),
        "KDF, held out": Method(_own(KernelDensityForest, calibration="held_out")),
        "leaf box": Method(_own(LeafBox), "ood_score"),
        "k-th neighbour": Method(
            lambda parent: KthNeighbourDistance(parent, random_state=0), "ood_score"
        ),
    }
    if cell.is_boosted:
        forest = RandomForestClassifier(100, random_state=0, n_jobs=1)
        return by_name | {
            "density gate, own forest": Method(_own(DensityGate, partition=forest)),
            "score gate by boxes": Method(
                lambda parent: ScoreGate(parent, detector=LeafBox(None, n_jobs=1), random_state=0)
            ),
        }
    return by_name | {
        "KDF": Method(_own(KernelDensityForest, calibration="oob")),
        "density gate": Method(_own(DensityGate, calibration="oob")),
        "density gate, whitened": Method(_own(DensityGate, calibration="oob", distance="whitened")),
        "score gate": Method(_own(ScoreGate, calibration="oob")),
        "score ensemble": Method(
            lambda parent: ForestScoreEnsemble(parent, n_jobs=1, random_state=0), "ood_score"
        ),
    }


_CALIBRATORS = (
    *("isotonic", "temperature", "matrix scaling", "top-label histogram"),
    *("top-label density", "conformal APS"),
)
_KDF_PREDICT = {1_000: 2, 10_000: 1.8, 20_000: 1.5, 50_000: 1.5, 100_000: 1.4, 200_000: 1.3}


def bar_of(name: str, quantity: str, cell: Cell) -> float | None:
    """Return the bar of a method's ``fit``, ``predict`` or ``one row`` in a cell, if it has one."""
    is_wide, is_usual = cell.n_features >= 100, cell.n_features <= 20 and cell.n_classes <= 10
    if quantity == "one row":
        return 2.0
    if name in _CALIBRATORS:
        return 0.2 if quantity == "fit" else 1.3
    if name.startswith("KDF") and quantity == "predict":
        if cell.is_boosted:
            return 4.0
        if is_wide:
            return 3.0
        return 2.0 if name == "KDF, held out" else _KDF_PREDICT.get(cell.n_rows)
    if name == "KDF" and quantity == "fit":
        return (
            0.5 if cell.n_classes >= 100 else 0.25 if cell.n_rows >= 10_000 and is_usual else None
        )
    if name.startswith("density gate") and quantity == "predict":
        return 2.0 if cell.is_boosted else 1.5
    if name.startswith("score gate"):
        if quantity == "fit":
            return 3.0 if cell.n_features >= 784 else None
        return 4.0 if is_wide else 3.0
    if name in ("LoRe", "leaf box") and quantity == "predict":
        return 2.0
    return None


def parent_of(cell: Cell) -> Any:
    """Return the parent of a cell, not fitted; None if its library is not installed."""
    if cell.parent == "forest":
        return RandomForestClassifier(
            cell.n_trees, min_samples_leaf=cell.min_samples_leaf, n_jobs=1, random_state=0
        )
    if cell.parent == "hist":
        return HistGradientBoostingClassifier(random_state=0)
    if importlib.util.find_spec(cell.parent) is None:
        return None
    if cell.parent == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, random_state=0)


def draw(cell: Cell, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels: three clusters a class in twelve features, and 5 % other labels.

    A quarter of the other features are mixtures of these, and the rest is noise.
    """
    fixed, rng = np.random.default_rng(7), np.random.default_rng(seed)
    d, n_informative = cell.n_features, min(cell.n_features, INFORMATIVE)
    spread = 3.0 if d == 2 else 1.0
    centers = spread * fixed.normal(size=(3 * cell.n_classes, n_informative))
    cluster = rng.integers(0, len(centers), n_rows)
    X = rng.normal(size=(n_rows, d))
    X[:, :n_informative] = centers[cluster] + 0.9 * X[:, :n_informative]
    n_mixed = (d - n_informative) // 4
    mixing = fixed.normal(size=(n_informative, n_mixed)) / math.sqrt(n_informative)
    mixed = slice(n_informative, n_informative + n_mixed)
    X[:, mixed] = X[:, :n_informative] @ mixing + 0.3 * X[:, mixed]
    y = cluster // 3
    is_flipped = rng.random(n_rows) < 0.05
    y[is_flipped] = rng.integers(0, cell.n_classes, is_flipped.sum())
    return X, y


def peers(parent: Any) -> dict[str, Callable[..., Callable[[np.ndarray], Any]]]:
    """Return what fits a peer on training and calibration rows and returns what predicts."""

    def prefit(X: Any, y: Any, X_calibration: Any, y_calibration: Any) -> Any:
        frozen = FrozenEstimator(parent)
        model = CalibratedClassifierCV(frozen, method="isotonic")
        return model.fit(X_calibration, y_calibration).predict_proba

    def five_folds(X: Any, y: Any, X_calibration: Any, y_calibration: Any) -> Any:
        return (
            CalibratedClassifierCV(clone(parent), method="isotonic", cv=5).fit(X, y).predict_proba
        )

    def neighbours(X: Any, y: Any, X_calibration: Any, y_calibration: Any) -> Any:
        from pyod.models.knn import KNN  # pyright: ignore[reportMissingImports]

        return KNN().fit(X).decision_function

    by_name = {
        "CalibratedClassifierCV, prefit": prefit,
        "CalibratedClassifierCV, cv=5": five_folds,
    }
    return by_name | ({"PyOD KNN": neighbours} if importlib.util.find_spec("pyod") else {})


class Fitted(NamedTuple):
    """A fitted parent with the seconds of its fit, the rows, and the number of new ones."""

    parent: Any
    seconds: float
    train: tuple[np.ndarray, np.ndarray]
    held_out: tuple[np.ndarray, np.ndarray]
    new: np.ndarray


def fitted(cell: Cell) -> Fitted | None:
    """Return the problem of a cell with its fitted parent; None without the parent's library."""
    parent = parent_of(cell)
    if parent is None:
        return None
    train = draw(cell, cell.n_rows, 0)
    held_out = draw(cell, max(200, round(HELD_OUT * cell.n_rows)), 1)
    seconds = cpu_seconds(lambda: parent.fit(*train))
    n_new = N_NEW if cell.n_features < 784 else 2_000
    return Fitted(parent, seconds, train, held_out, draw(cell, n_new, 2)[0])


def fit(method: Method, problem: Fitted) -> Any:
    """Return a method that is fitted after the parent of a problem."""
    model = method.make(FrozenEstimator(problem.parent))
    if getattr(model, "calibration", "held_out") == "oob":
        return model.fit(*problem.train)
    X, y = problem.held_out
    return model.fit(*problem.train, X_calibration=X, y_calibration=y)


def _fitted_predict(method: Method, problem: Fitted) -> Callable[[np.ndarray], Any]:
    return getattr(fit(method, problem), method.predicts)


def bench(table: Table, cells: Iterable[Cell], names: Sequence[str] = ()) -> None:
    """Add the lines of each method and each peer in each cell; of ``names`` alone, if given."""
    warmed: set[str] = set()
    for cell in cells:
        if cell.parent not in warmed:  # kernels are compiled, or read
            warmed.add(cell.parent)
            _bench_cell(_Silent(), replace(cell, n_rows=600, n_classes=2), names)
        _bench_cell(table, cell, names)


class _Silent(Table):
    def add(self, what: str, cell: str, **values: Value) -> None:
        """Do nothing."""


def _bench_cell(table: Table, cell: Cell, names: Sequence[str]) -> None:
    problem = fitted(cell)
    if problem is None:
        return
    fits: dict[str, Callable[[], Callable[[np.ndarray], Any]]] = {
        name: partial(_fitted_predict, method, problem)
        for name, method in methods(cell).items()
        if not names or name in names
    }
    if not names:
        rows = (*problem.train, *problem.held_out)
        fits |= {name: partial(make, *rows) for name, make in peers(problem.parent).items()}
    for name, make in fits.items():
        _add_costs(table, cell, problem, name, make)


def _add_costs(
    table: Table,
    cell: Cell,
    problem: Fitted,
    name: str,
    make: Callable[[], Callable[[np.ndarray], Any]],
) -> None:
    made: list[Callable[[np.ndarray], Any]] = []
    seconds = cpu_seconds(lambda: made.append(make()))
    (predict,), own, new = made, problem.parent.predict_proba, problem.new
    predict(new[:200])
    is_peer = name not in methods(cell)
    fit_bar, predict_bar, row_bar = (
        None if is_peer else bar_of(name, quantity, cell)
        for quantity in ("fit", "predict", "one row")
    )
    predicted = ratio(lambda: predict(new), lambda: own(new))
    table.add(
        name,
        cell.name,
        fit=Value(seconds / problem.seconds, "×", "its parent's", fit_bar),
        predict=Value(predicted, "×", "its parent's", predict_bar),
        one_row=Value(_one_row_ms(predict, own, new), "ms", "beyond its parent's", row_bar),
    )


def _one_row_ms(
    predict: Callable[[np.ndarray], Any], own: Callable[[np.ndarray], Any], new: np.ndarray
) -> float:
    """Return the median of milliseconds that one row takes beyond the parent's prediction."""
    extra = []
    for i in range(ONE_ROW_CALLS):
        row = new[i : i + 1]
        seconds = cpu_seconds(partial(own, row))
        extra.append(cpu_seconds(partial(predict, row)) - seconds)
    return 1000 * statistics.median(extra)


def _peak_of_fit(cell: Cell) -> float:
    method = methods(cell)["KDF"]

    def prepare() -> Callable[[], object]:
        few, problem = fitted(replace(cell, n_rows=300)), fitted(cell)
        assert few is not None and problem is not None
        fit(method, few)  # kernels are read
        return partial(fit, method, problem)

    return peak_mb(prepare)


WIDE, LONG = Cell(10_000, n_features=784, n_classes=10, n_trees=20), Cell(50_000)
PEAKS = {"wide": partial(_peak_of_fit, WIDE), "long": partial(_peak_of_fit, LONG)}


def memory(table: Table) -> None:
    """Add how far the fit of a kernel density forest raises the memory."""
    for name, cell, bar in (("wide", WIDE, 200.0), ("long", LONG, 300.0)):
        peak = Value(peak_in_process("methods", name), "MB", "beyond the rows", bar)
        table.add("KDF, fit", cell.name, memory=peak)


def growth(table: Table, sizes: Sequence[int] = GROWTH) -> None:
    """Add costs up to a million rows, and the exponents by which they grow beyond the forest."""
    cells = [Cell(n_rows, n_trees=50, min_samples_leaf=5) for n_rows in sizes]
    first = len(table.lines)
    bench(table, cells, GROWTH_METHODS)
    ratios: dict[str, dict[int, float]] = {}
    for line in table.lines[first:]:
        n_rows = int(line.cell.partition(" ")[0].replace(",", ""))
        if n_rows >= FIRST_OF_GROWTH:
            ratios.setdefault(line.what, {})[n_rows] = line.values["predict"].value
    for name, of_name in ratios.items():
        if len(of_name) > 1:
            x, y = np.log(list(of_name)), np.log(list(of_name.values()))
            slope = float(np.polyfit(x, y, 1)[0])
            cell = f"{min(of_name):,} to {max(of_name):,} rows"
            growth = Value(slope, "", "exponent beyond its parent's", 0.05)
            table.add(name, cell, growth_of_predict=growth)


class NormalForest(RandomForestRegressor):
    """Forest of regression whose distributions have one spread."""

    def predict_dist(self, X: np.ndarray) -> Any:
        """Return a normal distribution around the mean of the trees for each row."""
        return Normal(self.predict(X), np.ones(len(X)))


def regression(table: Table, sizes: Sequence[int] = (10_000, 50_000)) -> None:
    """Add intervals of 95 % of recalibrators after a forest of regression."""
    recalibrators = {
        "global PIT": (GlobalPit, {}, 1.3),
        "isotonic PIT": (IsotonicPit, {}, 1.3),
        "conformal PIT": (ConformalPit, {}, 1.3),
        "local PIT": (LocalPit, {"k": 200, "max_reference_rows": 50_000}, None),
    }
    rng = np.random.default_rng(0)
    for n_rows in sizes:
        X = rng.uniform(-1, 1, size=(n_rows + 2 * N_NEW, 20))
        y = 3 * X[:, 0] ** 2 + X[:, 1] + (0.2 + np.abs(X[:, 1])) * rng.normal(size=len(X))
        forest: Any = NormalForest(
            100, max_features="sqrt", min_samples_leaf=5, n_jobs=1, random_state=0
        )
        own = cpu_seconds(lambda forest=forest, X=X, y=y, n=n_rows: forest.fit(X[:n], y[:n]))
        held, new = slice(n_rows, n_rows + N_NEW), X[n_rows + N_NEW :]
        cell = f"{n_rows:,} × 20, forest of regression"
        for name, (kind, options, bar) in recalibrators.items():
            model = kind(FrozenEstimator(forest), random_state=0, **options)
            arguments = {"X_calibration": X[held], "y_calibration": y[held]}
            seconds = cpu_seconds(
                lambda model=model, X=X, y=y, a=arguments: model.fit(X[:99], y[:99], **a)
            )
            value = ratio(
                lambda model=model, new=new: model.predict_dist(new).interval(0.95),
                lambda forest=forest, new=new: forest.predict(new),
            )
            table.add(
                name,
                cell,
                fit=Value(seconds / own, "×", "its parent's", 0.2),
                predict=Value(value, "×", "its parent's", bar),
            )
        if importlib.util.find_spec("quantile_forest"):
            from quantile_forest import RandomForestQuantileRegressor

            peer = RandomForestQuantileRegressor(
                100, max_features="sqrt", min_samples_leaf=5, n_jobs=1, random_state=0
            ).fit(X[:n_rows], y[:n_rows])
            value = ratio(
                lambda peer=peer, new=new: peer.predict(new, quantiles=[0.025, 0.975]),
                lambda forest=forest, new=new: forest.predict(new),
            )
            table.add("quantile-forest", cell, predict=Value(value, "×", "the forest's"))
