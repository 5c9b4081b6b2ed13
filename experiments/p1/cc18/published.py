"""Stored numbers of the authors behind Figures 2 and 5 to 8 in the form of measured ones, and
tables of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.markdown import number, signed
from experiments.common.markdown import table as markdown_table
from experiments.common.published import read_published
from experiments.common.titles import titles
from experiments.p1.cc18 import archive
from experiments.p1.cc18.records import AUTHORS, EUCLIDEAN, Tables, label, order, tables
from experiments.p1.cc18.sizes import FEWEST, at_sizes, improvement_by_size
from experiments.p1.cc18.statistics import median
from kdgraph.metrics import absolute_improvement

PAPER = Path(__file__).resolve().parent
# Parent of a run → its published name, and that of the method on it.
NAMES = {"random_forest": ("random_forest", "kdf"), "mlp": ("relu network", "kdn")}
N_TABLES = 45
# Difference of two equal mean errors over seeds, which are of numbers in six digits. An error of
# 1,000 rows and five seeds moves in steps of 2e-4.
EQUAL = 2e-6
SIZES = (100, 300, 1000, 3000, 8999)
MEASURES = titles("p1", "cc18.published")["measures"]


def published_numbers(
    priors: pd.Series | None = None, folder: Path = PAPER, distance: str = "geodesic"
) -> pd.DataFrame:
    """Return the stored numbers in the form of :func:`~experiments.p1.cc18.records.frame`.

    Numbers on spheres go with the largest sample of their table; table 23517 has nothing else and
    is left out. ``priors``, number of a table → the largest share of a class, turn the stored mean
    confidence into OCE too, the distance of the confidence from the prior.
    """
    stored = read_published(folder)
    rows = [
        stored[stored.method == name].assign(parent=parent, method=method)
        for parent in NAMES
        for name, method in methods_of(parent, distance)
    ]
    numbers = pd.concat(rows, ignore_index=True)
    largest = numbers.dataset.map(numbers.groupby("dataset").n_train.max())
    numbers = numbers.assign(
        learn=numbers.n_train.fillna(largest),
        at=numbers.radius,
        seed=0,
        openml=numbers.dataset.astype(int),
    ).drop(columns=["item", "kind", "page", "source", "n_train", "radius", "note"])
    numbers = numbers[largest.notna()].astype({"learn": int})
    if priors is None:
        return numbers
    confidence = numbers[
        (numbers.metric == "mmc") & (numbers["at"] > 0) & numbers.dataset.isin(priors.index)
    ]
    oce = (confidence.value - confidence.dataset.map(priors)).abs()
    return pd.concat([numbers, confidence.assign(metric="oce", value=oce)], ignore_index=True)


def priors_of(from_runs: Tables) -> pd.Series:
    """Return number of a table of OpenML → the largest share of a class among the training rows."""
    prior = from_runs.column("prior")["parent"]
    return pd.Series(
        {str(n): prior[dataset] for dataset, n in from_runs.openml.items()}, dtype=float
    )


def compare_with_published(from_runs: Tables, published: pd.DataFrame) -> str:
    """Return medians over the common tables, published / measured, each at its largest sample."""
    printed, shared = _shared(from_runs, published)
    if not shared:
        return "No table of these runs is among the published ones."
    measures = {name: title for name, title in MEASURES.items() if name in from_runs.values}
    rows = []
    for method in sorted(set(printed.methods) & set(from_runs.methods), key=order):
        pairs = [
            (
                printed.column(name).loc[list(shared), method],
                from_runs.column(name).loc[list(shared.values()), method],
            )
            for name in measures
        ]
        cells = [f"{number(median(stored))} / {number(median(subset))}" for stored, subset in pairs]
        oce = _oce_differences(printed, from_runs, shared, method)
        rows.append([label(method, from_runs.parent), *cells, oce])
    what = (
        "ECE: of 10 edges, theirs of network and KDN of 15"
        if "ece_by_edges" in measures
        else "no ECE, which needs metrics=published"
    )
    note = (
        f"Medians over {len(shared)} of the {len(printed.datasets)} published tables. Of each cell:"
        f" published / ours. {what}."
    )
    columns = ["method", *measures.values(), "OCE, parent's less method's, r=5"]
    note += " OCE here: distance of the mean confidence to the prior."
    return f"{markdown_table(columns, rows)}\n\n{note}"


def table_by_table(from_runs: Tables, published: pd.DataFrame) -> str:
    """Return published / measured on each common table: rows, error, confidence at radius 5."""
    printed, shared = _shared(from_runs, published)
    methods = sorted(set(printed.methods) & set(from_runs.methods), key=order)
    names = [label(method, from_runs.parent) for method in methods]
    rows = []
    both = [(printed.column(metric), from_runs.column(metric)) for metric in ("error", "mmc@5")]
    for openml, dataset in shared.items():
        cells = [
            f"{number(a.loc[openml, method])} / {number(b.loc[dataset, method])}"
            for a, b in both
            for method in methods
        ]
        sizes = f"{printed.learn[openml]:,} / {from_runs.learn[dataset]:,}"
        rows.append([openml, dataset, sizes, *cells])
    columns = [f"{of}, {name}" for of in ("error", "r=5") for name in names]
    return markdown_table(["OpenML", "table", "rows", *columns], rows)


def by_size(from_runs: pd.DataFrame, published: pd.DataFrame, parent: str, threshold: float) -> str:
    """Return median improvements against the number of rows, published / measured."""
    rows = []
    for metric, title in (("error", "error"), ("ece_by_edges", "ECE")):
        both = [
            improvement_by_size(numbers[numbers.parent == parent], metric, threshold)
            for numbers in (published, from_runs)
        ]
        for method in sorted(both[0].methods & both[1].methods, key=order):
            medians = [at_sizes(each.curves[method], each.sizes, SIZES) for each in both]
            cells = [
                " / ".join(f"{signed(value)} ({count})" for value, count in pair)
                for pair in zip(*medians, strict=True)
            ]
            rows.append([title, label(method, parent), *cells])
    columns = ["improvement", "method", *(f"n = {size:,}" for size in SIZES)]
    note = "Of each cell: published / ours, in brackets the tables that have so many rows."
    return f"{markdown_table(columns, rows)}\n\n{note}"


def measured(folder: Path) -> pd.DataFrame:
    """Return :func:`figure2_numbers` of the runs below a folder, and of its archive."""
    return figure2_numbers(archive.numbers_below(folder))


def archived(folder: Path) -> pd.DataFrame:
    """Return the numbers by table and seed behind :func:`measured`, as an archive has them."""
    return archive.to_rows(archive.numbers_below(folder))


def figure2_numbers(numbers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the numbers of Figure 2 as the paper's ``published.csv`` has them.

    An estimate is from all seeds, means over seeds first and medians over tables after, and one
    without each seed. ``comparable`` has the authors' stored numbers over the tables that ran.
    """
    parts = [
        _jackknifed(numbers[archive.GEODESIC], archive.GEODESIC, _is_near),
        _jackknifed(numbers[archive.FAR], archive.FAR, _is_far),
        _jackknifed(numbers[EUCLIDEAN], EUCLIDEAN, _is_of_kernel),
        _jackknifed(numbers[archive.OWN], archive.OWN, _is_of_kernel).assign(variant=archive.OWN),
    ]
    return pd.concat(parts, ignore_index=True)


