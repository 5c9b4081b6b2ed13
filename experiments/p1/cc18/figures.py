"""Figure 2 and Figures 5 to 8: numbers of many tables as curves and strips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.frames import where
from experiments.common.markdown import counted_noun
from experiments.common.titles import titles
from experiments.p1.cc18.records import (
    KDGRAPH_METHODS,
    PARENTS,
    Tables,
    kernel_method,
    label,
    parents_of,
    tables,
)
from experiments.p1.cc18.sizes import improvement_by_size
from experiments.p1.figures.improvement import plot_improvement_summary
from experiments.p1.figures.panels import MAX_ROWS_PER_PAGE as ROWS_A_PAGE
from experiments.p1.figures.panels import RepeatedCurves, plot_dataset_pages
from kdgraph.metrics import relative_improvement

STRIPS = {"error": "error", "ece": "ECE", "mce": "MCE"}
CURVES = {"error": "error", "ece": "ECE"}
ROWS = "rows that fit and calibrate"
OTHERS = titles("p1", "cc18.figures")["others"]
N_STYLES = 6
SMALLEST = 100  # Rows of the smallest samples of the paper
ON_PAGES = ("isotonic", "sigmoid", "gated_isotonic")
KERNEL = "KDF or KDN"


def figure2(numbers: pd.DataFrame, threshold: float) -> Figure:
    """Draw improvements over the parent, by parent: against rows, or one dot for each table."""
    panels = {}
    several = (numbers.groupby("dataset").learn.nunique() > 1).any()
    for parent in parents_of(numbers):
        result = tables(numbers, parent)
        drawn = (
            _against_rows(numbers[numbers.parent == parent], result, threshold)
            if several
            else _strips(result, threshold)
        )
        if far := _against_radius(result, threshold):
            drawn["OCE"] = far
        panels[PARENTS[parent]] = drawn
    return plot_improvement_summary(panels, band_of="the tables")


def pages(numbers: pd.DataFrame, rows_a_page: int = ROWS_A_PAGE) -> list[Figure]:
    """Draw Figures 5 to 8: of each table error and ECE against rows, confidence against radius."""
    result = {parent: tables(numbers, parent) for parent in parents_of(numbers)}
    every = {dataset for each in result.values() for dataset in each.datasets}
    names = sorted(every, key=lambda name: (int(name) if name.isdigit() else 0, name))
    methods = [m for m in ON_PAGES if all(m in each.methods for each in result.values())]
    rows = {
        dataset: {
            f"{PARENTS[parent]} and {label(kernel_method(each))}": _of_table(
                numbers, each, dataset, methods
            )
            for parent, each in result.items()
            if dataset in each.datasets
        }
        for dataset in names
    }
    seeds = [n for each in result.values() for n in each.seeds]
    return plot_dataset_pages(
        rows, band_of=counted_noun(seeds, "seed") if max(seeds) > 1 else None, rows=rows_a_page
    )


def _shown(result: Tables) -> list[str]:
    """Return the paper's method first, then as many others as can be distinguished."""
    return [kernel_method(result), *(method for method in OTHERS if method in result.methods)][
        :N_STYLES
    ]


def _strips(result: Tables, threshold: float) -> dict[str, RepeatedCurves]:
    drawn = {}
    for metric, title in STRIPS.items():
        values = result.column(metric)
        if values.notna().any(axis=None):
            curves = {
                method: _improvement(values["parent"], values[method], threshold)[:, None]
                for method in _shown(result)
            }
            drawn[title] = RepeatedCurves(np.array([1.0]), _with_parent(result, curves), "")
    return drawn


def _against_rows(
    numbers: pd.DataFrame, result: Tables, threshold: float
) -> dict[str, RepeatedCurves]:
    drawn = {}
    for metric, title in CURVES.items():
        name = metric if metric in set(numbers.metric) else "ece_by_edges"
        by_size = improvement_by_size(numbers, name, threshold)
        # Samples of 100 rows have fewer where rare classes are left out, in a few tables.
        shown = by_size.sizes >= SMALLEST
        curves = {method: by_size.curves[method][:, shown] for method in _shown(result)}
        sizes = by_size.sizes[shown]
        drawn[title] = RepeatedCurves(sizes, _with_parent(result, curves), ROWS, log=True)
    return drawn


def _against_radius(result: Tables, threshold: float) -> RepeatedCurves | None:
    if not result.radii:
        return None
    by_radius = [result.column(f"oce@{radius:g}") for radius in result.radii]
    curves = {
        method: np.stack(
            [_improvement(values["parent"], values[method], threshold) for values in by_radius],
            axis=1,
        )
        for method in _shown(result)
    }
    return RepeatedCurves(np.array(result.radii), _with_parent(result, curves), "radius")


def _with_parent(result: Tables, curves: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    zero = {label("parent", result.parent): np.zeros_like(next(iter(curves.values())))}
    short = {kernel_method(result): label(KDGRAPH_METHODS[result.parent])}
    return zero | {short.get(name, label(name)): values for name, values in curves.items()}


def _improvement(parent: pd.Series, method: pd.Series, threshold: float) -> np.ndarray:
    return relative_improvement(parent.to_numpy(), method.to_numpy(), threshold=threshold).values


def _of_table(
    numbers: pd.DataFrame, result: Tables, dataset: str, methods: Sequence[str]
) -> dict[str, RepeatedCurves]:
    """Return quantity → seeds of each method on one table, at parameters that all methods have."""
    own = where(numbers, dataset=dataset, parent=result.parent)
    largest = own[own.learn == result.learn[dataset]]
    far = largest[(largest.metric == "mmc") & (largest["at"] >= 1)]
    ece = "ece" if "ece" in set(numbers.metric) else "ece_by_edges"
    shared = result.values.loc[dataset]
    prior = float(shared.prior.iloc[0]) if "prior" in shared else None
    wanted = {
        "error": (own[own.metric == "error"], "learn", {"x_label": "rows", "log": True}),
        "ECE": (own[own.metric == ece], "learn", {"x_label": "rows", "log": True}),
        "max confidence": (far, "at", {"x_label": "radius", "prior": prior}),
    }
    shown = {"parent": "parent", kernel_method(result): KERNEL} | {m: label(m) for m in methods}
    drawn = {}
    for quantity, (values, parameter, options) in wanted.items():
        wide = {
            name: where(values, method=m).pivot_table(
                index="seed", columns=parameter, values="value"
            )
            for m, name in shown.items()
        }
        common = sorted(set.intersection(*(set(each.columns) for each in wide.values())))
        if common:
            curves = {name: each[common].to_numpy() for name, each in wide.items()}
            drawn[quantity] = RepeatedCurves(np.array(common, dtype=float), curves, **options)
    return drawn
