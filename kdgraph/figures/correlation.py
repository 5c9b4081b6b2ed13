"""Does one metric foretell another? A dot for each run of each method, with Pearson's r over all
runs and within methods.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.style import (
    COLUMN_WIDTH,
    FULL_WIDTH,
    GREY,
    LABEL_SIZE,
    NOTE_SIZE,
    add_axes,
    draw_legend_above,
    legend_handles,
    legend_height,
    new_figure,
    shorten_text,
    style_context,
    styles_by_name,
)

_LEFT, _RIGHT, _TOP, _BOTTOM, _BETWEEN, _HEIGHT = (
    0.46,
    0.06,
    0.17,
    0.38,
    0.16,
    1.5,
)  # inches around and between panels
_NOTE, _PER_ROW, _DOT, _MEAN = (
    0.12,
    3,
    2.0,
    5.5,
)  # inches: the note; panels; points: a run, a method's mean

RunValues = Mapping[str, np.ndarray]
"""Method → Float[s], a number for each run; the first is the parent."""


def pearson_overall_and_within(x: RunValues, y: RunValues) -> tuple[float, float]:
    """Pearson's r over the runs of all methods, and within methods: of what is left when each
    method's mean is taken off, together.

    The first is large where methods differ; the second says whether of two runs of one method the
    one with the larger ``x`` has the larger ``y``. NaN where there is no variation: where what is
    left is under a millionth of the numbers themselves.

    Parameters
    ----------
    x, y : of the same methods and runs.

    Examples
    --------
    Methods that differ in both, each with runs that do not:

    >>> x = {"a": np.array([0.0, 0.1, 0.0, 0.1]), "b": np.array([1.0, 1.1, 1.0, 1.1])}
    >>> y = {"a": np.array([0.0, 0.0, 0.1, 0.1]), "b": np.array([1.0, 1.0, 1.1, 1.1])}
    >>> [round(r, 3) for r in pearson_overall_and_within(x, y)]
    [0.99, 0.0]
    """
    unit_x, unit_y = (
        max((float(np.abs(runs).max(initial=0.0)) for runs in each.values()), default=0.0) or 1.0
        for each in (x, y)
    )
    pairs = [
        (
            np.asarray(x[name], dtype=np.float64) / unit_x,
            np.asarray(y[name], dtype=np.float64) / unit_y,
        )
        for name in x
    ]
    over_all = _pearson_r(
        np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])
    )
    within = _pearson_r(
        np.concatenate([a - a.mean() for a, _ in pairs]),
        np.concatenate([b - b.mean() for _, b in pairs]),
    )
    return over_all, within


def _pearson_r(x: np.ndarray, y: np.ndarray) -> float:
    """Of Float[n] in units of their largest size; below some 1e-6 of it a spread may be what
    rounding has made of equal numbers.
    """
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 1e-12 * len(x) else float("nan")


def plot_metric_against_metrics(
    panels: Mapping[str, RunValues], y: RunValues, *, ylabel: str, runs_of: str
) -> Figure:
    """One panel for each metric: a small dot for each run, a large one at each method's mean, and
    both of :func:`pearson`.

    Parameters
    ----------
    panels : metric → method → Float[s], the x axis of its panel.
    y : method → Float[s], what is foretold, the same runs in the same order.
    ylabel : what ``y`` is ("max group MCE").
    runs_of : what varies between runs ("60 seeds").

    Returns
    -------
    Figure
        As wide as the page with two panels or more, three in a row; one column wide with one.

    Raises
    ------
    ValueError
        No panel or method, methods or runs that differ, or numbers that are not finite.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Table 2, which does not
    say whether runs of one method or of all are correlated; both are given.
    """
    _check_runs(panels, y)
    names = list(y)
    width = COLUMN_WIDTH if len(panels) == 1 else FULL_WIDTH
    columns = min(_PER_ROW, len(panels))
    rows = -(-len(panels) // columns)
    panel = (width - _LEFT - _RIGHT - (columns - 1) * _BETWEEN) / columns
    row = _TOP + _HEIGHT + _BOTTOM
    with style_context():
        handles = legend_handles(names)
        for handle in handles:
            handle.set(linestyle="")
        top = legend_height(handles, width) + _NOTE
        figure = new_figure(width, rows * row + top)
        draw_legend_above(figure, handles)
        note = f"small: one of {runs_of}; large: their mean"
        figure.text(
            _LEFT / width, 1 - top / figure.get_figheight(), note, fontsize=NOTE_SIZE, color=GREY
        )
        for i, (metric, x) in enumerate(panels.items()):
            left, bottom = (
                _LEFT + i % columns * (panel + _BETWEEN),
                (rows - 1 - i // columns) * row + _BOTTOM,
            )
            axes = add_axes(figure, left, bottom, panel, _HEIGHT)
            _draw_dots(axes, x, y)
            axes.set_xlabel(metric)
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            over_all, within = pearson_overall_and_within(x, y)
            note = shorten_text(
                figure,
                f"r {_two_digits(over_all)} over all, {_two_digits(within)} within methods",
                LABEL_SIZE,
                panel,
            )
            axes.annotate(
                note,
                (0, 1),
                (0, 3),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=LABEL_SIZE,
            )
            if i % columns:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel(ylabel)
    return figure


def _draw_dots(axes: Axes, x: RunValues, y: RunValues) -> None:
    """Means last: they lie over all runs."""
    drawn = styles_by_name(list(y))
    for name, role in drawn.items():
        face = (
            {"markeredgewidth": 0.0}
            if role.filled
            else {"markeredgewidth": 0.5, "markerfacecolor": "none"}
        )
        look = {
            "linestyle": "",
            "marker": role.marker,
            "color": role.color,
            "markersize": _DOT,
            **face,
        }
        axes.plot(x[name], y[name], alpha=0.4, gid=f"runs {name}", **look)
    for name, role in drawn.items():
        edge = {"linestyle": "", "markersize": _MEAN, "markeredgewidth": 0.6}
        edge |= {"markeredgecolor": "white"} if role.filled else {"markeredgecolor": role.color}
        axes.plot(
            np.mean(x[name]),
            np.mean(y[name]),
            label=name,
            zorder=4,
            gid=f"mean {name}",
            **role.line() | edge,
        )


def _two_digits(r: float) -> str:
    return "–" if np.isnan(r) else f"{'−' if r < 0 else ''}{abs(r):.2f}".replace("0.", ".")


def _check_runs(panels: Mapping[str, RunValues], y: RunValues) -> None:
    if not panels or not y:
        raise ValueError("metric_against_metrics needs a metric and a method")
    for metric, x in [("y", y), *panels.items()]:
        if list(x) != list(y):
            raise ValueError(
                f"every metric must have the same methods, {list(y)}, got {list(x)} in {metric!r}"
            )
        for name, values in x.items():
            if (
                np.shape(values) != np.shape(y[name])
                or np.ndim(values) != 1
                or not len(values)
                or not np.isfinite(values).all()
            ):
                rule = f"a finite number for each of {len(np.atleast_1d(y[name]))} runs"
                raise ValueError(
                    f"{metric!r} of {name!r} must have {rule}, got shape {np.shape(values)}"
                )
