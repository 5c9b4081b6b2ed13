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

from experiments.common.claims import Claim, verdicts
from experiments.common.command import in_one_line, study_parser
from experiments.common.markdown import counted_noun, head, line, number, spread
from experiments.common.pictures import save_picture
from experiments.common.runs import Record, runs_of
from experiments.p3.panels import Curve, Panel, side_by_side
from experiments.p3.records import APHD, IN, by_seed, table_of
from kdgraph.figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, PlotStyle

PAPER = Path(__file__).parent
METHODS = {"tood_given": "given labels", "tood_shuffled": "shuffled labels"}


@dataclass(frozen=True)
class Sizes:
    """One experiment and its rows.

    Attributes
    ----------
    experiment, of : str
        Name in ``conf/``, and kind of its rows.
    datasets : mapping of str to str
        Data sets in distribution and their titles.
    sets : mapping
        Rows in and out of distribution → title and style.
    ticks : sequence of float
        Numbers of rows on the axis.
    """

    experiment: str
    of: str
    datasets: Mapping[str, str]
    sets: Mapping[str, tuple[str, PlotStyle]]
    ticks: Sequence[float]


TABLES = Sizes(
    experiment="paper/p3/size_labels",
    of="tables",
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
    of="images behind an autoencoder of the same rows",
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
STUDIES = {"figure4": TABLES, "figure4_images": IMAGES}
"""Experiments by the names of their pictures."""
LABELS = ("labels_carry_little",)


def measured(records: Sequence[Record]) -> pd.DataFrame:
    """Return numbers by dataset, method, seed, training rows, set and metric; a table that has
    given all its rows is there once.
    """
    frames = [table_of([record]).assign(rows=record["dataset"]["n_train"]) for record in records]
    if not frames:
        return pd.DataFrame()
    return pd.concat(frames).drop_duplicates(["dataset", "method", "seed", "rows", "set", "metric"])


def compare_with_published(records: Sequence[Record]) -> str:
    """Return APHD at both ends, AUROC with all rows, and the verdicts, of the records of a
    sweep.
    """
    frame = measured(records)
    parts = []
    for sizes in STUDIES.values():
        own = frame[frame.dataset.isin(sizes.datasets)] if len(frame) else frame
        if len(own):
            seeds = counted_noun([own.seed.nunique()], "seed")
            title = (
                f"## TOOD, Figure 4, {sizes.of}: {seeds}; the paper draws it and prints no number"
            )
            parts += [
                title,
                aurocs(own, sizes),
                distances(own, sizes),
                verdicts(claims(own, sizes)),
            ]
    return "\n\n".join(parts) if parts else "no run of the numbers of training rows is there"


def distances(frame: pd.DataFrame, sizes: Sizes) -> str:
    """Return the mean APHD of each set, with the fewest and with the most rows."""
    return _table(
        frame,
        sizes,
        "APHD",
        list(sizes.sets),
        lambda of: number(float(of[of.metric == APHD].value.mean()), 4),
    )


def aurocs(frame: pd.DataFrame, sizes: Sizes) -> str:
    """Return AUROC of rows in sets of 100, mean ± standard deviation over seeds."""
    outside = [name for name in sizes.sets if name != IN]
    return _table(
        frame, sizes, "AUROC", outside, lambda of: spread(of[of.metric == "auroc"].value, digits=2)
    )


def _table(
    frame: pd.DataFrame,
    sizes: Sizes,
    title: str,
    names: Sequence[str],
    cell_of: Callable[[pd.DataFrame], str],
) -> str:
    lines = head([title, "labels", "training rows", *(sizes.sets[name][0] for name in names)])
    for (dataset, method), group in frame.groupby(["dataset", "method"], sort=False):
        for rows in (group.rows.min(), group.rows.max()):
            at = group[group.rows == rows]
            cells = [cell_of(at[at.set == name]) for name in names]
            lines.append(
                line([sizes.datasets[str(dataset)], METHODS[str(method)], f"{rows:,}", *cells])
            )
    return "\n".join(lines)


def claims(frame: pd.DataFrame, sizes: Sizes) -> Iterator[Claim]:
    """Yield that more rows give a larger APHD, that rows out of distribution have the smaller one,
    and that labels do not matter.
    """
    frame = frame[frame.set.isin(sizes.sets)]
    titles = {name: title for name, (title, _) in sizes.sets.items()}
    for (dataset, method), rows in frame.groupby(["dataset", "method"], sort=False):
        where = f"{sizes.datasets[str(dataset)]}, {METHODS[str(method)]}"
        at = rows[rows.metric == APHD].groupby(["set", "rows"]).value.mean().unstack("rows")
        falls = [titles[str(name)] for name, row in at.iterrows() if not row.iloc[-1] > row.iloc[0]]
        evidence = (
            f"from {at.columns[0]:,} to {at.columns[-1]:,} rows; it falls of {', '.join(falls)}"
            if falls
            else "of all sets"
        )
        yield Claim(
            f"more training rows give a larger APHD of all sets (Section 6), {where}",
            not falls,
            evidence,
            ("grows_with_rows",),
        )
        last = at[at.columns[-1]]
        above = [titles[str(name)] for name in last.index if name != IN and last[name] >= last[IN]]
        evidence = (
            f"with {at.columns[-1]:,} rows it is larger of {', '.join(above)}"
            if above
            else "of none it is larger"
        )
        yield Claim(
            f"APHD is smaller out of distribution (Section 3.2), {where}",
            not above,
            evidence,
            ("id_larger",),
        )
    for dataset, rows in frame[frame.metric == "auroc"].groupby("dataset", sort=False):
        most = (
            rows[rows.rows == rows.rows.max()]
            .groupby(["set", "method"])
            .value.mean()
            .unstack("method")
        )
        if set(METHODS) <= set(most):
            apart = (most.tood_given - most.tood_shuffled).abs()
            evidence = ", ".join(
                f"{titles[str(name)]} {number(g, 2)} and {number(s, 2)}"
                for name, g, s in most[list(METHODS)].itertuples()
            )
            where = sizes.datasets[str(dataset)]
            text = (
                f"labels carry little (Section 6), {where}: AUROC with shuffled labels within .05"
                " of that with given ones in all sets"
            )
            yield Claim(
                text, bool((apart <= 0.05).all()), f"given and shuffled: {evidence}", LABELS
            )


def figure_4(frame: pd.DataFrame, sizes: Sizes) -> Figure | None:
    """Draw APHD against the number of training rows: a column for each data set, given labels
    above, shuffled ones below.

    It has the seeds with all numbers of rows, and no data set without one; None without any.
    """
    drawn = {
        name: [_panel(frame, sizes, name, method) for method in METHODS] for name in sizes.datasets
    }
    whole = {
        name: panels for name, panels in drawn.items() if all(panel.curves for panel in panels)
    }
    panels = {
        f"{sizes.datasets[name]}, {labels}": whole[name][i]
        for i, labels in enumerate(METHODS.values())
        for name in whole
    }
    if not panels:
        return None
    seeds = counted_noun(
        [len(curve.y) for panel in panels.values() for curve in panel.curves.values()], "seed"
    )
    note = (
        f"{seeds}; sets of 100 rows"
        if seeds == "1 seed"
        else f"lines: means, bands: 5 to 95 % of {seeds}; sets of 100 rows"
    )
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


def main() -> None:
    """Print the tables of the runs below a folder, and draw the figures."""
    parser = study_parser(__doc__, outputs=True, pictures="outputs/p3_figures")
    options = parser.parse_args()
    records = read(options.outputs)
    print(compare_with_published(records))
    draw(records, options.figures)


if __name__ == "__main__":
    in_one_line(main)
