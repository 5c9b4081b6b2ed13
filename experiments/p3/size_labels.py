"""Average pairwise Hamming distance against training rows, with given and with shuffled labels, Figure 4: what
``kdg run experiment=paper/p3/size_labels`` prints at its end.

``python -m experiments.p3.size_labels outputs`` prints it again, from any subset of the runs, and draws the figure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.claims import Claim, verdicts
from experiments.common.markdown import counted, head, line, number
from experiments.common.runs import Record, runs_of
from experiments.p3.panels import Curve, Panel, side_by_side
from experiments.p3.records import APHD, IN, by_seed, spread, table_of
from kdgraph.errors import KdgError
from kdgraph.figures import save
from kdgraph.figures.style import BLUE, GREEN, ORANGE, PURPLE, VERMILLION, Role

EXPERIMENT = "paper/p3/size_labels"
METHODS = {"tood_given": "given labels", "tood_shuffled": "shuffled labels"}
SETS = {
    IN: ("test rows", Role(BLUE)),
    "uniform": ("uniform", Role(VERMILLION, marker="^")),
    "gaussian": ("Gaussian", Role(ORANGE, marker="P")),
    "shifted": ("shifted", Role(PURPLE, marker="v")),
    "permuted": ("permuted", Role(GREEN, marker="D")),
}
"""What they are called, and how they are drawn."""


def measured(records: Sequence[Record]) -> pd.DataFrame:
    """Numbers by dataset, method, seed, rows that train, set and metric; a table that has given all its rows is there once."""
    frames = [table_of([record]).assign(rows=record["dataset"]["n_train"]) for record in records]
    if not frames:
        return pd.DataFrame()
    return pd.concat(frames).drop_duplicates(["dataset", "method", "seed", "rows", "set", "metric"])


def beside(records: Sequence[Record]) -> str:
    """APHD at both ends, AUROC with all rows, and what the paper says of them, of the records of a sweep; markdown."""
    frame = measured(records)
    if frame.empty:
        return "no run of the numbers of training rows is there"
    title = f"## TOOD, Figure 4: {counted([frame.seed.nunique()], 'seed')}; the paper draws it and prints no number"
    return "\n\n".join([title, distances(frame), aurocs(frame), verdicts(claims(frame))])


def distances(frame: pd.DataFrame) -> str:
    """Mean APHD of each set, with the fewest and with the most rows."""
    return _table(frame, "APHD", lambda of: number(float(of[of.metric == APHD].value.mean()), 4))


def aurocs(frame: pd.DataFrame) -> str:
    """AUROC of rows in sets of 100, mean ± standard deviation over seeds."""
    without = {key: named for key, named in SETS.items() if key != IN}
    return _table(frame, "AUROC", lambda of: spread(of[of.metric == "auroc"].value, digits=2), without)


def _table(frame: pd.DataFrame, title: str, said, sets=SETS) -> str:
    lines = head([title, "labels", "training rows", *(named for named, _ in sets.values())])
    for (dataset, method), of in frame.groupby(["dataset", "method"], sort=False):
        for rows in (of.rows.min(), of.rows.max()):
            at = of[of.rows == rows]
            lines.append(line([str(dataset), METHODS[str(method)], f"{rows:,}", *(said(at[at.set == name]) for name in sets)]))
    return "\n".join(lines)


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """That more rows give a larger APHD, that what is out of distribution has the smaller one, and that labels do not matter."""
    for (dataset, method), of in frame.groupby(["dataset", "method"], sort=False):
        where = f"{dataset}, {METHODS[str(method)]}"
        at = of[of.metric == APHD].groupby(["set", "rows"]).value.mean().unstack("rows")
        falls = [SETS[str(name)][0] for name, row in at.iterrows() if not row.iloc[-1] > row.iloc[0]]
        found = f"from {at.columns[0]:,} to {at.columns[-1]:,} rows; it falls of {', '.join(falls)}" if falls else "of all sets"
        yield Claim(f"more training rows give a larger APHD of all sets (Section 6), {where}", not falls, found)
        last = at[at.columns[-1]]
        above = [SETS[str(name)][0] for name in last.index if name != IN and last[name] >= last[IN]]
        found = f"with {at.columns[-1]:,} rows it is larger of {', '.join(above)}" if above else "of none it is larger"
        yield Claim(f"APHD is smaller out of distribution (Section 3.2), {where}", not above, found)
    for dataset, of in frame[frame.metric == "auroc"].groupby("dataset", sort=False):
        most = of[of.rows == of.rows.max()].groupby(["set", "method"]).value.mean().unstack("method")
        if set(METHODS) <= set(most):
            apart = (most.tood_given - most.tood_shuffled).abs()
            found = ", ".join(f"{SETS[str(name)][0]} {number(g, 2)} and {number(s, 2)}" for name, g, s in most[list(METHODS)].itertuples())
            text = f"results are as good as without shuffling the labels (Section 6), {dataset}: AUROC within .05 in all sets"
            yield Claim(text, bool((apart <= 0.05).all()), f"given and shuffled: {found}")


def figure_4(frame: pd.DataFrame) -> Figure:
    """APHD against the number of training rows: a column for each data set, given labels above, shuffled ones below."""
    panels, datasets = {}, list(dict.fromkeys(frame.dataset))
    for method, labels in METHODS.items():
        for dataset in datasets:
            curves = {}
            for name, (called, role) in SETS.items():
                rows, values = by_seed(frame, APHD, "rows", dataset=dataset, method=method, set=name)
                curves[called] = Curve(np.array(rows, dtype=float), values, role)
            panels[f"{dataset}, {labels}"] = Panel(curves, "training rows", log=True, ticks=[50, 200, 800, 3200])
    seeds = counted([len(curve.y) for panel in panels.values() for curve in panel.curves.values()], "seed")
    note = f"lines: means, bands: 5 to 95 % of {seeds}; sets of 100 rows"
    return side_by_side(panels, ylabel="APHD", note=note, columns=len(datasets))


def main() -> None:
    """Print the tables of the runs below a folder, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", type=Path, nargs="?", default=Path("outputs"), help="where the runs are")
    parser.add_argument("--figures", type=Path, default=Path("outputs/p3_figures"), help="where the pictures go")
    given = parser.parse_args()
    records = runs_of(EXPERIMENT, given.outputs)
    print(beside(records))
    if records:
        given.figures.mkdir(parents=True, exist_ok=True)
        save(figure_4(measured(records)), given.figures / "figure4", ["png"], dpi=200)


if __name__ == "__main__":
    try:
        main()
    except KdgError as error:
        sys.exit(str(error))
