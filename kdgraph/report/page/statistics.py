"""What tests say of the methods, for each column of the page: the numbers of ``kdg compare``, which
JSON can hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kdgraph.results.comparison.compared import Compared, compared
from kdgraph.results.comparison.spread import cautions, spread
from kdgraph.results.comparison.study import Study
from kdgraph.results.comparison.tables import over_datasets
from kdgraph.results.measures import Measure

DIGITS = 4
"""Of numbers in notes."""


def statistics(study: Study, measures: Sequence[Measure]) -> list[dict[str, Any] | None]:
    """For each measure what tests over data sets and over seeds say; None where neither direction
    is better.
    """
    return [
        _of(compared(study, measure)) if measure in study.values and measure.better else None
        for measure in measures
    ]


def parent_names(study: Study) -> dict[str, str]:
    """Parent as a run calls it → as the study calls it as a method: ``mlp`` → ``mlp / cnn
    (parent)``.
    """
    return {
        part: name
        for name in sorted(study.parents)
        for part in name.removesuffix(" (parent)").split(" / ")
    }


def remarks(study: Study) -> list[str]:
    """What ± is over, and what is uneven in the runs."""
    return [*spread(study), *cautions(study, [])]


def _of(one: Compared) -> dict[str, Any]:
    section = over_datasets(one, DIGITS)
    ranks = one.ranks
    return {
        "against": {
            name: {
                "better": each.comparison.wins,
                "same": each.comparison.ties,
                "worse": each.comparison.losses,
                "p": _short(each.p),
                "change": _short(each.change),
                "baseline": each.baseline,
            }
            for name, each in one.over_datasets.items()
        },
        "best": one.best_over_datasets,
        "best_by_dataset": {name: list(methods) for name, methods in one.best.items() if methods},
        "ranks": ranks and {name: round(value, 3) for name, value in ranks.mean.items()},
        "groups": ranks and [list(group) for group in ranks.groups],
        "critical_difference": ranks and round(ranks.critical_difference, 3),
        "n": ranks and ranks.n,
        "notes": [note.replace("◂", "bold") for note in (section.notes if section else [])],
    }


def _short(value: float) -> float | None:
    return float(f"{value:.3g}") if math.isfinite(value) else None
