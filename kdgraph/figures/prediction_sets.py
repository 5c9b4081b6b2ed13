"""Coverage and size of prediction sets: of all rows, and by class, size of the set and group.

The data are those of the tables of ``metrics=sets`` and ``metrics=sets_by_group``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.drawing import write_note
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    BLACK,
    BLUE,
    GREY,
    LABEL_SIZE,
    NOTE_SIZE,
    add_axes,
    new_figure,
    shorten_text,
    style_context,
    text_size,
)

# Inches: edge, names at most, panels, gap between them, a row, gap between parts, above and below.
_EDGE, _LONGEST, _COVERAGE, _SIZE, _GAP = 0.08, 1.4, 2.2, 1.6, 0.5
_ROW, _PART, _TOP, _BOTTOM = 0.17, 0.12, 0.3, 0.42


@dataclass(frozen=True)
class SetCoverage:
    """Coverage and size of the sets of some parts of the rows, such as the classes.

    Attributes
    ----------
    kind : str
        What the parts are: "class", "group", "size", or "" for all rows.
    names : sequence of str of length p
        Names of the parts.
    rows : Int[p]
        Number of rows of each.
    coverage, low, high : Float[p]
        Fraction of the rows whose set contains the label, and the ends of its interval.
    size : Float[p]
        Mean size of the sets.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import SetCoverage
    >>> parts = SetCoverage(
    ...     "class",
    ...     ["cat", "dog"],
    ...     rows=np.array([100, 100]),
    ...     coverage=np.array([0.95, 0.85]),
    ...     low=np.array([0.89, 0.77]),
    ...     high=np.array([0.98, 0.91]),
    ...     size=np.array([1.2, 1.4]),
    ... )
    >>> parts.names
    ['cat', 'dog']
    """

    kind: str
    names: Sequence[str]
    rows: np.ndarray
    coverage: np.ndarray
    low: np.ndarray
    high: np.ndarray
    size: np.ndarray

    def lowest(self, at_most: int) -> SetCoverage:
        """Return the ``at_most`` parts with the lowest coverage, in their order."""
        chosen = np.sort(np.argsort(self.coverage, kind="stable")[:at_most])
        names = [str(self.names[i]) for i in chosen.tolist()]
        columns = self.rows, self.coverage, self.low, self.high, self.size
        return SetCoverage(self.kind, names, *(column[chosen] for column in columns))


def plot_coverage_of_sets(
    parts: Sequence[SetCoverage], target: float | None = None, *, at_most: int = 15
) -> Figure:
    """Plot the coverage of prediction sets with its interval, and beside it the mean size.

    Parameters
    ----------
    parts : sequence of SetCoverage
        Parts from top to bottom.
    target : float, default=None
        Coverage that the method aims at, a vertical line.
    at_most : int, default=15
        Largest number of parts of a kind; of more, those with the lowest coverage.

    Returns
    -------
    Figure
        Figure with two panels.

    Raises
    ------
    ValueError
        If there are no parts.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import SetCoverage, plot_coverage_of_sets
    >>> coverage = np.array([0.95, 0.85])
    >>> parts = SetCoverage(
    ...     "class",
    ...     ["cat", "dog"],
    ...     rows=np.array([100, 100]),
    ...     coverage=coverage,
    ...     low=coverage - 0.05,
    ...     high=coverage + 0.04,
    ...     size=np.array([1.2, 1.4]),
    ... )
    >>> figure = plot_coverage_of_sets([parts], target=0.9)
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['coverage', 'mean size of the sets (classes)']
    """
    if not any(len(part.names) for part in parts):
        raise ValueError("coverage_of_sets needs a part of the rows, got none")
    shown = [part.lowest(at_most) for part in parts if len(part.names)]
    with style_context():
        blank = new_figure(1, 1)
        labels = [
            shorten_text(blank, f"{part.kind} {name}".strip(), LABEL_SIZE, _LONGEST)
            for part in shown
            for name in part.names
        ]
        left = _EDGE * 2 + max(text_size(blank, label, LABEL_SIZE)[0] for label in labels)
        height = len(labels) * _ROW + (len(shown) - 1) * _PART
        figure = new_figure(left + _COVERAGE + _GAP + _SIZE + _EDGE, _BOTTOM + height + _TOP)
        panels = (
            add_axes(figure, left, _BOTTOM, _COVERAGE, height),
            add_axes(figure, left + _COVERAGE + _GAP, _BOTTOM, _SIZE, height),
        )
        ends = np.cumsum([len(part.names) * _ROW + _PART for part in shown])
        places = [
            end - _PART - _ROW * (len(part.names) - 0.5 - np.arange(len(part.names)))
            for part, end in zip(shown, ends, strict=True)
        ]
        _draw_coverage(panels[0], shown, places, target)
        _draw_sizes(panels[1], shown, places)
        for axes in panels:
            axes.set_ylim(height, 0)
            axes.set_yticks([])
            for part_end in ends[:-1]:
                axes.axhline(part_end - _PART / 2, color=GREY, linewidth=0.4)
        panels[0].set_yticks(np.concatenate(places), labels, fontsize=LABEL_SIZE)
        panels[0].tick_params(axis="y", length=0)
        left_out = [
            f"{part.kind}: the {at_most} of {len(part.names)} with the lowest coverage"
            for part in parts
            if len(part.names) > at_most
        ]
        note = "; ".join(["bars: Wilson intervals of 95 %; n: rows", *left_out])
        note = shorten_text(figure, note, NOTE_SIZE, figure.get_figwidth() - 2 * _EDGE)
        write_note(figure, _EDGE, figure.get_figheight() - 0.16, note)
    return figure


def _draw_coverage(
    axes: Axes, parts: Sequence[SetCoverage], places: Sequence[np.ndarray], target: float | None
) -> None:
    for part, place in zip(parts, places, strict=True):
        ends = [part.coverage - part.low, part.high - part.coverage]
        style: dict[str, Any] = {"fmt": "o", "markersize": 3, "linewidth": 0.8, "color": BLUE}
        axes.errorbar(part.coverage, place, xerr=ends, gid="coverage", **style)
    if target is not None:
        axes.axvline(target, color=BLACK, linewidth=0.8, linestyle=(0, (3, 2)), gid="target")
        axes.set_title(f"target {target:g}", fontsize=NOTE_SIZE, loc="right", pad=2)
    lowest = min(float(part.low.min()) for part in parts)
    axes.set_xlim(max(0.0, min(lowest, 0.8 if target is None else target) - 0.05), 1.01)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("coverage")


def _draw_sizes(axes: Axes, parts: Sequence[SetCoverage], places: Sequence[np.ndarray]) -> None:
    largest = max(float(part.size.max()) for part in parts)
    for part, place in zip(parts, places, strict=True):
        axes.barh(place, part.size, height=_ROW * 0.6, color=BLUE, alpha=0.5, gid="size")
        for y, size, n in zip(place, part.size, part.rows, strict=True):
            left, text = size + 0.02 * largest, f"{size:.2f}  n {n:,}"
            axes.text(left, y, text, va="center", fontsize=NOTE_SIZE, color=BLACK)
    axes.set_xlim(0, largest * 1.75)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel("mean size of the sets (classes)")


@register_figure("coverage_of_sets")
def plot_coverage_of_sets_from_run(run: RunFigureData, at_most: int = 15) -> Any:
    """Plot coverage and size of the sets of all test rows, and by class, size and group.

    The figure is omitted if the run predicts no sets. Parts whose table was not computed are left
    out: ``sets_by_class``, ``sets_by_size`` and ``sets_by_group``.
    """
    from kdgraph.metrics.prediction_sets import tabulate_sets

    sets = run.test.calibrated.get("prediction_set")
    if sets is None or run.test.y is None:
        return None
    tables: dict[str, Mapping[str, np.ndarray]] = {
        "": tabulate_sets("", run.test.y, sets, [("all rows", np.arange(len(sets)))])
    }
    for kind in ("class", "size", "group"):
        rows = [
            row
            for row in run.evaluation.tables.get(f"sets_by_{kind}", [])
            if row["on"] == "test" and row["of"] == "calibrated"
        ]
        if rows:
            tables[kind] = {column: np.array([row[column] for row in rows]) for column in rows[0]}
    classes = run.splits.train.classes
    parts = []
    for kind, columns in tables.items():
        names = classes[columns["class"]] if kind == "class" else columns[kind]
        size = columns["size"] if kind == "size" else columns["set_size"]
        rows, coverage, low, high = (columns[name] for name in ("rows", "coverage", "low", "high"))
        parts.append(SetCoverage(kind, [str(n) for n in names], rows, coverage, low, high, size))
    conformal = run.models[1].post_hoc.get("conformal")
    return plot_coverage_of_sets(parts, getattr(conformal, "coverage", None), at_most=at_most)
