"""What was measured on several out-of-distribution sets of a run as one number: the mean over the
sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kdgraph.results.comparison.study import Cells, Study
from kdgraph.results.measures import Measure


def pooled(study: Study) -> Study:
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
