"""Errors of an estimate against the sample size, with the rate of a theorem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from kdgraph.figures.drawing import IDEAL_LINE, draw_band, write_beside
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    LABEL_SIZE,
    METHOD_STYLES,
    NOTE_SIZE,
    add_axes,
    new_figure,
    note_above,
    set_log_scale,
    shorten_text,
    spread_positions,
    style_context,
    text_size,
)

_LEFT, _BOTTOM, _TOP, _HEIGHT, _LONGEST = 0.5, 0.36, 0.2, 2.3, 1.1  # inches
_BAND = (0.05, 0.95)
# The line of the rate is at least this factor above every curve; on a curve it would be hidden.
_RATE_OFFSET = 1.4


def plot_convergence(
    n: np.ndarray, errors: Mapping[str, np.ndarray], *, slope: float, ylabel: str, draws_of: str
) -> Figure:
    """Plot median errors against the sample size, with bands of the middle 90 %.

    Both axes are logarithmic. A dotted line above all curves has the slope of the theorem (Theorem
    1 of Luo et al., UAI 2022), -0.5 for errors that fall as 1/√n.

    ``n`` has two or more increasing sample sizes in rows, Int[k], and ``errors`` at most six
    curves, Float[s, k], with a row for each draw, all above 0; others raise ValueError.
    ``draws_of`` describes the draws: "20 samples of each size".
    """
    n = np.asarray(n, dtype=np.float64)
    _check_errors(n, errors)
    with style_context():
        blank = new_figure(1, 1)
        labels = [shorten_text(blank, name, LABEL_SIZE, _LONGEST) for name in errors]
        right = 0.14 + max(text_size(blank, label, LABEL_SIZE)[0] for label in labels)
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _HEIGHT + _TOP)
        axes = add_axes(figure, _LEFT, _BOTTOM, COLUMN_WIDTH - _LEFT - right, _HEIGHT)
        medians = [np.median(draws, axis=0) for draws in errors.values()]
        for name, median, style in zip(errors, medians, METHOD_STYLES, strict=False):
            line = style.line(markersize=3.0, zorder=3, clip_on=False)
            axes.plot(n, median, label=name, **line)
            draw_band(axes, n, np.quantile(errors[name], _BAND, axis=0), style, name, alpha=0.18)
        # The line is scaled by the largest ratio of a curve to the power law, so it is above all
        # curves at every sample size.
        power = (n / n[0]) ** slope
        rate = power * _RATE_OFFSET * max(float((median / power).max()) for median in medians)
        line = IDEAL_LINE | {"linewidth": 0.8, "zorder": 1, "gid": "rate"}
        axes.plot(n, rate, label=f"slope {slope:g}", **line)
        _format_axes(axes, n, ylabel)
        _label_curves(axes, labels, [float(median[-1]) for median in medians])
        middle = len(n) // 2
        text = "1/√n" if slope == -0.5 else f"slope {slope:g}"
        write_beside(axes, text, (n[middle], rate[middle]), (3, 3), "data", color=BLACK)
        note = shorten_text(
            figure,
            f"lines: medians, bands: 5 to 95 % of {draws_of}",
            NOTE_SIZE,
            COLUMN_WIDTH - _LEFT - 0.05,
        )
        note_above(axes, note, n[0], "left", 4)
    return figure


def _format_axes(axes: Axes, n: np.ndarray, ylabel: str) -> None:
    set_log_scale(axes, "x")
    set_log_scale(axes, "y")
    axes.set(xlim=(n[0], n[-1]), xlabel="rows n (log scale)", ylabel=f"{ylabel} (log scale)")
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda error, _: f"{error:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
        axis.set_tick_params(which="minor", size=0)


def _label_curves(axes: Axes, labels: list[str], ends: list[float]) -> None:
    """Write the names of the curves at their ends, like ``label_line_ends`` on a log axis."""
    low, high = axes.get_ylim()
    positions = [np.log(end / low) / np.log(high / low) for end in ends]
    gap = 1.25 * LABEL_SIZE / 72 / _HEIGHT
    for label, position, style in zip(
        labels, spread_positions(positions, gap, gap / 2, 1 - gap / 2), METHOD_STYLES, strict=False
    ):
        at_end: dict[str, Any] = {"color": style.color, "va": "center", "fontsize": LABEL_SIZE}
        write_beside(axes, label, (1, position), (6, 0), **at_end)


def _check_errors(n: np.ndarray, errors: Mapping[str, np.ndarray]) -> None:
    if not 0 < len(errors) <= len(METHOD_STYLES):
        raise ValueError(f"convergence draws one to {len(METHOD_STYLES)} curves, got {len(errors)}")
    if n.ndim != 1 or len(n) < 2 or not (np.diff(n) > 0).all() or n[0] <= 0:
        raise ValueError("convergence needs two or more increasing sizes above 0")
    for name, draws in errors.items():
        if (
            np.ndim(draws) != 2
            or np.shape(draws)[1] != len(n)
            or not len(draws)
            or not (np.asarray(draws) > 0).all()
            or np.isinf(draws).any()
        ):
            raise ValueError(
                f"errors of {name!r} must be finite and above 0, one for each draw and size, got"
                f" shape {np.shape(draws)}"
            )
