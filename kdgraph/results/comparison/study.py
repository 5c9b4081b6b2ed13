"""Finished runs as one study: for each measure, a number for each data set, repetition and method.

A parent is a method too, which all runs on it share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from kdgraph.results.measures import Measure, MeasureReader, unique_labels
from kdgraph.results.names import NamedRun, Repetition, name_runs, repetition_text
from kdgraph.results.records import FinishedRun
from kdgraph.wording import some

StudyCells = dict[tuple[str, Repetition, str], float]
"""Data set, repetition and method → number, NaN if the metric is not defined."""
SAME_FIT = 1e-9
"""Relative difference of a parent's values in two runs of the same fit.

The predictions may have been computed on different machines.
"""


@dataclass(frozen=True)
class Study:
    """Numbers of many runs."""

    runs: Sequence[NamedRun]
    values: Mapping[Measure, StudyCells]
    own_parent: Mapping[Measure, StudyCells]  # numbers of each method's parent in the same run
    parents: frozenset[str]  # names of the methods that are parents
    parent_of: Mapping[str, str]  # "its parent" if it differs between data sets
    conflicts: Sequence[str]  # a line for each number in which two runs of one setting disagree

    @property
    def measures(self) -> list[Measure]:
        """Measures in the order of the tables."""
        return list(self.values)

    @cached_property
    def labels(self) -> dict[Measure, str]:
        """Label of each measure, all different."""
        return unique_labels(self.measures)

    @cached_property
    def datasets(self) -> list[str]:
        """Data sets in alphabetical order."""
        return sorted({run.dataset for run in self.runs})

    @cached_property
    def methods(self) -> list[str]:
        """Parents, then the other methods, both in alphabetical order."""
        return [
            *sorted(self.parents),
            *sorted({run.method for run in self.runs if not run.is_parent}),
        ]

    @cached_property
    def repetitions(self) -> dict[str, list[Repetition]]:
        """Seeds (and folds) of the runs on each data set."""
        repetitions: dict[str, set[Repetition]] = {name: set() for name in self.datasets}
        for run in self.runs:
            repetitions[run.dataset].add(run.repetition)
        return {name: sorted(of_dataset) for name, of_dataset in repetitions.items()}

    def table(self, measure: Measure) -> pd.DataFrame:
        """Return a row for each data set and repetition (as text), a column for each method.

        Missing numbers are NaN.
        """
        return self._frame(self.values[measure])

    def parent_table(self, measure: Measure) -> pd.DataFrame:
        """Return the same table with the numbers of each method's own parent.

        Parents have no column.
        """
        return self._frame(self.own_parent[measure]).drop(columns=list(self.parents))

    def _frame(self, cells: StudyCells) -> pd.DataFrame:
        index = [
            (dataset, repetition)
            for dataset, repetitions in self.repetitions.items()
            for repetition in repetitions
        ]
        row = {key: i for i, key in enumerate(index)}
        column = {name: j for j, name in enumerate(self.methods)}
        values = np.full((len(row), len(column)), np.nan)
        for (dataset, repetition, method), value in cells.items():
            values[row[dataset, repetition], column[method]] = value
        labels = pd.MultiIndex.from_tuples(
            [(dataset, repetition_text(repetition)) for dataset, repetition in index],
            names=["dataset", "repetition"],
        )
        return pd.DataFrame(values, index=labels, columns=self.methods)


def build_study(
    runs: Sequence[FinishedRun],
    choose: Callable[[list[Measure]], list[Measure]] = lambda measures: measures,
) -> Study:
    """Collect the numbers of runs.

    Of runs that differ only in what is measured or drawn, the first that has a number counts.
    ``choose`` receives all measures in the order of the records and returns those of the study in
    the order of its tables.
    """
    named = name_runs(runs)
    parents = _parent_names(named)
    reader = MeasureReader()
    measured = reader.all_measures(run.record for run in named)
    values: dict[Measure, StudyCells] = {measure: {} for measure in choose(measured)}
    own_parent: dict[Measure, StudyCells] = {measure: {} for measure in values}
    disagreements: dict[tuple[str, Repetition, str], list[Measure]] = {}
    methods_of_parents: dict[str, set[str]] = {}
    for run in named:
        parent = parents[run.dataset, run.parent]
        methods_of_parents.setdefault(run.method, set()).add(parent)
        cell_of_parent, own_cell = (
            (run.dataset, run.repetition, model) for model in (parent, run.method)
        )
        for measure, row, number, _ in reader.read(run.record):
            if measure not in values:
                continue
            is_parent = row["of"] == "parent"
            value = math.nan if number is None else float(number)
            cell = cell_of_parent if is_parent else own_cell
            if (is_parent or not run.is_parent) and not _put(values[measure], cell, value):
                disagreements.setdefault(cell, []).append(measure)
            if is_parent and not run.is_parent:
                _put(own_parent[measure], own_cell, value)
    conflicts = [
        f"{model} on {dataset}, seed {repetition_text(repetition)}, has two values of"
        f" {some(list(dict.fromkeys(measure.id for measure in measures)), at_most=3)}"
        for (dataset, repetition, model), measures in disagreements.items()
    ]
    parent_of = {
        method: next(iter(names)) if len(names) == 1 else "its parent"
        for method, names in methods_of_parents.items()
    }
    return Study(named, values, own_parent, frozenset(parents.values()), parent_of, conflicts)


def pool_ood_sets(study: Study) -> Study:
    """Return a study in which each metric has one number for all OOD sets: the mean over the sets.

    Sets have equal weight, whatever their number of rows. Sets where a family meets the training
    data do not count. If any method has a number on a set, a run without one has no mean on that
    data set and repetition: means over other sets do not compare.
    """
    families: dict[Measure, list[Measure]] = {}
    for measure in study.measures:
        families.setdefault(_without_set(measure), []).append(measure)
    values, own_parent = {}, {}
    for measures in families.values():
        outside = [measure for measure in measures if not measure.in_distribution]
        n_sets = len({measure.place for measure in outside})
        if n_sets < 2:
            values |= {measure: study.values[measure] for measure in measures}
            own_parent |= {measure: study.own_parent[measure] for measure in measures}
            continue
        mean = replace(outside[0], ood=f"{n_sets} sets, their mean", params=(), drawn=())
        values[mean] = _mean_cells([study.values[measure] for measure in outside])
        own_parent[mean] = _mean_cells([study.own_parent[measure] for measure in outside])
    return replace(study, values=values, own_parent=own_parent)


def _put(cells: StudyCells, key: tuple[str, Repetition, str], value: float) -> bool:
    """Store a number unless there is one; return False if the two disagree."""
    old = cells.setdefault(key, value)
    if old == value:
        return True
    if math.isnan(old):
        cells[key] = value
        return True
    return math.isnan(value) or abs(old - value) <= SAME_FIT * max(1.0, abs(old))


def _parent_names(runs: Sequence[NamedRun]) -> dict[tuple[str, str], str]:
    """Return the name as a method for each data set and parent.

    Parents that replace each other on different data sets under the same methods, as a network for
    images does one for tables, are one: ``mlp / cnn (parent)``. Two on one data set never are.
    """
    datasets: dict[str, set[str]] = {}
    methods: dict[str, set[str]] = {}
    for run in runs:
        datasets.setdefault(run.parent, set()).add(run.dataset)
        if not run.is_parent:
            methods.setdefault(run.method, set()).add(run.parent)
    groups = [{parent} for parent in datasets]
    for parents in methods.values():
        parts = [group for group in groups if group & parents]
        used = [datasets[parent] for group in parts for parent in group]
        are_disjoint = sum(map(len, used)) == len(set().union(*used))
        if len(parts) > 1 and are_disjoint:
            groups = [group for group in groups if group not in parts] + [set().union(*parts)]
    order = list(datasets)
    names = {
        parent: f"{' / '.join(sorted(group, key=order.index))} (parent)"
        for group in groups
        for parent in group
    }
    return {(run.dataset, run.parent): names[run.parent] for run in runs}


def _without_set(measure: Measure) -> Measure:
    """Return a key that is the same for all OOD sets; for other rows, the measure."""
    if measure.on != "ood":
        return measure
    return replace(measure, ood=None, params=(), drawn=(), in_distribution=False)


def _mean_cells(cells_of_sets: list[StudyCells]) -> StudyCells:
    """Return means over the sets on which any method has a number on that data set."""
    sets: dict[tuple[str, Repetition], set[int]] = {}
    for i, cells in enumerate(cells_of_sets):
        for dataset, repetition, _ in cells:
            sets.setdefault((dataset, repetition), set()).add(i)
    keys = dict.fromkeys(key for cells in cells_of_sets for key in cells)
    return {
        key: float(np.mean([cells_of_sets[i].get(key, np.nan) for i in sorted(sets[key[:2]])]))
        for key in keys
    }
