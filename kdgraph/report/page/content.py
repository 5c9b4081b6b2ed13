"""The JSON content of the page: runs, columns, commands and tests.

A study of thousands of runs repeats most of its values. Each is stored once in a :class:`ValuePool`
and runs contain its position.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from kdgraph.metrics import METRICS, options_of
from kdgraph.report.page.attachments import browser_figures
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
    MeasureReader,
    preferred_first,
    representative_sets,
    unique_labels,
)
from kdgraph.results.names import NamedRun, drop_noise
from kdgraph.results.origins import Record
from kdgraph.results.records import (
    MODEL_COMPONENTS,
    component_chain,
    component_name,
    post_hoc_names,
    run_task,
)

SHOWN_METRICS = (*DEFAULT_METRICS, "brier")
"""Metrics on test rows and on the grid that are shown until a reader chooses others."""
MOST_SHOWN_SETS = 3
"""OOD sets that are shown until a reader chooses others."""
FEWEST_SHOWN = 4
"""Columns that are shown at least, if the runs have as many."""
VALUE_DIGITS, ERROR_DIGITS = 6, 3
"""Significant digits of values and of standard errors; the records contain all of them."""
NOTE_DIGITS = 4
"""Digits of numbers in notes."""
POOLS = (
    *("datasets", "methods", "parents", "settings", "nodes", "layouts", "numbers", "facts"),
    *("stages", "sets", "made", "warnings", "commands", "figures", "tabulated"),
)
"""Names of the pools of shared values, as the page's script reads them."""


class PageColumns:
    """Columns of the page: one for each measure of the runs."""

    def __init__(self) -> None:
        self._positions: dict[Measure, int] = {}
        self._reader = MeasureReader()

    def read(self, record: Record) -> dict[str, dict[int, tuple[float | None, float | None, int]]]:
        """Return value, standard error and number of rows by model and by column.

        Values are without floating-point noise. Measures without a column get one.
        """
        numbers: dict[str, dict[int, tuple[float | None, float | None, int]]]
        numbers = {"parent": {}, "calibrated": {}}
        for measure, row, value, stderr in self._reader.read(record):
            column = self._positions.setdefault(measure, len(self._positions))
            rounded = None if value is None else drop_noise(value, measure.info.unit)
            numbers[row["of"]][column] = rounded, stderr, row["n"]
        return numbers

    @property
    def measures(self) -> list[Measure]:
        """Measures in the order of the columns."""
        return list(self._positions)

    def as_json(self) -> list[dict[str, Any]]:
        """Return a description of each column."""
        measures = self.measures
        labels, shown = unique_labels(measures), _shown_by_default(measures)
        return [
            _column_description(measure, labels[measure], measure in shown) for measure in measures
        ]


