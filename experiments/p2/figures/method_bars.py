"""Bars of one metric for many methods and classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREEN,
    GREY,
    NOTE_SIZE,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    add_axes,
    legend_label,
    new_figure,
    shorten_text,
    split_in_two_lines,
    style_context,
    text_size,
)

_LEFT, _RIGHT, _NAME, _HEIGHT = 0.46, 0.06, 0.13, 1.9  # inches; a line of a class name
# Inches: line of the legend, its patch, space before the next patch.
_KEY_LINE, _PATCH, _BETWEEN = 0.17, 0.22, 0.14
# In widths of a bar: between the groups of two classes, between the bars of two methods.
_GROUP_GAP, _METHOD_GAP = 2.0, 0.15
_LIGHT, _EDGE = 0.35, 0.35  # fraction of colour in the lightest set; points
_METHOD_COLORS = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, YELLOW)
"""Colours of methods by position; uncalibrated confidence is grey, like a parent."""
UNCALIBRATED = "uncalibrated"

ClassValues = Mapping[str, Mapping[str, Sequence[float]]]
"""A number for each set of rows by method and class, NaN where there is none."""


def plot_method_bars(values: ClassValues, *, ylabel: str, sets: Sequence[str]) -> Figure:
    """Plot bars of methods in groups by class (Salamon et al., Figures 17 to 19).

    The bars of a method are the sets of rows, from left (light) to right (full colour). Methods are
    distinguished by colour and by position, which is the same in every class and in the legend.
    From the eighth method on, colours are repeated with hatches. A method "uncalibrated" is grey.

    ``values`` has a number for each of the ``sets`` by method and class; the bar of a NaN is
    omitted. Methods with different classes, and other numbers, raise ValueError.
    """
    _check_values(values, sets)
    methods, classes = list(values), list(next(iter(values.values())))
    with style_context():
        legend_lines = _legend_lines(_legend_entries(methods, sets))
        names = _wrap_class_names(classes)
        bottom = 0.07 + _NAME * (1 + max(name.count("\n") for name in names))
        figure = new_figure(FULL_WIDTH, bottom + _HEIGHT + _KEY_LINE * len(legend_lines) + 0.08)
        axes = add_axes(figure, _LEFT, bottom, FULL_WIDTH - _LEFT - _RIGHT, _HEIGHT)
        group = len(methods) * (len(sets) + _METHOD_GAP) - _METHOD_GAP + _GROUP_GAP
        for i, (method, style) in enumerate(_method_styles(methods).items()):
            for j in range(len(sets)):
                left = _GROUP_GAP / 2 + i * (len(sets) + _METHOD_GAP) + j
                heights = [values[method][name][j] for name in classes]
                positions = left + 0.5 + group * np.arange(len(classes))
                label, patch = f"{method}, {sets[j]}", _patch_style(style, j, len(sets))
                for bar in axes.bar(positions, heights, width=1, label=label, **patch):
                    bar.set_gid(label)
        _format_axes(axes, names, group, ylabel)
        _draw_legend(figure, legend_lines)
    return figure


def _method_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    colored = [method for method in methods if method != UNCALIBRATED]
    styles = {
        name: {
            "color": _METHOD_COLORS[i % len(_METHOD_COLORS)],
            "hatch": ("", "//////", "......")[i // len(_METHOD_COLORS) % 3],
        }
        for i, name in enumerate(colored)
    }
    styles[UNCALIBRATED] = {"color": GREY, "hatch": ""}
    return {method: styles[method] for method in methods}


def _patch_style(style: Mapping[str, Any], set_index: int, n_sets: int) -> dict[str, Any]:
    """Return the style of a patch; sets further to the left are lighter within their edges."""
    # The colour is mixed with white: the strength is the fraction of colour.
    strength = 1 if n_sets == 1 else _LIGHT + (1 - _LIGHT) * set_index / (n_sets - 1)
    face = tuple(1 - strength * (1 - np.array(to_rgb(style["color"]))))
    return {
        "facecolor": face,
        "edgecolor": "white" if style["hatch"] and strength == 1 else style["color"],
        "hatch": style["hatch"],
        "linewidth": _EDGE,
    }


def _format_axes(axes: Axes, names: Sequence[str], group: float, ylabel: str) -> None:
    axes.set(xlim=(0, group * len(names)), ylabel=ylabel)
    axes.set_xticks(group * (np.arange(len(names)) + 0.5), names, fontsize=NOTE_SIZE)
    axes.tick_params(axis="x", length=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", linewidth=0.4, color="#dddddd")


def _wrap_class_names(classes: Sequence[str]) -> list[str]:
    ruler = new_figure(FULL_WIDTH, 1)
    width = (FULL_WIDTH - _LEFT - _RIGHT) / len(classes) - 0.03
    return [
        "\n".join(
            shorten_text(ruler, part, NOTE_SIZE, width)
            for part in split_in_two_lines(ruler, name, NOTE_SIZE, width)
        )
        for name in classes
    ]


def _legend_entries(methods: Sequence[str], sets: Sequence[str]) -> list[Patch]:
    handles = [
        Patch(label=legend_label(name), **_patch_style(style, 0, 1))
        for name, style in _method_styles(methods).items()
    ]
    if len(sets) > 1:
        black = {"color": BLACK, "hatch": ""}
        sides = ["left", *["then"] * (len(sets) - 2), "right"]
        handles += [
            Patch(label=f"{side}: {name}", **_patch_style(black, j, len(sets)))
            for j, (side, name) in enumerate(zip(sides, sets, strict=True))
        ]
    return handles


def _legend_lines(handles: Iterable[Patch]) -> list[list[Patch]]:
    """Split the handles into lines that are as long as the figure allows."""
    ruler = new_figure(FULL_WIDTH, 1)
    # Greedy as words in a paragraph: a handle begins a new line if it does not fit.
    lines: list[list[Patch]] = [[]]
    used = _LEFT
    for handle in handles:
        width = _PATCH + text_size(ruler, str(handle.get_label()), NOTE_SIZE)[0] + _BETWEEN
        if lines[-1] and used + width > FULL_WIDTH:
            lines.append([])
            used = _LEFT
        lines[-1].append(handle)
        used += width
    return lines


def _draw_legend(figure: Figure, lines: Sequence[Sequence[Patch]]) -> None:
    # Each line is a legend: a single one with several lines would be filled column by column.
    size = NOTE_SIZE / 72
    spaces = {
        "handlelength": 0.12 / size,
        "handletextpad": (_PATCH - 0.12) / size / 2,
        "columnspacing": _BETWEEN / size / 2,
    }
    style: dict[str, Any] = spaces | {"fontsize": NOTE_SIZE, "borderaxespad": 0, "borderpad": 0.1}
    for i, line in enumerate(lines):
        corner = _LEFT / FULL_WIDTH, 1 - (0.02 + i * _KEY_LINE) / figure.get_figheight()
        figure.legend(
            handles=line, ncols=len(line), loc="upper left", bbox_to_anchor=corner, **style
        )


def _check_values(values: ClassValues, sets: Sequence[str]) -> None:
    if not values or not sets or not all(values.values()):
        raise ValueError("method_bars needs a method, a class and a set of rows")
    classes = list(next(iter(values.values())))
    for method, by_class in values.items():
        if list(by_class) != classes:
            raise ValueError(
                f"every method must have the same classes, {classes}, got {list(by_class)} for"
                f" {method!r}"
            )
        for name, numbers in by_class.items():
            if np.shape(numbers) != (len(sets),) or np.isinf(numbers).any():
                raise ValueError(
                    f"{method!r} needs a finite number, or NaN, for each of {list(sets)} in"
                    f" {name!r}, got {list(numbers)}"
                )
