"""How fast an estimate comes near to the truth as samples grow: errors over draws on logarithmic
axes, with the rate of a theorem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    LABEL_SIZE,
    METHOD_STYLES,
    NOTE_SIZE,
    PlotStyle,
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
# times a curve at least is the line of the rate, everywhere: on a curve it could not be seen
_RATE_OFFSET = 1.4


def plot_convergence(
    n: np.ndarray, errors: Mapping[str, np.ndarray], *, slope: float, ylabel: str, draws_of: str
) -> Figure:
    """Median error of each curve against the size of the sample, with the middle 90 % of draws,
    beside a line of the theorem's slope.

    Parameters
    ----------
    n : Int[k], increasing: rows of each sample.
    errors : name → Float[s, k], above 0: a row for each draw. At most six.
    slope : of the dotted line, which lies above all curves: -0.5 for errors that fall as 1/√n.
    ylabel : what the errors are.
    draws_of : how many samples were drawn, of what ("20 samples of each size").

    Returns
    -------
    Figure
        One column wide; curves are named at their ends.

    Raises
    ------
    ValueError
        No curve or too many, fewer than two sizes, or errors that do not fit or are not above 0.

    References
    ----------
    Ours; what it was made for is Theorem 1 of Luo et al., "Local calibration: metrics and
    recalibration", UAI 2022.
    """
    n = np.asarray(n, dtype=np.float64)
    _check_errors(n, errors)
    with style_context():
        blank = new_figure(1, 1)
        labels = [shorten_text(blank, name, LABEL_SIZE, _LONGEST) for name in errors]
        right = 0.14 + max(text_size(blank, label, LABEL_SIZE)[0] for label in labels)
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _HEIGHT + _TOP)
        axes = add_axes(figure, _LEFT, _BOTTOM, COLUMN_WIDTH - _LEFT - right, _HEIGHT)
        medians = [np.median(drawn, axis=0) for drawn in errors.values()]
        for name, middle, role in zip(errors, medians, METHOD_STYLES, strict=False):
            _draw_curve(axes, name, role, n, middle, np.quantile(errors[name], _BAND, axis=0))
        falling = (n / n[0]) ** slope
        rate = falling * _RATE_OFFSET * max(float((middle / falling).max()) for middle in medians)
        axes.plot(
            n,
            rate,
            color=BLACK,
            linewidth=0.8,
            linestyle=(0, (1, 1.5)),
            zorder=1,
            gid="rate",
            label=f"slope {slope:g}",
        )
        _format_axes(axes, n, ylabel)
        _label_curves(axes, labels, [float(middle[-1]) for middle in medians])
        _label_rate(axes, n, rate, slope)
        note = shorten_text(
            figure,
            f"lines: medians, bands: 5 to 95 % of {draws_of}",
            NOTE_SIZE,
            COLUMN_WIDTH - _LEFT - 0.05,
        )
        note_above(axes, note, n[0], "left", 4)
    return figure


def _draw_curve(
    axes: Axes, name: str, role: PlotStyle, n: np.ndarray, middle: np.ndarray, band: np.ndarray
) -> None:
    style: dict[str, Any] = {**role.line(), "markersize": 3.0}
    axes.plot(n, middle, label=name, zorder=3, clip_on=False, **style)
    axes.fill_between(n, *band, color=role.color, alpha=0.18, linewidth=0, gid=f"band {name}")


def _format_axes(axes: Axes, n: np.ndarray, ylabel: str) -> None:
    set_log_scale(axes, "x")
    set_log_scale(axes, "y")
    axes.set(xlim=(n[0], n[-1]), xlabel="rows n", ylabel=ylabel)
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda error, _: f"{error:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
        axis.set_tick_params(which="minor", size=0)


def _label_curves(axes: Axes, labels: list[str], ends: list[float]) -> None:
    """As :func:`~kdgraph.figures.style.label_line_ends`, for a logarithmic axis."""
    low, high = axes.get_ylim()
    places = [np.log(end / low) / np.log(high / low) for end in ends]
    gap = 1.25 * LABEL_SIZE / 72 / _HEIGHT
    for label, place, role in zip(
        labels, spread_positions(places, gap, gap / 2, 1 - gap / 2), METHOD_STYLES, strict=False
    ):
        axes.annotate(
            label,
            (1, place),
            (6, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=role.color,
            va="center",
            fontsize=LABEL_SIZE,
            annotation_clip=False,
        )


def _label_rate(axes: Axes, n: np.ndarray, rate: np.ndarray, slope: float) -> None:
    """Above the dotted line, which lies above all curves."""
    middle = len(n) // 2
    text = "1/√n" if slope == -0.5 else f"slope {slope:g}"
    axes.annotate(
        text,
        (n[middle], rate[middle]),
        (3, 3),
        textcoords="offset points",
        fontsize=NOTE_SIZE,
        color=BLACK,
    )


def _check_errors(n: np.ndarray, errors: Mapping[str, np.ndarray]) -> None:
    if not 0 < len(errors) <= len(METHOD_STYLES):
        raise ValueError(f"convergence draws one to {len(METHOD_STYLES)} curves, got {len(errors)}")
    if n.ndim != 1 or len(n) < 2 or not (np.diff(n) > 0).all() or n[0] <= 0:
        raise ValueError("convergence needs two or more increasing sizes above 0")
    for name, drawn in errors.items():
        if (
            np.ndim(drawn) != 2
            or np.shape(drawn)[1] != len(n)
            or not len(drawn)
            or not (np.asarray(drawn) > 0).all()
            or np.isinf(drawn).any()
        ):
            raise ValueError(
                f"errors of {name!r} must be finite and above 0, one for each draw and size, got"
                f" shape {np.shape(drawn)}"
            )
