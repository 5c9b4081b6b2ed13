"""The columns of the report: one for each thing that was measured, and what a reader must know of
its numbers.

What the page knows: records as one JSON value in which nothing that runs share is written
twice.

What tests say of the methods, for each column of the page: the numbers of ``kdg compare``, which
JSON can hold.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.metrics import METRICS, options_of
from kdgraph.report.page.attachments import browser_figures
from kdgraph.report.page.commands import Command
from kdgraph.report.run_table import Entry, Record
from kdgraph.results.comparison.aggregate import MeasureComparison, compare_methods
from kdgraph.results.comparison.study import Study
from kdgraph.results.comparison.tables import caution_notes, datasets_section, spread_notes
from kdgraph.results.export import EXACT
from kdgraph.results.measures import (
    DEFAULT_METRICS,
    DETECTION_METRICS,
    IN_SAMPLE_NOTE,
    ROWS,
    Measure,
    preferred_first,
    read_measures,
    representative_sets,
    unique_labels,
)
from kdgraph.results.names import NamedRun, drop_noise
from kdgraph.results.records import COMPONENTS, component_chain, post_hoc_names, run_task

FIRST = (*DEFAULT_METRICS, "brier")
"""Metrics on test rows and on the grid that are shown until a reader chooses others."""
MOST_SETS = 3
"""Out-of-distribution sets, each a column, of the same."""
AT_LEAST = 4
"""Columns of the same, as far as there is something to show."""


class PageColumns:
    """Collects what was measured."""

    def __init__(self) -> None:
        self._positions: dict[Measure, int] = {}

    def of(self, record: Record) -> list[tuple[int, dict[str, Any]]]:
        """Position of its column, and the number itself, of everything that a run measured."""
        return [
            (self._positions.setdefault(measure, len(self._positions)), _cleaned(measure, entry))
            for measure, entry in read_measures(record)
        ]

    @property
    def measures(self) -> list[Measure]:
        """In the order of the columns."""
        return list(self._positions)

    def as_json(self) -> list[dict[str, Any]]:
        """What the page knows of each column."""
        measures = self.measures
        labels, shown = unique_labels(measures), _shown_first(measures)
        return [_described(measure, labels[measure], measure in shown) for measure in measures]


def metric_summary(metric: str) -> str:
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
        "unit": measure.info.unit,
        "scale": measure.scale,
        "about": metric_summary(measure.metric_name),
        "shown": shown,
    }


def _cleaned(measure: Measure, entry: Mapping[str, Any]) -> dict[str, Any]:
    """An item of a record's metrics, its value 0 where it is what floating point left of a
    difference.
    """
    value = entry["value"]
    return {**entry, "value": None if value is None else drop_noise(value, measure.info.unit)}


def _rows(measure: Measure) -> str:
    """The rows that it was measured on, in words."""
    if measure.on != "ood":
        rows = {
            "test": "test rows",
            "calibration": "calibration rows",
            "grid": "points of the square grid",
        }.get(measure.on, measure.on)
        return f"{rows} ({IN_SAMPLE_NOTE})" if measure.in_sample else rows
    where = ", ".join([str(measure.ood), *(f"{key} {value:g}" for key, value in measure.params)])
    drawn = "".join(f", {key} {value}" for key, value in measure.drawn)
    kind = "where there are training rows" if measure.in_distribution else "out-of-distribution"
    return f"rows of {where} ({kind}{drawn})"


def _shown_first(measures: Sequence[Measure]) -> set[Measure]:
    """A few on test rows and on the grid; far from the data the calibration error or the
    confidence, and how well such rows are detected.

    Where that is little, others too.
    """
    near = [measure for measure in measures if measure.is_test and measure.metric in FIRST]
    outside = [
        measure for measure in measures if measure.on == "ood" and not measure.in_distribution
    ]
    detection = preferred_first(
        (measure.metric for measure in outside if measure.detects), DETECTION_METRICS
    )[:1]
    confidence = next(
        (name for name in ("oce", "mmc") if any(measure.metric == name for measure in outside)),
        None,
    )
    of_each = (
        [measure for measure in outside if measure.metric == name]
        for name in (confidence, *detection)
    )
    chosen = {
        *near,
        *(measure for of in of_each for measure in representative_sets(of, 1)[:MOST_SETS]),
    }
    rest = [measure for measure in measures if measure not in chosen]
    return chosen | set(rest[: max(0, AT_LEAST - len(chosen))])


DIGITS, DIGITS_OF_ERRORS = 6, 3
"""Significant digits of values and of standard errors; all of them are in the records."""


class ValuePool:
    """Values that many runs share: each is kept once, and referred to by its position."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._positions: dict[str, int] = {}

    def position(self, value: Any) -> int:
        """Where the value is, from now on if it is new."""
        text = json.dumps(value, sort_keys=True, default=str)
        if text not in self._positions:
            self._positions[text] = len(self.values)
            self.values.append(value)
        return self._positions[text]


