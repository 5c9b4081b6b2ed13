"""Figures of Torres et al. from finished runs: ``python -m experiments.p5.figures outputs``.

``figure1`` and ``figure2``: the line on the parabola, its PIT values in two places, means and
deviations (``paper/p5/table1``); ``figure3``: Rosenbrock's function, predictions of it, and misses
over its plane (``table2``); ``figure4``: the simulation study, in boxes (``simulation`` and those
built on it); ``figure5``: prices, two diamonds and the rows near them (``diamonds``). All but the
fourth are of the first seed that was run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.command import in_one_line, study_options
from experiments.common.frames import where
from experiments.common.models import evaluation_of
from experiments.common.pictures import save_picture
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p5 import simulation
from experiments.p5.panels import (
    Fit,
    Plane,
    line_and_curve,
    predicted_against_observed,
    valley_panels,
)
from experiments.p5.setting_boxes import plot_boxes_by_setting
from kdgraph.data.simulations import Rosenbrock
from kdgraph.figures import (
    RowMoments,
    plot_interval_misses,
    plot_local_pit_histograms,
    plot_mean_and_sd,
    plot_predictive_densities,
)
from kdgraph.figures.predictive import make_predicted_row
from kdgraph.metrics import pit_histogram
from kdgraph.runner.stages import split

PAPER = Path(__file__).parent
LOCAL = "local, k = 1,000"
# Centres of the neighbourhoods of Figure 1; the second is the paper's highlighted point.
PLACES_X = 4.0, 17.68
POINT = 17.68, 2146.22  # x and y of that point; the drawn row is the nearest in standard units
PRICES = 4113.0, 18026.0  # Prices of the two diamonds that the paper highlights in Figure 5
NEAR = 1000  # Test rows of a neighbourhood
SHOWN = 2000  # Rows in Figure 2
SHOWN_OF_PLANE = 3000  # Rows in Figure 3 (b to d)
KINDS = titles("p5", "figures")["kinds"]
PLACES = {"input": "input", "6": "layer 4", "8": "layer 5", "output": "output"}

Drawn = Iterator[tuple[str, Figure]]


def figures_1_and_2(folder: Path) -> Drawn:
    """Yield Figure 1, the line, two neighbourhoods and PIT values; and Figure 2, means and SDs."""
    records = {r["method"]: r for r in _first_seed(runs_of("paper/p5/table1", folder))}
    if "local_pit_1000" not in records:
        return
    X, y, truth, predicted = _predictions(
        {
            "linear": (records["local_pit_1000"], "parent"),
            LOCAL: (records["local_pit_1000"], "calibrated"),
        },
        folder,
    )
    near = [np.argsort(np.abs(X[:, 0] - x))[:NEAR] for x in PLACES_X]
    line = predicted["linear"]
    fit = Fit(X[:, 0], y, truth.mean(), line.mean(), float(np.sqrt(line.var()[0])))
    points = np.stack([X[:, 0] / np.std(X[:, 0]), y / np.std(y)], axis=1)
    highlighted = int(
        np.argmin(((points - np.array(POINT) / [np.std(X[:, 0]), np.std(y)]) ** 2).sum(axis=1))
    )
    yield "figure1_line", line_and_curve(fit, [int(near[0][0]), highlighted], near)
    cells = {
        "all": np.arange(len(y)),
        **{f"x near {x:g}": rows for x, rows in zip(PLACES_X, near, strict=True)},
    }
    yield "figure1_pit", plot_local_pit_histograms(_histograms(y, predicted, cells))
    if "global_pit" in records:
        predicted = {
            "linear": predicted["linear"],
            "global": _predictions({"global": (records["global_pit"], "calibrated")}, folder)[3][
                "global"
            ],
            **predicted,
        }
    moments = {
        name: RowMoments(options[:SHOWN].mean(), np.sqrt(options[:SHOWN].var()))
        for name, options in predicted.items()
    }
    yield (
        "figure2",
        plot_mean_and_sd(RowMoments(truth[:SHOWN].mean(), np.sqrt(truth[:SHOWN].var())), moments),
    )


def figure_3(folder: Path) -> Drawn:
    """Yield Figure 3: data, means and misses of 95 % intervals, before and after recalibration."""
    records = [
        r for r in runs_of("paper/p5/table2", folder) if r["config"]["parent"]["dropout"] == 0.05
    ]
    for record in _first_seed(records):
        after = record["config"]["recalibrator"]
        if (
            record["parent"] == "mlp_lognormal"
            and after["name"] == "local_pit"
            and after["radius"] is not None
        ):
            X, y, truth, predicted = _predictions(
                {"network": (record, "parent"), "local, radius 0.5": (record, "calibrated")}, folder
            )
            means = {name: options[:SHOWN_OF_PLANE].mean() for name, options in predicted.items()}
            plane = Plane(
                X[:SHOWN_OF_PLANE], y[:SHOWN_OF_PLANE], truth[:SHOWN_OF_PLANE].mean(), means
            )
            yield (
                "figure3_means",
                valley_panels(plane, lambda at: Rosenbrock().distribution(at).mean()),
            )
            ends = {name: options.interval(0.95) for name, options in predicted.items()}
            missed = {n: (y > high).astype(int) - (y < low) for n, (low, high) in ends.items()}
            yield "figure3_misses", plot_interval_misses(X, missed, 0.95)


def figure_5(folder: Path) -> Drawn:
    """Yield Figure 5: prices predicted and observed; two diamonds, and PIT values near them."""
    records = {r["method"]: r for r in _first_seed(runs_of("paper/p5/diamonds", folder))}
    if "network_local_1000" not in records:
        return
    record = records["network_local_1000"]
    X, y, _, predicted = _predictions(
        {"network": (record, "parent"), LOCAL: (record, "calibrated")}, folder
    )
    chosen = [int(np.argmin(np.abs(y - price))) for price in PRICES]
    panels = [
        make_predicted_row(
            f"y = {y[i]:,.0f}",
            {name: options[i : i + 1] for name, options in predicted.items()},
            y[i],
        )
        for i in chosen
    ]
    yield (
        "figure5_prices",
        predicted_against_observed(y, predicted["network"].mean(), chosen, "price"),
    )
    yield "figure5_densities", plot_predictive_densities(panels, "price")
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    near = {
        f"near y = {y[i]:,.0f}": np.argsort(((Z - Z[i]) ** 2).sum(axis=1))[:NEAR] for i in chosen
    }
    yield (
        "figure5_pit",
        plot_local_pit_histograms(_histograms(y, predicted, {"all": np.arange(len(y)), **near})),
    )


def figure_4(folder: Path) -> Drawn:
    """Yield Figure 4: MSE and coverage by size (a, c) and k (b, d), and seconds by size (e, f)."""
    frame = simulation.numbers_of(simulation.read(folder))
    frame = frame[(frame.eps == 0) & frame.network.isin(simulation.NETWORKS)]
    if frame.empty:
        return
    frame = frame.assign(kind=frame.method.where(~frame.method.isin(simulation.LOCAL), "local"))
    plain = frame[frame.k.isna() | (frame.k == simulation.K)]
    for network in simulation.NETWORKS:
        rows = plain[plain.network == network]
        panels = {
            "MSE to y": _by_size(rows, "mse_y"),
            "coverage of 95 % intervals": _by_size(rows, "coverage"),
        }
        yield (
            f"figure4_{network}",
            plot_boxes_by_setting(panels, f"rows, {network} network", IDEAL, log=("MSE to y",)),
        )
    seconds = {
        "training, s": _by_size(plain, "training"),
        "prediction, s": _by_size(plain, "prediction"),
    }
    yield (
        "figure4_seconds",
        plot_boxes_by_setting(seconds, "rows, both networks", log=tuple(seconds)),
    )
    yield from _by_k(frame)


IDEAL = {"MSE to y": 1.0, "coverage of 95 % intervals": simulation.LEVEL}  # Values of the truth


def _by_k(frame: pd.DataFrame) -> Drawn:
    local = frame[
        (frame.kind == "local")
        & (frame.k.isin([100, 500, simulation.K]))
        & (frame["size"] >= 10 * simulation.K)
    ]
    several = local.groupby("size").k.nunique()
    if not len(several) or several.max() < 2:
        return
    size = several[several > 1].index.max()
    panels = {}
    for title, metric in (("MSE to y", "mse_y"), ("coverage", "coverage")):
        for network in simulation.NETWORKS:
            rows = where(frame, size=size, network=network, metric=metric)
            alone = rows[rows.method == "network"].value.to_numpy(float)
            by_k = where(local, size=size, network=network, metric=metric).groupby(
                local.k.astype(int)
            )
            panels[f"{title}, {network}"] = {
                f"{k:,}": {"network": alone} | _groups(at_k, "method", PLACES)
                for k, at_k in by_k
                if len(alone)
            }
    ideal = {f"coverage, {network}": simulation.LEVEL for network in simulation.NETWORKS}
    yield "figure4_k", plot_boxes_by_setting(panels, "neighbours", ideal)


def _by_size(frame: pd.DataFrame, metric: str) -> dict[str, dict[str, np.ndarray]]:
    """Return size → kind of method → Float[r]."""
    return {
        _power(int(size)): _groups(rows, "kind", KINDS)
        for size, rows in frame[frame.metric == metric].groupby("size")
    }


def _groups(rows: pd.DataFrame, column: str, titles: Mapping[str, str]) -> dict[str, np.ndarray]:
    return {
        name: rows[rows[column] == key].value.to_numpy(float)
        for key, name in titles.items()
        if key in set(rows[column])
    }


def _power(size: int) -> str:
    power = round(np.log10(size))
    return f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[power]}" if 10**power == size else f"{size:,}"


def _first_seed(records: Sequence[Record]) -> list[Record]:
    seeds = [record["seed"] for record in records]
    return [record for record in records if record["seed"] == min(seeds)]


def _predictions(
    models: Mapping[str, tuple[Record, str]], folder: Path
) -> tuple[np.ndarray, np.ndarray, Any, dict[str, Any]]:
    """Return test rows X, y, their true distributions, if known, and name → predicted ones."""
    predicted, test = {}, None
    for name, (record, model) in models.items():
        test = next(r for r in evaluation_of(record, folder).predictions if r.role == "test")
        predicted[name] = test.models[model]["distribution"]
    record = next(iter(models.values()))[0]
    rows = split(record["config"]["dataset"], record["seed"]).test
    return rows.X, rows.y, None if test is None else test.truth, predicted


def _histograms(
    y: np.ndarray, predicted: Mapping[str, Any], cells: Mapping[str, np.ndarray]
) -> dict[str, dict[str, np.ndarray]]:
    return {
        cell: {n: pit_histogram(y[rows], x[rows], bins=20)["count"] for n, x in predicted.items()}
        for cell, rows in cells.items()
    }


FIGURES: dict[str, Callable[[Path], Drawn]] = {
    "line": figures_1_and_2,
    "valley": figure_3,
    "simulation": figure_4,
    "diamonds": figure_5,
}


def draw(folder: Path, to: Path, only: Iterable[str] = tuple(FIGURES)) -> list[Path]:
    """Draw the figures that have runs below ``folder``."""
    return [
        path
        for name in only
        for stem, figure in FIGURES[name](folder)
        for path in save_picture(figure, to / stem, PAPER)
    ]


def main() -> None:
    """Draw all figures of the runs below a folder."""
    to = Path("outputs/p5_figures")
    options = study_options(__doc__, outputs=True, to=to, only=FIGURES)
    print(*draw(options.outputs, options.to, options.only), sep="\n")


if __name__ == "__main__":
    in_one_line(main)
