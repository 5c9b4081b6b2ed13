"""Draw the pictures of the pages on concepts, into docs/pictures: about a minute on one core.

::

    python docs/draw.py

Small data and fixed seeds; every picture is one of the library's own figures, and the numbers in it
are of test rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from kdgraph.calibration import ScoreMap
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.data.simulations import Heteroscedastic, Moons, Spiral
from kdgraph.density import KernelDensityForest, KernelDensityNetwork
from kdgraph.detection import LeafBox, MaxProbability
from kdgraph.figures import (
    PredictedRow,
    plot_confidence_against_radius,
    plot_lce_landscape,
    plot_local_pit_histograms,
    plot_ood_scores,
    plot_posterior_maps,
    plot_predictive_densities,
    plot_reliability_diagram,
    save_figure,
)
from kdgraph.geometry import partition_of
from kdgraph.metrics import TopLabel, ece, local_errors, reliability_bins
from kdgraph.parents import GaussianLinear
from kdgraph.parents.networks import MultilayerPerceptron
from kdgraph.recalibration import GlobalPit, LocalPit

PICTURES = Path(__file__).parent / "pictures"
BOX = (-1.0, 1.0, -1.0, 1.0)
WIDE = (-2.0, 2.0, -2.0, 2.0)


def rows(source: Any, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Float[n, d] and labels, drawn with one seed."""
    return source.sample(n, np.random.default_rng(seed))


def grid(box: tuple[float, float, float, float], cells: int = 160) -> np.ndarray:
    """Float[cells², 2]: middles of cells, row by row from below."""
    x, y = (
        low + (np.arange(cells) + 0.5) * (high - low) / cells for low, high in (box[:2], box[2:])
    )
    return np.column_stack([np.tile(x, cells), np.repeat(y, cells)])


def as_map(values: np.ndarray) -> np.ndarray:
    """Values on a grid as the square that it is."""
    side = int(len(values) ** 0.5)
    return values.reshape(side, side)


def forest(seed: int = 0) -> RandomForestClassifier:
    """A forest as in the runs, of fewer trees."""
    return RandomForestClassifier(200, random_state=seed)


def network() -> MultilayerPerceptron:
    """A network that a core trains in seconds."""
    return MultilayerPerceptron(
        hidden=(200, 200, 200), learning_rate=0.001, device="cpu", random_state=0
    )


def spiral() -> Figure:
    """The truth, a forest, and the kernel density forest, in the training data's box and beyond."""
    source = Spiral()
    X, y = rows(source, 1430, 0)
    kdf = KernelDensityForest(forest(), random_state=0).fit(X, y)
    places = grid(WIDE)
    inside = np.abs(places).max(axis=1) <= 1
    truth = np.where(inside, np.nan_to_num(source.posterior(places)[:, 0], nan=0.5), 0.5)
    maps = {
        "truth": truth,
        "random forest": kdf.estimator_.predict_proba(places)[:, 0],
        "kernel density forest": kdf.predict_proba(places)[:, 0],
    }
    return plot_posterior_maps(
        {name: as_map(values) for name, values in maps.items()},
        WIDE,
        BOX,
        class_label="P(class 0 | x)",
    )


def similarity() -> Figure:
    """Geodesic similarity to one place: of one tree, of a forest, of a network."""
    X, y = rows(Spiral(), 1000, 0)
    trees = forest().fit(X, y)
    place, places = X[:1], grid(BOX)
    maps = {}
    for name, parent in {
        "one tree": trees.estimators_[0],
        "200 trees": trees,
        "network": network().fit(X, y),
    }.items():
        partition = partition_of(parent)
        maps[name] = as_map(
            partition.similarity(partition.encode(places), partition.encode(place))[:, 0]
        )
    return plot_posterior_maps(maps, BOX, None, class_label="K(x, r)", points=place)


