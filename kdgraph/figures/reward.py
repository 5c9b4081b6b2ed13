"""Reward of predictions with a reject option, against the cost of a mistake.

The data are those of the table of ``metrics=decisions``. A row with low confidence is answered
"unsure" (Luo et al., UAI 2022, Section 5.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from kdgraph.figures.drawing import draw_band
from kdgraph.figures.run_figures import RunFigureData, columns_by_model, register_figure
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    GREY,
    NOTE_SIZE,
    add_axes,
    draw_legend_above,
    legend_handles,
    legend_height,
    mean_and_sd_over_runs,
    new_figure,
    note_above,
    set_log_scale,
    shorten_text,
    style_context,
    styles_by_name,
)

_LEFT, _RIGHT, _BOTTOM, _GAP, _TOP = 0.5, 0.12, 0.36, 0.12, 0.06  # inches
# Inches: height of both panels, line of the note, distance of an axis label.
_HEIGHT, _LOWER, _NOTE, _LABEL = 1.6, 0.85, 0.14, 0.38
_MIN_MARKER_DISTANCE = 0.3  # least distance of markers in inches
RewardCurves = Mapping[str, np.ndarray]
"""Values by name, Float[r], or Float[s, r] with a row for each run. The first name is the parent,
the others are methods.
"""


def plot_reward_against_ratio(
    ratios: np.ndarray, reward: RewardCurves, unsure: RewardCurves, *, band_of: str | None = None
) -> Figure:
    """Plot the reward that methods gain over the parent, and the fraction of "unsure".

    Parameters
    ----------
    ratios : Float[r]
        Increasing positive ratios w/u, the cost of an incorrect prediction in units of the cost of
        "unsure"; on a logarithmic axis.
    reward : mapping of str to Float[r] or Float[s, r]
        Mean reward of a row in units of u, at most 0. With several runs, the line is the mean of
        the difference from the parent in the same run, and the band is one standard deviation of
        this difference to both sides.
    unsure : mapping of str to Float[r] or Float[s, r]
        Fraction of rows with a confidence below 1 - u/w; means over runs are drawn.
    band_of : str, default=None
        Difference between runs, e.g. "60 seeds"; required if there are several.

    Returns
    -------
    Figure
        Figure of one column, with a legend above.

    Raises
    ------
    ValueError
        If there are fewer than two ratios, there is no method, curves do not fit, or ``band_of`` is
        missing.

    Notes
    -----
    The panel of the fraction of "unsure" is original to kdgraph.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figure 4 and Section 5.4.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_reward_against_ratio
    >>> ratios = np.array([2.0, 5.0, 10.0])
    >>> reward = {"forest": np.array([-0.3, -0.5, -0.7]), "kdf": np.array([-0.25, -0.4, -0.5])}
    >>> unsure = {"forest": np.array([0.1, 0.2, 0.3]), "kdf": np.array([0.1, 0.25, 0.4])}
    >>> figure = plot_reward_against_ratio(ratios, reward, unsure)
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['gain in reward (u per row)', 'fraction “unsure”']
    """
    ratios = np.asarray(ratios, dtype=np.float64)
    _check_curves(ratios, reward, unsure, band_of)
    names = list(reward)
    with style_context():
        handles = legend_handles(names)
        top = _TOP + _NOTE * (band_of is not None) + legend_height(handles, COLUMN_WIDTH)
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _LOWER + _GAP + _HEIGHT + top)
        draw_legend_above(figure, handles)
        width = COLUMN_WIDTH - _LEFT - _RIGHT
        above = add_axes(figure, _LEFT, _BOTTOM + _LOWER + _GAP, width, _HEIGHT)
        below = add_axes(figure, _LEFT, _BOTTOM, width, _LOWER)
        for axes, label in ((above, "gain in reward (u per row)"), (below, "fraction “unsure”")):
            _format_axes(axes, ratios, label)
        parent = np.atleast_2d(reward[names[0]])
        for name in names:
            gain, has_band = np.atleast_2d(reward[name]) - parent, np.ndim(reward[name]) == 2
            _draw_curve(above, name, names, ratios, gain, band=has_band)
            _draw_curve(below, name, names, ratios, np.atleast_2d(unsure[name]), band=False)
        above.axhline(0, color=GREY, linewidth=0.6, zorder=1)
        above.tick_params(labelbottom=False)
        below.set(xlabel="cost of an error, w/u (log scale)", ylim=(0, None))
        if band_of is not None:
            note = f"lines, bands: mean ± 1 sd of {band_of}, against the parent"
            note = shorten_text(figure, note, NOTE_SIZE, width + _RIGHT)
            note_above(above, note, ratios[0], "left", 3)
    return figure


def _draw_curve(
    axes: Axes, name: str, names: list[str], x: np.ndarray, values: np.ndarray, *, band: bool
) -> None:
    plot_style = styles_by_name(names)[name]
    mean, sd = mean_and_sd_over_runs(values)
    # Markers of different curves are shifted along the curve, so that they do not cover each other.
    inches = axes.get_window_extent().width / axes.figure.dpi
    step = max(1, int(np.ceil(len(x) * _MIN_MARKER_DISTANCE / inches)))
    line = plot_style.line(
        markersize=3.0, linewidth=1.2, markevery=(names.index(name) % step, step)
    )
    axes.plot(x, mean, label=name, zorder=2 if name == names[0] else 3, **line)
    # The difference of the parent from itself has no band.
    if band and name != names[0]:
        draw_band(axes, x, (mean - sd, mean + sd), plot_style, name, alpha=0.13)


def _format_axes(axes: Axes, ratios: np.ndarray, label: str) -> None:
    set_log_scale(axes, "x")
    axes.set(xlim=(ratios[0], ratios[-1]))
    axes.set_ylabel(label, color=BLACK)
    axes.yaxis.set_label_coords(-_LABEL / axes.get_window_extent().width * axes.figure.dpi, 0.5)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _check_curves(
    ratios: np.ndarray, reward: RewardCurves, unsure: RewardCurves, band_of: str | None
) -> None:
    if ratios.ndim != 1 or len(ratios) < 2 or not (np.diff(ratios) > 0).all() or ratios[0] <= 0:
        raise ValueError("reward_against_ratio needs two or more increasing ratios above 0")
    if len(reward) < 2 or list(reward) != list(unsure):
        raise ValueError(
            "reward_against_ratio needs the parent and a method, and the same in both, got"
            f" {list(reward)} and {list(unsure)}"
        )
    runs = {np.shape(values)[:-1] for curves in (reward, unsure) for values in curves.values()}
    for curves in (reward, unsure):
        for name, values in curves.items():
            if (
                np.ndim(values) not in (1, 2)
                or np.shape(values)[-1] != len(ratios)
                or len(runs) > 1
                or not np.isfinite(values).all()
            ):
                rule = f"a finite number for each of {len(ratios)} ratios and of the same runs"
                raise ValueError(
                    f"curves of {name!r} must have {rule}, got shape {np.shape(values)}"
                )
    if band_of is None and runs != {()}:
        raise ValueError("band_of must describe how runs differ, e.g. '60 seeds'")


@register_figure("reward_against_ratio")
def plot_reward_against_ratio_from_run(run: RunFigureData, table: str = "reward_by_ratio") -> Any:
    """Plot the reward gained over the parent against the cost of a mistake.

    The figure is omitted if the table has fewer than two ratios.
    """
    columns_by_name = columns_by_model(run, table)
    if columns_by_name is None:
        return None
    ratios, order = np.unique(columns_by_name[run.names[0]]["ratio"], return_index=True)
    if len(ratios) < 2:
        return None
    reward, unsure = (
        {name: columns[column][order] for name, columns in columns_by_name.items()}
        for column in ("reward", "unsure")
    )
    return plot_reward_against_ratio(ratios, reward, unsure)
