"""Figures of Salamon et al. on MNIST: curves of one ensemble, medians by class of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.p2.figures.method_bars import plot_method_bars
from experiments.p2.mnist.measure import BANDWIDTHS, METHODS, TEMPERATURES, fitted, members_of
from experiments.p2.mnist.pool import Combine, Pool
from experiments.p2.mnist.tables import medians
from kdgraph.figures import ClassPanel, plot_confidence_curves, plot_joint_distribution
from kdgraph.metrics import ReliabilityBins, TopLabel, reliability_bins

LOW = 0.15  # Lowest score of the paper's curves: below it there are too few rows
SETS = {"1": "test set 1", "2": "test set 2"}
GRID = 400
Draw = Callable[[], Figure]


def ensemble_figures(pool: Pool, combine: Combine) -> Iterator[tuple[str, Draw]]:
    """Yield Figures 4, 10 to 12 and 14 B, of the first ensemble."""
    proba = pool.ensemble(members_of(0, pool.size), combine)
    yield "figure4", lambda: _panels(pool, proba, {}, both=True, identity=None)
    for number, name in ((10, "STS"), (11, "CSTS"), (12, "TSwA")):
        yield (
            f"figure{number}",
            lambda name=name: _panels(pool, proba, {name: _cloud(pool, proba, name)}),
        )
    yield (
        "figure14b",
        lambda: _panels(
            pool,
            proba,
            {name: _curve(pool, proba, name) for name in list(BANDWIDTHS)[:2]},
            both=True,
        ),
    )


def median_figures(result: pd.DataFrame) -> Iterator[tuple[str, Draw]]:
    """Yield Figures 18 and 19: medians over ensembles of the binary NLL."""
    label = "median NLL of right or wrong"
    for number, methods in ((18, TEMPERATURES), (19, BANDWIDTHS)):
        yield (
            f"figure{number}",
            lambda methods=methods: plot_method_bars(
                medians(result, "NLL", methods), ylabel=label, sets=list(SETS.values())
            ),
        )


def fully_trained_figures(pool: Pool, combine: Combine) -> Iterator[tuple[str, Draw]]:
    """Yield Figure 16 of the first ensemble: the joint distribution, and curves of KDE(b_mon2)."""
    proba = pool.ensemble(members_of(0, pool.size), combine)
    counts = np.zeros((10, 10), dtype=int)
    np.add.at(counts, (pool.labels["1"], TopLabel.from_proba(proba["1"]).predicted), 1)
    yield "figure16_joint", lambda: plot_joint_distribution(counts, [str(k) for k in range(10)])
    yield (
        "figure16",
        lambda: _panels(pool, proba, {"KDE(b_mon2)": _curve(pool, proba, "KDE(b_mon2)")}),
    )


Lines = Callable[[int], tuple[np.ndarray, np.ndarray]]  # Class → score and confidence


def _panels(
    pool: Pool,
    proba: dict[str, np.ndarray],
    curves: dict[str, Lines],
    *,
    both: bool = False,
    identity: str | None = "score",
) -> Figure:
    panels = {}
    for k in range(10):
        shares = {
            title: _shares(proba[name], pool.labels[name], k)
            for name, title in SETS.items()
            if both or name == "1"
        }
        panels[str(k)] = ClassPanel({name: line(k) for name, line in curves.items()}, shares)
    return plot_confidence_curves(panels, identity=identity, columns=5, low=LOW)


def _shares(proba: np.ndarray, y: np.ndarray, k: int) -> ReliabilityBins:
    top_label = TopLabel.from_proba(proba)
    own = top_label.predicted == k
    return reliability_bins(top_label.confidence[own], (y == k)[own], bins=10)


def _curve(pool: Pool, proba: dict[str, np.ndarray], name: str) -> Lines:
    model = fitted(METHODS[name], proba["1"], pool.labels["1"])
    score = np.linspace(LOW, 1, GRID)

    def line(k: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.repeat(((1 - score) / 9)[:, None], 10, axis=1)
        rows[:, k] = score
        return score, model.predict_confidence(rows)

    return line


def _cloud(pool: Pool, proba: dict[str, np.ndarray], name: str) -> Lines:
    model = fitted(METHODS[name], proba["1"], pool.labels["1"])
    top_label, confidence = TopLabel.from_proba(proba["1"]), model.predict_confidence(proba["1"])

    def line(k: int) -> tuple[np.ndarray, np.ndarray]:
        own = top_label.predicted == k
        return top_label.confidence[own], confidence[own]

    return line
