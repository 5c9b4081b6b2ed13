"""Images against other images and noise, beside Tables 3 to 5 and Appendix E: the tables after
``experiment=paper/p3/mnist``, ``…/cifar`` and ``…/cifar_fgsm``.

``python -m experiments.p3.images outputs`` prints them all again, from any subset of their runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.command import print_comparison
from experiments.common.frames import seeds_of
from experiments.common.markdown import spread, table
from experiments.common.runs import Record, runs_of
from experiments.common.settings import by_size, differing_settings
from experiments.common.titles import titles
from experiments.p3.gradient_sign import MAX_INTENSITY
from experiments.p3.records import DETECTED
from experiments.p3.study import Study, measured, tables

# Grey sets of MedMNIST, whose means Table 3 prints (tables 1 and 2 of Appendix E have each).
MEDMNIST = titles("p3", "images")["medmnist"]
MNIST = Study(**titles("p3", "images")["mnist"])
CIFAR = Study(**titles("p3", "images")["cifar"])
STUDIES = (MNIST, CIFAR)
FREE = (  # Keys that may differ; numbers of rows have tables of their own, epochs lines
    "dataset.n_train",
    "dataset.n_calibration",
    "dataset.n_test",
    "parent.max_epochs",
    "parent.encoder.max_epochs",
)


def compare_with_published(records: Sequence[Record]) -> str:
    """Return three tables for each data set of each study, published and measured."""
    moved = [record for record in records if _epsilons(record)]
    frame = with_mean_of_medmnist(measured([record for record in records if record not in moved]))
    parts = [part for study in STUDIES for part in tables(study, frame)] + [
        fgsm(rows, group) for rows, group in by_size(moved).items()
    ]
    return "\n\n".join(parts) if parts else "no run of images is there"


def with_mean_of_medmnist(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers with the means over MedMNIST, where all eight sets are there."""
    if frame.empty:
        return frame
    rows = frame[frame.set.isin(MEDMNIST)]
    keys = [name for name in frame if name not in ("set", "value")]
    means = rows.groupby(keys, sort=False, dropna=False).agg(
        n=("set", "nunique"), value=("value", "mean")
    )
    whole = means[means.n == len(MEDMNIST)].reset_index().drop(columns="n")
    return pd.concat([frame, whole.assign(set="medmnist")], ignore_index=True)


def fgsm(rows: str, records: Sequence[Record]) -> str:
    """Return AUROC against images that are moved against a network, by step: Figure 5."""
    named = [
        (
            CIFAR.datasets.get(r["dataset"]["name"], r["dataset"]["name"]),
            CIFAR.methods.get(r["method"], r["method"]),
        )
        for r in records
    ]
    result = [
        {
            "title": (f"{dataset} against {entry['ood']}: {', '.join(filter(None, [method, s]))}"),
            "seed": record["seed"],
        }
        | {"value": entry["value"], "level": round(MAX_INTENSITY * entry["params"]["epsilon"])}
        for record, (dataset, method), s in zip(
            records, named, differing_settings(records, named), strict=True
        )
        for entry in _epsilons(record)
    ]
    frame = pd.DataFrame(result)
    levels = sorted(frame.level.unique())
    columns = ["AUROC against", *(f"ε = {level}/{MAX_INTENSITY}" for level in levels)]
    lines = (
        [str(title), *(spread(group[group.level == at].value, 100, 1) for at in levels)]
        for title, group in frame.groupby("title", sort=False)
    )
    title = (
        "## TOOD, Figure 5: images out of distribution, moved against a"
        f" network of the same training rows: {rows}"
    )
    return f"{title}, {seeds_of(frame)}\n\n{table(columns, lines)}"


def _epsilons(record: Record) -> list[Mapping[str, Any]]:
    return [
        e
        for e in record["metrics"]
        if e["of"] == DETECTED and e["metric"] == "auroc" and "epsilon" in (e.get("params") or {})
    ]


def read(folder: Path) -> list[Record]:
    """Return the records of its runs below a folder."""
    experiments = [*(study.experiment for study in STUDIES), "paper/p3/cifar_fgsm"]
    return [record for name in experiments for record in runs_of(name, folder, free=FREE)]


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
