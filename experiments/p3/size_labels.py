"""Average pairwise Hamming distance against training rows, with given and with shuffled labels,
Figure 4: the tables after ``kdg run experiment=paper/p3/size_labels`` and ``…/size_labels_latent``.

``python -m experiments.p3.size_labels outputs`` prints both again, from any subset of the runs, and
draws the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import markdown
from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_and_draw
from experiments.common.frames import seeds_of
from experiments.common.markdown import counted_noun, number, spread
from experiments.common.pictures import save_picture
from experiments.common.runs import Record, runs_of
from experiments.p3.panels import Curve, Panel, side_by_side
from experiments.p3.records import APHD, IN, by_seed, table_of
from kdgraph.figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, PlotStyle

PAPER = Path(__file__).parent
METHODS = {"tood_given": "given labels", "tood_shuffled": "shuffled labels"}


@dataclass(frozen=True)
class Sizes:
    """An experiment: titles of data sets, titles and styles of sets out of them, ticks of rows."""

    experiment: str
    kind: str
    datasets: Mapping[str, str]
    sets: Mapping[str, tuple[str, PlotStyle]]
    ticks: Sequence[float]


TABLES = Sizes(
    experiment="paper/p3/size_labels",
    kind="tables",
    datasets={"digits": "digits", "breast_cancer": "breast cancer", "mnist_784": "MNIST's pixels"},
    sets={
        IN: ("test rows", PlotStyle(BLUE)),
        "uniform": ("uniform", PlotStyle(VERMILLION, marker="^")),
        "gaussian": ("Gaussian", PlotStyle(ORANGE, marker="P")),
        "shifted": ("shifted", PlotStyle(PURPLE, marker="v")),
        "permuted": ("permuted", PlotStyle(GREEN, marker="D")),
    },
    ticks=(50, 200, 800, 3200),
)
IMAGES = Sizes(
    experiment="paper/p3/size_labels_latent",
    kind="images behind an autoencoder of the same rows",
    datasets={"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"},
    sets={
        IN: ("test rows", PlotStyle(BLUE)),
        "uniform": ("uniform", PlotStyle(VERMILLION, marker="^")),
        "cifar10_grey": ("CIFAR-10 in grey", PlotStyle(ORANGE, marker="P")),
        "notmnist": ("notMNIST", PlotStyle(PURPLE, marker="v")),
        "omniglot_inverted": ("Omniglot, inverted", PlotStyle(SKY, marker="X")),
        "emnist_letters": ("EMNIST letters", PlotStyle(GREEN, marker="D")),
    },
    ticks=(50, 200, 800, 3200, 10000),
)
# Experiments by the names of their pictures.
STUDIES = {"figure4": TABLES, "figure4_images": IMAGES}
LABELS = ("labels_carry_little",)


def measured(records: Sequence[Record]) -> pd.DataFrame:
    """Return the numbers by training rows; a table that has given all its rows is there once."""
    frames = [table_of([record]).assign(rows=record["dataset"]["n_train"]) for record in records]
    if not frames:
        return pd.DataFrame()
    return pd.concat(frames).drop_duplicates(["dataset", "method", "seed", "rows", "set", "metric"])


def by_study(records: Sequence[Record]) -> Iterator[tuple[Sizes, pd.DataFrame]]:
    """Yield each experiment with runs, and its numbers."""
    frame = measured(records)
    for sizes in STUDIES.values() if len(frame) else ():
        numbers = frame[frame.dataset.isin(sizes.datasets)]
        if len(numbers):
            yield sizes, numbers


def compare_with_published(records: Sequence[Record]) -> str:
    """Return APHD at both ends, AUROC with all rows, and the verdicts."""
    parts = []
    for sizes, numbers in by_study(records):
        seeds = seeds_of(numbers)
        parts += [
            f"## TOOD, Figure 4, {sizes.kind}: {seeds}; the paper draws it and prints no number",
            aurocs(numbers, sizes),
            distances(numbers, sizes),
            verdicts(claims(numbers, sizes)),
        ]
    return "\n\n".join(parts) if parts else "no run of the numbers of training rows is there"


def distances(frame: pd.DataFrame, sizes: Sizes) -> str:
    """Return the mean APHD of each set, with the fewest and with the most rows."""
    own = frame[frame.metric == APHD]
    return _table(
        own, sizes, "APHD", list(sizes.sets), lambda values: number(float(values.mean()), 4)
    )


def aurocs(frame: pd.DataFrame, sizes: Sizes) -> str:
    """Return AUROC of rows in sets of 100, mean ± standard deviation over seeds."""
    outside = [name for name in sizes.sets if name != IN]
    own = frame[frame.metric == "auroc"]
    return _table(own, sizes, "AUROC", outside, lambda values: spread(values, digits=2))


def _table(
    frame: pd.DataFrame,
    sizes: Sizes,
    title: str,
    names: Sequence[str],
    cell: Callable[[pd.Series], str],
) -> str:
    rows = []
    for (dataset, method), group in frame.groupby(["dataset", "method"], sort=False):
        for n in (group["rows"].min(), group["rows"].max()):
            at = group[group["rows"] == n]
            place = [sizes.datasets[str(dataset)], METHODS[str(method)], f"{n:,}"]
            rows.append([*place, *(cell(at[at.set == name].value) for name in names)])
    columns = [title, "labels", "training rows", *(sizes.sets[name][0] for name in names)]
    return markdown.table(columns, rows)


def claims(frame: pd.DataFrame, sizes: Sizes) -> Iterator[Claim]:
    """Yield that APHD grows with rows, is smaller out of distribution, and does not need labels."""
    frame = frame[frame.set.isin(sizes.sets)]
    titles = {name: title for name, (title, _) in sizes.sets.items()}
    for (dataset, method), group in frame.groupby(["dataset", "method"], sort=False):
        title = f"{sizes.datasets[str(dataset)]}, {METHODS[str(method)]}"
        at = group[group.metric == APHD].groupby(["set", "rows"]).value.mean().unstack("rows")
        first, last = at.columns[0], at.columns[-1]
        falls = [titles[str(x)] for x, row in at.iterrows() if not row.iloc[-1] > row.iloc[0]]
        evidence = f"from {first:,} to {last:,} rows; it falls of {', '.join(falls)}"
        text = f"more training rows give a larger APHD of all sets (Section 6), {title}"
        yield Claim(text, not falls, evidence if falls else "of all sets", ("grows_with_rows",))
        most = at[last]
        above = [titles[str(x)] for x in most.index if x != IN and most[x] >= most[IN]]
        evidence = f"with {last:,} rows it is larger of {', '.join(above)}"
        text = f"APHD is smaller out of distribution (Section 3.2), {title}"
        yield Claim(text, not above, evidence if above else "of none it is larger", ("id_larger",))
    for dataset, group in frame[frame.metric == "auroc"].groupby("dataset", sort=False):
        most = group[group["rows"] == group["rows"].max()]
        mean = most.groupby(["set", "method"]).value.mean().unstack("method")
        if set(METHODS) <= set(mean):
            each = ", ".join(
                f"{titles[str(name)]} {number(given, 2)} and {number(shuffled, 2)}"
                for name, given, shuffled in mean[list(METHODS)].itertuples()
            )
            text = (
                f"labels carry little (Section 6), {sizes.datasets[str(dataset)]}: AUROC with"
                " shuffled labels within .05 of that with given ones in all sets"
            )
            holds = bool(((mean.tood_given - mean.tood_shuffled).abs() <= 0.05).all())
            yield Claim(text, holds, f"given and shuffled: {each}", LABELS)


def figure_4(frame: pd.DataFrame, sizes: Sizes) -> Figure | None:
    """Draw APHD against training rows: a column for each data set, shuffled labels below.

    It has the seeds with all numbers of rows, and no data set without one; None without any.
    """
    drawn = {n: [_panel(frame, sizes, n, method) for method in METHODS] for n in sizes.datasets}
    whole = {n: panels for n, panels in drawn.items() if all(panel.curves for panel in panels)}
    panels = {
        f"{sizes.datasets[name]}, {labels}": whole[name][i]
        for i, labels in enumerate(METHODS.values())
        for name in whole
    }
    if not panels:
        return None
    curves = (curve for panel in panels.values() for curve in panel.curves.values())
    seeds = counted_noun([len(curve.y) for curve in curves], "seed")
    bands = seeds if seeds == "1 seed" else f"lines: means, bands: 5 to 95 % of {seeds}"
    note = f"{bands}; sets of 100 rows"
    return side_by_side(panels, ylabel="APHD", note=note, columns=len(whole))


def _panel(frame: pd.DataFrame, sizes: Sizes, dataset: str, method: str) -> Panel:
    curves = {}
    for name, (title, role) in sizes.sets.items():
        rows, values = by_seed(frame, APHD, "rows", dataset=dataset, method=method, set=name)
        if len(values):
            curves[title] = Curve(np.array(rows, dtype=float), values, role)
    return Panel(curves, "training rows", log=True, ticks=list(sizes.ticks))


def read(folder: Path) -> list[Record]:
    """Return the records of its runs below a folder."""
    return [record for sizes in STUDIES.values() for record in runs_of(sizes.experiment, folder)]


def draw(records: Sequence[Record], folder: Path) -> None:
    """Draw a picture of each experiment with runs."""
    frame = measured(records)
    for name, sizes in STUDIES.items() if len(frame) else ():
        if figure := figure_4(frame, sizes):
            save_picture(figure, folder / name, PAPER)


if __name__ == "__main__":
    print_and_draw(__doc__, read, compare_with_published, draw, "outputs/p3_figures")
