"""Circles against lines and squares among noise dimensions, Figures 6 and 7: the tables after ``kdg
run experiment=paper/p3/simulated``.

``python -m experiments.p3.simulated outputs`` prints them again, from any subset of the runs, and
draws both figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_and_draw
from experiments.common.frames import seeds_of, where
from experiments.common.markdown import counted_noun, number, spread, table
from experiments.common.pictures import save_picture
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p3.panels import Curve, Panel, side_by_side
from experiments.p3.records import APHD, IN, by_seed, table_of
from kdgraph.data.simulations import PointCloud
from kdgraph.figures import style

PAPER = Path(__file__).parent
EXPERIMENT = "paper/p3/simulated"
# Keys with the dimension of the circles.
FOLLOW = ["ood.sources.lines.source.n_dims", "ood.sources.squares.source.n_dims"]
# Titles of methods by the names of their runs; sets of 100 rows in the first two, single rows in
# the others.
METHODS = titles("p3", "simulated")["methods"]
SETS = {
    IN: style.PlotStyle(style.BLUE),
    "lines": style.PlotStyle(style.VERMILLION, marker="^"),
    "squares": style.PlotStyle(style.GREEN, marker="D"),
}


def compare_with_published(records: Sequence[Record]) -> str:
    """Return AUROC and APHD by dimension, and the verdicts, of the records of a sweep."""
    frame = table_of(records, ["dataset.n_dims"])
    if frame.empty:
        return "no run of circles, lines and squares is there"
    methods = [name for name in METHODS if name in set(frame.method)]
    tood = [name for name in methods if name.startswith("tood")]
    seeds = seeds_of(frame)
    return "\n\n".join(
        [
            f"## TOOD, Figure 7: {seeds}; the paper draws it and prints no number",
            aurocs(frame, methods),
            *(distances(frame, method) for method in tood),
            verdicts(claim for method in tood for claim in claims(frame, method)),
        ]
    )


def aurocs(frame: pd.DataFrame, methods: Sequence[str]) -> str:
    """Return AUROC, mean ± standard deviation over seeds, by method, set and dimension."""
    dims, rows = sorted(frame.n_dims.unique()), []
    for shape in ("lines", "squares"):
        for method in methods:
            own = where(frame, metric="auroc", set=shape, method=method)
            cells = (spread(own[own.n_dims == d].value, digits=2) for d in dims)
            rows.append([f"{shape}: {METHODS[method]}", *cells])
    return table(["AUROC against", *(f"d = {d}" for d in dims)], rows)


def distances(frame: pd.DataFrame, method: str) -> str:
    """Return the mean APHD of each set by dimension."""
    dims, rows = sorted(frame.n_dims.unique()), []
    for name in SETS:
        own = where(frame, metric=APHD, set=name, method=method)
        cells = (number(float(own[own.n_dims == d].value.mean()), 4) for d in dims)
        rows.append(["circles, in distribution" if name == IN else name, *cells])
    labels = METHODS[method].partition(", ")[2]
    return table([f"APHD, {labels}", *(f"d = {d}" for d in dims)], rows)


def claims(frame: pd.DataFrame, method: str) -> Iterator[Claim]:
    """Yield that APHD grows with the dimension, and that sets become alike in it."""
    for name in SETS:
        dims, distance = by_seed(frame, APHD, "n_dims", method=method, set=name)
        if len(dims) < 2:
            continue
        first, last = (float(distance.mean(axis=0)[i]) for i in (0, -1))
        text = (
            f"APHD grows with the dimension (Remark 4.2), {'circles' if name == IN else name},"
            f" {METHODS[method]}: it is larger at the end"
        )
        evidence = f"from {number(first)} at d = {dims[0]} to {number(last)} at d = {dims[-1]}"
        yield Claim(text, last > first, evidence, ("grows_with_dimension",))
        if name == IN:
            continue
        _, auroc = by_seed(frame, "auroc", "n_dims", method=method, set=name)
        high, low = (float(auroc[:, i].mean()) for i in (0, -1))
        yield Claim(
            f"high dimension makes them indistinguishable (Section 6), {name}, {METHODS[method]}:"
            " the AUROC falls, and to within .1 of one half",
            low < high and abs(low - 0.5) < 0.1,
            f"AUROC {number(high, 2)} at d = {dims[0]}, {number(low, 2)} at d = {dims[-1]}",
            ("dimension_indistinguishable",),
        )


def figure_6(rows: int = 600) -> Figure:
    """Draw the first two features of each cloud, class by colour."""
    with style.style_context():
        figure = style.new_figure(5.1, 1.85)
        for i, shape in enumerate(("circles", "lines", "squares")):
            axes = style.add_axes(figure, 0.08 + 1.68 * i, 0.05, 1.58, 1.58)
            X, y = PointCloud(shape).sample(rows, np.random.default_rng(0))  # type: ignore[arg-type]
            for label, color in enumerate((style.BLUE, style.VERMILLION)):
                axes.scatter(*X[y == label].T, s=2.0, color=color, marker="o^"[label], linewidths=0)
            axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
            axes.set_axis_off()
            axes.set_title(shape + (", in distribution" if i == 0 else ""), fontsize=7.5, pad=3)
    return figure


def figure_7(frame: pd.DataFrame) -> Figure:
    """Draw APHD of the three sets against the dimension, with given and with shuffled labels."""
    panels = {}
    for method in ("tood_given", "tood_shuffled"):
        curves, dims = {}, []
        for name, role in SETS.items():
            dims, values = by_seed(frame, APHD, "n_dims", method=method, set=name)
            curves["circles" if name == IN else name] = Curve(
                np.array(dims, dtype=float), values, role
            )
        panels[METHODS[method]] = Panel(curves, "dimensions d", log=True, ticks=dims)
    seeds = counted_noun(
        [len(curve.y) for panel in panels.values() for curve in panel.curves.values()], "seed"
    )
    return side_by_side(
        panels,
        ylabel="APHD",
        note=f"lines: means, bands: 5 to 95 % of {seeds}; sets of 100 rows",
        columns=2,
    )


def read(folder: Path) -> list[Record]:
    """Return the records of its runs below a folder."""
    return runs_of(EXPERIMENT, folder, free=FOLLOW)


def draw(records: Sequence[Record], folder: Path) -> None:
    """Draw both figures; without runs the first alone."""
    save_picture(figure_6(), folder / "figure6", PAPER)
    if records:
        save_picture(figure_7(table_of(records, ["dataset.n_dims"])), folder / "figure7", PAPER)


if __name__ == "__main__":
    print_and_draw(__doc__, read, compare_with_published, draw, "outputs/p3_figures")
