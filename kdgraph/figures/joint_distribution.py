"""True against predicted class: how many rows, the shares of each true class, the shares of each
predicted one.

True against predicted classes, of one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    BLUE,
    FULL_WIDTH,
    GREY,
    NOTE_SIZE,
    add_axes,
    new_figure,
    shorten_text,
    style_context,
    text_size,
)

MAX_CLASSES = 12
"""Classes whose numbers can still be read in half of a page's width."""
_EDGE, _FOOT, _TITLE, _AXIS, _PAD = (
    0.05,
    0.2,
    0.19,
    0.15,
    0.1,
)  # inches: at the sides, the note, a title, what an axis is, around names
_NAME, _SIZE = 0.8, 6.0  # inches that a class's name may take, points
_CELL, _ROW = 0.42, 0.17  # inches: the widest cell, and how high it is
_EMPTY_COLOR = "#dddddd"
_SHADES = LinearSegmentedColormap.from_list("shares", ["#ffffff", BLUE])
_TITLES = ("rows", "shares of the true class", "shares of the predicted class")


def plot_joint_distribution(counts: np.ndarray, classes: Sequence[str]) -> Figure:
    """Draw the joint distribution of true and predicted class, and its two normalisations.

    Parameters
    ----------
    counts : Int[K, K], rows of each true class (first axis) that are predicted as each class
    (second axis).
    classes : their K names.

    Returns
    -------
    Figure
        Two columns wide: the counts; each row by its sum, the probability of a prediction given the
        truth; each column by its sum, the probability of a truth given the prediction, whose
        diagonal is the precision of each class (Conf1). Of more than :data:`MAX_CLASSES` classes those
        with most rows, true and predicted together, are drawn; their shares are still of all rows,
        and a note says so.

    Raises
    ------
    ValueError
        Counts that are not square, negative, all 0, or of another number of classes.

    Notes
    -----
    Salamon et al., Figure 1 and Eq. 1. Shares are in hundredths; one that rounds to 0, and a count
    of 0, is left empty. A class that no row has, or that none is predicted as, is grey. Colours are
    of shares, and those of counts logarithmic.
    """
    counts = _check_counts(counts, classes)
    often = np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[:MAX_CLASSES]
    kept = np.sort(often)
    shares = [_normalize_counts(counts, axis)[np.ix_(kept, kept)] for axis in (1, 0)]
    shown = counts[np.ix_(kept, kept)]
    words = [
        np.where(shown > 0, shown.astype(str), ""),
        *(_format_hundredths(share) for share in shares),
    ]
    shades = [np.log1p(shown) / np.log1p(shown.max()), *shares]
    with style_context():
        sheet = _MatrixLayout.of([str(classes[k]) for k in kept])
        for place in range(3):
            _draw_matrix(sheet, place, shades[place], words[place])
        most = (
            f"the {len(kept)} of {len(counts)} classes with most rows, shares of all rows; "
            if len(kept) < len(counts)
            else ""
        )
        note = (
            f"{most}empty: 0 rows, or a share below .005; grey: no rows; last diagonal: precision"
            " (Conf1)"
        )
        sheet.figure.text(
            0.5,
            0.05 / sheet.figure.get_figheight(),
            note,
            fontsize=NOTE_SIZE,
            color=GREY,
            ha="center",
            va="bottom",
        )
    return sheet.figure


@dataclass(frozen=True)
class _MatrixLayout:
    """The figure, the classes' names as they fit, where the three panels are (left, bottom, width
    and height in inches), the room of the names beside and above them, and whether names above
    stand upright.
    """

    figure: Figure
    names: list[str]
    boxes: list[tuple[float, float, float, float]]
    room: tuple[float, float]
    upright: bool

    @classmethod
    def of(cls, classes: Sequence[str]) -> _MatrixLayout:
        blank, n = new_figure(1, 1), len(classes)
        names = [shorten_text(blank, name, _SIZE, _NAME) for name in classes]
        sizes = np.array([text_size(blank, name, _SIZE) for name in names])
        beside = float(sizes[:, 0].max()) + _PAD
        left, height = _AXIS + beside, n * _ROW
        columns = 3 if 3 * (left + n * _CELL) < FULL_WIDTH - 2 * _EDGE else 2
        room = (FULL_WIDTH - 2 * _EDGE) / columns
        width = min(n * _CELL, room - left - _EDGE)
        whole = min(n * _CELL, FULL_WIDTH - 2 * _EDGE - left)  # counts have more digits
        upright = beside > width / n
        over = beside if upright else float(sizes[:, 1].max()) + _PAD
        above = over + _AXIS + _TITLE
        if columns == 3:
            boxes = [(_EDGE + i * room + left, _FOOT, width, height) for i in range(3)]
            return cls(
                new_figure(FULL_WIDTH, _FOOT + height + above),
                names,
                boxes,
                (beside, over),
                upright,
            )
        boxes = [((FULL_WIDTH - left - whole) / 2 + left, _FOOT + height + above, whole, height)]
        boxes += [(_EDGE + i * room + left, _FOOT, width, height) for i in range(2)]
        return cls(
            new_figure(FULL_WIDTH, _FOOT + 2 * (height + above)),
            names,
            boxes,
            (beside, over),
            upright,
        )