def _is_near(metric: str, method: str) -> bool:
    return not metric.startswith("mmc")


def _is_far(metric: str, method: str) -> bool:
    return metric.startswith("mmc")


def _is_of_kernel(metric: str, method: str) -> bool:
    return method.startswith(("kdf", "kdn"))


def _jackknifed(
    numbers: pd.DataFrame, version: str, wanted: Callable[[str, str], bool]
) -> pd.DataFrame:
    """Return the statistics of all complete seeds, and without each of them.

    A curve is of the seeds that are complete at all sizes, and its end of those that are complete
    at the largest sample of each table.
    """
    curves = archive.with_complete_seeds(numbers)
    ends = archive.with_complete_seeds(archive.at_largest(numbers))
    rows = pd.concat(
        [
            _statistics_without_seeds(curves, version).dropna(subset="n_train"),
            _statistics_without_seeds(ends, version).query("n_train.isna()"),
        ],
        ignore_index=True,
    )
    rows = rows[[wanted(row.metric, row.method) for row in rows.itertuples()]]
    return rows.assign(item="Figure 2", dataset="cc18", ood=None, variant="")


def _statistics_without_seeds(numbers: pd.DataFrame, version: str) -> pd.DataFrame:
    printed_cells = read_published(PAPER.parent).query("item == 'Figure 2'")
    keys = ["metric", "method", "n_train", "radius"]
    parts = []
    for parent, of_parent in numbers.groupby("parent"):
        if parent not in NAMES:
            continue
        # The statistic is a median over tables of means over seeds, whose spread over seeds is not
        # that of a mean: its standard error is the jackknife's, so each seed is left out once.
        seeds = sorted(of_parent.seed.unique())
        whole = figure2_statistics(of_parent, str(parent), version)
        without = {
            seed: figure2_statistics(of_parent[of_parent.seed != seed], str(parent), version)
            if len(seeds) > 1
            else whole
            for seed in seeds
        }
        distance = EUCLIDEAN if version == EUCLIDEAN else "geodesic"
        stored = figure2_statistics(
            on_tables_of(of_parent, str(parent), distance), str(parent), distance
        )
        of_seed = [rows.assign(seed=seed) for seed, rows in {None: whole, **without}.items()]
        rows = pd.concat(of_seed, ignore_index=True)
        parts.append(
            rows.merge(stored.rename(columns={"value": "comparable"}), on=keys, how="left")
        )
    if not parts:
        return pd.DataFrame(columns=[*keys, "seed", "value", "comparable"])
    return pd.concat(parts, ignore_index=True).merge(printed_cells[keys], on=keys)


