"""The table of all numbers as people read it on a terminal: a line for each model and repetition, a
column for each measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kdgraph.results.measures import ROWS, Measure, measured
from kdgraph.results.names import Repetition, Run, told
from kdgraph.results.numbers import number
from kdgraph.results.usual import FAR, NEAR

FIRST = (*NEAR, *FAR)
"""Metrics in the order of their columns; others come after."""
RADII = (2.0, 5.0)
"""Of spheres, those whose columns come first."""
GAP = 2
DIGITS = 4
"""Of numbers, as :func:`~kdgraph.wording.significant` counts them."""


@dataclass(frozen=True)
class Line:
    """One model of one run: its names, and what was measured of it."""

    dataset: str
    model: str
    repetition: str
    values: dict[Measure, float | None]


def lines_of(runs: Sequence[Run]) -> list[Line]:
    """By data set: a line for each parent and repetition, which all methods on it share, and one
    for each method.
    """
    lines: dict[tuple[str, str, Repetition], Line] = {}
    for run in runs:
        values: dict[str, dict[Measure, float | None]] = {"parent": {}, "calibrated": {}}
        for measure, entry in measured(run.record):
            values[entry["of"]][measure] = entry["value"]
        for of, model in (("parent", f"{run.parent} (parent)"), ("calibrated", run.method)):
            if of == "parent" or not run.is_parent:
                new = Line(run.dataset, model, told(run.repetition), {})
                lines.setdefault((run.dataset, model, run.repetition), new).values.update(
                    values[of]
                )
    return [
        lines[key]
        for key in sorted(
            lines, key=lambda key: (key[0], not key[1].endswith("(parent)"), key[1], key[2])
        )
    ]


def in_order(measures: Sequence[Measure]) -> list[Measure]:
    """Those that are read most, first: test rows, then far from the data at :data:`RADII`; then all
    others as they are in the records.
    """

    def key(measure: Measure) -> tuple[bool, int, bool]:
        radius = dict(measure.params).get("radius")
        is_far = measure.on == "ood" and (
            radius in RADII or (radius is None and not measure.in_distribution)
        )
        is_first = measure.metric in FAR if is_far else measure.is_near and measure.metric in NEAR
        return not is_first, FIRST.index(measure.metric) if is_first else 0, radius == RADII[1]

    return sorted(measures, key=key)


def wide(
    lines: Sequence[Line], measures: Sequence[Measure], *, width: int | None, rows: int | None
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


def _number(line: Line, measure: Measure) -> str:
    value = line.values.get(measure)
    return number(value, measure.about.unit, DIGITS)


def _width(column: Sequence[str]) -> int:
    return max(map(len, column))