def radius() -> Figure:
    """Mean confidence on circles of growing radius."""
    X, y = rows(Spiral(), 1430, 0)
    kdf, kdn = (
        KernelDensityForest(forest(), random_state=0).fit(X, y),
        KernelDensityNetwork(network(), random_state=0).fit(X, y),
    )
    radii, angle = np.linspace(0.1, 4, 40), np.linspace(0, 2 * np.pi, 200, endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    models = {"random forest": kdf.estimator_, "network": kdn.estimator_, "KDF": kdf, "KDN": kdn}
    curves = {
        name: np.array([model.predict_proba(r * circle).max(axis=1).mean() for r in radii])
        for name, model in models.items()
    }
    return plot_confidence_against_radius(curves, radii, float(kdf.prior_.max()))


def reliability() -> Figure:
    """Accuracy against confidence of test rows."""
    X, y = rows(Spiral(), 1430, 0)
    X_test, y_test = rows(Spiral(), 4000, 1)
    kdf = KernelDensityForest(forest(), random_state=0).fit(X, y)
    tops = {
        "random forest": TopLabel.from_proba(kdf.estimator_.predict_proba(X_test)),
        "KDF": TopLabel.from_proba(kdf.predict_proba(X_test)),
    }
    bins = {
        name: reliability_bins(top_label.confidence, top_label.correct(y_test))
        for name, top_label in tops.items()
    }
    return plot_reliability_diagram(
        bins, ece={name: float(ece(y_test, top_label)) for name, top_label in tops.items()}
    )


def local() -> Figure:
    """Signed local calibration error of test rows of two moons, of a straight boundary behind
    isotonic regression and behind LoRe.
    """
    X, y = rows(Moons(), 1430, 0)
    X_test, y_test = rows(Moons(), 800, 1)
    isotonic = ScoreMap(LogisticRegression(), method="isotonic", random_state=0).fit(X, y)
    lore = LocalRecalibration(
        LogisticRegression(), bins="cv", choice="simplest", fill_proba=True, random_state=0
    ).fit(X, y)
    slce, n_eff = {}, {}
    for name, model in {"isotonic": isotonic, "LoRe": lore}.items():
        top_label = TopLabel.from_proba(model.predict_proba(X_test))
        errors = local_errors(
            top_label.confidence, top_label.correct(y_test), X_test, bandwidths=(0.2,)
        )
        slce[name], n_eff[name] = errors.slce[0], errors.n_eff[0]
    low, high = X_test.min(axis=0) - 0.1, X_test.max(axis=0) + 0.1
    return plot_lce_landscape(
        X_test, slce, n_eff, (low[0], high[0], low[1], high[1]), bandwidth=0.2
    )


def line_and_repairs() -> dict[str, Any]:
    """A straight line on a parabola whose noise grows, and what recalibration makes of it."""
    X, y = rows(Heteroscedastic(), 6000, 0)
    after = {
        "global": GlobalPit(GaussianLinear(), random_state=0),
        "local": LocalPit(GaussianLinear(), local_linear=True, random_state=0),
    }
    fitted = {name: model.fit(X, y) for name, model in after.items()}
    return {"line": fitted["global"].estimator_, **fitted}


def pit() -> Figure:
    """PIT values of test rows in three stretches of x."""
    X_test, y_test = rows(Heteroscedastic(), 6000, 1)
    pits = {
        name: model.predict_dist(X_test).cdf(y_test) for name, model in line_and_repairs().items()
    }
    stretches = {"x from 2 to 8": (2, 8), "x from 8 to 14": (8, 14), "x from 14 to 20": (14, 20)}
    inside = {
        title: (X_test[:, 0] >= low) & (X_test[:, 0] < high)
        for title, (low, high) in stretches.items()
    }
    counts = {
        title: {name: np.histogram(p[inside_cell], 20, (0, 1))[0] for name, p in pits.items()}
        for title, inside_cell in inside.items()
    }
    return plot_local_pit_histograms(counts)


def densities() -> Figure:
    """Predicted and true densities at three places."""
    places = np.array([[4.0], [11.0], [18.0]])
    models, drawn = line_and_repairs(), []
    for place in places:
        truth = Heteroscedastic().distribution(place[None])
        middle, spread = float(truth.mean()[0]), float(truth.var()[0]) ** 0.5
        at = np.linspace(middle - 6 * spread, middle + 6 * spread, 121)
        repeated, near = np.repeat(place[None], len(at), axis=0), 0.4 * spread
        predicted = {name: models[name].predict_dist(repeated) for name in ("line", "local")}
        density = {
            name: (of.cdf(at + near) - of.cdf(at - near)) / (2 * near)
            for name, of in predicted.items()
        }
        drawn.append(
            PredictedRow(
                f"x = {place[0]:g}",
                at,
                density | {"truth": Heteroscedastic().distribution(repeated).pdf(at)},
                None,
            )
        )
    return plot_predictive_densities(drawn)


def scores() -> Figure:
    """Scores of test rows, of noise around them, and of rows far away."""
    X, y = rows(Moons(), 1000, 0)
    X_test, _ = rows(Moons(), 1000, 1)
    rng = np.random.default_rng(2)
    low, high = X.min(axis=0), X.max(axis=0)
    sets = {
        "noise in the box": rng.uniform(low, high, (1000, 2)),
        "three boxes away": X_test + 3 * (high - low),
    }
    models = {"largest probability": MaxProbability(forest(), random_state=0).fit(X, y)}
    models["leaf box"] = LeafBox(ExtraTreesClassifier(200, random_state=0), random_state=0).fit(
        X, y
    )
    of = {
        title: {name: model.ood_score(values) for name, model in models.items()}
        for title, values in sets.items()
    }
    return plot_ood_scores(
        {name: model.ood_score(X_test) for name, model in models.items()},
        of,
        thresholds=list(models),
    )


DRAWN: dict[str, tuple[Callable[[], Figure], str]] = {
    "spiral": (spiral, "P(class 0 | x) on the spiral: truth, forest, kernel density forest"),
    "similarity": (
        similarity,
        "geodesic similarity to one place: of one tree, a forest, a network",
    ),
    "radius": (radius, "mean max confidence on circles of growing radius around the spiral"),
    "reliability": (reliability, "accuracy against confidence of 4,000 test rows of the spiral"),
    "local": (local, "signed local calibration error of 800 test rows of two moons"),
    "pit": (pit, "PIT values in three stretches of x, of a line on a parabola"),
    "densities": (densities, "predicted densities at three places, of a line on a parabola"),
    "scores": (scores, "out-of-distribution scores of test rows, of noise and of rows far away"),
}


def main() -> None:
    """Draw all of them and print how long each took."""
    PICTURES.mkdir(exist_ok=True)
    for name, (draw, shows) in DRAWN.items():
        start = time.perf_counter()
        save_figure(draw(), PICTURES / name, ("svg",), title=name, description=shows)
        print(f"{name}.svg {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
