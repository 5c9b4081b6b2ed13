"""Parents of regression, alone and recalibrated.

``kdg run experiment=bench/regression`` prints this at its end; ``python -m
experiments.regression.comparison outputs`` prints it again: each parent alone, behind isotonic and
behind local PIT, on average over data sets, and the CRPS behind local PIT on each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments.common.command import print_comparison
from experiments.common.markdown import number
from experiments.common.markdown import table as markdown_table
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles

PARENTS = titles("regression", "comparison")["parents"]
REFERENCE = "linear"  # Parent whose CRPS alone is the unit of all others on the same rows
ALONE, LOCAL = "none", "local_pit"
RECALIBRATORS = (ALONE, "isotonic_pit", LOCAL)
# Measures by the heading of their column.
MEASURES = {"CRPS": "crps", "PIT": "pit_ks", "coverage": "coverage"}


def values_of(records: Sequence[Record]) -> pd.DataFrame:
    """Return the measures of each run, with a row for the parent alone.

    "held out" is the CRPS of calibration rows behind local PIT, each left out of its own
    neighbourhood. Both CRPS are relative to that of the reference parent alone.
    """
    rows = []
    for record in records:
        key = {
            "dataset": record["dataset"]["name"],
            "seed": record["seed"],
            "parent": record["parent"],
        }
        for group, recalibrator in (("parent", ALONE), ("calibrated", record["recalibrator"])):
            measured = {
                title: next(
                    entry["value"]
                    for entry in record["metrics"]
                    if (entry["metric"], entry["of"], entry["on"]) == (metric, group, "test")
                )
                for title, metric in MEASURES.items()
            }
            learnt = record["learnt"]["recalibrator"]
            held_out = min(learnt["crps_by_k"].values()) if recalibrator == LOCAL else None
            rows.append(key | {"recalibrator": recalibrator} | measured | {"held out": held_out})
    # Each recalibrator has run on the same parent, which therefore is there twice.
    frame = pd.DataFrame(rows).drop_duplicates(["dataset", "seed", "parent", "recalibrator"])
    is_reference = (frame.parent == REFERENCE) & (frame.recalibrator == ALONE)
    unit = frame[is_reference].set_index(["dataset", "seed"])["CRPS"]
    units = unit.reindex(pd.MultiIndex.from_frame(frame[["dataset", "seed"]])).to_numpy()
    for title in ("CRPS", "held out"):
        frame[title] = frame[title].astype(float) / units
    return frame


def means(records: Sequence[Record]) -> str:
    """Return the means over data sets and seeds as a table of Markdown."""
    columns = [*MEASURES, "held out"]
    by_method = values_of(records).groupby(["parent", "recalibrator"])[columns].mean()
    rows = []
    for parent in PARENTS:
        for recalibrator in RECALIBRATORS:
            if (parent, recalibrator) in by_method.index:
                cells = [number(value) for value in by_method.loc[(parent, recalibrator)]]
                rows.append([parent, recalibrator, *cells])
    return markdown_table(["parent", "recalibrator", *columns], rows)


def by_dataset(records: Sequence[Record]) -> str:
    """Return the mean CRPS behind local PIT on each data set as a table of Markdown."""
    values = values_of(records)
    values = values[values.recalibrator == LOCAL]
    table = values.pivot_table("CRPS", "parent", "dataset")
    rows = []
    for parent in PARENTS:
        if parent in table.index:
            rows.append([parent, *(number(value) for value in table.loc[parent])])
    return markdown_table(["parent", *table.columns], rows)


def compare_with_published(records: Sequence[Record]) -> str:
    """Return both tables."""
    return f"{means(records)}\n\n{by_dataset(records)}"


if __name__ == "__main__":
    print_comparison(lambda folder: runs_of("bench/regression", folder), compare_with_published)
