"""Medians over ensembles in Markdown: all rows by method, and class by class."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from experiments.common.markdown import number
from experiments.common.markdown import table as markdown_table
from experiments.p2.mnist.measure import ALL, METHODS, UNCALIBRATED

ROWS = [*METHODS, UNCALIBRATED]
METRICS = ("NLL", "ECE1", "ECE2")
SETS = ("1", "2")


def quarters(result: pd.DataFrame) -> pd.DataFrame:
    """Return quartiles over ensembles by metric, method, class and test set."""
    return (
        result.groupby(["metric", "method", "class", "test_set"])
        .value.quantile([0.25, 0.5, 0.75])
        .unstack()
    )


def overall(result: pd.DataFrame) -> str:
    """Return medians and quartiles over ensembles of each metric on both test sets, by method."""
    over = quarters(result[result["class"] == ALL])
    columns = ["method", *(f"{metric}, set {test_set}" for metric in METRICS for test_set in SETS)]
    rows = []
    for method in ROWS:
        of_method = (
            over.loc[metric, method, ALL, test_set] for metric in METRICS for test_set in SETS
        )
        cells = (
            f"{number(q[0.5], 4)} ({number(q[0.25], 4)}–{number(q[0.75], 4)})" for q in of_method
        )
        rows.append([method, *cells])
    return markdown_table(columns, rows)


def by_class(result: pd.DataFrame, metric: str) -> str:
    """Return medians over ensembles on test sets 1 / 2, by method and class."""
    values = medians(result, metric, ROWS)
    rows = []
    for method, of_method in values.items():
        rows.append(
            [method, *(" / ".join(number(value) for value in both) for both in of_method.values())]
        )
    return markdown_table(["method", *next(iter(values.values()))], rows)


def medians(
    result: pd.DataFrame, metric: str, methods: Iterable[str]
) -> dict[str, dict[str, list[float]]]:
    """Return method → class → median over ensembles on test sets 1 and 2, for bars."""
    over = quarters(result[(result.metric == metric) & (result["class"] != ALL)])[0.5]
    classes = sorted(set(over.index.get_level_values("class")))
    return {
        method: {
            k: [float(over[metric, method, k, test_set]) for test_set in SETS] for k in classes
        }
        for method in methods
    }
