"""AUROC of TOOD against images that FGSM moved, step by step, Figure 5, from finished runs of
``experiment=paper/p3/cifar_fgsm``.

``python -m experiments.p3.figure5 outputs --figures experiments/p3/pictures``;
``experiments.p3.images`` prints the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.command import draw_pictures
from experiments.common.frames import seeds_of
from experiments.common.pictures import save_picture
from experiments.common.runs import Record, runs_of
from experiments.common.settings import by_size
from experiments.p3.gradient_sign import MAX_INTENSITY
from experiments.p3.images import CIFAR, FREE
from experiments.p3.panels import Curve, Panel, side_by_side
from experiments.p3.records import DETECTED
from kdgraph.errors import KdgError
from kdgraph.figures.style import BLUE, VERMILLION, PlotStyle

PAPER = Path(__file__).parent
EXPERIMENT = "paper/p3/cifar_fgsm"
TITLES = {"svhn": "SVHN", **CIFAR.datasets}
_DASHED = (0, (1.0, 1.2))
ROLES = {  # Style of a set and the labels of the trees; the other set is the other CIFAR
    ("svhn", "given"): PlotStyle(BLUE, linestyle=_DASHED, filled=False),
    ("svhn", "shuffled"): PlotStyle(BLUE),
    ("other", "given"): PlotStyle(VERMILLION, linestyle=_DASHED, marker="^", filled=False),
    ("other", "shuffled"): PlotStyle(VERMILLION, marker="^"),
}


def aurocs(records: Sequence[Record]) -> pd.DataFrame:
    """Return each AUROC of TOOD by data set, set, labels, seed and step of 255."""
    return pd.DataFrame(
        [row for record in records if record["detector"] == "tood" for row in _rows(record)]
    )


def _rows(record: Record) -> Iterator[dict[str, Any]]:
    shared = {
        "dataset": record["dataset"]["name"],
        "labels": record["config"]["detector"]["labels"],
        "seed": record["seed"],
    }
    for entry in record["metrics"]:
        if (
            entry["of"] == DETECTED
            and entry["metric"] == "auroc"
            and "epsilon" in (entry.get("params") or {})
        ):
            level = round(MAX_INTENSITY * entry["params"]["epsilon"])
            place = {**shared, "set": entry["ood"].rpartition("/")[2], "level": level}
            yield {**place, "value": entry["value"]}


def figure_5(frame: pd.DataFrame) -> Figure:
    """Draw a panel for each CIFAR in distribution, a curve for each set and kind of labels."""
    panels = {}
    for dataset, rows in frame.groupby("dataset"):
        curves = {}
        for (name, labels), each in rows.groupby(["set", "labels"], sort=False):
            wide = each.pivot(index="seed", columns="level", values="value").dropna()
            role = ROLES["svhn" if name == "svhn" else "other", str(labels)]
            curves[f"{TITLES[str(name)]}, {labels}"] = Curve(
                np.array(wide.columns, dtype=float), wide.to_numpy(float), role
            )
        ticks = sorted(rows.level.unique().astype(float))
        panels[f"{TITLES[str(dataset)]} in distribution"] = Panel(
            curves, f"step of FGSM, of {MAX_INTENSITY}", ylim=(0.4, 1.02), ticks=ticks
        )
    seeds = seeds_of(frame)
    note = "AUROC of rows in sets of 100, labels given or shuffled; 0: images as they are; "
    return side_by_side(
        panels,
        ylabel="AUROC",
        note=note + (seeds if seeds == "1 seed" else f"bands: 5 to 95 % of {seeds}"),
        columns=2,
    )


def draw(folder: Path, to: Path) -> list[Path]:
    """Write the picture of the runs with the most rows, figure5.svg and .pdf."""
    sizes = by_size(runs_of(EXPERIMENT, folder, free=FREE))
    if not sizes:
        raise KdgError(
            f"no run of {EXPERIMENT} in {folder}; make them with kdg run experiment={EXPERIMENT}"
        )
    return save_picture(figure_5(aurocs(list(sizes.values())[-1])), to / "figure5", PAPER)


if __name__ == "__main__":
    draw_pictures(__doc__, draw, "outputs/p3_figures")
