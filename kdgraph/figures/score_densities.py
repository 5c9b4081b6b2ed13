"""Where the scores of right and of wrong rows lie, and the confidence that is made of it: two
panels side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.reliability import wilson_interval
from kdgraph.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREEN,
    GREY,
    NOTE_SIZE,
    ORANGE,
    PURPLE,
    VERMILLION,
    add_axes,
    legend_label,
    new_figure,
    set_log_scale,
    shorten_text,
    style_context,
)
from kdgraph.metrics import ReliabilityBins

_LEFT, _GAP, _RIGHT, _BOTTOM, _HEIGHT, _LINE, _NOTE = (
    0.5,
    0.62,
    0.1,
    0.38,
    1.75,
    0.15,
    0.15,
)  # inches
_WIDTH = (FULL_WIDTH - _LEFT - _GAP - _RIGHT) / 2
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.2, 1, 1.2)))
_DENSITY_STYLES = tuple(zip((GREEN, ORANGE, BLACK, PURPLE), _DASHES, strict=True))
_CONFIDENCE_STYLES = tuple(zip((BLUE, VERMILLION, PURPLE, GREEN), _DASHES, strict=True))
MAX_LINES = len(_DASHES)
"""Lines in a panel that can be told apart."""

ScoreCurve = tuple[np.ndarray, np.ndarray]
"""Scores, rising, and what is there: Float[n] both."""


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
    """Densities of scores on the left, and the confidence that is their ratio on the right, over
    the share of rows that was right.

    Parameters
    ----------
    densities : name ("right rows") → scores and density; up to :data:`MAX_LINES`.
    confidence : name → scores and confidence; as many.
    histogram : bins of the score, on the scale of the lines, against whether the prediction is
    right; steps with 95 % intervals (Wilson's).
    density_label, score_label : of the axes.
    log : whether densities are on a logarithmic axis, which then spans five decades at most.
    note : small text below, about what is not in the panels.

    Returns
    -------
    Figure
        As wide as the page.

    Raises
    ------
    ValueError
        No line in a panel or too many, or lengths that differ.

    Notes
    -----
    Salamon et al., Figures 5, 6 and 15.
    """
    _check_lines(densities, confidence)
    head = _LINE * max(len(densities), len(confidence) + (histogram is not None)) + 0.08
    foot = _BOTTOM + (_NOTE if note else 0)
    with style_context():
        figure = new_figure(FULL_WIDTH, foot + _HEIGHT + head)
        left, right = (
            add_axes(figure, _LEFT + i * (_WIDTH + _GAP), foot, _WIDTH, _HEIGHT) for i in range(2)
        )
        _draw_lines(left, densities, _DENSITY_STYLES, "density")
        _set_density_scale(left, densities, log)
        if histogram is not None:
            _draw_steps(right, histogram)
        _draw_lines(right, confidence, _CONFIDENCE_STYLES, "confidence")
        right.set_ylim(-0.02, 1.02)
        ends = [
            float(at)
            for score, _ in (*densities.values(), *confidence.values())
            for at in (np.min(score), np.max(score))
        ]
        for axes, label in ((left, density_label), (right, "confidence")):
            axes.set(xlim=(min(ends), max(ends)), xlabel=score_label, ylabel=label)
            axes.legend(
                loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=NOTE_SIZE, labelspacing=0.2
            )
        if note:
            text = shorten_text(figure, note, NOTE_SIZE, FULL_WIDTH - 0.1)
            figure.text(
                0.5,
                0.03 / figure.get_figheight(),
                text,
                fontsize=NOTE_SIZE,
                color=GREY,
                ha="center",
                va="bottom",
            )
    return figure


def _draw_lines(
    axes: Axes, lines: Mapping[str, ScoreCurve], styles: tuple[tuple[str, Any], ...], kind: str
) -> None:
    for (name, (score, value)), (color, dashes) in zip(lines.items(), styles, strict=False):
        axes.plot(
            score,
            value,
            color=color,
            linestyle=dashes,
            linewidth=1.2,
            label=legend_label(name),
            zorder=3,
            gid=f"{kind} {name}",
        )


def _set_density_scale(axes: Axes, densities: Mapping[str, ScoreCurve], log: bool) -> None:
    most = max(float(np.max(value)) for _, value in densities.values())
    if log:
        least = min(float(np.max(value)) for _, value in densities.values())
        set_log_scale(axes, "y")
        axes.set_ylim(max(least / 1e3, most / 1e5), 1.6 * most)
    else:
        axes.set_ylim(0, 1.04 * most)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def _draw_steps(axes: Axes, bins: ReliabilityBins) -> None:
    """Shares of right rows, level in each bin that has any, with an interval in its middle."""
    here = bins.count > 0
    edges, label = [*bins.lower, bins.upper[-1]], "share right, with 95 % intervals"
    axes.stairs(
        bins.accuracy,
        edges,
        baseline=None,
        label=label,
        gid="steps",
        color=BLACK,
        linewidth=0.9,
        zorder=2,
    )
    middle = (bins.lower + bins.upper)[here] / 2
    ends = wilson_interval(bins.accuracy[here], bins.count[here])
    axes.vlines(middle, *ends, gid="intervals", color=BLACK, linewidth=0.6, alpha=0.7, zorder=2)


def _check_lines(densities: Mapping[str, ScoreCurve], confidence: Mapping[str, ScoreCurve]) -> None:
    for what, lines in (("densities", densities), ("confidence", confidence)):
        if not 1 <= len(lines) <= MAX_LINES:
            raise ValueError(
                f"score_densities draws 1 to {MAX_LINES} lines of {what}, got {len(lines)}"
            )
        for name, (score, value) in lines.items():
            if np.ndim(score) != 1 or np.shape(score) != np.shape(value) or not len(score):
                raise ValueError(
                    f"{name!r} of {what} needs one value for each score, got shapes"
                    f" {np.shape(score)} and {np.shape(value)}"
                )