class Content:
    """Collects runs; :meth:`as_json` is what the page's script reads."""

    def __init__(self) -> None:
        self.columns = PageColumns()
        names = (
            "datasets",
            "methods",
            "parents",
            "settings",
            "nodes",
            "layouts",
            "numbers",
            "facts",
            "stages",
            "sets",
            "made",
            "warnings",
        )
        names = (*names, "commands", "notes", "figures", "tabulated")
        self.tables = {name: ValuePool() for name in names}
        self.runs: list[dict[str, Any]] = []

    def add(
        self,
        runs: Sequence[NamedRun],
        commands: Sequence[Command],
        paths: Sequence[str],
        parents: Mapping[str, str],
    ) -> None:
        """Add all runs; ``commands`` say how each is done again, ``paths`` where it is, ``parents``
        what theirs are called as methods.
        """
        for run, command, path in zip(runs, commands, paths, strict=True):
            record = run.record
            setting = {
                "dataset": self.tables["datasets"].position(run.dataset),
                "method": self.tables["methods"].position(run.method),
                "parent": self.tables["parents"].position(parents[run.parent]),
                "is_parent": run.is_parent,
                "parts": {part: str(record[part]) for part in COMPONENTS},
                "chain": component_chain(record),
                "after": post_hoc_names(record),
                "protocol": record["protocol"],
                "task": run_task(record),
                "nodes": {
                    name: self.tables["nodes"].position(node)
                    for name, node in record["config"].items()
                    if name != "seed"
                },
            }
            where = {
                "id": record["run_id"],
                "path": path,
                "repetition": [
                    n if n <= EXACT else str(n) for n in run.repetition
                ],  # JavaScript has no larger integers
                "setting": self.tables["settings"].position(setting),
            }
            self.runs.append(
                {**where, **self._numbers(record), **self._facts(record), **self._again(command)}
            )

    def as_json(self) -> dict[str, Any]:
        """Everything but titles and figures."""
        tables = {name: table.values for name, table in self.tables.items()}
        return {"columns": self.columns.as_json(), **tables, "runs": self.runs}

    def _numbers(self, record: Record) -> dict[str, int]:
        """Where the numbers of parent and calibrated model are; runs that share a parent share its
        numbers.
        """
        of: dict[str, dict[int, Entry]] = {"parent": {}, "calibrated": {}}
        for column, entry in self.columns.of(record):
            of[entry["of"]][column] = entry
        return {
            name: self.tables["numbers"].position(self._numbers_of(entries))
            for name, entries in of.items()
        }

    def _numbers_of(self, entries: Mapping[int, Entry]) -> dict[str, Any]:
        """Values and standard errors in the order of a layout; ``n`` rows each, but for those in
        ``other_n``.
        """
        usual = Counter(entry["n"] for entry in entries.values()).most_common(1)
        n = usual[0][0] if usual else None
        return {
            "layout": self.tables["layouts"].position(list(entries)),
            "value": [_rounded(entry["value"], DIGITS) for entry in entries.values()],
            "stderr": [_rounded(entry["stderr"], DIGITS_OF_ERRORS) for entry in entries.values()],
            "n": n,
            "other_n": {
                i: entry["n"] for i, entry in enumerate(entries.values()) if entry["n"] != n
            },
        }

    def _facts(self, record: Record) -> dict[str, Any]:
        data = dict(record["dataset"])
        return {
            "fingerprint": data.pop("fingerprint", None),
            "facts": self.tables["facts"].position(data),
            "made": (
                self.tables["made"].position(
                    {key: record[key] for key in ("versions", "git", "host")}
                )
            ),
            "warnings": [
                self.tables["warnings"].position(warning) for warning in record["warnings"]
            ],
            "stages": self.tables["stages"].position(list(record["seconds"])),
            "seconds": [_rounded(value, DIGITS_OF_ERRORS) for value in record["seconds"].values()],
            "memory": [round(most) for most in record["peak_memory_mb"].values()],
            "stored": record["from_store"],
            "figures": self.tables["figures"].position(browser_figures(record)),
            "tables": self.tables["tabulated"].position(record["files"]["tables"]),
            "learnt": _shortened(record["learnt"]),
            "sets": self.tables["sets"].position(record["ood_sets"]),
        }

    def _again(self, command: Command) -> dict[str, int]:
        found = (
            {
                "command": (
                    self.tables["commands"].position(shlex.join(("kdg", "run", *command.words)))
                )
            }
            if command.words
            else {}
        )
        return found | (
            {"note": self.tables["notes"].position(command.note)} if command.note else {}
        )


def _rounded(value: float | None, digits: int) -> float | None:
    """Return a number with so many significant digits."""
    return None if value is None else float(f"{value:.{digits}g}")


def _shortened(learnt: Any) -> Any:
    if isinstance(learnt, Mapping):
        return {key: _shortened(value) for key, value in learnt.items()}
    return _rounded(learnt, DIGITS) if isinstance(learnt, float) else learnt


NOTE_DIGITS = 4
"""Of numbers in notes."""


def column_statistics(study: Study, measures: Sequence[Measure]) -> list[dict[str, Any] | None]:
    """For each measure what tests over data sets and over seeds say; None where neither direction
    is better.
    """
    return [
        _of(compare_methods(study, measure)) if measure in study.values and measure.better else None
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


def study_remarks(study: Study) -> list[str]:
    """What ± is over, and what is uneven in the runs."""
    return [*spread_notes(study), *caution_notes(study, [])]


def _of(one: MeasureComparison) -> dict[str, Any]:
    section = datasets_section(one, NOTE_DIGITS)
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
