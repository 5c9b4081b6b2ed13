"""The columns of the report: one for each thing that was measured, and what a reader must know of
its numbers.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.metrics import METRICS, options_of
from kdgraph.report.metrics_text import Record
from kdgraph.results.measures import IN_SAMPLE, ROWS, Measure, measured, tell_apart
from kdgraph.results.numbers import without_dust
from kdgraph.results.usual import DETECTION, NEAR, first_of, some_sets

FIRST = (*NEAR, "brier")
"""Metrics on test rows and on the grid that are shown until a reader chooses others."""
MOST_SETS = 3
"""Out-of-distribution sets, each a column, of the same."""
AT_LEAST = 4
"""Columns of the same, as far as there is something to show."""


class Columns:
    """Collects what was measured."""

    def __init__(self) -> None:
        self._positions: dict[Measure, int] = {}

    def of(self, record: Record) -> list[tuple[int, dict[str, Any]]]:
        """Position of its column, and the number itself, of everything that a run measured."""
        return [
            (self._positions.setdefault(measure, len(self._positions)), _cleaned(measure, entry))
            for measure, entry in measured(record)
        ]

    @property
    def measures(self) -> list[Measure]:
        """In the order of the columns."""
        return list(self._positions)

    def as_json(self) -> list[dict[str, Any]]:
        """What the page knows of each column."""
        measures = self.measures
        labels, shown = tell_apart(measures), _shown_first(measures)
        return [_described(measure, labels[measure], measure in shown) for measure in measures]


def first_sentences(metric: str) -> str:
    """What a metric's docstring says before its parameters, as plain text; "" for a metric that
    this version does not have.

    >>> first_sentences("error").partition(". ")[0]
    'Measure the fraction of rows whose most probable class is not the label, in [0, 1]'
    """
    if metric not in METRICS:
        return ""
    text = re.split(
        r"\n\s*(?:Parameters|References|Examples)\n", inspect.getdoc(METRICS[metric]) or ""
    )[0]
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "")
    return " ".join(text.split())


def _described(measure: Measure, label: str, shown: bool) -> dict[str, Any]:
    words = re.split(r"[()]", label.removeprefix(measure.name))
    defaults = options_of(measure.metric_name) if measure.metric_name in METRICS else {}
    options = {**{key: str(value) for key, value in defaults.items()}, **dict(measure.options)}
    return {
        "id": measure.id,
        "label": label,
        "short": measure.name,
        "detail": ", ".join(word.strip() for word in words if word.strip()),
        "metric": measure.metric,
        "on": measure.on,
        "ood": measure.ood,
        "params": dict(measure.params),
        "rows": _rows(measure),
        "options": ", ".join(f"{key} {value}" for key, value in options.items()),
        "of": "points" if measure.on == "grid" and measure.n_of == ROWS else measure.n_of,
        "ideal": measure.ideal,
        "unit": measure.about.unit,
        "scale": measure.scale,
        "about": first_sentences(measure.metric_name),
        "shown": shown,
    }


def _cleaned(measure: Measure, entry: Mapping[str, Any]) -> dict[str, Any]:
    """An item of a record's metrics, its value 0 where it is what floating point left of a
    difference.
    """
    value = entry["value"]
    return {**entry, "value": None if value is None else without_dust(value, measure.about.unit)}


def _rows(measure: Measure) -> str:
    """The rows that it was measured on, in words."""
    if measure.on != "ood":
        rows = {
            "test": "test rows",
            "calibration": "calibration rows",
            "grid": "points of the square grid",
        }.get(measure.on, measure.on)
        return f"{rows} ({IN_SAMPLE})" if measure.in_sample else rows
    where = ", ".join([str(measure.ood), *(f"{key} {value:g}" for key, value in measure.params)])
    drawn = "".join(f", {key} {value}" for key, value in measure.drawn)
    kind = "where there are training rows" if measure.in_distribution else "out-of-distribution"
    return f"rows of {where} ({kind}{drawn})"


def _shown_first(measures: Sequence[Measure]) -> set[Measure]:
    """A few on test rows and on the grid; far from the data the calibration error or the
    confidence, and how well such rows are detected.

    Where that is little, others too.
    """
    near = [measure for measure in measures if measure.is_near and measure.metric in FIRST]
    outside = [
        measure for measure in measures if measure.on == "ood" and not measure.in_distribution
    ]
    detection = first_of((measure.metric for measure in outside if measure.detects), DETECTION)[:1]
    confidence = next(
        (name for name in ("oce", "mmc") if any(measure.metric == name for measure in outside)),
        None,
    )
    of_each = (
        [measure for measure in outside if measure.metric == name]
        for name in (confidence, *detection)
    )
    chosen = {*near, *(measure for of in of_each for measure in some_sets(of, 1)[:MOST_SETS])}
    rest = [measure for measure in measures if measure not in chosen]
    return chosen | set(rest[: max(0, AT_LEAST - len(chosen))])
