"""Panels of rows, means and densities for the figures of Torres et al., as wide as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    NOTE_SIZE,
    PARENT_STYLE,
    VERMILLION,
    add_axes,
    new_figure,
    style_context,
)

_ROWS = "#bdbdbd"
_LEFT, _RIGHT, _BOTTOM, _TOP, _GAP = 0.52, 0.12, 0.38, 0.24, 0.62  # inches
_HEIGHT = 1.75
_DOT = 1.6  # points²
_IN_SPACE = 500  # Rows on the surface: matplotlib always draws them as shapes in SVG
# Colour and marker of the highlighted rows, in their order.
MARKS = ((VERMILLION, "D"), (BLUE, "^"))


@dataclass(frozen=True)
class Fit:
    """A line and the rows of a curve, Float[n] each."""

    x: np.ndarray
    y: np.ndarray
    true: np.ndarray  # mean of the true distribution
    mean: np.ndarray  # that of the line
    sd: float  # of the line, one for all rows


def line_and_curve(fit: Fit, chosen: Sequence[int], near: Sequence[np.ndarray]) -> Figure:
    """Draw four panels: rows and a density; both means; the PIT value of a row; two neighbourhoods.

    The density is that of the last of the two ``chosen`` rows, ``near`` has the neighbours of each
    (Torres et al., Figure 1 a, b, c, e).
    """
    order, last = np.argsort(fit.x), chosen[-1]
    with style_context():
        figure, (rows, means, density, cells) = _panels(
            4, ("rows", "means", "density at a row", "neighbourhoods"), gap=0.42
        )
        for axes in (rows, means, cells):
            _scatter(axes, fit.x, fit.y, _ROWS)
            axes.set(xlabel="x")
        rows.set_ylabel("y", labelpad=0)
        rows.plot(fit.x[order], fit.true[order], color=BLACK, linewidth=1.0, gid="truth")
        at = np.linspace(-3.2, 3.2, 200)
        bell = np.exp(-(at**2) / 2)
        # the density has its base at its row, as wide as a sixth of the panel
        rows.plot(
            fit.x[last] + bell * np.ptp(fit.x) / 6,
            fit.mean[last] + at * fit.sd,
            color=VERMILLION,
            linewidth=1.1,
            gid="density",
        )
        _mark(rows, fit.x[last], fit.y[last], 0)
        means.plot(fit.x[order], fit.true[order], color=BLACK, linewidth=1.2, gid="truth")
        means.plot(fit.x[order], fit.mean[order], **_parent(), gid="line")
        small: dict[str, Any] = {"textcoords": "offset points", "fontsize": NOTE_SIZE}
        end = (fit.x[order][-1], fit.true[order][-1])
        means.annotate("true", end, (-2, 1), ha="right", **small)
        low = int(0.62 * len(order))
        end = (fit.x[order][low], fit.mean[order][low])
        means.annotate("line", end, (3, -9), color=PARENT_STYLE.color, **small)
        _density(density, fit, last)
        for i, (row, rows_near) in enumerate(zip(chosen[::-1], near[::-1], strict=True)):
            _scatter(cells, fit.x[rows_near], fit.y[rows_near], MARKS[i][0])
            _mark(cells, fit.x[row], fit.y[row], i)
    return figure


def _density(axes: Axes, fit: Fit, row: int) -> None:
    """Draw the normal density of a row, filled up to its outcome, which is its PIT value."""
    from scipy.stats import norm

    at = fit.mean[row] + fit.sd * np.linspace(-3.4, 3.4, 300)
    values = norm.pdf(at, fit.mean[row], fit.sd)
    axes.plot(at, values, color=VERMILLION, linewidth=1.2, gid="density")
    below = at <= fit.y[row]
    axes.fill_between(
        at[below], values[below], color=VERMILLION, alpha=0.25, linewidth=0, gid="pit"
    )
    axes.axvline(fit.y[row], color=BLACK, linewidth=0.7, linestyle=(0, (1, 1.5)))
    share = norm.cdf(fit.y[row], fit.mean[row], fit.sd)
    axes.annotate(
        f"F(y | x) =\n{share:.4f}",
        (fit.mean[row], values.max() / 3),
        ha="center",
        fontsize=NOTE_SIZE,
    )
    axes.set(xlabel="y", yticks=[], ylim=(0, 1.1 * values.max()))
    axes.xaxis.set_major_locator(MaxNLocator(3))


@dataclass(frozen=True)
class Plane:
    """Rows over a plane, Float[n, 2], and predicted means."""

    X: np.ndarray
    y: np.ndarray
    true: np.ndarray  # means of the outcomes
    predicted: Mapping[str, np.ndarray]  # means by name; the first is the parent


def valley_panels(plane: Plane, mean_of: Any) -> Figure:
    """Draw the surface; outcomes against means; the parent's means; errors against x₂, twice.

    ``mean_of`` returns the true mean Float[m] of Float[m, 2]. It is Figure 3 (a to d) of Torres et
    al., but for predictions less the true means in the last panel.
    """
    parent = next(iter(plane.predicted))
    with style_context():
        figure = new_figure(FULL_WIDTH, 2 * (_HEIGHT + _BOTTOM + _TOP))
        width = (FULL_WIDTH - _LEFT - _RIGHT - _GAP) / 2
        lower, upper = _BOTTOM, _BOTTOM + _HEIGHT + _TOP + _BOTTOM
        right = _LEFT + width + _GAP
        surface = add_axes(figure, 0.2, upper - 0.35, width + 0.3, _HEIGHT + 0.4, projection="3d")
        _surface(surface, plane, mean_of)
        top = figure.get_size_inches()[1]
        figure.text(
            _LEFT / FULL_WIDTH,
            (upper + _HEIGHT + 0.05) / top,
            "a   true means and outcomes",
            fontsize=8,
            va="bottom",
        )
        scatter = add_axes(figure, right, upper, width, _HEIGHT)
        _scatter(scatter, plane.true, plane.y, BLUE)
        ends = (0.0, float(plane.true.max()))
        scatter.plot(ends, ends, color=BLACK, linewidth=0.8, gid="right")
        scatter.set(xlabel="true mean", ylabel="outcome")
        _titled(scatter, "b", "outcomes against means")
        over = add_axes(figure, _LEFT, lower, width, _HEIGHT)
        _over_plane(figure, over, plane.X, plane.predicted[parent])
        _titled(over, "c", f"means that the {parent} predicts")
        errors = add_axes(figure, right, lower, width, _HEIGHT)
        _errors(errors, plane)
        _titled(errors, "d", "predicted less true mean")
    return figure


def _surface(axes: Any, plane: Plane, mean_of: Any) -> None:
    low, high = plane.X.min(axis=0), plane.X.max(axis=0)
    first, second = np.meshgrid(np.linspace(low[0], high[0], 25), np.linspace(low[1], high[1], 25))
    heights = mean_of(np.stack([first.ravel(), second.ravel()], axis=1)).reshape(first.shape)
    axes.plot_wireframe(
        first, second, heights, color=BLACK, linewidth=0.25, rcount=25, ccount=25, gid="surface"
    )
    dot = {"s": 1.5, "color": BLUE, "linewidths": 0, "depthshade": False}
    axes.scatter(*plane.X[:_IN_SPACE].T, plane.y[:_IN_SPACE], gid="rows", **dot)
    axes.set(xlabel="x₁", ylabel="x₂", zlabel="y")
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_locator(MaxNLocator(4))
    axes.tick_params(pad=-2, labelsize=6)
    axes.xaxis.labelpad = axes.yaxis.labelpad = -8
    axes.zaxis.labelpad = -6
    axes.view_init(elev=28, azim=-60)


def _over_plane(figure: Figure, axes: Axes, X: np.ndarray, values: np.ndarray) -> None:
    drawn = axes.scatter(
        *X.T, c=values, s=7, cmap="cividis", linewidths=0, rasterized=True, gid="predicted"
    )
    bar = figure.colorbar(drawn, ax=axes, pad=0.02, aspect=25)
    bar.outline.set_visible(False)
    axes.set(xlabel="x₁", ylabel="x₂")


def _errors(axes: Axes, plane: Plane) -> None:
    """Draw differences of each row from the true mean, those after recalibration on top."""
    at = plane.X[:, 1]
    for (name, predicted), color in zip(
        plane.predicted.items(), (PARENT_STYLE.color, BLUE), strict=True
    ):
        _scatter(axes, at, predicted - plane.true, color, label=name, gid=f"rows {name}")
    axes.axhline(0, color=BLACK, linewidth=0.8, gid="truth")
    axes.set(xlabel="x₂", ylabel="")
    axes.legend(loc="lower right", fontsize=NOTE_SIZE, markerscale=3, handletextpad=0.1)


def predicted_against_observed(
    y: np.ndarray, mean: np.ndarray, chosen: Sequence[int], outcome: str
) -> Figure:
    """Draw outcomes against predicted means, two rows highlighted (Torres et al., Figure 5 a)."""
    side, left = 2.45, _LEFT + 0.12
    with style_context():
        figure = new_figure(left + side + _RIGHT, _BOTTOM + side + _TOP)
        axes = add_axes(figure, left, _BOTTOM, side, side)
        _scatter(axes, y, mean, _ROWS)
        ends = (0.0, 1.02 * float(max(y.max(), np.quantile(mean, 0.999))))
        axes.plot(ends, ends, color=BLACK, linewidth=0.8, gid="right")
        for i, row in enumerate(chosen):
            _mark(axes, y[row], mean[row], i, f"{y[row]:,.0f}")
        axes.set(xlim=ends, ylim=ends, xlabel=f"observed {outcome}", ylabel=f"predicted {outcome}")
        beyond = int((mean > ends[1]).sum())
        title = f"{len(y):,} test rows" + (f", {beyond} predicted above" if beyond else "")
        axes.set_title(title, fontsize=NOTE_SIZE, loc="left")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(4))
            axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    return figure


def _panels(n: int, titles: Sequence[str], gap: float) -> tuple[Figure, list[Axes]]:
    width = (FULL_WIDTH - _LEFT - _RIGHT - (n - 1) * gap) / n
    figure = new_figure(FULL_WIDTH, _BOTTOM + _HEIGHT + _TOP)
    drawn = [add_axes(figure, _LEFT + i * (width + gap), _BOTTOM, width, _HEIGHT) for i in range(n)]
    for axes, letter, title in zip(drawn, "abce", titles, strict=True):
        _titled(axes, letter, title)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_locator(MaxNLocator(4))
    return figure, drawn


def _titled(axes: Axes, letter: str, title: str) -> None:
    axes.set_title(f"{letter}   {title}", fontsize=8, loc="left")


def _scatter(axes: Axes, x: np.ndarray, y: np.ndarray, color: str, **names: Any) -> None:
    axes.scatter(x, y, s=_DOT, color=color, linewidths=0, rasterized=True, **names)


def _mark(axes: Axes, x: float, y: float, which: int, label: str = "") -> None:
    color, marker = MARKS[which]
    edge: dict[str, Any] = {"markeredgecolor": BLACK, "markeredgewidth": 0.7, "linestyle": ""}
    axes.plot([x], [y], marker=marker, color=color, markersize=5.5, zorder=5, **edge)
    if label:
        axes.annotate(label, (x, y), (7, -7), textcoords="offset points", fontsize=NOTE_SIZE)


def _parent() -> dict[str, Any]:
    return {"color": PARENT_STYLE.color, "linestyle": PARENT_STYLE.linestyle, "linewidth": 1.3}
