"""All numbers in one table: a row for each number, or a line for each model on a terminal."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kdgraph.config.messages import unknown_key
from kdgraph.errors import UsageError
from kdgraph.results.export import NARROWEST_NAMES, wrap_line
from kdgraph.results.measures import (
    DEFAULT_METRICS,
    DEFAULT_OOD_METRICS,
    IN_SAMPLE_NOTE,
    ROWS,
    Measure,
    MeasureReader,
    read_measures,
)
from kdgraph.results.names import NamedRun, Repetition, format_value, repetition_text
from kdgraph.results.records import (
    MODEL_COMPONENTS,
    NO_VALUE,
    FinishedRun,
    calibration_mode,
    component_name,
    config_value,
    flatten_config,
    value_text,
)
from kdgraph.wording import counted

TABLE_COLUMNS = {
    "dataset": "name of the data set",
    "method": (
        "name of parent and what was fitted after it: the preset's, or"
        " <parent>-<calibrator>[-<gate>]…; with -as_in_paper for protocol=paper"
    ),
    "parent": "name of the parent",
    "calibrator": "name of the calibrator, or none",
    "gate": "name of the gate, or none",
    "detector": "name of the detector, or none",
    "recalibrator": "name of the recalibrator of a regressor, or none",
    "conformal": "name of the conformal prediction sets, or none",
    "calibration": "held_out, oob or cross_fit: the rows and outputs that calibrate",
    "protocol": (
        "held_out, or paper: methods are fitted on test rows, or by those out of distribution,"
        " where their paper does so"
    ),
    "seed": "seed of the run",
    "run_id": "8 hex digits: a hash of the config",
    "of": "which model: parent, or calibrated (the parent with all that was fitted after it)",
    "metric": "name of the metric",
    "on": (
        f"which rows: test, calibration ({IN_SAMPLE_NOTE}), grid (the square grid of a simulation),"
        " or ood (out of distribution)"
    ),
    "ood": "name of the out-of-distribution set; empty elsewhere",
    "params": "which of its family the set is: radius=2",
    "in_distribution": "true where the set is where its family meets the training data",
    "options": "options of the metric: bins=15 strategy=uniform norm=l1",
    "value": "the number; empty where the metric is not defined",
    "stderr": (
        "its standard error over rows; empty where it is not a mean over rows. Not of training, nor"
        " of a difference"
    ),
    "n": "how many were averaged or scored",
    "n_of": (
        "of what: rows, or sets of so many rows, or rows in such sets, where a detector judges"
        " sets: another task than of rows"
    ),
    "label": "name of the metric as people read it",
    "better": "which direction is: lower or higher; empty where the number only describes",
    "unit": (
        "what the number is in: nats, units of y; empty for fractions, probabilities, and what has"
        " none"
    ),
    "prior": (
        "the largest class prior of the training rows, which confidence should fall to far from"
        " them; empty without classes"
    ),
    "n_train": "training rows",
    "n_calibration": "calibration rows",
    "n_test": "test rows",
    "n_features": "features",
    "fingerprint": "hash of the rows of all three: runs with the same one saw the same rows",
    "seconds": "seconds of all stages, each of when it was done",
    "peak_memory_mb": "the largest resident memory of any stage, in MB",
    "path": "directory of the run",
}
"""Column → description; keys of the config follow, as many as the user wants."""

_ENTRY_COLUMNS = (
    *("of", "metric", "on", "ood", "params", "in_distribution", "options", "value", "stderr", "n"),
    *("n_of", "label", "better", "unit"),
)
"""Columns that differ between the numbers of a run."""

METRIC_ORDER = (*DEFAULT_METRICS, *DEFAULT_OOD_METRICS)
"""Metrics in the order of their columns on a terminal; others follow."""
FIRST_RADII = (2.0, 5.0)
"""Radii of shells whose columns come first."""
COLUMN_GAP = 2
DIGITS = 4
"""Digits of numbers on a terminal, as :func:`~kdgraph.wording.significant` counts them."""


@dataclass(frozen=True)
class TableLine:
    """One model of one run: its names and its numbers."""

    dataset: str
    model: str
    repetition: str
    values: dict[Measure, float | None]


def number_table(
    runs: Sequence[FinishedRun], keys: Sequence[str] = (), wanted: Container[Measure] | None = None
) -> dict[str, list[Any]]:
    """Return the table of all numbers by column, in the order of :data:`TABLE_COLUMNS`.

    Rows are in the order of the runs; those of measures that are not wanted are left out. ``keys``
    are dotted keys of the config (``parent.n_estimators``), a column each: numbers and words stay
    what they are, a list becomes text, a run without the key has None. UsageError is raised as by
    :func:`check_keys`.
    """
    check_keys(runs, keys)
    table: dict[str, list[Any]] = {name: [] for name in [*TABLE_COLUMNS, *keys]}
    for run in runs:
        entries = [
            _entry_cells(measure, entry)
            for measure, entry in read_measures(run.record)
            if wanted is None or measure in wanted
        ]
        config_cells = {key: _cell(config_value(run.record, key)) for key in keys}
        for name, value in {**_run_cells(run), **config_cells}.items():
            table[name] += [value] * len(entries)
        # Without entries there is nothing to add.
        for name, values in zip(_ENTRY_COLUMNS, zip(*entries, strict=True), strict=False):
            table[name] += values
    return table


def check_keys(runs: Sequence[FinishedRun], keys: Sequence[str]) -> None:
    """Raise UsageError for a key that no run has, or that is a column already."""
    for key in keys:
        if key in TABLE_COLUMNS:
            raise UsageError(
                f"'{key}' is a column of the table already; --with takes other keys of the config"
            )
        if all(config_value(run.record, key) is NO_VALUE for run in runs):
            names = {name for run in runs for name, _ in flatten_config(run.record["config"])}
            raise unknown_key(key, names)


def table_lines(runs: Sequence[NamedRun]) -> list[TableLine]:
    """Return a line for each model and repetition, by data set.

    Methods of one parent share the parent's line, which comes before theirs.
    """
    lines: dict[tuple[str, str, Repetition], TableLine] = {}
    reader = MeasureReader()
    for run in runs:
        values: dict[str, dict[Measure, float | None]] = {"parent": {}, "calibrated": {}}
        for measure, row, value, _ in reader.read(run.record):
            values[row["of"]][measure] = value
        models = {"parent": f"{run.parent} (parent)"}
        if not run.is_parent:
            models["calibrated"] = run.method
        for of, model in models.items():
            line = TableLine(run.dataset, model, repetition_text(run.repetition), {})
            key = run.dataset, model, run.repetition
            lines.setdefault(key, line).values.update(values[of])

    def order(key: tuple[str, str, Repetition]) -> tuple[str, bool, str, Repetition]:
        dataset, model, repetition = key
        return dataset, not model.endswith("(parent)"), model, repetition

    return [lines[key] for key in sorted(lines, key=order)]


def reading_order(measures: Sequence[Measure]) -> list[Measure]:
    """Return the measures with the most common ones first.

    These are on test rows, then on OOD sets at :data:`FIRST_RADII`; the others follow in the order
    of the records.
    """

    def key(measure: Measure) -> tuple[bool, int, bool]:
        radius = dict(measure.params).get("radius")
        is_outside = measure.on == "ood" and (
            radius in FIRST_RADII or (radius is None and not measure.in_distribution)
        )
        common = DEFAULT_OOD_METRICS if is_outside else DEFAULT_METRICS if measure.is_test else ()
        is_common = measure.metric in common
        position = METRIC_ORDER.index(measure.metric) if is_common else 0
        return not is_common, position, radius == FIRST_RADII[1]

    return sorted(measures, key=key)


def pivot_text(
    lines: Sequence[TableLine],
    measures: Sequence[Measure],
    *,
    width: int | None,
    rows: int | None,
) -> str:
    """Return lines and columns as text; the last line counts what did not fit.

    ``width`` are columns of the terminal and ``rows`` the most lines; None for any. Names of models
    that leave no room for a number continue on the next line.
    """
    shown = lines[:rows]
    names = [
        ["", "data set", *(line.dataset for line in shown)],
        ["", "model", *(line.model for line in shown)],
        ["", "seed", *(line.repetition for line in shown)],
    ]
    numbers = [
        [
            measure.metric,
            _place(measure),
            *(format_value(line.values.get(measure), measure.info.unit, DIGITS) for line in shown),
        ]
        for measure in measures
    ]
    name_lines = [[name] for name in names[1]]
    if width is not None and numbers:
        other_columns = [names[0], names[2], numbers[0]]
        room = width - sum(map(_width, other_columns)) - COLUMN_GAP * len(other_columns)
        name_lines = [wrap_line(name, max(room, NARROWEST_NAMES)) for name in names[1]]
        names[1] = [max(of_name, key=len) for of_name in name_lines]
    used = sum(map(_width, names)) + COLUMN_GAP * (len(names) - 1)
    n_shown = 0
    for column in numbers:
        used += COLUMN_GAP + _width(column)
        if width is not None and n_shown and used > width:
            break
        n_shown += 1
    columns, sides = [*names, *numbers[:n_shown]], ["<", "<", ">", *(">" * n_shown)]
    forms = [f"{{:{side}{_width(column)}}}" for side, column in zip(sides, columns, strict=True)]
    form = (" " * COLUMN_GAP).join(forms)
    margin = " " * (_width(names[0]) + COLUMN_GAP)
    text = []
    for (dataset, _, *cells), (name, *more) in zip(
        zip(*columns, strict=True), name_lines, strict=True
    ):
        text.append(form.format(dataset, name, *cells).rstrip())
        text += [margin + line for line in more]
    left_out = [
        f"{n:,} more {counted(n, what).partition(' ')[2]}"
        for n, what in ((len(lines) - len(shown), "line"), (len(measures) - n_shown, "column"))
        if n
    ]
    return "\n".join([*text, *([f"… {' and '.join(left_out)}"] if left_out else [])])


def _run_cells(run: FinishedRun) -> dict[str, Any]:
    record, data = run.record, run.record["dataset"]
    return {
        "dataset": data["name"],
        "method": record["method"],
        **{component: component_name(record, component) for component in MODEL_COMPONENTS},
        **{name: record[name] for name in ("protocol", "seed", "run_id")},
        "calibration": calibration_mode(record),
        "prior": max(data["prior"] or (), default=None),
        **{name: data[name] for name in ("n_train", "n_calibration", "n_test")},
        **{name: data[name] for name in ("n_features", "fingerprint")},
        "seconds": round(sum(record["seconds"].values()), 4),
        "peak_memory_mb": max(record["peak_memory_mb"].values(), default=None),
        "path": str(run.path),
    }


def _entry_cells(measure: Measure, entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        entry["of"],
        measure.metric,
        measure.on,
        measure.ood,
        " ".join(f"{key}={value:g}" for key, value in measure.params),
        bool(entry.get("in_distribution", False)),
        " ".join(f"{key}={value}" for key, value in measure.options),
        entry["value"],
        entry["stderr"],
        entry["n"],
        measure.n_of,
        measure.info.label,
        measure.info.better,
        measure.info.unit,
    )


def _cell(value: Any) -> Any:
    if value is NO_VALUE:
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value_text(value)


def _place(measure: Measure) -> str:
    """Return the second line of a column's head: the rows, and what was scored there.

    The name of a family is left out where its parameter is enough.
    """
    place = ",".join(f"{key}={value:g}" for key, value in measure.params) or measure.place
    place += ", in sample" if measure.in_sample else ""
    return place if measure.n_of == ROWS else f"{place}, {measure.n_of}"


def _width(column: Sequence[str]) -> int:
    return max(map(len, column))