def _draw_matrix(sheet: _MatrixLayout, place: int, shade: np.ndarray, words: np.ndarray) -> None:
    n, (left, bottom, width, height) = len(sheet.names), sheet.boxes[place]
    axes = add_axes(sheet.figure, left, bottom, width, height, label=_TITLES[place])
    shades = _SHADES.with_extremes(bad=_EMPTY_COLOR)
    axes.imshow(
        np.ma.masked_invalid(shade),
        cmap=shades,
        vmin=0,
        vmax=1,
        aspect="auto",
        origin="upper",
        gid="shades",
    )
    for i, j in np.ndindex(n, n):
        if words[i, j]:
            axes.text(
                j,
                i,
                str(words[i, j]),
                ha="center",
                va="center",
                fontsize=_SIZE,
                color="white" if shade[i, j] > 0.6 else "black",
            )
    axes.tick_params(length=0, pad=2, labelsize=_SIZE, labeltop=True, labelbottom=False)
    axes.set_xticks(range(n), sheet.names, rotation=90 if sheet.upright else 0)
    axes.set_yticks(range(n), sheet.names)
    axes.spines[["top", "right"]].set_visible(True)
    _label_matrix(sheet, place, axes)


def _label_matrix(sheet: _MatrixLayout, place: int, axes: Axes) -> None:
    """What the panel and its axes are; further out than the classes' names."""
    left, bottom, width, height = sheet.boxes[place]
    figure_width, figure_height = sheet.figure.get_size_inches()
    beside, over = sheet.room
    middle, top = (left + width / 2) / figure_width, bottom + height + over
    axes.figure.text(
        middle, top / figure_height, "predicted", fontsize=NOTE_SIZE, ha="center", va="bottom"
    )
    where = ((left - beside) / figure_width, (bottom + height / 2) / figure_height)
    axes.figure.text(*where, "true", fontsize=NOTE_SIZE, rotation=90, ha="right", va="center")
    axes.figure.text(
        middle,
        (top + _AXIS) / figure_height,
        _TITLES[place],
        fontsize=7.5,
        ha="center",
        va="bottom",
    )


def _normalize_counts(counts: np.ndarray, axis: int) -> np.ndarray:
    """Float[K, K]: counts by their sums along ``axis``; NaN where there are none."""
    total = counts.sum(axis=axis, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1), np.nan)


def _format_hundredths(share: np.ndarray) -> np.ndarray:
    """Write .07 and 1; empty for what rounds to 0, and where there is no share."""
    rounded = np.floor(100 * np.nan_to_num(share) + 0.5).astype(int)
    return np.array(
        [
            [
                "" if cell == 0 else f"{cell / 100:.2f}".lstrip("0").replace("1.00", "1")
                for cell in row
            ]
            for row in rounded
        ]
    )


def _check_counts(counts: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    counts = np.asarray(counts)
    if (
        counts.shape != (len(classes), len(classes))
        or counts.dtype.kind not in "iub"
        or (counts < 0).any()
        or not counts.any()
    ):
        raise ValueError(
            f"counts must be whole numbers of rows, one for each two of {len(classes)} classes, got"
            f" {counts.dtype} of shape {counts.shape}"
        )
    return counts.astype(np.int64)


@register_figure("joint_distribution")
def plot_joint_distribution_from_run(run: RunFigureData) -> Any:
    """True against predicted class on test rows: how many rows, and the shares of each true and of
    each predicted class.
    """
    tops = run.top(run.test)
    if tops is None:
        return None
    n = len(run.splits.train.classes)
    cell = np.asarray(run.test.y) * n + tops[run.names[1]].predicted
    return plot_joint_distribution(
        np.bincount(cell, minlength=n * n).reshape(n, n),
        [str(label) for label in run.splits.train.classes],
    )
