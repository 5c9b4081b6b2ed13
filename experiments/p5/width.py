"""Table 2 of Torres et al. by the width of the network: whether wider networks are nearer to it.

The paper's network has 6,400 units in its first two hidden layers, which take 11 hours of a core a
fit. ``kdg run -m experiment=paper/p5/table2 method=paper/p5/table2/mc_dropout_50_local_radius
'parent.hidden=choice([64,64,16,16],[128,128,32,32],[256,256,64,64])' seed=0,1`` makes smaller ones,
and ``python -m experiments.p5.width outputs`` prints them by width. Only networks that train for
equally many epochs are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from experiments.common import markdown
from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.frames import where
from experiments.common.markdown import number, spread
from experiments.common.published import read_published
from experiments.common.runs import Record
from experiments.p5.records import PAPER
from experiments.p5.table2 import PUBLISHED_DROPOUT, ROWS, by_share, read_all_sizes

# Metric → its name in the paper, its unit's factor, and decimals.
METRICS = {"mse_y": ("MSE", 1.0, 1), "coverage": ("coverage (%)", 100.0, 1), "smis": ("sMIS", 1, 3)}
METHODS = ("wsir", "mc_dropout", "wsir_local_radius", "mc_dropout_local_radius")


def by_width(records: Sequence[Record]) -> pd.DataFrame:
    """Return the numbers by units of the first hidden layer, with the paper's share of dropout."""
    sizes: dict[tuple[int, int], list[Record]] = {}
    for record in records:
        parent = record["config"]["parent"]
        if parent["dropout"] == PUBLISHED_DROPOUT:
            sizes.setdefault((parent["max_epochs"], parent["hidden"][0]), []).append(record)
    frames = [
        by_share(same).assign(epochs=epochs, width=width)
        for (epochs, width), same in sorted(sizes.items())
    ]
    columns = ["epochs", "width", "method", "seed", "metric", "value"]
    return (
        pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
    )


def printed(method: str, metric: str) -> float:
    """Return the paper's number of a row of Table 2."""
    numbers = read_published(PAPER)
    rows = where(numbers, item="Table 2", method=ROWS[method][1])
    return float(rows[rows.metric == METRICS[metric][0]].value.iloc[0])


def table(frame: pd.DataFrame) -> str:
    """Return means and deviations over seeds, a row for each number and a column for each width."""
    parts = []
    for epochs, rows in frame.groupby("epochs"):
        widths = sorted(rows.width.unique())
        titles = [f"{w} units ({rows[rows.width == w].seed.nunique()})" for w in widths]
        columns = [f"{epochs} epochs", "metric", *titles, "published"]
        parts.append(markdown.table(columns, _rows(rows, widths)))
    note = "Mean ± standard deviation over seeds, whose number stands after the width."
    return "\n\n".join([*parts, note])


def _rows(numbers: pd.DataFrame, widths: Sequence[int]) -> Iterator[list[str]]:
    for method in (name for name in METHODS if name in set(numbers.method)):
        for metric, (name, factor, digits) in METRICS.items():
            own = where(numbers, method=method, metric=metric)
            cells = [spread(own[own.width == w].value, factor, digits) for w in widths]
            yield [ROWS[method][0], name, *cells, number(printed(method, metric), digits)]


def claims(frame: pd.DataFrame) -> Iterable[Claim]:
    """Yield for each number whether each wider network, equally trained, is nearer to it."""
    for epochs, rows in frame.groupby("epochs"):
        for method in METHODS:
            for metric, (name, factor, digits) in METRICS.items():
                own = where(rows, method=method, metric=metric)
                wide = own.pivot(index="seed", columns="width", values="value").dropna()
                if wide.shape[1] < 2 or wide.empty:
                    continue
                means, target = factor * wide.mean(), printed(method, metric)
                off = (means - target).abs()
                by_width = ", ".join(f"{w} units {number(v, digits)}" for w, v in means.items())
                yield Claim(
                    f"{ROWS[method][0]}, {epochs} epochs: with each wider network the {name} is"
                    f" nearer to the printed {number(target, digits)}",
                    bool((off.diff().dropna() < 0).all()),
                    f"{by_width}, {len(wide)} seed{'s' * (len(wide) > 1)}",
                )


def compare_with_published(records: Sequence[Record]) -> str:
    """Return the table and the verdicts on each number."""
    frame = by_width(records)
    if frame.empty:
        return "no run of the networks on Rosenbrock's function is there"
    return f"{table(frame)}\n\n{verdicts(claims(frame))}"


if __name__ == "__main__":
    print_comparison(read_all_sizes, compare_with_published)
