"""Labels beside lines: each at its line's end, moved apart where they would overlap, and notes above the axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from kdgraph.figures.style import GREY

LABEL_SIZE, NOTE_SIZE = 7.0, 6.5
"""Points."""
Bands = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Name → (lower, upper)."""


def spread(wanted: Sequence[float], gap: float, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """Float[m]: positions nearest to the wanted ones (least squares) that keep their order and are at least ``gap`` apart.

    Neighbours that are too close are merged into a block around their mean, until no two blocks touch; what then leaves
    ``low`` to ``high`` is pushed back in, as far as there is room.
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[list[float]] = []
    for value in np.asarray(wanted, dtype=np.float64)[order]:
        blocks.append([float(value)])
        while len(blocks) > 1 and _bottom(blocks[-1], gap) - _top(blocks[-2], gap) < gap:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    placed = np.concatenate([_bottom(block, gap) + gap * np.arange(len(block)) for block in blocks])
    rank = np.arange(len(placed))
    placed = np.maximum(np.minimum(placed, high - gap * rank[::-1]), low + gap * rank)
    result = np.empty(len(order))
    result[order] = placed
    return result


def _bottom(block: list[float], gap: float) -> float:
    return float(np.mean(block)) - gap * (len(block) - 1) / 2


def _top(block: list[float], gap: float) -> float:
    return float(np.mean(block)) + gap * (len(block) - 1) / 2


def label_ends(axes: Axes, labels: Sequence[str], ends: Sequence[float], colors: Sequence[str]) -> None:
    """Name every line at its right end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    height = axes.get_window_extent().height / axes.figure.dpi  # inches
    line_height = 1.25 * LABEL_SIZE / 72 / height * (high - low)
    for label, y, color in zip(labels, spread(ends, line_height, low + line_height / 2, high - line_height / 2), colors, strict=True):
        axes.annotate(
            label, (1, y), (6, 0), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
            color=color, va="center", fontsize=LABEL_SIZE, annotation_clip=False,
        )  # fmt: skip


def note_above(axes: Axes, text: str, x: float, ha: Literal["left", "center"], points: float) -> None:
    """Small grey text this many points above the axes, at ``x`` of the data."""
    where = axes.get_xaxis_transform()
    axes.annotate(text, (x, 1), (0, points), xycoords=where, textcoords="offset points", ha=ha, fontsize=NOTE_SIZE, color=GREY)


def confidence_floor(lines: Iterable[np.ndarray | float]) -> float:
    """Where an axis of confidence begins: a multiple of .05 with some room below the lowest of these lines, Float[…] or numbers."""
    return max(0.0, float(np.floor(20 * min(float(np.min(line)) for line in lines) - 0.5) / 20))
