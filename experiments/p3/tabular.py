"""Three tables against each other and noise, beside Table 1: the tables after ``kdg run
experiment=paper/p3/tabular``.

``python -m experiments.p3.tabular outputs`` prints them again, from any subset of the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.common.command import print_comparison
from experiments.common.frames import seeds_of, where
from experiments.common.markdown import number, spread
from experiments.common.markdown import table as markdown_table
from experiments.common.published import cell, read_published
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p3.records import IN, table_of
from kdgraph.config.components import build
from kdgraph.runner.stages import split, stage_rng

EXPERIMENT = "paper/p3/tabular"
TITLES = titles("p3", "tabular")
TABLES = TITLES["tables"]
NOISE = {"gaussian": "Gaussian", "uniform": "uniform"}
OWN = "_own_range"
# Titles of methods by the names of their runs; the first two score rows in sets of 100, all others
# single rows.
METHODS = TITLES["methods"]
# Variants of labels: Algorithm 1 of the paper, and the alternative of its Section 6.
VARIANTS = {"tood_given": "", "tood_shuffled": "labels shuffled"}
NOTE = TITLES["note"]


def compare_with_published(records: Sequence[Record]) -> str:
    """Return AUROC of each table against the others and noise, published and measured."""
    frame = table_of(records)
    if frame.empty:
        return "no run of the three tables is there"
    parts = [
        f"## TOOD, Table 1: {seeds_of(frame)}, AUROC in percent",
        NOTE,
    ]
    for own in TABLES:
        of_table = [record for record in records if record["dataset"]["name"] == f"{own}_6"]
        if of_table:
            first = min(of_table, key=lambda record: record["seed"])
            parts.append(table(frame[frame.dataset == f"{own}_6"], own, outside_of(first)))
    return "\n\n".join(parts)


def table(frame: pd.DataFrame, own: str, outside: dict[str, float]) -> str:
    """Return one table in distribution: published, of each method, and rows out of range anyway."""
    others = [name for name in TABLES if name != own]
    sets = {
        **{name: TABLES[name] for name in others},
        **NOISE,
        **{name + OWN: f"{TABLES[name]}, own range" for name in others},
    }
    published = read_published(Path(__file__).parent)
    published = where(published, item="Table 1", dataset=own)
    body = []
    body.append(
        ["**TOOD, published**", *(cell(published[published.ood == name], 0) for name in sets)]
    )
    for method in (name for name in METHODS if name in set(frame.method)):
        group = _percent(frame[frame.method == method])
        body.append(
            [METHODS[method], *(spread(group[group.set == name].value, 1, 1) for name in sets)]
        )
    rows = [number(100 * outside[name], 1) if name in outside else "–" for name in sets]
    body.append(["*rows with a value outside the training range*", *rows])
    return markdown_table([f"{TABLES[own]} against", *sets.values()], body)


def measured(folder: Path) -> pd.DataFrame:
    """Return AUROC in percent in every cell of Table 1, by the keys of ``published.csv``."""
    frame = table_of(read(folder))
    if frame.empty:
        return frame
    result = _percent(frame[frame.method.isin(VARIANTS) & frame.set.isin([*TABLES, *NOISE])])
    rows = {
        "dataset": result.dataset.str.removesuffix("_6"),
        "ood": result.set,
        "variant": result.method.map(VARIANTS),
    }
    result = result.assign(item="Table 1", metric="AUROC", method="TOOD", setting="", **rows)
    return result[
        ["item", "dataset", "metric", "method", "ood", "setting", "seed", "value", "variant"]
    ].reset_index(drop=True)


def _percent(frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame[frame.metric == "auroc"]
    return rows.assign(value=100 * rows.value)


def outside_of(record: Record) -> dict[str, float]:
    """Return the share of rows of each set with a value outside the range of the training rows."""
    config = record["config"]
    splits = split(config["dataset"], record["seed"])
    low, high = splits.train.X.min(axis=0), splits.train.X.max(axis=0)
    drawn = {
        result.name: result.X
        for result in build(config["ood"]).sets(splits, stage_rng(record["seed"], "evaluate"))
    }
    return {
        name: float(((low > X) | (high < X)).any(axis=1).mean())
        for name, X in {IN: splits.test.X, **drawn}.items()
    }


def read(folder: Path) -> list[Record]:
    """Return the records of its runs below a folder."""
    return runs_of(EXPERIMENT, folder)


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
