"""One number of many methods on many classes, as bars that stand in groups by class."""

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
_KEY_LINE, _PATCH, _BETWEEN = (
    0.17,
    0.22,
    0.14,
)  # inches: a line of the key, its patch, and before the next one
_ROOM, _PAIR = (
    2.0,
    0.15,
)  # of one bar: between the groups of two classes, between the bars of two methods
_LIGHT, _EDGE = 0.35, 0.35  # share of colour in the lightest set; points
_METHOD_COLORS = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, YELLOW)
"""Of methods by position; what is uncalibrated is grey, as a parent is."""
UNCALIBRATED = "uncalibrated"

ClassValues = Mapping[str, Mapping[str, Sequence[float]]]
"""Method → class → a number for each set of rows, NaN where there is none."""


def plot_method_bars(values: ClassValues, *, ylabel: str, sets: Sequence[str]) -> Figure:
    """Bars of each class side by side: methods in one order, and the sets of rows of a method from
    left (light) to right (full colour).

    Parameters
    ----------
    values : method → class → a number for each set of rows; a bar is left out where it is NaN. A
    method "uncalibrated" is grey.
    ylabel : what the numbers are ("NLL of right or wrong").
    sets : what the rows are, in the order of the numbers ("test set 1", "test set 2").

    Returns
    -------
    Figure
        As wide as the page, with one key above.

    Raises
    ------
    ValueError
        No method, class or set, methods of different classes, a class without a number for each
        set, or an infinite one.

    Notes
    -----
    Salamon et al., Figures 17 to 19. Methods are told apart by colour and by their place, which is
    the same in every class and in the key; beyond seven, colours come again with hatches.
    """
    _check_values(values, sets)
    methods, classes = list(values), list(next(iter(values.values())))
    with style_context():
        lines, names = _legend_lines(_legend_entries(methods, sets)), _wrap_class_names(classes)
        bottom = 0.07 + _NAME * (1 + max(name.count("\n") for name in names))
        figure = new_figure(FULL_WIDTH, bottom + _HEIGHT + _KEY_LINE * len(lines) + 0.08)
        axes = add_axes(figure, _LEFT, bottom, FULL_WIDTH - _LEFT - _RIGHT, _HEIGHT)
        group = len(methods) * (len(sets) + _PAIR) - _PAIR + _ROOM
        for i, (method, look) in enumerate(_method_styles(methods).items()):
            for j in range(len(sets)):
                left = _ROOM / 2 + i * (len(sets) + _PAIR) + j
                heights = [values[method][name][j] for name in classes]
                places = left + 0.5 + group * np.arange(len(classes))
                bars = axes.bar(
                    places,
                    heights,
                    width=1,
                    label=f"{method}, {sets[j]}",
                    **_patch_style(look, j, len(sets)),
                )
                for bar in bars:
                    bar.set_gid(f"{method}, {sets[j]}")
        _format_axes(axes, names, group, ylabel)
        _draw_legend(figure, lines)
    return figure


def _method_styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Method → colour, and hatches where colours come again."""
    colored = [method for method in methods if method != UNCALIBRATED]
    looks = {
        name: {
            "color": _METHOD_COLORS[i % len(_METHOD_COLORS)],
            "hatch": ("", "//////", "......")[i // len(_METHOD_COLORS) % 3],
        }
        for i, name in enumerate(colored)
    }
    looks[UNCALIBRATED] = {"color": GREY, "hatch": ""}
    return {method: looks[method] for method in methods}


def _patch_style(look: Mapping[str, Any], place: int, of: int) -> dict[str, Any]:
    """Keywords of a patch: paler the further left its set is, with an edge in full colour."""
    strength = 1 if of == 1 else _LIGHT + (1 - _LIGHT) * place / (of - 1)
    face = tuple(1 - strength * (1 - np.array(to_rgb(look["color"]))))
    return {
        "facecolor": face,
        "edgecolor": "white" if look["hatch"] and strength == 1 else look["color"],
        "hatch": look["hatch"],
        "linewidth": _EDGE,
    }


def _format_axes(axes: Axes, names: Sequence[str], group: float, ylabel: str) -> None:
    axes.set(xlim=(0, group * len(names)), ylabel=ylabel)
    axes.set_xticks(group * (np.arange(len(names)) + 0.5), names, fontsize=NOTE_SIZE)
    axes.tick_params(axis="x", length=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", linewidth=0.4, color="#dddddd")


def _wrap_class_names(classes: Sequence[str]) -> list[str]:
    """What stands below each group: the class, on two lines where one is too narrow."""
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
        Patch(label=legend_label(name), **_patch_style(look, 0, 1))
        for name, look in _method_styles(methods).items()
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
    """Handles in lines that are no wider than the figure, each as full as can be."""
    ruler = new_figure(FULL_WIDTH, 1)
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
    """A line is a legend of its own: one with several rows would be read column by column."""
    size = NOTE_SIZE / 72
    spaces = {
        "handlelength": 0.12 / size,
        "handletextpad": (_PATCH - 0.12) / size / 2,
        "columnspacing": _BETWEEN / size / 2,
    }
    look: dict[str, Any] = spaces | {"fontsize": NOTE_SIZE, "borderaxespad": 0, "borderpad": 0.1}
    for i, line in enumerate(lines):
        corner = _LEFT / FULL_WIDTH, 1 - (0.02 + i * _KEY_LINE) / figure.get_figheight()
        figure.legend(
            handles=line, ncols=len(line), loc="upper left", bbox_to_anchor=corner, **look
        )


def _check_values(values: ClassValues, sets: Sequence[str]) -> None:
    if not values or not sets or not all(values.values()):
        raise ValueError("method_bars needs a method, a class and a set of rows")
    classes = list(next(iter(values.values())))
    for method, of_method in values.items():
        if list(of_method) != classes:
            raise ValueError(
                f"every method must have the same classes, {classes}, got {list(of_method)} for"
                f" {method!r}"
            )
        for name, numbers in of_method.items():
            if np.shape(numbers) != (len(sets),) or np.isinf(numbers).any():
                raise ValueError(
                    f"{method!r} needs a finite number, or NaN, for each of {list(sets)} in"
                    f" {name!r}, got {list(numbers)}"
                )