class ValuePool:
    """Values that many runs share; each is stored once and referred to by its position."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._positions: dict[Hashable, int] = {}
        self._positions_of_objects: dict[int, tuple[Any, int]] = {}

    def position(self, value: Any) -> int:
        """Return the position of a value, which is added if it is new."""
        return self.position_of(json.dumps(value, sort_keys=True, default=str), lambda: value)

    def position_of(self, key: Hashable, make: Callable[[], Any]) -> int:
        """Return the position of the value that belongs to a key; ``make`` returns a new one."""
        if key not in self._positions:
            self._positions[key] = len(self.values)
            self.values.append(make())
        return self._positions[key]

    def position_of_object(self, value: Any) -> int:
        """Return the position of a value of which many runs have the same object."""
        known = self._positions_of_objects.get(id(value))
        if known is None:
            # The object is kept, so that no other one gets its identity.
            known = self._positions_of_objects[id(value)] = value, self.position(value)
        return known[1]


class Content:
    """Collector of runs; :meth:`as_json` returns what the page's script reads."""

    def __init__(self) -> None:
        self.columns = PageColumns()
        self.pools = {name: ValuePool() for name in POOLS}
        self.runs: list[dict[str, Any]] = []

    def add(
        self, runs: Sequence[NamedRun], paths: Sequence[str], parents: Mapping[str, str]
    ) -> None:
        """Add runs, all of the page: settings of several seeds get one command for all of them.

        ``paths`` are the directories as the page shows them, ``parents`` those of
        :func:`parent_names`.
        """
        commands = _commands([run.record for run in runs])
        for run, path, command in zip(runs, paths, commands, strict=True):
            self.runs.append(
                {
                    "id": run.record["run_id"],
                    "path": path,
                    # JavaScript has no larger integers.
                    "repetition": [n if n <= EXACT else str(n) for n in run.repetition],
                    "setting": self._pooled("settings", self._setting(run, parents)),
                    **self._number_positions(run.record),
                    **self._facts(run.record),
                    **{key: self._pooled("commands", text) for key, text in command.items()},
                }
            )

    def as_json(self) -> dict[str, Any]:
        """Return columns, pools and runs."""
        pools = {name: pool.values for name, pool in self.pools.items()}
        return {"columns": self.columns.as_json(), **pools, "runs": self.runs}

    def _pooled(self, pool: str, value: Any) -> int:
        return self.pools[pool].position(value)

    def _setting(self, run: NamedRun, parents: Mapping[str, str]) -> dict[str, Any]:
        record = run.record
        return {
            "dataset": self._pooled("datasets", run.dataset),
            "method": self._pooled("methods", run.method),
            "parent": self._pooled("parents", parents[run.parent]),
            "is_parent": run.is_parent,
            "parts": {part: component_name(record, part) for part in MODEL_COMPONENTS},
            "chain": component_chain(record),
            "after": post_hoc_names(record),
            "protocol": record["protocol"],
            "task": run_task(record),
            "nodes": {
                name: self.pools["nodes"].position_of_object(node)
                for name, node in record["config"].items()
                if name != "seed"
            },
        }

    def _number_positions(self, record: Record) -> dict[str, int]:
        pool = self.pools["numbers"]
        return {
            model: pool.position_of(tuple(of_model.items()), lambda of=of_model: self._numbers(of))
            for model, of_model in self.columns.read(record).items()
        }

    def _numbers(
        self, of_model: Mapping[int, tuple[float | None, float | None, int]]
    ) -> dict[str, Any]:
        """Return values and standard errors in the order of a layout.

        Most numbers of a run are means over the same number of rows, ``n``; ``other_n`` contains
        the exceptions.
        """
        numbers = list(of_model.values())
        most_common = Counter(n for _, _, n in numbers).most_common(1)
        n_rows = most_common[0][0] if most_common else None
        return {
            "layout": self._pooled("layouts", list(of_model)),
            "value": [_rounded(value, VALUE_DIGITS) for value, _, _ in numbers],
            "stderr": [_rounded(stderr, ERROR_DIGITS) for _, stderr, _ in numbers],
            "n": n_rows,
            "other_n": {i: n for i, (_, _, n) in enumerate(numbers) if n != n_rows},
        }

    def _facts(self, record: Record) -> dict[str, Any]:
        data = dict(record["dataset"])
        provenance = {key: record[key] for key in ("versions", "git", "host")}
        return {
            "fingerprint": data.pop("fingerprint", None),
            "facts": self._pooled("facts", data),
            "made": self._pooled("made", provenance),
            "experiment": record["experiment"],
            "warnings": [self._pooled("warnings", warning) for warning in record["warnings"]],
            "stages": self._pooled("stages", list(record["seconds"])),
            "seconds": [_rounded(value, ERROR_DIGITS) for value in record["seconds"].values()],
            "memory": [round(megabytes) for megabytes in record["peak_memory_mb"].values()],
            "stored": record["from_store"],
            "figures": self._pooled("figures", browser_figures(record)),
            "tables": self._pooled("tabulated", record["files"]["tables"]),
            "learnt": _rounded_tree(record["learnt"]),
            "sets": self._pooled("sets", record["ood_sets"]),
        }


def metric_summary(metric: str) -> str:
    """Return the docstring of a metric up to its parameters as plain text.

    It is "" for a metric that this version does not have.

    >>> metric_summary("error").partition(". ")[0]
    'Measure the fraction of rows whose most probable class is not the label, in [0, 1]'
    """
    if metric not in METRICS:
        return ""
    text = re.split(
        r"\n\s*(?:Parameters|References|Examples)\n", inspect.getdoc(METRICS[metric]) or ""
    )[0]
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "")
    return " ".join(text.split())


def column_statistics(study: Study, measures: Sequence[Measure]) -> list[dict[str, Any] | None]:
    """Return the tests of each measure over data sets and over seeds, as JSON.

    They are None for a measure of which neither direction is better.
    """
    return [
        _statistics(compare_methods(study, measure))
        if measure in study.values and measure.better
        else None
        for measure in measures
    ]


def parent_names(study: Study) -> dict[str, str]:
    """Return the name of each parent as a method of the study.

    A parent of runs, such as ``mlp``, can be part of a method such as ``mlp / cnn (parent)``.
    """
    return {
        parent: name
        for name in sorted(study.parents)
        for parent in name.removesuffix(" (parent)").split(" / ")
    }


def study_remarks(study: Study) -> list[str]:
    """Return sentences about the standard deviation and about uneven runs."""
    return [*spread_notes(study), *caution_notes(study, [])]


