"""Coloured tables of methods by groups of rows, one table for each quantity.

A frame marks the group with the largest error of each method. The data are those of the table of
``metrics=groups``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kdgraph.figures.drawing import write_beside, write_note
from kdgraph.figures.run_figures import RunFigureData, columns_by_model, register_figure
from kdgraph.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREY,
    LABEL_SIZE,
    NOTE_SIZE,
    add_axes,
    mean_and_sd_over_runs,
    new_figure,
    posterior_colormap,
    shorten_text,
    split_in_two_lines,
    style_context,
    text_size,
)

# Inches: at the sides, next to names, the longest name, between two tables.
_EDGE, _PAD, _LONGEST, _BETWEEN = 0.06, 0.08, 1.3, 0.16
# Inches: a row, the title of a table, the note, the widest cell.
_ROW, _TITLE, _FOOT, _WIDEST = 0.27, 0.24, 0.2, 0.62
_SMALL_TEXT_OFFSET = 7.5  # points from a number to the text below it
_EXTRA_ROW_HEIGHT = 0.08  # inches: of a row with both spreads and rows
# Points: numbers, text below them, notes about groups, line heights of both.
_VALUE, _SPREAD, _SMALL, _LINE, _SMALL_LINE = 7.0, 5.5, 6.0, 8.0, 6.2
_SHADES = LinearSegmentedColormap.from_list("errors", ["#ffffff", BLUE])
_EMPTY_COLOR = "#dddddd"
_WORST_FRAME: dict[str, Any] = {"fill": False, "edgecolor": BLACK, "linewidth": 1.3, "zorder": 3}

GroupValues = Mapping[str, np.ndarray]
_GroupNotes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class GroupTable:
    """One quantity of every method in every group.

    Attributes
    ----------
    title : str
        Name of the quantity, e.g. "MCE" or "mean confidence − accuracy".
    values : mapping of str to Float[g] or Float[s, g]
        Values of each method in g groups, with a row for each of s runs; NaN where a group has no
        number. All tables have the same methods.
    scale : {"error", "signed"}, default="error"
        "error": from white at 0 to blue at the largest number. "signed": blue below 0, grey at 0,
        yellow above.
    n_rows : mapping of str to Float[g] or Float[s, g], default=None
        Number of rows that each value is based on, e.g. those of the worst bin, of the same shape
        as ``values``. Their median is written in small type.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import GroupTable
    >>> values = {"forest": np.array([0.02, 0.11]), "group_histogram": np.array([0.02, 0.03])}
    >>> GroupTable("ECE", values).scale
    'error'
    """

    title: str
    values: GroupValues
    scale: Literal["error", "signed"] = "error"
    n_rows: GroupValues | None = None


def plot_group_tables(
    tables: Sequence[GroupTable],
    groups: Sequence[str],
    rows: Sequence[float],
    *,
    notes: _GroupNotes | None = None,
    runs_of: str | None = None,
) -> Figure:
    """Plot tables of means over runs with standard deviations.

    A frame in each row marks the worst group, the one with the largest absolute mean.

    Parameters
    ----------
    tables : sequence of GroupTable
        Tables from left to right.
    groups : sequence of str of length g
        Names of the groups.
    rows : sequence of float of length g
        Number of rows of each group, or its mean over runs.
    notes : mapping of str to sequence of str, default=None
        Further lines below the numbers of rows: a label, e.g. "error", and a text for each group,
        e.g. ".17".
    runs_of : str, default=None
        Difference between runs, e.g. "60 seeds"; required if there are several.

    Returns
    -------
    Figure
        Figure as wide as the page, or narrower for few groups.

    Raises
    ------
    ValueError
        If there is no table, method or group, methods differ between tables, values do not fit, or
        there are several runs without ``runs_of``.

    Notes
    -----
    The worst group is that of the mean over runs. The mean over runs of the error of the worst
    group (Luo et al., UAI 2022, Table 1) is larger, since the worst group may differ between runs.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import GroupTable, plot_group_tables
    >>> values = {"forest": np.array([0.02, 0.11]), "group_histogram": np.array([0.02, 0.03])}
    >>> figure = plot_group_tables([GroupTable("ECE", values)], ["women", "men"], [510, 490])
    >>> len(figure.axes), [text.get_text() for text in figure.axes[0].texts][:2]
    (1, ['.020', '.110'])
    """
    _check_tables(tables, groups, rows, notes, runs_of)
    with style_context():
        note = _footnote(tables, rows, runs_of)
        layout = _TableLayout.for_tables(tables, groups, 1 + len(notes or {}), note)
        for index, table in enumerate(tables):
            axes = add_axes(
                layout.figure,
                layout.lefts[index],
                _FOOT,
                layout.cell * len(groups),
                layout.row * len(table.values),
            )
            _draw_cells(axes, table, layout)
            _draw_head(axes, table.title, groups, rows, notes or {}, layout, first=index == 0)
            if index == 0:
                axes.set_yticks(range(len(layout.methods)), layout.methods, fontsize=LABEL_SIZE)
        write_note(layout.figure, _EDGE, 0.05, note)
    return layout.figure


def _footnote(tables: Sequence[GroupTable], rows: Sequence[float], runs_of: str | None) -> str:
    spread = f"mean and sd of {runs_of}; " if runs_of else ""
    is_missing = np.any(
        [
            np.isnan(values).all(axis=0)
            for table in tables
            for values in _values_by_run(table.values)
        ],
        axis=0,
    )
    # A group may have rows, but too few of them in any bin.
    reason = "no number" if (np.asarray(rows)[is_missing] > 0).any() else "no rows"
    missing_note = f"; light grey: {reason}" if is_missing.any() else ""
    count_note = "; n: rows behind a number" if any(table.n_rows for table in tables) else ""
    return f"{spread}framed: the method's worst group{count_note}{missing_note}"


@dataclass(frozen=True)
class _TableLayout:
    """Layout of the tables on an empty figure, in inches."""

    figure: Figure
    methods: list[str]  # shortened names
    lefts: list[float]  # edges of the tables
    cell: float  # width
    row: float  # height
    name_lines: int  # of the longest name of a group

    @classmethod
    def for_tables(
        cls, tables: Sequence[GroupTable], groups: Sequence[str], notes: int, note: str
    ) -> _TableLayout:
        blank, names = new_figure(1, 1), list(tables[0].values)
        methods = [shorten_text(blank, name, LABEL_SIZE, _LONGEST) for name in names]
        left = _EDGE + max(text_size(blank, name, LABEL_SIZE)[0] for name in methods) + _PAD
        # A cell is as wide as the longest word of a group's name, as far as the page allows.
        words = [word for name in groups for word in name.split(" ")]
        word_width = max(text_size(blank, word, LABEL_SIZE)[0] for word in words) + 0.05
        between = (len(tables) - 1) * _BETWEEN
        widest = (FULL_WIDTH - left - _EDGE - between) / len(tables) / len(groups)
        cell = min(max(_WIDEST, word_width), widest)
        table_width = cell * len(groups)
        note_width = text_size(blank, note, NOTE_SIZE)[0]
        width = max(left + len(tables) * table_width + between, _EDGE + note_width) + _EDGE
        lefts = [left + i * (table_width + _BETWEEN) for i in range(len(tables))]
        lines = max(
            len(split_in_two_lines(blank, name, LABEL_SIZE, cell - 0.03)) for name in groups
        )
        above = (3 + _LINE * (notes + lines)) / 72 + _TITLE
        has_both = any(
            table.n_rows and len(values) > 1
            for table in tables
            for values in _values_by_run(table.values)
        )
        row = _ROW + (_EXTRA_ROW_HEIGHT if has_both else 0.0)
        return cls(
            new_figure(width, _FOOT + row * len(names) + above), methods, lefts, cell, row, lines
        )


def _values_by_run(values: GroupValues) -> list[np.ndarray]:
    """Return the values of every method as Float[s, g]."""
    return [np.atleast_2d(method_values) for method_values in values.values()]


def _draw_cells(axes: Axes, table: GroupTable, layout: _TableLayout) -> None:
    values_by_run = _values_by_run(table.values)
    mean, sd = (
        np.array(moments)
        for moments in zip(*map(mean_and_sd_over_runs, values_by_run), strict=True)
    )
    counts = (
        [_group_medians(rows) for rows in _values_by_run(table.n_rows)] if table.n_rows else None
    )
    colors, norm = _cell_colors(table.scale, mean)
    axes.imshow(
        np.ma.masked_invalid(mean),
        cmap=colors.with_extremes(bad=_EMPTY_COLOR),
        norm=norm,
        aspect="auto",
        origin="upper",
        gid="cells",
    )
    for i, j in zip(*np.nonzero(~np.isnan(mean)), strict=True):
        value = _format_number(float(mean[i, j]), signed=table.scale == "signed")
        small_lines = (
            [] if np.isnan(sd[i, j]) else [f"± {_format_number(float(sd[i, j]), signed=False)}"]
        )
        small_lines += [f"n {counts[i][j]:.0f}"] if counts else []
        # The colour of the text depends on the colour of the cell, for contrast.
        r, g, b, _ = (float(channel) for channel in colors(float(norm(mean[i, j]))))
        _write_cell(
            axes, int(i), int(j), value, small_lines, _text_color_on(r, g, b), 1 / (72 * layout.row)
        )
    for i, row in enumerate(np.abs(mean)):
        if not np.isnan(row).all():
            corner = float(np.nanargmax(row)) - 0.47, i - 0.46
            axes.add_patch(Rectangle(corner, 0.94, 0.92, **_WORST_FRAME, gid="worst"))
    axes.tick_params(length=0, pad=3)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _write_cell(
    axes: Axes, i: int, j: int, value: str, small: list[str], color: str, point: float
) -> None:
    """Write a number above small lines in the middle of a cell.

    ``point`` is the height of a point in units of the height of a cell.
    """
    style: dict[str, Any] = {"color": color, "ha": "center", "va": "center_baseline"}
    below = (_SMALL_TEXT_OFFSET + _SMALL_LINE * np.arange(len(small))) * point
    top = i - (below[-1] / 2 if small else 0.0)
    axes.text(j, top, value, fontsize=_VALUE, **style)
    for text, shift in zip(small, below, strict=True):
        axes.text(j, top + shift, text, fontsize=_SPREAD, **style)


def _group_medians(values: np.ndarray) -> np.ndarray:
    """Return the median of each group, Float[g], over the runs that have a number."""
    return np.array(
        [
            np.median(column[~np.isnan(column)]) if not np.isnan(column).all() else np.nan
            for column in values.T
        ]
    )


def _cell_colors(scale: str, mean: np.ndarray) -> tuple[Colormap, Normalize]:
    largest = max(float(np.nanmax(np.abs(mean))), 1e-9)
    if scale == "signed":
        return posterior_colormap(), Normalize(-largest, largest)
    return _SHADES, Normalize(0, largest)


def _text_color_on(*color: float) -> str:
    """Return white or black by the larger contrast of WCAG 2, at least 4.5 on any colour."""
    r, g, b = (u / 12.92 if u <= 0.04045 else ((u + 0.055) / 1.055) ** 2.4 for u in color)
    return "white" if 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.179 else "black"


def _format_number(value: float, *, signed: bool) -> str:
    text = f"{abs(value):.3f}".removeprefix("0")
    return text if not signed else ("−" if value < 0 else "+") + text


def _draw_head(
    axes: Axes,
    title: str,
    groups: Sequence[str],
    rows: Sequence[float],
    notes: Mapping[str, Sequence[str]],
    layout: _TableLayout,
    *,
    first: bool,
) -> None:
    notes_by_label = {"rows": [f"{n:,.0f}" for n in rows], **notes}
    for line, (label, texts) in enumerate(reversed(notes_by_label.items())):
        if first:
            _text_above(axes, -0.5, 2 + _LINE * line, label, _SMALL, GREY, "right")
        for j, text in enumerate(texts):
            short = shorten_text(layout.figure, text, _SMALL, layout.cell - 0.02)
            _text_above(axes, j, 2 + _LINE * line, short, _SMALL, GREY)
    height = 3 + _LINE * len(notes_by_label)
    for j, name in enumerate(groups):
        _text_above(axes, j, height, _wrap_group_name(layout, name), LABEL_SIZE, BLACK)
    height += _LINE * layout.name_lines + 4
    short = shorten_text(layout.figure, title, 8, layout.cell * len(groups))
    _text_above(axes, (len(groups) - 1) / 2, height, short, 8, BLACK)


def _wrap_group_name(layout: _TableLayout, name: str) -> str:
    width = layout.cell - 0.03
    return "\n".join(
        shorten_text(layout.figure, part, LABEL_SIZE, width)
        for part in split_in_two_lines(layout.figure, name, LABEL_SIZE, width)
    )


def _text_above(
    axes: Axes, x: float, points: float, text: str, size: float, color: str, ha: str = "center"
) -> None:
    """Write text above the table; right-aligned text ends to the left of ``x``."""
    shift = -3 if ha == "right" else 0
    style: dict[str, Any] = {"ha": ha, "fontsize": size, "color": color, "linespacing": 1.0}
    write_beside(axes, text, (x, 1), (shift, points + 1.5), axes.get_xaxis_transform(), **style)


def _check_tables(
    tables: Sequence[GroupTable],
    groups: Sequence[str],
    rows: Sequence[float],
    notes: _GroupNotes | None,
    runs_of: str | None,
) -> None:
    if not tables or not groups or not tables[0].values:
        raise ValueError("group_tables needs a table, a method and a group")
    for label, texts in {"rows": rows, **(notes or {})}.items():
        if len(texts) != len(groups):
            raise ValueError(
                f"group_tables needs {label} for each of {list(groups)}, got {list(texts)}"
            )
    for table in tables:
        if list(table.values) != list(tables[0].values):
            raise ValueError(
                f"every table must have the same methods, {list(tables[0].values)}, got"
                f" {list(table.values)} in {table.title!r}"
            )
        for method, values in table.values.items():
            if (
                np.ndim(values) not in (1, 2)
                or np.shape(values)[-1] != len(groups)
                or np.isinf(values).any()
            ):
                rule = f"a finite number, or NaN, for each of {len(groups)} groups"
                raise ValueError(
                    f"{table.title!r} of {method!r} must have {rule}, got shape {np.shape(values)}"
                )
            if np.ndim(values) == 2 and runs_of is None:
                raise ValueError("runs_of must describe how runs differ, e.g. '60 seeds'")
        if table.n_rows is not None and {m: np.shape(v) for m, v in table.n_rows.items()} != {
            m: np.shape(v) for m, v in table.values.items()
        }:
            raise ValueError(
                f"{table.title!r} must have rows behind each of its values, or none at all"
            )
        if all(np.isnan(values).all() for values in table.values.values()):
            raise ValueError(f"{table.title!r} has no number")


@register_figure("group_tables")
def plot_group_tables_from_run(run: RunFigureData, table: str = "by_group") -> Any:
    """Plot MCE and overconfidence of both models in each group.

    The figure is omitted if the table was not computed, or if no bin of any group has ``min_count``
    rows.
    """
    columns_by_name = columns_by_model(run, table)
    if columns_by_name is None:
        return None
    mce = {name: columns["mce"].astype(float) for name, columns in columns_by_name.items()}
    if all(np.isnan(values).all() for values in mce.values()):
        return None
    gap = {
        name: (columns["confidence"] + columns["error"] - 1).astype(float)
        for name, columns in columns_by_name.items()
    }
    n_rows = {
        name: columns["worst_rows"].astype(float) for name, columns in columns_by_name.items()
    }
    first = columns_by_name[run.names[0]]
    tables = [
        GroupTable("MCE", mce, n_rows=n_rows),
        GroupTable("mean confidence − accuracy", gap, "signed"),
    ]
    return plot_group_tables(tables, first["group"].tolist(), first["rows"].tolist())
