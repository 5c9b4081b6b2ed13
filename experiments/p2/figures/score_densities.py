"""Densities of the scores of correct and incorrect predictions, and the confidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures import style
from kdgraph.figures.drawing import write_note
from kdgraph.figures.reliability import wilson_interval
from kdgraph.metrics import ReliabilityBins

# Inches.
_LEFT, _GAP, _RIGHT, _BOTTOM, _HEIGHT, _LINE, _NOTE = 0.5, 0.62, 0.1, 0.38, 1.75, 0.15, 0.15
_WIDTH = (style.FULL_WIDTH - _LEFT - _GAP - _RIGHT) / 2
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.2, 1, 1.2)))
_DENSITY_STYLES = tuple(
    zip((style.GREEN, style.ORANGE, style.BLACK, style.PURPLE), _DASHES, strict=True)
)
_CONFIDENCE_STYLES = tuple(
    zip((style.BLUE, style.VERMILLION, style.PURPLE, style.GREEN), _DASHES, strict=True)
)
MAX_LINES = len(_DASHES)
"""Largest number of lines in a panel that are distinct."""

ScoreCurve = tuple[np.ndarray, np.ndarray]
"""Increasing scores and the value at each: Float[n] both."""


def plot_score_densities(
    densities: Mapping[str, ScoreCurve],
    confidence: Mapping[str, ScoreCurve],
    histogram: ReliabilityBins | None = None,
    *,
    density_label: str = "density",
    score_label: str = "score of the predicted class",
    log: bool = False,
    note: str | None = None,
) -> Figure:
    """Plot densities of scores on the left, and the confidence on the right.

    The confidence is a ratio of these densities. It is drawn over the accuracy in bins of the
    score, as steps with 95 % intervals (Wilson's), if there is a ``histogram`` on the scale of the
    lines. The figure follows Salamon et al., Figures 5, 6 and 15.

    Each panel has one to :data:`MAX_LINES` lines, each with a value for every score, or ValueError
    is raised. With ``log``, densities are on a logarithmic axis, which covers at most five decades.
    ``note`` is small text below the panels.
    """
    _check_lines(densities, confidence)
    head = _LINE * max(len(densities), len(confidence) + (histogram is not None)) + 0.08
    foot = _BOTTOM + (_NOTE if note else 0)
    with style.style_context():
        figure = style.new_figure(style.FULL_WIDTH, foot + _HEIGHT + head)
        left, right = (
            style.add_axes(figure, _LEFT + i * (_WIDTH + _GAP), foot, _WIDTH, _HEIGHT)
            for i in range(2)
        )
        _draw_lines(left, densities, _DENSITY_STYLES, "density")
        _set_density_scale(left, densities, log)
        if histogram is not None:
            _draw_steps(right, histogram)
        _draw_lines(right, confidence, _CONFIDENCE_STYLES, "confidence")
        right.set_ylim(-0.02, 1.02)
        ends = [
            float(end)
            for score, _ in (*densities.values(), *confidence.values())
            for end in (np.min(score), np.max(score))
        ]
        for axes, label in (
            (left, f"{density_label} (log scale)" if log else density_label),
            (right, "confidence"),
        ):
            axes.set(xlim=(min(ends), max(ends)), xlabel=score_label, ylabel=label)
            axes.legend(
                loc="lower left",
                bbox_to_anchor=(0, 1.0),
                fontsize=style.NOTE_SIZE,
                labelspacing=0.2,
            )
        if note:
            text = style.shorten_text(figure, note, style.NOTE_SIZE, style.FULL_WIDTH - 0.1)
            write_note(figure, 0.5 * style.FULL_WIDTH, 0.03, text, ha="center", va="bottom")
    return figure


def _draw_lines(
    axes: Axes, lines: Mapping[str, ScoreCurve], styles: tuple[tuple[str, Any], ...], kind: str
) -> None:
    for (name, (score, value)), (color, dashes) in zip(lines.items(), styles, strict=False):
        line = {"color": color, "linestyle": dashes, "linewidth": 1.2, "zorder": 3}
        axes.plot(score, value, label=style.legend_label(name), gid=f"{kind} {name}", **line)


def _set_density_scale(axes: Axes, densities: Mapping[str, ScoreCurve], log: bool) -> None:
    highest = max(float(np.max(value)) for _, value in densities.values())
    if log:
        lowest = min(float(np.max(value)) for _, value in densities.values())
        style.set_log_scale(axes, "y")
        axes.set_ylim(max(lowest / 1e3, highest / 1e5), 1.6 * highest)
    else:
        axes.set_ylim(0, 1.04 * highest)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def _draw_steps(axes: Axes, bins: ReliabilityBins) -> None:
    is_filled = bins.count > 0
    edges, label = [*bins.lower, bins.upper[-1]], "accuracy, with 95 % intervals"
    steps: dict[str, Any] = {"baseline": None, "color": style.BLACK, "linewidth": 0.9, "zorder": 2}
    axes.stairs(bins.accuracy, edges, label=label, gid="steps", **steps)
    middle = (bins.lower + bins.upper)[is_filled] / 2
    ends = wilson_interval(bins.accuracy[is_filled], bins.count[is_filled])
    axes.vlines(
        middle, *ends, gid="intervals", color=style.BLACK, linewidth=0.6, alpha=0.7, zorder=2
    )


def _check_lines(densities: Mapping[str, ScoreCurve], confidence: Mapping[str, ScoreCurve]) -> None:
    for kind, lines in (("densities", densities), ("confidence", confidence)):
        if not 1 <= len(lines) <= MAX_LINES:
            raise ValueError(
                f"score_densities draws 1 to {MAX_LINES} lines of {kind}, got {len(lines)}"
            )
        for name, (score, value) in lines.items():
            if np.ndim(score) != 1 or np.shape(score) != np.shape(value) or not len(score):
                raise ValueError(
                    f"{name!r} of {kind} needs one value for each score, got shapes"
                    f" {np.shape(score)} and {np.shape(value)}"
                )
