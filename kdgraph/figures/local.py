"""Local calibration over the plane of two features: where a model is too sure, where not sure enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kdgraph.figures.colormap import posterior_colormap
from kdgraph.figures.labels import NOTE_SIZE, note_above
from kdgraph.figures.posterior import Box
from kdgraph.figures.style import FULL_WIDTH, ID_SHADE, add_axes, fitted, new_figure, styled

FEW = 5.0
"""Effective rows below which a local error is mostly that of single rows; such a point is drawn small."""

_LEFT, _GAP, _RIGHT, _BOTTOM, _TOP = 0.46, 0.16, 0.86, 0.36, 0.36  # inches around and between the maps
_PANEL, _TITLE_SIZE = 2.5, 8.0  # inches, points
_ROOM = 0.04  # of the width, around the outermost rows
_DOT, _FEW_DOT, _MANY = 6.0, 2.0, 2000  # points², and how many rows have dots of that size; more have smaller ones
_EDGE = "#404040"  # without an outline yellow is as light as the shade, and gone in greyscale
Extend = Literal["neither", "both"]
_SHOWN, _TIP = 0.98, 0.03  # quantile of the errors that the scale reaches; length of the arrow beyond, of the bar


def lce_landscape(
    points: np.ndarray,
    slce: Mapping[str, np.ndarray],
    n_eff: Mapping[str, np.ndarray],
    id_box: Box | None,
    *,
    bandwidth: float,
    axis_names: tuple[str, str] = ("x₁", "x₂"),
) -> Figure:
    """Signed local calibration error of each row where it lies, one panel for each model, on one colour scale.

    Blue is not sure enough, yellow too sure, grey right. The scale is symmetric and reaches the 98th percentile of all errors, so that
    few rows do not take the colour from the rest; the colour bar then ends in arrows. The largest errors lie on top.

    Parameters
    ----------
    points : Float[n, 2].
    slce : name → Float[n] in [-1, 1]; the first is the parent, the others are methods. A row that has none (NaN) is not drawn.
    n_eff : name → Float[n], effective number of rows behind each error; below :data:`FEW` the point is small.
    id_box : where the training data are; shaded. None shades nothing.
    bandwidth : of the neighbourhoods, noted above the panels.
    axis_names : names of the two features.

    Returns
    -------
    Figure
        6.5 inches wide with two panels; with more they are smaller, to fit the page.

    Raises
    ------
    ValueError
        Nothing to draw, or arrays that do not fit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figure 2, which shows one bin of confidence and no signs.
    """
    _check(points, slce, n_eff)
    panel = min(_PANEL, (FULL_WIDTH - _LEFT - _RIGHT - (len(slce) - 1) * _GAP) / len(slce))
    width, height = _LEFT + len(slce) * panel + (len(slce) - 1) * _GAP + _RIGHT, _BOTTOM + panel + _TOP
    with styled():
        figure = new_figure(width, height)
        scale, extend = error_scale(np.concatenate(list(slce.values())))
        for i, (name, errors) in enumerate(slce.items()):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, panel)
            draw_rows(axes, points, errors, n_eff[name], scale)
            dress_map(axes, points, id_box, axis_names, first=i == 0)
            axes.set_title(fitted(figure, name, _TITLE_SIZE, panel), fontsize=_TITLE_SIZE)
            if i == 0:
                note = f"bandwidth {bandwidth:g}; small: fewer than {FEW:g} effective rows"
                note_above(axes, fitted(figure, note, NOTE_SIZE, width - _LEFT), axes.get_xlim()[0], "left", 17)
        error_bar(add_axes(figure, width - _RIGHT + 0.1, _BOTTOM, 0.1, panel), scale, extend)
    return figure


def error_scale(errors: np.ndarray) -> tuple[Normalize, Extend]:
    """Symmetric around 0, to a multiple of 0.05 that 98 % of Float[n] are within, and whether errors lie beyond."""
    sizes = np.abs(errors[np.isfinite(errors)])
    limit = max(float(np.ceil(20 * np.quantile(sizes, _SHOWN) - 1e-9)), 1.0) / 20 if len(sizes) else 1.0
    return Normalize(-limit, limit), "both" if (sizes > limit).any() else "neither"


def draw_rows(axes: Axes, points: np.ndarray, errors: np.ndarray, n_eff: np.ndarray, scale: Normalize) -> None:
    """Dots at Float[n, 2] with errors and effective rows, Float[n] each: one image in SVG too, where ten thousand paths are megabytes."""
    order = np.argsort(np.abs(errors), kind="stable")  # NaN last
    order = order[: np.isfinite(errors).sum()]
    share = min(1.0, _MANY / len(points))
    size = share * np.where(n_eff[order] < FEW, _FEW_DOT, _DOT)
    look = {"cmap": posterior_colormap(), "norm": scale, "edgecolors": _EDGE, "linewidths": 0.25 * share, "rasterized": True, "gid": "rows"}
    axes.scatter(*points[order].T, s=size, c=errors[order], zorder=2, **look)


def dress_map(axes: Axes, points: np.ndarray, id_box: Box | None, axis_names: tuple[str, str], *, first: bool) -> None:
    """Limits around Float[n, 2] and the box, which is shaded; names of the features, that of the second only where ``first``."""
    x0, x1, y0, y1 = id_box or (np.inf, -np.inf, np.inf, -np.inf)
    low, high = np.minimum(points.min(axis=0), (x0, y0)), np.maximum(points.max(axis=0), (x1, y1))
    room = _ROOM * (high - low) + 1e-9
    axes.set(xlim=(low[0] - room[0], high[0] + room[0]), ylim=(low[1] - room[1], high[1] + room[1]), xlabel=axis_names[0])
    axes.locator_params(nbins=5, steps=[1, 2, 5, 10])
    if id_box is not None:
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor=ID_SHADE, linewidth=0, zorder=0, gid="id_box"))
    if first:
        axes.set_ylabel(axis_names[1])
        if id_box is not None:
            axes.annotate("ID", (x0, y1), (2.5, -2.5), textcoords="offset points", va="top", fontsize=NOTE_SIZE)
    else:
        axes.tick_params(labelleft=False)


def error_bar(axes: Axes, scale: Normalize, extend: Extend) -> None:
    """What the colours are, with the two directions in words above and below."""
    Colorbar(axes, ScalarMappable(scale, posterior_colormap()), extend=extend, extendfrac=_TIP)
    axes.spines[:].set_visible(False)
    axes.locator_params(axis="y", nbins=5)
    axes.set_ylabel("local calibration error", fontsize=NOTE_SIZE)
    tip = _TIP if extend == "both" else 0.0
    for text, y, points, va in (("too sure", 1 + tip, 3, "bottom"), ("not sure\nenough", -tip, -3, "top")):
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "va": va}
        axes.annotate(text, (0, y), (0, points), **place, fontsize=NOTE_SIZE)


def _check(points: np.ndarray, slce: Mapping[str, np.ndarray], n_eff: Mapping[str, np.ndarray]) -> None:
    if np.ndim(points) != 2 or np.shape(points)[1] != 2 or not len(points):
        raise ValueError(f"lce_landscape needs points Float[n, 2], got shape {np.shape(points)}")
    if not slce or set(slce) != set(n_eff):
        raise ValueError(f"lce_landscape needs errors and effective rows for the same names, got {list(slce)} and {list(n_eff)}")
    for name, errors in slce.items():
        if np.shape(errors) != (len(points),) or np.shape(n_eff[name]) != (len(points),):
            raise ValueError(f"the errors of {name!r} must be one number for each of {len(points)} points, got shape {np.shape(errors)}")
        if (np.abs(errors) > 1 + 1e-6).any():  # NaN passes: a row without neighbours
            raise ValueError(f"the errors of {name!r} must lie in [-1, 1], got {np.nanmin(errors):g} to {np.nanmax(errors):g}")
