"""Gains of methods over a model, with intervals, and mean confidence on sets of rows.

Both are dot plots with a line for each name, which a page shows beside its tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kdgraph.figures.drawing import IDEAL_LINE
from kdgraph.figures.style import (
    BLACK,
    BLUE,
    COLUMN_WIDTH,
    GREY,
    NOTE_SIZE,
    VERMILLION,
    add_axes,
    confidence_axis_start,
    draw_legend_above,
    legend_handles,
    legend_height,
    new_figure,
    note_above,
    shorten_text,
    style_context,
    styles_by_name,
    text_size,
)

_LINE, _BOTTOM, _TOP, _RIGHT, _GAP = 0.2, 0.38, 0.22, 0.14, 0.08  # inches
_LONGEST = 1.5
_NAME_SIZE = 7.5  # points
_WIDE = 1.35 * COLUMN_WIDTH


def plot_gains(
    gains: Mapping[str, tuple[float, float, float]], *, xlabel: str, chosen: str | None = None
) -> Figure:
    """Plot the gain of each method with its interval, from top to bottom.

    Parameters
    ----------
    gains : mapping of str to (float, float, float)
        Method → gain and the ends of its interval; above 0 is better.
    xlabel : str
        What is gained, with its unit.
    chosen : str or None, default=None
        Method that is marked.

    Returns
    -------
    Figure
        Blue where the whole interval is above 0, vermillion where it is below, grey else.

    Raises
    ------
    ValueError
        If there are no gains, or a number is not finite.

    Examples
    --------
    >>> figure = plot_gains({"isotonic": (0.05, 0.02, 0.08)}, xlabel="gain in NLL (nats)")
    >>> figure.axes[0].get_xlabel()
    'gain in NLL (nats)'
    """
    if not gains or not np.isfinite([*gains.values()]).all():
        raise ValueError(f"plot_gains needs finite gains of at least one method, got {dict(gains)}")
    with style_context():
        figure, axes = _named_lines(list(gains), key=0.0)
        for line, (name, (value, low, high)) in enumerate(gains.items()):
            color = BLUE if low > 0 else VERMILLION if high < 0 else GREY
            axes.hlines(line, low, high, color=color, linewidth=1.4, gid=f"interval {name}")
            face = color if name == chosen else "white"
            axes.plot(value, line, "o", color=color, markerfacecolor=face, markersize=4.5)
        axes.axvline(0, color=BLACK, linewidth=0.7, zorder=0.5)
        axes.set_xlabel(xlabel)
        note = ["95 % intervals"]
        note += ["blue: above 0"] if any(low > 0 for _, low, _ in gains.values()) else []
        note += ["orange: below 0"] if any(high < 0 for _, _, high in gains.values()) else []
        note += ["filled: chosen"] if chosen in gains else []
        note_above(axes, "; ".join(note), axes.get_xlim()[0], "left", 3)
    return figure


def plot_mean_confidence(
    means: Mapping[str, Mapping[str, float]], prior: float, *, best: str = "prior"
) -> Figure:
    """Plot the mean confidence of several models on sets of rows, from top to bottom.

    Parameters
    ----------
    means : mapping of set to model to float
        Mean largest probability, in [0, 1]; every set has the same models, the parent first.
    prior : float
        Largest class prior, the ideal far from the training data.
    best : str, default="prior"
        Word for that line.

    Raises
    ------
    ValueError
        If there is no set, or sets have different models.

    Examples
    --------
    >>> figure = plot_mean_confidence({"far": {"model": 0.9, "gate": 0.51}}, prior=0.5)
    >>> figure.axes[0].get_xlabel()
    'mean confidence (largest probability)'
    """
    models = list(next(iter(means.values()), {}))
    if not models or any(list(of_set) != models for of_set in means.values()):
        raise ValueError(
            "plot_mean_confidence needs the same models on every set, got"
            f" { ({name: list(of_set) for name, of_set in means.items()}) }"
        )
    values = [value for of_set in means.values() for value in of_set.values()]
    with style_context():
        handles = legend_handles(models)
        figure, axes = _named_lines(list(means), key=legend_height(handles, _WIDE))
        for model, style in styles_by_name(models).items():
            line = style.line(linestyle="", markersize=5, clip_on=False)
            axes.plot([of_set[model] for of_set in means.values()], range(len(means)), **line)
        axes.axvline(prior, **IDEAL_LINE, zorder=0.5)
        axes.set_xlim(confidence_axis_start([*values, prior]), 1.0)
        axes.set_xlabel("mean confidence (largest probability)")
        note_above(axes, f"dotted: {best} {prior:.3f}", axes.get_xlim()[0], "left", 3)
        draw_legend_above(figure, handles)
    return figure


def _named_lines(names: Sequence[str], key: float) -> tuple[Figure, Axes]:
    blank = new_figure(1, 1)
    shown = [shorten_text(blank, name, _NAME_SIZE, _LONGEST) for name in names]
    left = max(text_size(blank, name, _NAME_SIZE)[0] for name in shown) + 2 * _GAP
    height = _LINE * len(names)
    figure = new_figure(_WIDE, _BOTTOM + height + _TOP + key)
    axes = add_axes(figure, left, _BOTTOM, _WIDE - left - _RIGHT, height)
    axes.set_yticks(range(len(names)), shown, fontsize=_NAME_SIZE)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_fontsize(NOTE_SIZE + 0.5)
    return figure, axes
