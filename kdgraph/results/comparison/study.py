"""Finished runs as one study: for each measure, a number for each data set, repetition and method.
The parent is a method, once.

What was measured on several out-of-distribution sets of a run as one number: the mean over the
sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from kdgraph.results.measures import Measure, read_measures, unique_labels
from kdgraph.results.names import NamedRun, Repetition, name_runs, repetition_text
from kdgraph.results.records import FinishedRun
from kdgraph.wording import some

Cells = dict[tuple[str, Repetition, str], float]
"""Data set, repetition and method → number, NaN where the metric is not defined."""
SAME_FIT = 1e-9
"""How far a parent's values in two runs may be apart: it is the same fit, perhaps predicted by
another machine.
"""


@dataclass(frozen=True)
class Study:
    """Numbers of many runs.

    Attributes
    ----------
    runs : by name.
    values : measure → its numbers.
    own_parent : measure → the same of each method's own parent, measured in the same run.
    parents : names of the methods that are parents.
    parent_of : method → its parent; "its parent" where that is not the same one on all data sets.
    conflicts : a line for each number that two runs of one setting do not agree on.
    """

    runs: Sequence[NamedRun]
    values: Mapping[Measure, Cells]
    own_parent: Mapping[Measure, Cells]
    parents: frozenset[str]
    parent_of: Mapping[str, str]
    conflicts: Sequence[str]

    @property
    def measures(self) -> list[Measure]:
        """In the order of the records."""
        return list(self.values)

    @cached_property
    def labels(self) -> dict[Measure, str]:
        """What tables call each measure, no two alike."""
        return unique_labels(self.measures)

    @cached_property
    def datasets(self) -> list[str]:
        """In alphabetical order."""
        return sorted({run.dataset for run in self.runs})

    @cached_property
    def methods(self) -> list[str]:
        """The parents, then what stands on them, in alphabetical order."""
        return [
            *sorted(self.parents),
            *sorted({run.method for run in self.runs if not run.is_parent}),
        ]

    @cached_property
    def repetitions(self) -> dict[str, list[Repetition]]:
        """Data set → seeds (and folds) that any of its runs has."""
        found: dict[str, set[Repetition]] = {name: set() for name in self.datasets}
        for run in self.runs:
            found[run.dataset].add(run.repetition)
        return {name: sorted(of) for name, of in found.items()}

    def table(self, measure: Measure) -> pd.DataFrame:
        """A row for each data set and repetition (as text), a column for each method; NaN where
        there is no number.
        """
        return self._frame(self.values[measure])

    def parent_table(self, measure: Measure) -> pd.DataFrame:
        """The same, of the parent that each method stands on; parents have no column of their
        own.
        """
        return self._frame(self.own_parent[measure]).drop(columns=list(self.parents))

    def _frame(self, cells: Cells) -> pd.DataFrame:
        index = [
            (dataset, repetition) for dataset, of in self.repetitions.items() for repetition in of
        ]
        row, column = (
            {key: i for i, key in enumerate(index)},
            {name: j for j, name in enumerate(self.methods)},
        )
        values = np.full((len(row), len(column)), np.nan)
        for (dataset, repetition, method), value in cells.items():
            values[row[dataset, repetition], column[method]] = value
        labels = pd.MultiIndex.from_tuples(
            [(dataset, repetition_text(of)) for dataset, of in index],
            names=["dataset", "repetition"],
        )
        return pd.DataFrame(values, index=labels, columns=self.methods)


def build_study(
    found: Sequence[FinishedRun],
    choose: Callable[[list[Measure]], list[Measure]] = lambda measures: measures,
) -> Study:
    """Collect the numbers of runs.

    Parameters
    ----------
    found : the runs; of those that differ in nothing but what is measured or drawn, the first that
    has a number counts.
    choose : given all measures in the order of the records, those that are wanted, in the order of
        tables.
    """
    runs = name_runs(found)
    names = _parent_names(runs)
    there = list(dict.fromkeys(measure for run in runs for measure, _ in read_measures(run.record)))
    values: dict[Measure, Cells] = {measure: {} for measure in choose(there)}
    own: dict[Measure, Cells] = {measure: {} for measure in values}
    disagreeing: dict[tuple[str, str, Repetition], list[Measure]] = {}
    for run in runs:
        for measure, entry in read_measures(run.record):
            if measure not in values:
                continue
            is_parent = entry["of"] == "parent"
            value = np.nan if entry["value"] is None else float(entry["value"])
            model = names[run.dataset, run.parent] if is_parent else run.method
            if is_parent or not run.is_parent:
                key = run.dataset, run.repetition, model
                if not _put(values[measure], key, value):
                    disagreeing.setdefault((run.dataset, model, run.repetition), []).append(measure)
            if is_parent and not run.is_parent:
                _put(own[measure], (run.dataset, run.repetition, run.method), value)
    conflicts = [
        f"{model} on {dataset}, seed {repetition_text(r)}, has two values of {_ids(of)}"
        for (dataset, model, r), of in disagreeing.items()
    ]
    under: dict[str, set[str]] = {}
    for run in runs:
        under.setdefault(run.method, set()).add(names[run.dataset, run.parent])
    parent_of = {
        method: next(iter(of)) if len(of) == 1 else "its parent" for method, of in under.items()
    }
    return Study(runs, values, own, frozenset(names.values()), parent_of, conflicts)


def _put(cells: Cells, key: tuple[str, Repetition, str], value: float) -> bool:
    """Whether the number is new, or the one that is there already, which stays."""
    old = cells.setdefault(key, value)
    if np.isnan(old) and not np.isnan(value):
        cells[key] = value
    return bool(
        np.isnan(old) or np.isnan(value) or abs(old - value) <= SAME_FIT * max(1.0, abs(old))
    )


def _ids(measures: Iterable[Measure]) -> str:
    return some(list(dict.fromkeys(measure.id for measure in measures)), at_most=3)


def _parent_names(runs: Sequence[NamedRun]) -> dict[tuple[str, str], str]:
    """Data set and parent → the parent's name as a method.

    Parents that stand in for each other, as a network for images does for one for tables under the
    same methods, are one: ``mlp / cnn (parent)``. Two that are on one data set are never one.
    """
    on: dict[str, set[str]] = {}
    under: dict[str, set[str]] = {}
    for run in runs:
        on.setdefault(run.parent, set()).add(run.dataset)
        if not run.is_parent:
            under.setdefault(run.method, set()).add(run.parent)
    groups = [{parent} for parent in on]
    for together in under.values():
        parts = [group for group in groups if group & together]
        datasets = [on[parent] for group in parts for parent in group]
        if len(parts) > 1 and sum(map(len, datasets)) == len(set().union(*datasets)):
            groups = [group for group in groups if group not in parts] + [set().union(*parts)]
    name = {
        parent: f"{' / '.join(sorted(group, key=list(on).index))} (parent)"
        for group in groups
        for parent in group
    }
    return {(run.dataset, run.parent): name[run.parent] for run in runs}


def pool_ood_sets(study: Study) -> Study:
    """The study with one measure in place of those that a metric has on out-of-distribution sets,
    one for each; others stay.

    Sets count alike, whatever their rows. A run in which a method has no number on a set that
    another method has a number on, on the same data set and repetition, has none: means over other
    sets do not compare. Where a family meets the training data, it counts for nothing.
    """
    families: dict[Measure, list[Measure]] = {}
    for measure in study.measures:
        families.setdefault(_family(measure), []).append(measure)
    values, own_parent = {}, {}
    for measures in families.values():
        outside = [measure for measure in measures if not measure.in_distribution]
        sets = {measure.place for measure in outside}
        if len(sets) < 2:
            values |= {measure: study.values[measure] for measure in measures}
            own_parent |= {measure: study.own_parent[measure] for measure in measures}
            continue
        together = replace(outside[0], ood=f"{len(sets)} sets, their mean", params=(), drawn=())
        values[together] = _means([study.values[measure] for measure in outside])
        own_parent[together] = _means([study.own_parent[measure] for measure in outside])
    return replace(study, values=values, own_parent=own_parent)


def _family(measure: Measure) -> Measure:
    """The same for all sets out of distribution; of other rows the measure itself."""
    return (
        replace(measure, ood=None, params=(), drawn=(), in_distribution=False)
        if measure.on == "ood"
        else measure
    )


def _means(of_sets: list[Mapping]) -> Cells:
    """Of each data set, repetition and method, over those sets on which any method has a number
    there.
    """
    here: dict[tuple, set[int]] = {}
    for number, cells in enumerate(of_sets):
        for dataset, repetition, _ in cells:
            here.setdefault((dataset, repetition), set()).add(number)
    keys = dict.fromkeys(key for cells in of_sets for key in cells)
    return {
        key: float(np.mean([of_sets[number].get(key, np.nan) for number in sorted(here[key[:2]])]))
        for key in keys
    }
