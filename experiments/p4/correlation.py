"""Correlation of metrics over runs of several methods."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures import style
from kdgraph.figures.drawing import PanelGrid, write_beside, write_note

# Inches around and between panels.
_LEFT, _RIGHT, _TOP, _BOTTOM, _BETWEEN, _HEIGHT = 0.46, 0.06, 0.17, 0.38, 0.16, 1.5
# Inches of the note, panels in a row, points of a run and of the mean of a method.
_NOTE, _PER_ROW, _DOT, _MEAN = 0.12, 3, 2.0, 5.5

RunValues = Mapping[str, np.ndarray]
"""Number of each run, Float[s], by method; the first is the parent."""


def pearson_overall_and_within(x: RunValues, y: RunValues) -> tuple[float, float]:
    """Return Pearson's r over all runs and within methods.

    The correlation within methods is that of the differences from the mean of each method. The
    first correlation is large if methods differ. The second is large if, of two runs of one method,
    the run with the larger ``x`` has the larger ``y``. Both, Float[s] by method, are numbers of the
    same runs. A correlation is NaN if the variation is below a millionth of the largest number.
    """
    # Division by the largest number makes the threshold of the variation independent of units.
    unit_x, unit_y = (
        max((float(np.abs(runs).max(initial=0.0)) for runs in values.values()), default=0.0) or 1.0
        for values in (x, y)
    )
    pairs = [
        (
            np.asarray(x[name], dtype=np.float64) / unit_x,
            np.asarray(y[name], dtype=np.float64) / unit_y,
        )
        for name in x
    ]
    overall = _pearson_r(
        np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])
    )
    within = _pearson_r(
        np.concatenate([a - a.mean() for a, _ in pairs]),
        np.concatenate([b - b.mean() for _, b in pairs]),
    )
    return overall, within


def _pearson_r(x: np.ndarray, y: np.ndarray) -> float:
    """Return Pearson's r of numbers in units of their largest size, Float[n]."""
    x, y = x - x.mean(), y - y.mean()
    # A spread below about 1e-6 of the largest size may be rounding error of equal numbers.
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 1e-12 * len(x) else float("nan")


def plot_metric_against_metrics(
    panels: Mapping[str, RunValues], y: RunValues, *, ylabel: str, runs_of: str
) -> Figure:
    """Plot one metric against several others, a panel for each.

    A small dot is a run, a large dot is the mean of a method. Above each panel are the correlations
    of :func:`pearson_overall_and_within`. Luo et al. (UAI 2022, Table 2) do not state whether runs
    of one method or of all methods are correlated; both are shown.

    ``panels`` and ``y`` have finite numbers of the same runs of the same methods, or ValueError is
    raised. ``runs_of`` is the difference between runs: "60 seeds".
    """
    _check_runs(panels, y)
    names = list(y)
    width = style.COLUMN_WIDTH if len(panels) == 1 else style.FULL_WIDTH
    columns = min(_PER_ROW, len(panels))
    panel = (width - _LEFT - _RIGHT - (columns - 1) * _BETWEEN) / columns
    row_gap = _TOP + _BOTTOM
    grid = PanelGrid(len(panels), columns, _LEFT, _BOTTOM, panel, _HEIGHT, _BETWEEN, row_gap)
    with style.style_context():
        handles = style.legend_handles(names)
        for handle in handles:
            handle.set(linestyle="")
        top = style.legend_height(handles, width) + _NOTE
        figure = style.new_figure(width, grid.top - _BOTTOM + top)
        style.draw_legend_above(figure, handles)
        note = f"small: one of {runs_of}; large: their mean"
        write_note(figure, _LEFT, figure.get_figheight() - top, note)
        for i, (metric, x) in enumerate(panels.items()):
            axes = grid.add_axes(figure, i)
            _draw_dots(axes, x, y)
            axes.set_xlabel(metric)
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            overall, within = pearson_overall_and_within(x, y)
            note = style.shorten_text(
                figure,
                f"r {_two_digits(overall)} over all, {_two_digits(within)} within methods",
                style.LABEL_SIZE,
                panel,
            )
            write_beside(axes, note, (0, 1), (0, 3), fontsize=style.LABEL_SIZE)
            axes.tick_params(labelleft=grid.is_leftmost(i))
            if grid.is_leftmost(i):
                axes.set_ylabel(ylabel)
    return figure


def _draw_dots(axes: Axes, x: RunValues, y: RunValues) -> None:
    styles = style.styles_by_name(list(y))
    for name, plot_style in styles.items():
        face, edge = (plot_style.color, 0.0) if plot_style.filled else ("none", 0.5)
        dots = plot_style.line(
            linestyle="", markersize=_DOT, markerfacecolor=face, markeredgewidth=edge
        )
        axes.plot(x[name], y[name], alpha=0.4, gid=f"runs {name}", **dots)
    for name, plot_style in styles.items():
        edge = "white" if plot_style.filled else plot_style.color
        dot = plot_style.line(
            linestyle="", markersize=_MEAN, markeredgewidth=0.6, markeredgecolor=edge
        )
        mean_x, mean_y = np.mean(x[name]), np.mean(y[name])
        axes.plot(mean_x, mean_y, label=name, zorder=4, gid=f"mean {name}", **dot)


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
