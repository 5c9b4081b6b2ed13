"""CIFAR-10 against CIFAR-100, SVHN and noise, beside Tables 1 and 4 of Dey et al.: the tables after
``experiment=paper/p1/cifar10`` and ``…/cifar10_vit``.

``python -m experiments.p1.cifar10 outputs`` prints them again, from any subset of their runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.command import print_comparison
from experiments.common.markdown import counted_noun, number, spread, table
from experiments.common.published import cell, read_published
from experiments.common.runs import Record, runs_of
from experiments.common.settings import by_size, differing_settings, trains_otherwise
from experiments.common.titles import titles

TABLES = {"Table 1": "ViT-B16", "Table 4": "ResNet-50"}  # Tables of the paper, and their networks
TITLES = titles("p1", "cifar10")
METHODS = TITLES["methods"]  # Method of runs, on any network → published name without the gate
# Class of the exposure that a network is trained with → method.
TRAININGS = {"Acet": "acet", "OutlierExposure": "oe"}
# A metric and a set out of distribution of runs → metric and set of ``published.csv``, title.
COLUMNS = TITLES["columns"]
PARENTS = {"lenet": "LeNet-5"}
PUBLISHED = [*METHODS.values()][:7]
LENET = "LeNet-5 in place of the encoder"
# Keys that may differ; numbers of rows have tables of their own, epochs lines.
FREE = ("dataset.n_train", "dataset.n_calibration", "dataset.n_test", "parent.max_epochs")
NOTE = TITLES["note"]


def compare_with_published(records: Sequence[Record]) -> str:
    """Return for each number of rows and each method the numbers of both tables and of runs."""
    parts = [part for rows, g in by_size(records).items() for part in (_title(rows, g), _table(g))]
    return "\n\n".join([*parts, NOTE]) if parts else "no run of CIFAR-10 is there"


def _title(rows: str, records: Sequence[Record]) -> str:
    seeds = counted_noun([len({record["seed"] for record in records})], "seed")
    return f"## Dey et al., Tables 1 and 4, CIFAR-10: {rows}, {seeds}"


def _table(records: Sequence[Record]) -> str:
    of_method = differing_settings(
        records, [(_parent(record), _method(record)) for record in records]
    )
    of_parent = differing_settings(
        records,
        [(_parent(record), trains_otherwise(record)) for record in records],
        ["parent", "preprocess"],
    )
    frame = pd.DataFrame(
        row for result in zip(records, of_method, of_parent, strict=True) for row in _rows(*result)
    )
    frame = frame.drop_duplicates(
        ["of", "method", "seed", "column"]
    )  # a parent is in the record of each method on it
    methods = (name for name in METHODS if name in set(frame.method))
    lines = [row for name in methods for row in _lines(name, frame[frame.method == name])]
    return table(["method", "of", *(title for *_, title in COLUMNS.values())], lines)


def _parent(record: Record) -> str:
    node = record["config"]["parent"]
    return PARENTS.get(node["name"]) or str(node.get("model", node["name"]))


def _method(record: Record) -> str:
    if trains_otherwise(record):
        return TRAININGS[record["config"]["parent"]["exposure"]["_target_"].rpartition(".")[2]]
    return record["calibrator"] if record["gate"] == "none" else f"gated_{record['calibrator']}"


def _rows(record: Record, of_method: str, of_parent: str) -> Iterable[dict[str, Any]]:
    """Yield one row for each number that a column shows, of the method and of its parent."""
    for entry in record["metrics"]:
        column = " ".join(filter(None, [entry["metric"], entry["ood"]]))
        value = entry["value"]
        if entry["of"] == "parent" and trains_otherwise(record):
            continue
        if column == "error":
            column, value = "accuracy", 100 * (1 - value)
        if column in COLUMNS and value is not None:
            method, setting = (
                ("parent", of_parent) if entry["of"] == "parent" else (_method(record), of_method)
            )
            title = ", ".join(filter(None, [_parent(record), "here", setting]))
            shared = {"of": title, "method": method, "seed": record["seed"]}
            yield {**shared, "column": column, "value": value}


def _lines(method: str, frame: pd.DataFrame) -> Iterable[list[str]]:
    published = read_published(Path(__file__).parent)
    published = published[published.method == METHODS[method]]
    for item, encoder in TABLES.items():
        if len(rows := published[published.item == item]):
            cells = [_printed(rows, metric, ood) for metric, ood, _ in COLUMNS.values()]
            yield [f"**{METHODS[method]}**", f"{item}, {encoder}", *cells]
    for place, rows in frame.groupby("of", sort=False):
        cells = [spread(rows[rows.column == column].value, digits=2) for column in COLUMNS]
        yield [METHODS[method], str(place), *cells]


def _printed(published: pd.DataFrame, metric: str, ood: str) -> str:
    rows = published[(published.metric == metric) & (published.ood.fillna("") == ood)]
    return f"{cell(rows, 2)} ± {number(float(rows.spread.iloc[0]), 2)}" if len(rows) else cell(rows)


def measured(folder: Path) -> pd.DataFrame:
    """Return the numbers of the runs below a folder, see :func:`in_published_terms`."""
    return in_published_terms(read(folder))


def read(folder: Path) -> list[Record]:
    """Return the records of both experiments below a folder."""
    free = [*FREE, "parent.model", "parent.device"]
    convolutional = runs_of("paper/p1/cifar10", folder, free=FREE)
    return [*convolutional, *runs_of("paper/p1/cifar10_vit", folder, free=free)]


def in_published_terms(records: Sequence[Record]) -> pd.DataFrame:
    """Return numbers by the keys of ``published.csv``; LeNet-5 is a variant in both tables."""
    rows = [
        {"item": item, "dataset": "cifar10", "metric": metric, "method": METHODS[row["method"]]}
        | {"ood": ood or None, "n_train": None, "radius": None, "seed": row["seed"]}
        | {"value": row["value"], "variant": LENET if lenet else ""}
        for record in records
        for lenet in [_parent(record) == PARENTS["lenet"]]
        for row in _rows(record, "", "")
        for metric, ood, _ in [COLUMNS[row["column"]]]
        if metric and METHODS.get(row["method"]) in PUBLISHED
        for item in (TABLES if lenet else ["Table 1"])
    ]
    frame = pd.DataFrame(rows)
    # A parent is in the record of each method on it.
    return frame.drop_duplicates([name for name in frame if name != "value"])


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
