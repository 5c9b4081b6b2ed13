"""Tables of methods over many data sets: medians, improvements over the parent, wins and losses
with a paired test.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from experiments.common.markdown import counted_noun, number, signed
from experiments.common.markdown import table as markdown_table
from experiments.p1.cc18.records import AUTHORS, CHOICE, KDGRAPH_METHODS, Tables, label
from experiments.p1.cc18.statistics import DECIMALS, median
from kdgraph.metrics import holm, relative_improvement
from kdgraph.results.comparison.significance import compare_pairs

TITLES = {"error": "error", "nll": "NLL", "ece": "ECE", "mce": "MCE", "oce": "OCE"}
IMPROVED = ["error", "ece", "mce"]


def in_distribution(result: Tables, threshold: float) -> str:
    """Return medians over tables of means over seeds, and of improvements over the parent."""
    metrics = ["error", "nll", "ece", "mce"]
    rows = []
    for method in result.methods:
        medians = [number(median(result.column(metric)[method]), 4) for metric in metrics]
        better = [_improvement(result, metric, method, threshold) for metric in IMPROVED]
        rows.append([_name(result, method), *medians, *better])
    improvements = (f"{TITLES[metric]} improvement" for metric in IMPROVED)
    return markdown_table(["method", *(TITLES[m] for m in metrics), *improvements], rows)


def far_field(result: Tables) -> str:
    """Return medians over tables of OCE at each radius, and the highest at the last."""
    if not result.radii:
        return "No run has spheres."
    columns = ["method", *(f"OCE r={radius:g}" for radius in result.radii)]
    rows = []
    for method in result.methods:
        by_radius = [result.column(f"oce@{radius:g}")[method] for radius in result.radii]
        medians = [number(median(each), 4) for each in by_radius]
        rows.append([_name(result, method), *medians, number(by_radius[-1].max(), 4)])
    return markdown_table([*columns, f"highest at r={result.radii[-1]:g}"], rows)


def against_parent(result: Tables) -> str:
    """Return wins/ties/losses against the parent, p values adjusted over a column."""
    methods = [method for method in result.methods if method != "parent"]
    columns = [
        _cells([(values[method], values["parent"]) for method in methods])
        for values in map(result.column, TITLES)
    ]
    names = [_name(result, method) for method in methods]
    return markdown_table(["method", *TITLES.values()], zip(names, *columns, strict=True))


def against_each_other(result: Tables, metric: str) -> str:
    """Return wins/ties/losses of rows against columns, p values adjusted over all pairs."""
    methods = [method for method in result.methods if method not in ("parent", CHOICE)]
    values, pairs = result.column(metric), list(combinations(methods, 2))
    cells = dict(zip(pairs, _cells([(values[a], values[b]) for a, b in pairs]), strict=True))
    rows = (
        [_name(result, row), *(cells.get((row, column), "") for column in methods[1:])]
        for row in methods[:-1]
    )
    columns = [TITLES[metric], *(_name(result, method) for method in methods[1:])]
    return markdown_table(columns, rows)


def heading(result: Tables, of_paper: int | None = None) -> str:
    """Return the numbers of tables and seeds, and the tables that are left out."""
    rows = result.learn.values()
    paper = f" of the paper's {of_paper}" if of_paper else ""
    text = (
        f"{len(result.datasets)}{paper} tables, {counted_noun(result.seeds, 'seed')} each,"
        f" {min(rows):,} to {max(rows):,} rows that fit and calibrate."
    )
    missing = "; ".join(f"{dataset} ({why})" for dataset, why in result.left_out.items())
    return text + (f" Left out: {missing}." if missing else "")


def _improvement(result: Tables, metric: str, method: str, threshold: float) -> str:
    if method == "parent":
        return "–"
    values = result.column(metric)
    better = relative_improvement(
        values["parent"].to_numpy(), values[method].to_numpy(), threshold=threshold
    )
    return signed(median(better.values)) + (f" ({better.left_out})" if better.left_out else "")


def _cells(pairs: Sequence[tuple[pd.Series, pd.Series]]) -> list[str]:
    """Return wins, ties, losses and adjusted p of each pair of methods."""
    comparisons = [compare_pairs(a, b, decimals=DECIMALS) for a, b in pairs]
    adjusted = holm([each.p for each in comparisons])
    return [
        f"{each} ({_p(p)})" if each.wins + each.ties + each.losses else "–"
        for each, p in zip(comparisons, adjusted, strict=True)
    ]


def _p(value: float) -> str:
    return "p < .001" if value < 0.001 else "p 1" if value > 0.9995 else f"p {number(value)}"


def _name(result: Tables, method: str) -> str:
    text = label(method, result.parent)
    is_bold = method in (KDGRAPH_METHODS[result.parent], AUTHORS[result.parent])
    return f"**{text}**" if is_bold else text
