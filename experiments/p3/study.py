"""Tables of a study of the paper: for each data set in distribution and each metric, published and
measured numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from experiments.common import markdown
from experiments.common.frames import seeds_of, where
from experiments.common.markdown import listed, spread
from experiments.common.published import cell, read_published
from experiments.common.runs import Record
from experiments.common.settings import by_size, differing_settings
from experiments.common.titles import titles
from experiments.p3.records import table_of

PARENTS = titles("p3", "study")["parents"]
# Metric of records → published name; in distribution is positive in all of them.
METRICS = {"auroc": "AUROC", "aupr_in": "AUPR", "fpr95": "FPR95", "fpr90": "FPR90"}
NOTE = titles("p3", "study")["note"]


@dataclass(frozen=True)
class Study:
    """One experiment and its tables."""

    experiment: str  # its name in ``conf/``
    title: str
    note: str  # differences from the paper
    datasets: Mapping[str, str]  # titles of data sets in distribution
    sets: Mapping[str, str]  # titles of sets out of it
    methods: Mapping[str, str]
    # title of a line → the paper's method, and its tables, the first with a number counts
    published: Mapping[str, tuple[str, Sequence[str]]]
    metrics: Sequence[str] = ("auroc", "aupr_in", "fpr95")  # a table for each
    # name in runs → that in ``published.csv``
    stands_for: Mapping[str, str] = field(default_factory=dict)


def measured(records: Sequence[Record]) -> pd.DataFrame:
    """Return :func:`~experiments.p3.records.table_of` with the keys that distinguish runs.

    ``rows`` are the numbers of rows, ``setting`` and ``parent_setting`` other differences among
    runs with as many rows.
    """
    frames = []
    for dataset in dict.fromkeys(record["dataset"]["name"] for record in records):
        for rows, group in by_size(r for r in records if r["dataset"]["name"] == dataset).items():
            parents = [record["config"]["parent"]["name"] for record in group]
            settings = differing_settings(group, [record["method"] for record in group])
            of_parents = differing_settings(group, parents, ["parent", "preprocess"])
            for record, setting, parent, of_parent in zip(
                group, settings, parents, of_parents, strict=True
            ):
                frames.append(
                    table_of([record]).assign(
                        rows=rows, setting=setting, parent=parent, parent_setting=of_parent
                    )
                )
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def tables(study: Study, frame: pd.DataFrame) -> list[str]:
    """Return for each number of rows a title with its notes, then tables for each data set."""
    own = frame[frame.dataset.isin(study.datasets)] if len(frame) else frame
    parts = []
    for rows, same in own.groupby("rows", sort=False) if len(own) else ():
        parts += [
            f"## TOOD, {study.title}: {rows}, {seeds_of(same)}",
            f"{study.note}\n{NOTE}",
        ]
        for dataset in (name for name in study.datasets if name in set(same.dataset)):
            group = same[same.dataset == dataset]
            parts += [table(group, study, dataset, metric) for metric in study.metrics]
            parts.append(f"Error on {study.datasets[dataset]} in percent: {_errors(group, study)}.")
    return parts


def table(frame: pd.DataFrame, study: Study, dataset: str, metric: str) -> str:
    """Return one metric of one data set: methods, published or run, by sets out of distribution."""
    published = read_published(Path(__file__).parent)
    published_name = study.stands_for.get(dataset, dataset)
    published = published[
        (published.dataset == published_name)
        & (published.metric == METRICS[metric])
        & published.value.notna()
    ]
    lines = []
    for title, (method, items) in study.published.items():
        printed = [
            _printed(published, method, items, study.stands_for.get(n, n)) for n in study.sets
        ]
        lines += [[f"**{title}**", *printed]] if set(printed) != {"–"} else []
    for method, title in study.methods.items():
        for setting, rows in frame[frame.method == method].groupby("setting", sort=False):
            cells = [spread(where(rows, metric=metric, set=n).value, 100, 1) for n in study.sets]
            lines.append([listed(title, str(setting)), *cells])
    heading = f"{METRICS[metric]}, {study.datasets[dataset]} against"
    return markdown.table([heading, *study.sets.values()], lines)


def _printed(published: pd.DataFrame, method: str, items: Sequence[str], ood: str) -> str:
    rows = where(published, method=method, ood=ood)
    return next(
        (cell(rows[rows.item == item], 1) for item in items if (rows.item == item).any()), "–"
    )


def _errors(frame: pd.DataFrame, study: Study) -> str:
    """Return the errors of each parent, once for each seed.

    Parents that are trained with different outliers have the titles of their methods: a source of
    outliers is a long setting.
    """
    rows = frame[frame.metric == "error"].drop_duplicates(["parent", "parent_setting", "seed"])

    def words(setting: str, each: pd.DataFrame) -> str:
        titles = (study.methods[name] for name in each.method.unique())
        return " and ".join(titles) if "parent.exposure." in setting else setting

    return ", ".join(
        f"{PARENTS.get(name, name)}{f' ({words(setting, each)})' if setting else ''}"
        f" {spread(each.value, 100, 1)}"
        for (name, setting), each in rows.groupby(["parent", "parent_setting"], sort=False)
    )
