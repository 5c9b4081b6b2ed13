"""Numbers of runs of Torres et al. by method and seed, those of the true distributions, and cells
of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.common.frames import half_width, where
from experiments.common.markdown import number, spread, table
from experiments.common.published import printed
from experiments.common.runs import Record, numbers_on_test
from experiments.common.settings import printed_settings
from kdgraph.metrics import coverage, crps, mse_y, smis
from kdgraph.results.comparison.significance import wilcoxon
from kdgraph.runner.stages import split

PAPER = Path(__file__).parent
TRUTH = "truth"  # Method of the true distribution
COLUMNS = ["method", "seed", "dropout", "metric", "value"]


class Shown(NamedTuple):
    """A metric in a table of the paper: name, level of the interval, and factor of the unit."""

    metric: str
    level: float | None = None
    factor: float = 1.0


def numbers_of(records: Iterable[Record], parents: Mapping[str, str]) -> pd.DataFrame:
    """Return the numbers on test rows, :data:`COLUMNS`; those of a parent once for each seed.

    ``parents`` has the method of the parent itself by name; runs with another are left out.
    """

    def name_of(record: Record, model: str) -> str | None:
        parent = parents.get(record["parent"])
        return record["method"] if parent is not None and model == "calibrated" else parent

    def key_of(record: Record) -> tuple[int, float | None]:
        return record["seed"], record["config"]["parent"].get("dropout")

    numbers = numbers_on_test(records, name_of, key_of)
    rows = ((name, *key_of(record), metric, value) for record, name, metric, value in numbers)
    return pd.DataFrame(rows, columns=COLUMNS)


def numbers_of_truth(records: Iterable[Record], dropout: float | None = None) -> pd.DataFrame:
    """Return :func:`numbers_of` the true distributions on the same test rows, drawn again."""
    rows = []
    for seed, record in {record["seed"]: record for record in records}.items():
        splits = split(record["config"]["dataset"], seed)
        test, scale = splits.test, float(np.abs(splits.calibration.y).mean())
        if test.distribution is None:
            continue
        truth = test.distribution(test.X)
        values = {
            "mse_y": mse_y(test.y, truth),
            "coverage": coverage(test.y, truth),
            "smis": smis(test.y, truth, scale),
            "crps": crps(test.y, truth),
            "mse_mean": 0.0,
            "kl": 0.0,
        }
        rows += [(TRUTH, seed, dropout, name, float(value)) for name, value in values.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def by_seed(frame: pd.DataFrame, method: str, metric: str) -> pd.Series:
    """Return the values of a method by seed."""
    return where(frame, method=method, metric=metric).set_index("seed").value


def in_published_terms(
    frame: pd.DataFrame,
    item: str,
    dataset: str,
    methods: Mapping[str, tuple[str | None, str]],
    metrics: Mapping[str, Shown],
) -> pd.DataFrame:
    """Return numbers with the keys of ``published.csv``, of :func:`numbers_of`.

    A method has its row in the paper, None to leave it out, and the title of the variant there; a
    metric its form in the table.
    """
    shared = {"item": item, "dataset": dataset}
    rows = [
        {**shared, "metric": shown.metric, "method": row, "level": shown.level}
        | {"seed": seed, "variant": variant, "value": shown.factor * value}
        for method, seed, metric, value in frame[["method", "seed", "metric", "value"]].itertuples(
            index=False
        )
        for shown in [metrics.get(metric)]
        for row, variant in [methods.get(method, (None, ""))]
        if shown is not None and row is not None
    ]
    return pd.DataFrame(rows)


def settings_of(
    records: Iterable[Record], item: str, apart: Sequence[str] = ("metric", "method", "seed")
) -> pd.DataFrame:
    """Return settings of runs as :func:`in_published_terms`; rows differ in columns ``apart``."""
    rows = [
        {**row, "seed": r["seed"]} for r in records for row in printed_settings(PAPER, r, [item])
    ]
    frame = pd.DataFrame(rows, columns=["item", "dataset", "metric", "method", "seed", "value"])
    return frame.assign(level=np.nan, variant="").drop_duplicates(list(apart))


def joined(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return frames one after the other, without empty ones; an empty frame if all are."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return pd.DataFrame()
    # pandas takes no dtype from columns without a number, and will.
    columns = list(dict.fromkeys(name for part in filled for name in part))
    filled_columns = [part.dropna(axis=1, how="all") for part in filled]
    return pd.concat(filled_columns, ignore_index=True).reindex(columns=columns)


def measured_cell(
    frame: pd.DataFrame, method: str, metric: str, digits: int, factor: float = 1.0
) -> str:
    """Return mean ± standard deviation over seeds."""
    return spread(by_seed(frame, method, metric), factor, digits)


def published_cell(
    item: str, method: str | None, metric: str, digits: int, level: float | None = None
) -> str:
    """Return the published number of a table, or a dash if the paper has no such row."""
    keys = {"item": item, "method": method, "metric": metric}
    return printed(PAPER, digits, **keys, **({} if level is None else {"level": level}))


class Column(NamedTuple):
    """A measured column of a table, and the published one beside it."""

    metric: str
    title: str
    digits: int
    published: str = ""  # metric in ``published.csv``; "": the paper does not have it
    factor: float = 1.0


def compared(
    frame: pd.DataFrame, item: str, rows: Mapping[str, Sequence[Any]], columns: Sequence[Column]
) -> str:
    """Return a table of methods, measured beside published; ``rows``: their titles and rows."""
    head, cells = ["model"], []
    for column in columns:
        head += [column.title, "published"] if column.published else [column.title]
    for method, (title, row) in rows.items():
        if method in set(frame.method):
            cells.append([title])
            for metric, _, digits, published, factor in columns:
                cells[-1].append(measured_cell(frame, method, metric, digits, factor))
                if published:
                    cells[-1].append(published_cell(item, row, published, digits))
    return table(head, cells)


def relative_difference(
    frame: pd.DataFrame, method: str, other: str, metric: str, share: float | None = None
) -> list[str]:
    """Return mean difference in percent, 95 % interval, number of lower seeds, and Wilcoxon's p.

    With ``share``, test rows per fitted row, the interval is that of splits of the same rows.
    """
    relative = 100 * (by_seed(frame, method, metric) / by_seed(frame, other, metric) - 1).dropna()
    if relative.empty:
        return ["–"] * 4
    mean, half = float(relative.mean()), half_width(relative, share or 0.0)
    interval = "–" if np.isnan(half) else f"{_signed(mean - half)} to {_signed(mean + half)}"
    p = wilcoxon(relative.to_numpy()) if relative.any() else 1.0
    lower = f"{int((relative < 0).sum())} of {len(relative)}"
    return [f"{_signed(mean)} %", interval, lower, f"{p:.2g}"]


def _signed(value: float) -> str:
    return ("−" if value < 0 else "+") + number(abs(value), 1)


def chosen_k(records: Iterable[Record], methods: Sequence[str]) -> str:
    """Return a sentence on the numbers of neighbours that calibration rows chose, or ""."""
    records, parts = list(records), []
    for method in methods:
        ks = [r["learnt"]["recalibrator"]["k"] for r in records if r["method"] == method]
        if ks:
            parts.append(f"`{method}` {int(np.median(ks)):,} ({min(ks):,} to {max(ks):,})")
    return f"Chosen k, median and range over seeds: {', '.join(parts)}." if parts else ""
