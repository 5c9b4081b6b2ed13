"""Table 2 of Torres et al. by the width of the network: whether numbers come nearer to the printed
ones as it grows.

The paper's network has 6,400 units in its first two hidden layers, which take 11 hours of a core a
fit. ``kdg run -m experiment=paper/p5/table2 method=paper/p5/table2/mc_dropout_50_local_radius
'parent.hidden=choice([64,64,16,16],[128,128,32,32],[256,256,64,64])' seed=0,1`` makes smaller ones,
and ``python -m experiments.p5.width outputs`` prints them by width. Only networks that train for
equally many epochs are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.markdown import head, line, number, spread
from experiments.common.published import read_published
from experiments.common.runs import Record, runs_of
from experiments.p5.table2 import EXPERIMENT, PUBLISHED_DROPOUT, ROWS, by_share

METRICS = {"mse_y": ("MSE", 1.0, 1), "coverage": ("coverage (%)", 100.0, 1), "smis": ("sMIS", 1, 3)}
"""Metric → its name in the paper, its unit's factor, and decimals."""
METHODS = ("wsir", "mc_dropout", "wsir_local_radius", "mc_dropout_local_radius")


def by_width(records: Sequence[Record]) -> pd.DataFrame:
    """Return the numbers of the networks with the paper's share of dropout.

    Parameters
    ----------
    records : sequence
        Records of :func:`read`.

    Returns
    -------
    DataFrame
        ``epochs, width, method, seed, metric, value``, the width being the units of the first
        hidden layer; without rows where there is no record.
    """
    sizes: dict[tuple[int, int], list[Record]] = {}
    for record in records:
        parent = record["config"]["parent"]
        if parent["dropout"] == PUBLISHED_DROPOUT:
            sizes.setdefault((parent["max_epochs"], parent["hidden"][0]), []).append(record)
    frames = [
        by_share(mine).assign(epochs=epochs, width=width)
        for (epochs, width), mine in sorted(sizes.items())
    ]
    columns = ["epochs", "width", "method", "seed", "metric", "value"]
    return (
        pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
    )


def printed(method: str, metric: str) -> float:
    """Return the paper's number of a row of Table 2."""
    numbers = read_published(Path(__file__).parent)
    mine = numbers[(numbers["item"] == "Table 2") & (numbers.method == ROWS[method][1])]
    return float(mine[mine.metric == METRICS[metric][0]].value.iloc[0])


def table(frame: pd.DataFrame) -> str:
    """Means and deviations over seeds, a row for each number and a column for each width;
    markdown.
    """
    parts = []
    for epochs, rows in frame.groupby("epochs"):
        widths = sorted(rows.width.unique())
        seeds = [rows[rows.width == width].seed.nunique() for width in widths]
        titles = [f"{width} units ({n})" for width, n in zip(widths, seeds, strict=True)]
        lines = head([f"{epochs} epochs", "metric", *titles, "published"])
        for method in (name for name in METHODS if name in set(rows.method)):
            for metric, (name, factor, digits) in METRICS.items():
                mine = rows[(rows.method == method) & (rows.metric == metric)]
                cells = [spread(mine[mine.width == w].value, factor, digits) for w in widths]
                theirs = number(printed(method, metric), digits)
                lines.append(line([ROWS[method][0], name, *cells, theirs]))
        parts.append("\n".join(lines))
    note = "Mean ± standard deviation over seeds, whose number stands after the width."
    return "\n\n".join([*parts, note])


def claims(frame: pd.DataFrame) -> Iterable[Claim]:
    """For each number of the table, whether each wider network has a mean nearer to the printed
    one, of networks that train for equally many epochs and of the seeds that all widths have.
    """
    for epochs, rows in frame.groupby("epochs"):
        for method in METHODS:
            for metric, (name, factor, digits) in METRICS.items():
                mine = rows[(rows.method == method) & (rows.metric == metric)]
                wide = mine.pivot(index="seed", columns="width", values="value").dropna()
                if wide.shape[1] < 2 or wide.empty:
                    continue
                means, theirs = factor * wide.mean(), printed(method, metric)
                off = (means - theirs).abs()
                told = ", ".join(f"{w} units {number(v, digits)}" for w, v in means.items())
                yield Claim(
                    f"{ROWS[method][0]}, {epochs} epochs: with each wider network the {name} is"
                    f" nearer to the printed {number(theirs, digits)}",
                    bool((off.diff().dropna() < 0).all()),
                    f"{told}, {len(wide)} seed{'s' * (len(wide) > 1)}",
                )


def compare_with_published(records: Sequence[Record]) -> str:
    """Return the table and what becomes of each number with the width; markdown."""
    frame = by_width(records)
    if frame.empty:
        return "no run of the networks on Rosenbrock's function is there"
    return f"{table(frame)}\n\n{verdicts(claims(frame))}"


def read(folder: Path) -> list[Record]:
    """Records of networks of all sizes below a folder."""
    return runs_of(EXPERIMENT, folder, free=["parent.hidden", "parent.max_epochs", "parent.masks"])


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
