"""Local calibration over the plane of two features: where a model is too sure, where not sure
enough.

Local calibration inside one bin of confidence: errors that cancel in the bin's average, where they
lie and how large they are.

Local calibration error over the plane and inside single bins, of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from kdgraph.errors import ConfigError
from kdgraph.figures.posterior import PlotExtent
from kdgraph.figures.run_figures import (
    RunFigureData,
    columns_by_model,
    register_figure,
    select_column,
)
from kdgraph.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREY,
    ID_SHADE,
    NOTE_SIZE,
    add_axes,
    new_figure,
    note_above,
    posterior_colormap,
    shorten_text,
    style_context,
)
from kdgraph.metrics import reliability_bins
from kdgraph.metrics.reliability_bins import bin_of
from kdgraph.parameters import Count

if TYPE_CHECKING:
    from kdgraph.figures.posterior import PlotExtent


MIN_EFFECTIVE_ROWS = 5.0
"""Effective rows below which a local error is mostly that of single rows; such a point is drawn
small.
"""

_LEFT, _GAP, _RIGHT, _BOTTOM, _TOP = (
    0.46,
    0.16,
    0.86,
    0.36,
    0.36,
)  # inches around and between the maps
_PANEL, _TITLE_SIZE = 2.5, 8.0  # inches, points
_ROOM = 0.04  # of the width, around the outermost rows
_DOT, _FEW_DOT, _MANY = (
    6.0,
    2.0,
    2000,
)  # points², and how many rows have dots of that size; more have smaller ones
_EDGE = "#404040"  # without an outline yellow is as light as the shade, and gone in greyscale
_ColorbarExtend = Literal["neither", "both"]
_SHOWN, _TIP = (
    0.98,
    0.03,
)  # quantile of the errors that the scale reaches; length of the arrow beyond, of the bar


def plot_lce_landscape(
    points: np.ndarray,
    slce: Mapping[str, np.ndarray],
    n_eff: Mapping[str, np.ndarray],
    id_box: PlotExtent | None,
    *,
    bandwidth: float,
    axis_names: tuple[str, str] = ("x₁", "x₂"),
) -> Figure:
    """Signed local calibration error of each row where it lies, one panel for each model, on one
    colour scale.

    Blue is not sure enough, yellow too sure, grey right. The scale is symmetric and reaches the
    98th percentile of all errors, so that few rows do not take the colour from the rest; the colour
    bar then ends in arrows. The largest errors lie on top.

    Parameters
    ----------
    points : Float[n, 2].
    slce : name → Float[n] in [-1, 1]; the first is the parent, the others are methods. A row that
    has none (NaN) is not drawn.
    n_eff : name → Float[n], effective number of rows behind each error; below :data:`FEW` the point
    is small.
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
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figure 2, which shows one
    bin of confidence and no signs.
    """
    _check_bins(points, slce, n_eff)
    panel = min(_PANEL, (FULL_WIDTH - _LEFT - _RIGHT - (len(slce) - 1) * _GAP) / len(slce))
    width, height = (
        _LEFT + len(slce) * panel + (len(slce) - 1) * _GAP + _RIGHT,
        _BOTTOM + panel + _TOP,
    )
    with style_context():
        figure = new_figure(width, height)
        scale, extend = _error_scale(np.concatenate(list(slce.values())))
        for i, (name, errors) in enumerate(slce.items()):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, panel)
            _draw_rows(axes, points, errors, n_eff[name], scale)
            _format_map(axes, points, id_box, axis_names, first=i == 0)
            axes.set_title(shorten_text(figure, name, _TITLE_SIZE, panel), fontsize=_TITLE_SIZE)
            if i == 0:
                note = f"bandwidth {bandwidth:g}; small: fewer than {MIN_EFFECTIVE_ROWS:g} effective rows"
                note_above(
                    axes,
                    shorten_text(figure, note, NOTE_SIZE, width - _LEFT),
                    axes.get_xlim()[0],
                    "left",
                    17,
                )
        _draw_error_colorbar(
            add_axes(figure, width - _RIGHT + 0.1, _BOTTOM, 0.1, panel), scale, extend
        )
    return figure


def _error_scale(errors: np.ndarray) -> tuple[Normalize, _ColorbarExtend]:
    """Symmetric around 0, to a multiple of 0.05 that 98 % of Float[n] are within, and whether
    errors lie beyond.
    """
    sizes = np.abs(errors[np.isfinite(errors)])
    limit = (
        max(float(np.ceil(20 * np.quantile(sizes, _SHOWN) - 1e-9)), 1.0) / 20 if len(sizes) else 1.0
    )
    return Normalize(-limit, limit), "both" if (sizes > limit).any() else "neither"


def _draw_rows(
    axes: Axes, points: np.ndarray, errors: np.ndarray, n_eff: np.ndarray, scale: Normalize
) -> None:
    """Dots at Float[n, 2] with errors and effective rows, Float[n] each: one image in SVG too,
    where ten thousand paths are megabytes.
    """
    order = np.argsort(np.abs(errors), kind="stable")  # NaN last
    order = order[: np.isfinite(errors).sum()]
    share = min(1.0, _MANY / len(points))
    size = share * np.where(n_eff[order] < MIN_EFFECTIVE_ROWS, _FEW_DOT, _DOT)
    look = {
        "cmap": posterior_colormap(),
        "norm": scale,
        "edgecolors": _EDGE,
        "linewidths": 0.25 * share,
        "rasterized": True,
        "gid": "rows",
    }
    axes.scatter(*points[order].T, s=size, c=errors[order], zorder=2, **look)


def _format_map(
    axes: Axes,
    points: np.ndarray,
    id_box: PlotExtent | None,
    axis_names: tuple[str, str],
    *,
    first: bool,
) -> None:
    """Limits around Float[n, 2] and the box, which is shaded; names of the features, that of the
    second only where ``first``.
    """
    x0, x1, y0, y1 = id_box or (np.inf, -np.inf, np.inf, -np.inf)
    low, high = np.minimum(points.min(axis=0), (x0, y0)), np.maximum(points.max(axis=0), (x1, y1))
    room = _ROOM * (high - low) + 1e-9
    axes.set(
        xlim=(low[0] - room[0], high[0] + room[0]),
        ylim=(low[1] - room[1], high[1] + room[1]),
        xlabel=axis_names[0],
    )
    axes.locator_params(nbins=5, steps=[1, 2, 5, 10])
    if id_box is not None:
        axes.add_patch(
            Rectangle(
                (x0, y0), x1 - x0, y1 - y0, facecolor=ID_SHADE, linewidth=0, zorder=0, gid="id_box"
            )
        )
    if first:
        axes.set_ylabel(axis_names[1])
        if id_box is not None:
            axes.annotate(
                "ID",
                (x0, y1),
                (2.5, -2.5),
                textcoords="offset points",
                va="top",
                fontsize=NOTE_SIZE,
            )
    else:
        axes.tick_params(labelleft=False)


def _draw_error_colorbar(axes: Axes, scale: Normalize, extend: _ColorbarExtend) -> None:
    """What the colours are, with the two directions in words above and below."""
    Colorbar(axes, ScalarMappable(scale, posterior_colormap()), extend=extend, extendfrac=_TIP)
    axes.spines[:].set_visible(False)
    axes.locator_params(axis="y", nbins=5)
    axes.set_ylabel("local calibration error", fontsize=NOTE_SIZE)
    tip = _TIP if extend == "both" else 0.0
    for text, y, points, va in (
        ("too sure", 1 + tip, 3, "bottom"),
        ("not sure\nenough", -tip, -3, "top"),
    ):
        place: dict[str, Any] = {
            "xycoords": "axes fraction",
            "textcoords": "offset points",
            "va": va,
        }
        axes.annotate(text, (0, y), (0, points), **place, fontsize=NOTE_SIZE)


def _check_bins(
    points: np.ndarray, slce: Mapping[str, np.ndarray], n_eff: Mapping[str, np.ndarray]
) -> None:
    if np.ndim(points) != 2 or np.shape(points)[1] != 2 or not len(points):
        raise ValueError(f"lce_landscape needs points Float[n, 2], got shape {np.shape(points)}")
    if not slce or set(slce) != set(n_eff):
        raise ValueError(
            f"lce_landscape needs errors and effective rows for the same names, got {list(slce)}"
            f" and {list(n_eff)}"
        )
    for name, errors in slce.items():
        if np.shape(errors) != (len(points),) or np.shape(n_eff[name]) != (len(points),):
            raise ValueError(
                f"the errors of {name!r} must be one number for each of {len(points)} points, got"
                f" shape {np.shape(errors)}"
            )
        if (np.abs(errors) > 1 + 1e-6).any():  # NaN passes: a row without neighbours
            raise ValueError(
                f"the errors of {name!r} must lie in [-1, 1], got {np.nanmin(errors):g} to"
                f" {np.nanmax(errors):g}"
            )


_LEFT_LOCAL_BINS, _MAP, _BAR, _BAR_ROOM, _RIGHT_LOCAL_BINS = (
    0.46,
    2.5,
    0.1,
    1.3,
    0.16,
)  # inches: the map, its colour bar, from the map to the other panel
_CAPTION, _BOTTOM_LOCAL_BINS, _NOTE, _HEIGHT = (
    0.34,
    0.38,
    0.18,
    2.0,
)  # inches: above each row, below its panels, above the first, a panel
_CAPTION_SIZE = 7.5  # points
_SHOWN_LOCAL_BINS, _SHORTEST = (
    0.99,
    0.01,
)  # of a bin's rows have an error that the axis reaches, which goes this far at least
_CDF_LINE: dict[str, Any] = {"color": BLUE, "linewidth": 1.4, "label": "LCE of rows"}
_MEAN_LINE: dict[str, Any] = {
    "color": BLACK,
    "linewidth": 1.0,
    "linestyle": (0, (1, 1.2)),
    "label": "mean LCE",
}
_BIN_ERROR_LINE: dict[str, Any] = {
    "color": GREY,
    "linewidth": 1.2,
    "linestyle": (0, (3.2, 1.6)),
    "label": "average error",
}


@dataclass(frozen=True)
class ConfidenceBin:
    """The rows in one bin of confidence.

    Attributes
    ----------
    title : what the bin is ("best bin").
    lower, upper : its edges; it holds confidences above the one, up to the other.
    points : Float[n, 2], where the rows lie.
    slce : Float[n] in [-1, 1], their signed local calibration errors; NaN where a row has none.
    n_eff : Float[n], effective number of rows behind each; below :data:`~kdgraph.figures.local.MIN_EFFECTIVE_ROWS`
    the dot is small.
    error : mean confidence minus the share that was right, of the whole bin.
    """

    title: str
    lower: float
    upper: float
    points: np.ndarray
    slce: np.ndarray
    n_eff: np.ndarray
    error: float


def plot_lce_of_bins(
    bins: Sequence[ConfidenceBin], *, bandwidth: float, axis_names: tuple[str, str] = ("x₁", "x₂")
) -> Figure:
    """Signed local calibration error of a bin's rows where they lie, and beside it how many rows
    have an error of at most so much.

    A calibrated bin whose curve lies to the right of its own error is right on average alone: where
    it is too sure and where it is not sure enough cancel. Blue is not sure enough, yellow too sure;
    all bins have the same scales.

    Parameters
    ----------
    bins : one row of panels for each, from top to bottom.
    bandwidth : of the neighbourhoods.
    axis_names : names of the two features.

    Returns
    -------
    Figure
        As wide as the page. Each row says its bin, how many rows are in it, its own error and the
        mean LCE.

    Raises
    ------
    ValueError
        No bin, or arrays that do not fit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figure 2, which has no
    signs.
    """
    _check_local_bins(bins)
    with style_context():
        row = _CAPTION + _HEIGHT + _BOTTOM_LOCAL_BINS
        figure = new_figure(FULL_WIDTH, _NOTE + len(bins) * row)
        scale, extend = _error_scale(np.concatenate([one.slce for one in bins]))
        highest = max(
            max(np.nanquantile(np.abs(one.slce), _SHOWN_LOCAL_BINS), 1.2 * abs(one.error))
            for one in bins
        )
        cdf = FULL_WIDTH - _LEFT_LOCAL_BINS - _MAP - _BAR_ROOM - _RIGHT_LOCAL_BINS
        for place, one in enumerate(bins):
            bottom = (len(bins) - 1 - place) * row + _BOTTOM_LOCAL_BINS
            axes = add_axes(figure, _LEFT_LOCAL_BINS, bottom, _MAP, _HEIGHT)
            _draw_rows(axes, one.points, one.slce, one.n_eff, scale)
            _format_map(
                axes, np.concatenate([other.points for other in bins]), None, axis_names, first=True
            )
            _draw_error_colorbar(
                add_axes(figure, _LEFT_LOCAL_BINS + _MAP + 0.1, bottom, _BAR, _HEIGHT),
                scale,
                extend,
            )
            _draw_error_cdf(
                add_axes(figure, FULL_WIDTH - _RIGHT_LOCAL_BINS - cdf, bottom, cdf, _HEIGHT),
                one,
                max(1.04 * highest, _SHORTEST),
            )
            caption = shorten_text(
                figure, _bin_caption(one), _CAPTION_SIZE, FULL_WIDTH - _LEFT_LOCAL_BINS
            )
            y = (bottom + _HEIGHT + _CAPTION - 0.02) / figure.get_figheight()
            figure.text(_LEFT_LOCAL_BINS / FULL_WIDTH, y, caption, va="top", fontsize=_CAPTION_SIZE)
            if place == 0:
                note = f"bandwidth {bandwidth:g}; small: fewer than {MIN_EFFECTIVE_ROWS:g} effective rows"
                note_above(axes, note, axes.get_xlim()[0], "left", 72 * _CAPTION + 3)
        _draw_bins_legend(figure)
    return figure


def _draw_bins_legend(figure: Figure) -> None:
    """Once for all, above the curves: in their panels there is no place that no curve or line ever
    takes.
    """
    handles = [Line2D([], [], **look) for look in (_CDF_LINE, _MEAN_LINE, _BIN_ERROR_LINE)]
    spaces: dict[str, Any] = {
        "columnspacing": 1.2,
        "handlelength": 1.9,
        "borderaxespad": 0.2,
        "fontsize": NOTE_SIZE,
    }
    figure.legend(handles=handles, ncols=3, loc="upper right", **spaces)


def _bin_caption(one: ConfidenceBin) -> str:
    mean = np.nanmean(np.abs(one.slce))
    where = f"confidence in ({one.lower:.3g}, {one.upper:.3g}]"
    sign = "+" if one.error >= 0 else "−"
    return (
        f"{one.title}: {where}, {len(one.slce):,} rows; their average error"
        f" {sign}{abs(one.error):.4f}, mean LCE {mean:.4f}"
    )


def _draw_error_cdf(axes: Axes, one: ConfidenceBin, highest: float) -> None:
    """The share of rows up to each LCE."""
    sizes = np.sort(np.abs(one.slce[~np.isnan(one.slce)]))
    share = np.arange(1, len(sizes) + 1) / len(sizes)
    axes.step(
        np.r_[0, sizes, max(highest, sizes[-1])], np.r_[0, share, 1], where="post", **_CDF_LINE
    )
    axes.axvline(sizes.mean(), **_MEAN_LINE)
    axes.axvline(abs(one.error), **_BIN_ERROR_LINE)
    axes.set(xlim=(0, highest), ylim=(0, 1.02), xlabel="LCE", ylabel="share of rows")
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _check_local_bins(bins: Sequence[ConfidenceBin]) -> None:
    if not bins:
        raise ValueError("lce_of_bins needs a bin")
    for one in bins:
        n = len(one.slce)
        if (
            np.shape(one.points) != (n, 2)
            or np.shape(one.n_eff) != (n,)
            or not n
            or np.isnan(one.slce).all()
        ):
            raise ValueError(
                f"{one.title!r} needs points Float[n, 2], an error and effective rows for each, got"
                f" {np.shape(one.points)}, {n}"
            )


@register_figure("lce_landscape")
def plot_lce_landscape_from_run(run: RunFigureData, table: str = "lce_map") -> Any:
    """Local calibration error of every test row over the plane, where the table was measured: in a
    space of two dimensions.

    ``table`` is its key in ``metrics``: another one may have measured in another space.
    """
    maps = columns_by_model(run, table)
    if maps is None:
        return None
    first = maps[run.names[0]]
    points = np.column_stack([first["x1"], first["x2"]])
    return plot_lce_landscape(
        points,
        select_column(maps, "slce"),
        select_column(maps, "n_eff"),
        _training_extent(run, points),
        bandwidth=float(first["bandwidth"][0]),
    )


def _training_extent(run: RunFigureData, points: np.ndarray) -> PlotExtent | None:
    """Where the training rows are, if the points are the test rows' features and not their places
    in another space.
    """
    if not np.array_equal(points, run.splits.test.X):
        return None
    X = run.splits.learning.X
    return (*np.sort(X[:, 0])[[0, -1]], *np.sort(X[:, 1])[[0, -1]])


@register_figure("lce_of_bins")
def plot_lce_of_bins_from_run(
    run: RunFigureData,
    table: str = "lce_map",
    bins: Count = 15,
    min_count: Count = 25,
    of: Literal["parent", "calibrated"] = "parent",
) -> Any:
    """The bins of confidence with the smallest and the largest error on average, among those of
    ``min_count`` rows.

    ``table`` is as of :func:`plot_lce_landscape`, and ``bins`` what it was measured with. None where no
    bin has the rows.
    """
    maps = columns_by_model(run, table)
    if maps is None:
        return None
    rows = maps[dict(zip(("parent", "calibrated"), run.names, strict=True))[of]]
    found = reliability_bins(rows["confidence"], rows["correct"], bins=bins)
    index = bin_of(rows["confidence"], np.append(found.lower, found.upper[-1]))
    if (found.count[index] != rows["bin_count"]).any():
        raise ConfigError(
            f"figures.draw.lce_of_bins.bins must be that of the table {table}, got {bins}: its rows"
            " are in other bins"
        )
    error = found.confidence - found.accuracy
    large = np.flatnonzero(found.count >= min_count)
    if not len(large):
        return None
    best, worst = (large[pick(np.abs(error[large]))] for pick in (np.argmin, np.argmax))
    both = {"the only large bin": best} if best == worst else {"best bin": best, "worst bin": worst}
    drawn = []
    for title, b in both.items():
        here = {column: values[index == b] for column, values in rows.items()}
        points = np.column_stack([here["x1"], here["x2"]])
        edges = float(found.lower[b]), float(found.upper[b])
        drawn.append(
            ConfidenceBin(title, *edges, points, here["slce"], here["n_eff"], float(error[b]))
        )
    return plot_lce_of_bins(drawn, bandwidth=float(rows["bandwidth"][0]))
