"""Maps of predicted probabilities over the plane, inside and far outside the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kdgraph.figures.drawing import write_beside
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    FULL_WIDTH,
    add_axes,
    new_figure,
    posterior_colormap,
    shorten_text,
    style_context,
)
from kdgraph.parameters import Count, Positive

PlotExtent = tuple[float, float, float, float]
"""Limits x0, x1, y0, y1 of a rectangle."""

# Inches around and between the maps.
_LEFT, _GAP, _RIGHT, _BOTTOM, _TOP = 0.42, 0.2, 0.72, 0.36, 0.22
_PANEL = (FULL_WIDTH - _LEFT - _RIGHT - 2 * _GAP) / 3  # three maps fill the width
_TITLE_SIZE = 8.0  # points


def plot_posterior_maps(
    maps: Mapping[str, np.ndarray],
    extent: PlotExtent,
    id_box: PlotExtent | None,
    *,
    class_label: str,
    points: np.ndarray | None = None,
    limits: tuple[float, float] = (0.0, 1.0),
    axis_names: tuple[str, str] = ("x₁", "x₂"),
) -> Figure:
    """Plot probabilities on a grid, one panel for each model, on one colour scale.

    Parameters
    ----------
    maps : mapping of str to Float[g, h]
        Probabilities within ``limits`` by title, from left to right. Row 0 is the lowest y, column
        0 the lowest x.
    extent : tuple of four float
        Outer edges x0, x1, y0, y1 of the grid.
    id_box : tuple of four float or None
        Region of the training data, which is outlined in every panel. None draws no outline.
    class_label : str
        Label of the colour bar, e.g. "P(class 0 | x)" or "largest probability".
    points : Float[m, 2], default=None
        Rows that are shown as dots in the first panel, e.g. training data.
    limits : tuple of two float, default=(0.0, 1.0)
        Values at the ends of the colour bar; the neutral colour is in the middle.
    axis_names : tuple of two str, default=("x₁", "x₂")
        Names of the two features.

    Returns
    -------
    Figure
        Figure as wide as the page with three maps, narrower with fewer. With more maps, each is
        smaller.

    Raises
    ------
    ValueError
        If there is no map, or a map is not two-dimensional or has values outside of ``limits``.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_posterior_maps
    >>> maps = {"truth": np.full((20, 20), 0.5), "kdf": np.random.default_rng(0).random((20, 20))}
    >>> box = (-1, 1, -1, 1)
    >>> figure = plot_posterior_maps(maps, (-2, 2, -2, 2), box, class_label="P(class 0 | x)")
    >>> [axes.get_title() for axes in figure.axes]
    ['truth', 'kdf', '']
    """
    _check_maps(maps, limits)
    aspect = abs((extent[3] - extent[2]) / (extent[1] - extent[0]))
    panel = min(_PANEL, (FULL_WIDTH - _LEFT - _RIGHT - (len(maps) - 1) * _GAP) / len(maps))
    width = _LEFT + len(maps) * panel + (len(maps) - 1) * _GAP + _RIGHT
    with style_context():
        scale = Normalize(*limits)
        figure = new_figure(width, _BOTTOM + panel * aspect + _TOP)
        for i, (title, values) in enumerate(maps.items()):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, panel * aspect)
            axes.imshow(values, cmap=posterior_colormap(), norm=scale, extent=extent, aspect="auto")
            short = shorten_text(figure, title, _TITLE_SIZE, panel)
            _format_axes(axes, short, axis_names, first=i == 0)
            outline_training_box(axes, id_box, extent, labelled=i == 0)
            if i == 0 and points is not None:
                dots: dict[str, Any] = {"color": "black", "markersize": 1.2, "markeredgewidth": 0}
                axes.plot(*np.asarray(points).T, ".", **dots, gid="points")
        bar = add_axes(figure, width - _RIGHT + 0.1, _BOTTOM, 0.1, panel * aspect)
        draw_colorbar(scale, bar, class_label)
    return figure


def _format_axes(axes: Axes, title: str, axis_names: tuple[str, str], *, first: bool) -> None:
    axes.set_title(title, fontsize=_TITLE_SIZE)
    axes.set_xlabel(axis_names[0])
    axes.locator_params(nbins=5, steps=[1, 2, 5, 10])
    axes.set_autoscale_on(False)
    axes.spines[:].set_visible(False)
    axes.set_ylabel(axis_names[1] if first else "")
    axes.tick_params(labelleft=first)


def draw_colorbar(scale: Normalize, axes: Axes, label: str) -> None:
    """Draw the colour bar of probabilities in ``axes``."""
    quarters = (0, 0.25, 0.5, 0.75, 1) if (scale.vmin, scale.vmax) == (0, 1) else None
    Colorbar(axes, ScalarMappable(scale, posterior_colormap()), ticks=quarters)
    axes.spines[:].set_visible(False)
    axes.set_ylabel(label)


def outline_training_box(
    axes: Axes, id_box: PlotExtent | None, extent: PlotExtent, *, labelled: bool, size: float = 6.5
) -> None:
    """Outline the region of the training data.

    The outline is black dashes on white, which are visible on every colour. If it is labelled, "ID"
    is at its corner and "OOD" at that of the map with this ``extent``.
    """
    if id_box is None:
        return
    x0, x1, y0, y1 = id_box
    # A white line below the dashes makes them visible on dark colours.
    for color, width, dashes in (("white", 1.6, "-"), ("black", 0.9, (0, (4, 2.5)))):
        edge: dict[str, Any] = {"edgecolor": color, "linewidth": width, "linestyle": dashes}
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, gid="id_box", **edge))
    if labelled:
        background = {
            "boxstyle": "square,pad=0.18",
            "facecolor": "white",
            "edgecolor": "none",
            "alpha": 0.85,
        }
        label: dict[str, Any] = {"va": "top", "bbox": background, "fontsize": size}
        for text, corner in (("ID", (x0, y1)), ("OOD", (extent[0], extent[3]))):
            write_beside(axes, text, corner, (2.5, -2.5), "data", **label)


def _check_maps(maps: Mapping[str, np.ndarray], limits: tuple[float, float]) -> None:
    if not maps:
        raise ValueError("posterior_maps needs at least one map")
    for title, values in maps.items():
        check_map(f"the map {title!r}", values, limits)


def check_map(which: str, values: np.ndarray, limits: tuple[float, float]) -> None:
    """Raise ValueError unless values are Float[g, h] within limits."""
    if np.ndim(values) != 2:
        raise ValueError(f"{which} must be two-dimensional, got shape {np.shape(values)}")
    low, high = np.min(values), np.max(values)
    if not (low >= limits[0] - 1e-6 and high <= limits[1] + 1e-6):  # NaN fails this too
        raise ValueError(f"{which} must lie in {list(limits)}, got {low:g} to {high:g}")


@register_figure("posterior_maps")
def plot_posterior_maps_from_run(
    run: RunFigureData, *, grid: Count = 150, reach: Positive = 2.0
) -> Any:
    """Plot the probability of the first class, with the truth if it is known.

    The map has ``grid`` points along each side, and ``reach`` times the range of the training data.
    """
    X = run.splits.learning.X
    if X.shape[1:] != (2,) or not all(model.supports("proba") for model in run.models):
        return None
    low, high = X.min(axis=0), X.max(axis=0)
    half_size = reach * (high - low) / 2
    x, y = np.linspace((low + high) / 2 - half_size, (low + high) / 2 + half_size, grid).T
    points = np.column_stack([axis.ravel() for axis in np.meshgrid(x, y)])
    truth = run.splits.test.posterior
    probabilities = {} if truth is None else {"truth": truth(points)}
    for name, model in zip(run.names, run.models, strict=True):
        probabilities[name] = model.predict_proba(points)
    maps = {name: proba[:, 0].reshape(len(y), len(x)) for name, proba in probabilities.items()}
    # Grid points are the centres of pixels, so the extent is half a step larger on each side.
    step_x, step_y = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
    extent = (x[0] - step_x, x[-1] + step_x, y[0] - step_y, y[-1] + step_y)
    id_box = (low[0], high[0], low[1], high[1])
    return plot_posterior_maps(
        maps, extent, id_box, class_label=f"P(class {run.splits.train.classes[0]} | x)"
    )
