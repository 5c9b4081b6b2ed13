"""A key above panels, in as many lines as its words need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kdgraph.figures.labels import NOTE_SIZE
from kdgraph.figures.style import fitted, legend_label, new_figure, roles, text_size

_SPACING, _HANDLE, _PAD = 1.2, 1.9, 0.8  # of the font size: between columns, a line, between a line and its words
_LINE, _ROOM, _LONGEST = 0.135, 0.06, 2.0  # inches: a line, below the last, the longest name


def role_handles(names: Sequence[str]) -> list[Line2D]:
    """What says how curves of these names are drawn, the parent's first: of :func:`~kdgraph.figures.style.roles`."""
    blank = new_figure(1, 1)
    handles = [Line2D([], [], label=legend_label(fitted(blank, name, NOTE_SIZE, _LONGEST))) for name in names]
    for handle, role in zip(handles, roles(names).values(), strict=True):
        handle.set(**role.line())
    return handles


def key_columns(handles: Sequence[Line2D], width: float) -> int:
    """How many entries fit beside each other into ``width`` inches; entries of one column have the width of its widest."""
    blank, em = new_figure(width, 1), NOTE_SIZE / 72
    each = [text_size(blank, str(handle.get_label()), NOTE_SIZE)[0] + (_HANDLE + _PAD + _SPACING) * em for handle in handles]
    for columns in range(len(each), 1, -1):
        if sum(part.max() for part in np.array_split(each, columns)) < width - 0.1:  # a key is filled column by column, the first most
            return columns
    return 1


def key_height(handles: Sequence[Line2D], width: float) -> float:
    """Inches that :func:`key_above` takes."""
    return _LINE * -(-len(handles) // key_columns(handles, width)) + _ROOM if handles else 0.0


def key_above(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Say at the upper edge what lines are."""
    if handles:
        figure.legend(
            handles=list(handles), ncols=key_columns(handles, figure.get_figwidth()), loc="upper center", borderaxespad=0.2,
            columnspacing=_SPACING, handlelength=_HANDLE, labelspacing=0.3, fontsize=NOTE_SIZE,
        )  # fmt: skip
