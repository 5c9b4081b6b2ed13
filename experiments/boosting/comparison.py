"""Forest and boosted trees as parents, bare and repaired, in and out of distribution.

``kdg run experiment=bench/boosting`` prints this at its end; ``python -m
experiments.boosting.comparison outputs [bench/boosting_mixed]`` prints it again: the mean of each
measure over tables by parent and repair, and how often a repair is better than the bare parent,
with Wilcoxon's test.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.common.command import in_one_line
from experiments.common.markdown import number, signed
from experiments.common.markdown import table as markdown_table
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from kdgraph.results.comparison.aggregate import compare_methods
from kdgraph.results.comparison.significance import compare_pairs
from kdgraph.results.comparison.study import Study, build_study, pool_ood_sets
from kdgraph.results.records import FinishedRun

TITLES = titles("boosting", "comparison")
PARENTS = TITLES["parents"]
REPAIRS = TITLES["repairs"]  # Repair by the name of a method, of which the parent's name is a part
FOREST_ALONE = {"random_forest-kdf": "kdf"}  # Names of methods that are presets
# Measures by the heading of their column; those out of distribution are means over five sets.
MEASURES = {"error": "error", "NLL": "nll", "ECE": "ece", "OCE": "oce", "AUROC": "auroc"}
# Sets with an AUROC of their own, if runs have them: a class that was left out, and uniform noise.
SETS = ("near", "noise")


def values_of(study: Study, metric: str, ood: str | None = None) -> pd.DataFrame:
    """Return means over seeds of a measure, tables × methods, on a set out of it if given."""
    measures = [
        measure
        for measure in study.measures
        if measure.metric == metric and (ood is None or str(measure.ood).startswith(ood))
    ]
    return compare_methods(study, measures[0]).mean


def methods_of(frame: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return the name of the method of each parent and repair that ran."""
    names = {}
    for parent, title in PARENTS.items():
        for pattern, repair in REPAIRS.items():
            name = pattern.format(parent)
            name = FOREST_ALONE.get(name, name)
            if name in frame:
                names[title, repair] = name
    return names


def means(records: Sequence[Record]) -> str:
    """Return the means over tables by parent and repair as a table of Markdown."""
    per_set = build_study([FinishedRun(Path(), record) for record in records])
    together = pool_ood_sets(per_set)
    columns = {title: values_of(together, metric) for title, metric in MEASURES.items()}
    sets = {str(measure.ood) for measure in per_set.measures if measure.metric == "auroc"}
    columns |= {
        f"AUROC {name}": values_of(per_set, "auroc", name)
        for name in SETS
        if any(ood.startswith(name) for ood in sets)
    }
    methods = methods_of(columns["error"])
    rows = []
    for (parent, repair), name in methods.items():
        cells = [number(float(frame[name].mean())) for frame in columns.values()]
        rows.append([parent, repair, *cells])
    return markdown_table(["parent", "repair", *columns], rows)


def tests(records: Sequence[Record]) -> str:
    """Return mean difference from the bare parent, tables won, tied and lost, and Wilcoxon's p."""
    together = pool_ood_sets(build_study([FinishedRun(Path(), record) for record in records]))
    columns = {title: values_of(together, metric) for title, metric in MEASURES.items()}
    methods = methods_of(columns["error"])
    rows = []
    for (parent, repair), name in methods.items():
        if repair == "none":
            continue
        cells = []
        for title, frame in columns.items():
            sign = -1.0 if title == "AUROC" else 1.0
            bare = frame[methods[parent, "none"]]
            test = compare_pairs(sign * frame[name], sign * bare, scale=1.0)
            difference = signed(float((frame[name] - bare).mean()))
            cells.append(f"{difference} ({test}; p = {test.p:.1g})")
        rows.append([parent, repair, *cells])
    return markdown_table(["parent", "repair", *columns], rows)


def compare_with_published(records: Sequence[Record]) -> str:
    """Return both tables."""
    return f"{means(records)}\n\n{tests(records)}"


def main(arguments: Sequence[str]) -> None:
    """Print both tables of the runs of an experiment below a folder."""
    folder, experiment = [*arguments, *["outputs", "bench/boosting"][len(arguments) :]]
    in_one_line(lambda: print(compare_with_published(runs_of(experiment, Path(folder)))))


if __name__ == "__main__":
    main(sys.argv[1:])
