"""Joint distribution of true and predicted classes.

Three matrices show the counts, the fractions of each true class, and the fractions of each
predicted class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from kdgraph.figures.drawing import write_note, write_text
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    BLUE,
    FULL_WIDTH,
    NOTE_SIZE,
    add_axes,
    new_figure,
    shorten_text,
    style_context,
    text_size,
)

MAX_CLASSES = 12
"""Largest number of classes that is legible in half of the width of a page."""
# Inches: at the sides, the note, a title, the label of an axis, around names.
_EDGE, _FOOT, _TITLE, _AXIS, _PAD = 0.05, 0.2, 0.19, 0.15, 0.1
_NAME, _SIZE = 0.8, 6.0  # inches of the longest name of a class, points
_CELL, _ROW = 0.42, 0.17  # inches: width of the widest cell, height of a cell
_EMPTY_COLOR = "#dddddd"
_SHADES = LinearSegmentedColormap.from_list("shares", ["#ffffff", BLUE])
_TITLES = ("rows (colours: log scale)", "shares of the true class", "shares of the predicted class")


def plot_joint_distribution(counts: np.ndarray, classes: Sequence[str]) -> Figure:
    """Plot the joint distribution of true and predicted class, and its two normalisations.

    Parameters
    ----------
    counts : Int[K, K]
        Rows of each true class (first axis) that are predicted as each class (second axis).
    classes : sequence of str of length K
        Names of the classes.

    Returns
    -------
    Figure
        Figure of two columns with three matrices: the counts; each row divided by its sum, the
        probability of a prediction given the true class; and each column divided by its sum, the
        probability of a true class given the prediction. The diagonal of the last one is the
        precision of each class (Conf1). At most :data:`MAX_CLASSES` classes are drawn, those with
        most true and predicted rows. Fractions refer to all rows, which a note states.

    Raises
    ------
    ValueError
        If counts are not a square matrix for the classes, are negative, or are all 0.

    Notes
    -----
    The figure follows Salamon et al., Figure 1 and Eq. 1. Fractions are rounded to hundredths; a
    fraction that is rounded to 0 and a count of 0 are left empty. A class without rows or
    predictions is grey. Colours of counts are on a logarithmic scale.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_joint_distribution
    >>> figure = plot_joint_distribution(np.array([[90, 10], [5, 95]]), ["cat", "dog"])
    >>> len(figure.axes)
    3
    """
    counts = _check_counts(counts, classes)
    most_frequent = np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[
        :MAX_CLASSES
    ]
    class_ids = np.sort(most_frequent)
    fractions = [_normalize_counts(counts, axis)[np.ix_(class_ids, class_ids)] for axis in (1, 0)]
    drawn_counts = counts[np.ix_(class_ids, class_ids)]
    texts = [
        np.where(drawn_counts > 0, drawn_counts.astype(str), ""),
        *(_format_hundredths(fraction) for fraction in fractions),
    ]
    # Counts differ by orders of magnitude between classes, so their colours are logarithmic.
    shades = [np.log1p(drawn_counts) / np.log1p(drawn_counts.max()), *fractions]
    with style_context():
        layout = _MatrixLayout.for_classes([str(classes[k]) for k in class_ids])
        for index in range(3):
            _draw_matrix(layout, index, shades[index], texts[index])
        class_note = (
            f"the {len(class_ids)} of {len(counts)} classes with most rows, shares of all rows; "
            if len(class_ids) < len(counts)
            else ""
        )
        note = (
            f"{class_note}empty: 0 rows, or a share below .005; grey: no rows; last diagonal:"
            " precision (Conf1)"
        )
        write_note(layout.figure, 0.5 * FULL_WIDTH, 0.05, note, ha="center", va="bottom")
    return layout.figure


@dataclass(frozen=True)
class _MatrixLayout:
    """Layout of the three matrices on an empty figure, in inches."""

    figure: Figure
    names: list[str]  # shortened
    boxes: list[tuple[float, float, float, float]]  # left, bottom, width and height
    name_space: tuple[float, float]  # to the left of and above a matrix
    upright: bool  # names above a matrix are vertical

    @classmethod
    def for_classes(cls, classes: Sequence[str]) -> _MatrixLayout:
        blank, n = new_figure(1, 1), len(classes)
        names = [shorten_text(blank, name, _SIZE, _NAME) for name in classes]
        sizes = np.array([text_size(blank, name, _SIZE) for name in names])
        left_space = float(sizes[:, 0].max()) + _PAD
        left, height = _AXIS + left_space, n * _ROW
        # Three matrices in a row if the page is wide enough, else the counts above the two others.
        columns = 3 if 3 * (left + n * _CELL) < FULL_WIDTH - 2 * _EDGE else 2
        column_width = (FULL_WIDTH - 2 * _EDGE) / columns
        width = min(n * _CELL, column_width - left - _EDGE)
        count_width = min(n * _CELL, FULL_WIDTH - 2 * _EDGE - left)  # counts have more digits
        upright = left_space > width / n
        top_space = left_space if upright else float(sizes[:, 1].max()) + _PAD
        row = height + top_space + _AXIS + _TITLE
        boxes = [(_EDGE + i * column_width + left, _FOOT, width, height) for i in range(columns)]
        if columns == 2:
            middle = (FULL_WIDTH - left - count_width) / 2 + left
            boxes.insert(0, (middle, _FOOT + row, count_width, height))
        figure = new_figure(FULL_WIDTH, _FOOT + (4 - columns) * row)
        return cls(figure, names, boxes, (left_space, top_space), upright)


def _draw_matrix(layout: _MatrixLayout, index: int, shade: np.ndarray, texts: np.ndarray) -> None:
    n = len(layout.names)
    axes = add_axes(layout.figure, *layout.boxes[index], label=_TITLES[index])
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
        if texts[i, j]:
            color = "white" if shade[i, j] > 0.6 else "black"
            text = str(texts[i, j])
            axes.text(j, i, text, ha="center", va="center", fontsize=_SIZE, color=color)
    axes.tick_params(length=0, pad=2, labelsize=_SIZE, labeltop=True, labelbottom=False)
    axes.set_xticks(range(n), layout.names, rotation=90 if layout.upright else 0)
    axes.set_yticks(range(n), layout.names)
    axes.spines[["top", "right"]].set_visible(True)
    _label_matrix(layout, index)


def _label_matrix(layout: _MatrixLayout, index: int) -> None:
    left, bottom, width, height = layout.boxes[index]
    left_space, top_space = layout.name_space
    middle, top = left + width / 2, bottom + height + top_space
    above: dict[str, Any] = {"ha": "center", "va": "bottom"}
    write_text(layout.figure, middle, top, "predicted", fontsize=NOTE_SIZE, **above)
    beside: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center"}
    side = left - left_space, bottom + height / 2
    write_text(layout.figure, *side, "true", fontsize=NOTE_SIZE, **beside)
    write_text(layout.figure, middle, top + _AXIS, _TITLES[index], fontsize=7.5, **above)


def _normalize_counts(counts: np.ndarray, axis: int) -> np.ndarray:
    """Return counts divided by their sums along ``axis``, Float[K, K]; NaN for empty sums."""
    total = counts.sum(axis=axis, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1), np.nan)


def _format_hundredths(fractions: np.ndarray) -> np.ndarray:
    """Return texts such as .07 and 1; empty for 0 and NaN."""
    rounded = np.floor(100 * np.nan_to_num(fractions) + 0.5).astype(int)
    texts = [f"{cell / 100:.2f}".lstrip("0").replace("1.00", "1") for cell in rounded.flat]
    return np.where(rounded == 0, "", np.reshape(texts, rounded.shape))


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
    """Plot the joint distribution of true and predicted class on the test rows."""
    tops = run.top_labels(run.test)
    if tops is None:
        return None
    n = len(run.splits.train.classes)
    cell = np.asarray(run.test.y) * n + tops[run.names[1]].predicted
    return plot_joint_distribution(
        np.bincount(cell, minlength=n * n).reshape(n, n),
        [str(label) for label in run.splits.train.classes],
    )
