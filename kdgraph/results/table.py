"""The table of all numbers: a row for each run, model, metric and set of rows; and a wide view of
it for a terminal.

The table of all numbers as people read it on a terminal: a line for each model and repetition, a
column for each measure.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kdgraph.config.messages import unknown_key
from kdgraph.errors import UsageError
from kdgraph.results.measures import (
    DEFAULT_METRICS,
    DEFAULT_OOD_METRICS,
    IN_SAMPLE_NOTE,
    ROWS,
    Measure,
    read_measures,
)
from kdgraph.results.names import NamedRun, Repetition, format_value, repetition_text
from kdgraph.results.records import (
    COMPONENTS,
    NO_VALUE,
    FinishedRun,
    config_value,
    flatten_config,
    value_text,
)

TABLE_COLUMNS = {
    "dataset": "name of the data set",
    "method": (
        "name of parent and what was fitted after it: the preset's, or"
        " <parent>-<calibrator>[-<gate>]…; with -as_in_paper if so"
    ),
    "parent": "name of the parent",
    "calibrator": "name of the calibrator, or none",
    "gate": "name of the gate, or none",
    "detector": "name of the detector, or none",
    "recalibrator": "name of the recalibrator of a regressor, or none",
    "protocol": (
        "held_out, or paper: methods are fitted on test rows, or by those out of distribution,"
        " where their paper does so"
    ),
    "seed": "seed of the run",
    "run_id": "8 hex digits: a hash of the config",
    "of": "which model: parent, or calibrated (the parent with all that was fitted after it)",
    "metric": "name of the metric",
    "on": (
        f"which rows: test, calibration ({IN_SAMPLE_NOTE}), grid (the square grid of a simulation), or"
        " ood (out of distribution)"
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
        "what the number is in: nats, units of y; empty of shares, probabilities, and what has none"
    ),
    "prior": (
        "the largest class share of the training rows, which confidence should fall to far from"
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
"""Column → what it holds; further ones are keys of the config, as many as are asked for."""

_OF_ENTRY = (
    "of",
    "metric",
    "on",
    "ood",
    "params",
    "in_distribution",
    "options",
    "value",
    "stderr",
    "n",
)
_OF_ENTRY += ("n_of", "label", "better", "unit")


def number_table(
    found: Sequence[FinishedRun], keys: Sequence[str] = (), wanted: Container[Measure] | None = None
) -> dict[str, list[Any]]:
    """The table by column, in the order of :data:`COLUMNS`; its rows are in the order of the runs.

    Parameters
    ----------
    found : the runs.
    keys : of the config, a column each, by their dotted names (``parent.n_estimators``). Numbers
        and words stay what they are; a list is text; a run without the key has None.
    wanted : the measures to take; None: all.

    Raises
    ------
    UsageError
        A key that no run has, or one that is a column already.
    """
    check_keys(found, keys)
    table: dict[str, list[Any]] = {name: [] for name in [*TABLE_COLUMNS, *keys]}
    for one in found:
        of_run = {**_of_run(one), **{key: _cell(config_value(one.record, key)) for key in keys}}
        entries = [
            _of_entry(measure, entry)
            for measure, entry in read_measures(one.record)
            if wanted is None or measure in wanted
        ]
        for name, value in of_run.items():
            table[name] += [value] * len(entries)
        for name, values in zip(
            _OF_ENTRY, zip(*entries, strict=True), strict=False
        ):  # no entry: nothing to add
            table[name] += values
    return table


def check_keys(found: Sequence[FinishedRun], keys: Sequence[str]) -> None:
    """Raise :class:`~kdgraph.errors.UsageError` on a key that cannot be a column."""
    for key in keys:
        if key in TABLE_COLUMNS:
            raise UsageError(
                f"'{key}' is a column of the table already; --with takes other keys of the config"
            )
        if all(config_value(one.record, key) is NO_VALUE for one in found):
            raise unknown_key(
                key, {name for one in found for name, _ in flatten_config(one.record["config"])}
            )


def _of_run(found: FinishedRun) -> dict[str, Any]:
    record, data = found.record, found.record["dataset"]
    return {
        "dataset": data["name"],
        **{name: record[name] for name in ("method", *COMPONENTS, "protocol", "seed", "run_id")},
        "prior": max(data["prior"] or (), default=None),
        **{
            name: data[name]
            for name in ("n_train", "n_calibration", "n_test", "n_features", "fingerprint")
        },
        "seconds": round(sum(record["seconds"].values()), 4),
        "peak_memory_mb": max(record["peak_memory_mb"].values(), default=None),
        "path": str(found.path),
    }


def _of_entry(measure: Measure, entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """In the order of :data:`_OF_ENTRY`."""
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
    if value is NO_VALUE or value is None or isinstance(value, bool | int | float | str):
        return None if value is NO_VALUE else value
    return value_text(value)


METRIC_ORDER = (*DEFAULT_METRICS, *DEFAULT_OOD_METRICS)
"""Metrics in the order of their columns; others come after."""
RADII = (2.0, 5.0)
"""Of spheres, those whose columns come first."""
GAP = 2
DIGITS = 4
"""Of numbers, as :func:`~kdgraph.wording.significant` counts them."""


@dataclass(frozen=True)
class TableLine:
    """One model of one run: its names, and what was measured of it."""

    dataset: str
    model: str
    repetition: str
    values: dict[Measure, float | None]


def table_lines(runs: Sequence[NamedRun]) -> list[TableLine]:
    """By data set: a line for each parent and repetition, which all methods on it share, and one
    for each method.
    """
    lines: dict[tuple[str, str, Repetition], TableLine] = {}
    for run in runs:
        values: dict[str, dict[Measure, float | None]] = {"parent": {}, "calibrated": {}}
        for measure, entry in read_measures(run.record):
            values[entry["of"]][measure] = entry["value"]
        for of, model in (("parent", f"{run.parent} (parent)"), ("calibrated", run.method)):
            if of == "parent" or not run.is_parent:
                new = TableLine(run.dataset, model, repetition_text(run.repetition), {})
                lines.setdefault((run.dataset, model, run.repetition), new).values.update(
                    values[of]
                )
    return [
        lines[key]
        for key in sorted(
            lines, key=lambda key: (key[0], not key[1].endswith("(parent)"), key[1], key[2])
        )
    ]


def reading_order(measures: Sequence[Measure]) -> list[Measure]:
    """Those that are read most, first: test rows, then far from the data at :data:`RADII`; then all
    others as they are in the records.
    """

    def key(measure: Measure) -> tuple[bool, int, bool]:
        radius = dict(measure.params).get("radius")
        is_far = measure.on == "ood" and (
            radius in RADII or (radius is None and not measure.in_distribution)
        )
        is_first = (
            measure.metric in DEFAULT_OOD_METRICS
            if is_far
            else measure.is_test and measure.metric in DEFAULT_METRICS
        )
        return (
            not is_first,
            METRIC_ORDER.index(measure.metric) if is_first else 0,
            radius == RADII[1],
        )

    return sorted(measures, key=key)


def pivot_text(
    lines: Sequence[TableLine], measures: Sequence[Measure], *, width: int | None, rows: int | None
) -> str:
    """Lines and columns as text, and in the end what there was no room for.

    Parameters
    ----------
    lines, measures : what to show.
    width : columns of the terminal; None: any.
    rows : the most lines; None: all.
    """
    shown = lines[:rows]
    names = [
        ["", "data set", *(line.dataset for line in shown)],
        ["", "model", *(line.model for line in shown)],
    ]
    names.append(["", "seed", *(line.repetition for line in shown)])
    numbers = [[m.metric, _short(m), *(_number(line, m) for line in shown)] for m in measures]
    taken = sum(map(_width, names)) + GAP * (len(names) - 1)
    fits = 0
    while fits < len(numbers) and (
        width is None or fits == 0 or taken + GAP + _width(numbers[fits]) <= width
    ):
        taken += GAP + _width(numbers[fits])
        fits += 1
    columns, sides = [*names, *numbers[:fits]], ["<", "<", ">", *(">" * fits)]
    forms = [f"{{:{side}{_width(column)}}}" for side, column in zip(sides, columns, strict=True)]
    form = (" " * GAP).join(forms)
    text = [form.format(*row).rstrip() for row in zip(*columns, strict=True)]
    left_out = [f"{len(lines) - len(shown):,} more lines"] if len(shown) < len(lines) else []
    left_out += [f"{len(measures) - fits} more columns"] if fits < len(measures) else []
    return "\n".join([*text, *([f"… {' and '.join(left_out)}"] if left_out else [])])


def _short(measure: Measure) -> str:
    """The place without the name of a family whose parameter says enough; and what was scored
    there, if not rows.
    """
    place = ",".join(f"{key}={value:g}" for key, value in measure.params) or measure.place
    place += ", in sample" if measure.in_sample else ""
    return place if measure.n_of == ROWS else f"{place}, {measure.n_of}"


def _number(line: TableLine, measure: Measure) -> str:
    value = line.values.get(measure)
    return format_value(value, measure.info.unit, DIGITS)


def _width(column: Sequence[str]) -> int:
    return max(map(len, column))