def _commands(records: Sequence[Record]) -> list[dict[str, str]]:
    """Return the command that repeats each run, and its whole setting if that has several seeds.

    Runs whose recorded overrides differ in nothing but the seed are one setting: ``command``
    repeats one of them, ``sweep`` all.
    """
    settings = [
        (
            *(("--config-dir", record["config_dir"]) if record["config_dir"] else ()),
            *(word for word in record["overrides"] if not word.startswith("seed=")),
        )
        for record in records
    ]
    seeds: dict[tuple[str, ...], set[int]] = {}
    for setting, record in zip(settings, records, strict=True):
        seeds.setdefault(setting, set()).add(record["seed"])
    commands = []
    for setting, record in zip(settings, records, strict=True):
        command = {"command": shlex.join(["kdg", "run", *setting, f"seed={record['seed']}"])}
        if len(seeds[setting]) > 1:
            every_seed = ",".join(map(str, sorted(seeds[setting])))
            command["sweep"] = shlex.join(["kdg", "run", "-m", *setting, f"seed={every_seed}"])
        commands.append(command)
    return commands


def _column_description(measure: Measure, label: str, shown: bool) -> dict[str, Any]:
    defaults = options_of(measure.metric_name) if measure.metric_name in METRICS else {}
    options = {**{key: str(value) for key, value in defaults.items()}, **dict(measure.options)}
    return {
        "id": measure.id,
        "label": label,
        "short": measure.name,
        "detail": label.removeprefix(measure.name).lstrip(", "),
        "metric": measure.metric,
        "on": measure.on,
        "ood": measure.ood,
        "params": dict(measure.params),
        "rows": _row_description(measure),
        "options": ", ".join(f"{key} {value}" for key, value in options.items()),
        "of": "points" if measure.on == "grid" and measure.n_of == ROWS else measure.n_of,
        "ideal": measure.ideal,
        "unit": measure.info.unit,
        "scale": measure.scale,
        "about": metric_summary(measure.metric_name),
        "shown": shown,
    }


def _row_description(measure: Measure) -> str:
    if measure.on != "ood":
        rows = {
            "test": "test rows",
            "calibration": "calibration rows",
            "grid": "points of the square grid",
        }.get(measure.on, measure.on)
        return f"{rows} ({IN_SAMPLE_NOTE})" if measure.in_sample else rows
    place = ", ".join([str(measure.ood), *(f"{key} {value:g}" for key, value in measure.params)])
    drawn = "".join(f", {key} {value}" for key, value in measure.drawn)
    kind = "where there are training rows" if measure.in_distribution else "out-of-distribution"
    return f"rows of {place} ({kind}{drawn})"


def _shown_by_default(measures: Sequence[Measure]) -> set[Measure]:
    """Choose the columns that are shown first.

    These are common metrics on test rows and on the grid, and on some OOD sets the calibration
    error or confidence and one metric of detection; others only if these are few.
    """
    chosen = {
        measure for measure in measures if measure.is_test and measure.metric in SHOWN_METRICS
    }
    outside = [
        measure for measure in measures if measure.on == "ood" and not measure.in_distribution
    ]
    metrics = {measure.metric for measure in outside}
    detection = preferred_first((m.metric for m in outside if m.detects), DETECTION_METRICS)[:1]
    confidence = [name for name in ("oce", "mmc") if name in metrics][:1]
    for name in (*confidence, *detection):
        of_metric = [measure for measure in outside if measure.metric == name]
        chosen |= set(representative_sets(of_metric, 1)[:MOST_SHOWN_SETS])
    others = [measure for measure in measures if measure not in chosen]
    return chosen | set(others[: max(0, FEWEST_SHOWN - len(chosen))])


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")


def _rounded_tree(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded_tree(inner) for key, inner in value.items()}
    return _rounded(value, VALUE_DIGITS) if isinstance(value, float) else value


def _statistics(comparison: MeasureComparison) -> dict[str, Any]:
    section = datasets_section(comparison, NOTE_DIGITS)
    ranks = comparison.ranks
    return {
        "against": {
            name: {
                "better": baseline.outcome.wins,
                "same": baseline.outcome.ties,
                "worse": baseline.outcome.losses,
                "p": _finite(baseline.p),
                "change": _finite(baseline.change),
                "baseline": baseline.name,
            }
            for name, baseline in comparison.over_datasets.items()
        },
        "best": comparison.best_over_datasets,
        "best_by_dataset": {
            name: list(methods) for name, methods in comparison.best.items() if methods
        },
        "ranks": ranks and {name: round(value, 3) for name, value in ranks.mean.items()},
        "groups": ranks and [list(group) for group in ranks.groups],
        "critical_difference": ranks and round(ranks.critical_difference, 3),
        "n": ranks and ranks.n,
        "notes": [note.replace("◂", "bold") for note in (section.notes if section else [])],
    }


def _finite(value: float) -> float | None:
    return float(f"{value:.3g}") if math.isfinite(value) else None