def on_tables_of(
    numbers: pd.DataFrame, parent: str, distance: str = "geodesic", priors: pd.Series | None = None
) -> pd.DataFrame:
    """Return the stored numbers of the tables that ran with a parent, at sizes that count here too.

    A sample of 100 rows of a table with many classes has too few rows of most, which are dropped;
    with fewer than :data:`FEWEST` rows left, the stored sample of the same rank is dropped too.
    """
    stored = published_numbers(priors, distance=distance)
    stored = stored[stored.parent == parent]
    chosen_rows = []
    ran = numbers[numbers.parent == parent].dropna(subset="openml")
    for openml, from_runs in ran.groupby("openml"):
        published = stored[stored.openml == int(openml)]
        sizes = sorted(published.learn.unique())
        few = sum(learn < FEWEST for learn in from_runs.learn.unique())
        chosen_rows.append(
            published[published.learn.isin(sizes[few:] if len(sizes) == 3 else sizes)]
        )
    return pd.concat(chosen_rows, ignore_index=True) if chosen_rows else stored.iloc[:0]


def figure2_statistics(numbers: pd.DataFrame, parent: str, version: str) -> pd.DataFrame:
    """Return improvements by size, then medians, quartiles and counts, of means over seeds."""
    columns = ["metric", "method", "n_train", "radius", "value"]
    return pd.DataFrame(_statistic_rows(numbers, parent, version), columns=columns)


def _statistic_rows(numbers: pd.DataFrame, parent: str, version: str) -> Iterator[dict[str, Any]]:
    title = {method: name for name, method in methods_of(parent, version)}
    none = float("nan")
    for metric in ("error", "ece_by_edges"):
        by_size = improvement_by_size(numbers, metric, threshold=0)
        for method in by_size.methods & set(title):
            for n, (value, count) in zip(
                SIZES, at_sizes(by_size.curves[method], by_size.sizes, SIZES), strict=True
            ):
                if count:
                    name = f"relative improvement in {metric}, median of tables"
                    place = {"metric": name, "method": title[method]}
                    yield {**place, "n_train": n, "radius": none, "value": value}
    largest = tables(numbers, parent)
    for metric in (name for name in MEASURES if name in largest.values):
        measure, _, radius = metric.partition("@")
        at = largest.column(metric)
        for method in (name for name in at if name in title):
            shared = {"method": title[method], "n_train": none, "radius": float(radius or "nan")}
            yield {**shared, "metric": f"{measure}, median of tables", "value": median(at[method])}
            for name, value in _against_parent(at["parent"], at[method], measure).items():
                yield {**shared, "metric": name, "value": value}


def _against_parent(parent: pd.Series, method: pd.Series, measure: str) -> dict[str, float]:
    if measure == "mmc":
        return {
            "mmc of the forest at most .02 above, tables": float((parent - method <= 0.02).sum())
        }
    improvement = (parent - method) / parent
    quartiles = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
    counts = {
        "error": ("error no higher", method <= parent + EQUAL),
        "ece_by_edges": ("ece_by_edges lower", method < parent),
    }
    name, holds = counts[measure]
    return {
        f"relative improvement in {measure}, {title} of tables": float(improvement.quantile(q))
        for title, q in quartiles.items()
    } | {f"{name} than the parent's, tables": float(holds.sum())}


def _oce_differences(
    published: Tables, from_runs: Tables, shared: dict[str, str], method: str
) -> str:
    result = []
    for rows, names in ((published, list(shared)), (from_runs, list(shared.values()))):
        away = (
            rows.column("mmc@5")
            .loc[names]
            .sub(priors_of(from_runs)[list(shared)].to_numpy(), axis=0)
            .abs()
        )
        result.append(
            signed(median(absolute_improvement(away["parent"].to_numpy(), away[method].to_numpy())))
        )
    return " / ".join(result)


def _shared(from_runs: Tables, published: pd.DataFrame) -> tuple[Tables, dict[str, str]]:
    """Return the published tables, and number → name of the common ones."""
    printed = tables(published, from_runs.parent)
    return printed, {
        str(n): dataset
        for dataset, n in sorted(from_runs.openml.items(), key=lambda item: item[1])
        if str(n) in printed.datasets
    }


def methods_of(parent: str, version: str) -> list[tuple[str, str]]:
    """Return the published and the recorded name of each method of a version."""
    name, method = NAMES[parent]
    from_runs = {
        "geodesic": AUTHORS[parent],
        EUCLIDEAN: f"{AUTHORS[parent]}_{EUCLIDEAN}",
        archive.FAR: f"{method}_figure1",
        archive.OWN: method,
    }[version]
    distance = EUCLIDEAN if version == EUCLIDEAN else "geodesic"
    return [
        (name, "parent"),
        (f"{method} {distance}", from_runs),
        (f"isotonic on {name}", "isotonic"),
        (f"sigmoid on {name}", "sigmoid"),
    ]
