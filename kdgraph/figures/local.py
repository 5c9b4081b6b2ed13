"""Local calibration error over the plane of two features, and inside bins of confidence.

The signed local calibration error (SLCE) of Luo et al. (UAI 2022) is positive where a model is
overconfident. Errors of opposite signs can cancel in the average of a bin; these figures show their
positions and sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
from kdgraph.figures.drawing import write_beside, write_text
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

MIN_EFFECTIVE_ROWS = 5.0
"""Points with fewer effective rows are small; their error is mostly that of single rows."""

# Inches around and between the maps.
_LEFT, _GAP, _RIGHT, _BOTTOM, _TOP = 0.46, 0.16, 0.86, 0.36, 0.36
_PANEL, _TITLE_SIZE = 2.5, 8.0  # inches, points
_MARGIN = 0.04  # of the width, around the outermost rows
# Points² of a dot, and the number of rows up to which dots have that size.
_DOT, _FEW_DOT, _MANY = 6.0, 2.0, 2000
# Without an outline, yellow is as light as the shaded region and invisible in greyscale.
_EDGE = "#404040"
_ColorbarExtend = Literal["neither", "both"]
# Quantile of the errors at the end of the scale, length of an arrow as a fraction of the bar.
_SHOWN, _TIP = 0.98, 0.03


def plot_lce_landscape(
    points: np.ndarray,
    slce: Mapping[str, np.ndarray],
    n_eff: Mapping[str, np.ndarray],
    id_box: PlotExtent | None,
    *,
    bandwidth: float,
    axis_names: tuple[str, str] = ("x₁", "x₂"),
) -> Figure:
    """Plot the signed local calibration error at the position of each row.

    One panel for each model, all on one colour scale: blue is underconfident, yellow overconfident,
    grey calibrated. The scale is symmetric and ends at the 98th percentile of all errors, so that a
    few large errors do not determine the colours of all others. In this case the colour bar ends in
    arrows. The largest errors are on top.

    Parameters
    ----------
    points : Float[n, 2]
        Positions of the rows.
    slce : mapping of str to Float[n]
        Errors in [-1, 1]; the first name is the parent, the others are methods. A row with NaN is
        not drawn.
    n_eff : mapping of str to Float[n]
        Effective number of rows of each error. Points below :data:`MIN_EFFECTIVE_ROWS` are small.
    id_box : tuple of four float or None
        Region of the training data (x0, x1, y0, y1), which is shaded. None shades nothing.
    bandwidth : float
        Bandwidth of the neighbourhoods, for the note above the panels.
    axis_names : tuple of two str, default=("x₁", "x₂")
        Names of the two features.

    Returns
    -------
    Figure
        Figure 6.5 inches wide with two panels; with more panels, each is smaller.

    Raises
    ------
    ValueError
        If there is nothing to draw, or arrays do not fit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figure 2, which shows one
    bin of confidence without signs.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_lce_landscape
    >>> rng = np.random.default_rng(0)
    >>> points = rng.uniform(-1, 1, (200, 2))
    >>> slce = {name: sd * rng.normal(size=200) for name, sd in (("forest", 0.2), ("kdf", 0.1))}
    >>> n_eff = {name: np.full(200, 30.0) for name in slce}
    >>> figure = plot_lce_landscape(points, slce, n_eff, (-1, 1, -1, 1), bandwidth=0.2)
    >>> [axes.get_title() for axes in figure.axes]
    ['forest', 'kdf', '']
    """
    _check_landscape(points, slce, n_eff)
    panel = min(_PANEL, (FULL_WIDTH - _LEFT - _RIGHT - (len(slce) - 1) * _GAP) / len(slce))
    width = _LEFT + len(slce) * panel + (len(slce) - 1) * _GAP + _RIGHT
    with style_context():
        figure = new_figure(width, _BOTTOM + panel + _TOP)
        scale, extend = _error_scale(np.concatenate(list(slce.values())))
        for i, (name, errors) in enumerate(slce.items()):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, panel)
            _draw_rows(axes, points, errors, n_eff[name], scale)
            _format_map(axes, points, id_box, axis_names, first=i == 0)
            axes.set_title(shorten_text(figure, name, _TITLE_SIZE, panel), fontsize=_TITLE_SIZE)
            if i == 0:
                note = shorten_text(figure, _bandwidth_note(bandwidth), NOTE_SIZE, width - _LEFT)
                note_above(axes, note, axes.get_xlim()[0], "left", 17)
        bar = add_axes(figure, width - _RIGHT + 0.1, _BOTTOM, 0.1, panel)
        _draw_error_colorbar(bar, scale, extend)
    return figure


def _bandwidth_note(bandwidth: float) -> str:
    return f"bandwidth {bandwidth:g}; small: fewer than {MIN_EFFECTIVE_ROWS:g} effective rows"


def _error_scale(errors: np.ndarray) -> tuple[Normalize, _ColorbarExtend]:
    """Return a symmetric colour scale and whether errors, Float[n], exceed it."""
    # The limit is a high quantile of the absolute errors, rounded up to a multiple of 0.05.
    sizes = np.abs(errors[np.isfinite(errors)])
    limit = 1.0
    if len(sizes):
        limit = max(float(np.ceil(20 * np.quantile(sizes, _SHOWN) - 1e-9)), 1.0) / 20
    return Normalize(-limit, limit), "both" if (sizes > limit).any() else "neither"


def _draw_rows(
    axes: Axes, points: np.ndarray, errors: np.ndarray, n_eff: np.ndarray, scale: Normalize
) -> None:
    # The largest errors are drawn last, on top. NaN are sorted to the end and cut off.
    # The dots are one image in SVG too, since ten thousand paths take megabytes.
    order = np.argsort(np.abs(errors), kind="stable")
    order = order[: np.isfinite(errors).sum()]
    shrink = min(1.0, _MANY / len(points))
    size = shrink * np.where(n_eff[order] < MIN_EFFECTIVE_ROWS, _FEW_DOT, _DOT)
    style = {
        "cmap": posterior_colormap(),
        "norm": scale,
        "edgecolors": _EDGE,
        "linewidths": 0.25 * shrink,
        "rasterized": True,
        "gid": "rows",
    }
    axes.scatter(*points[order].T, s=size, c=errors[order], zorder=2, **style)


def _format_map(
    axes: Axes,
    points: np.ndarray,
    id_box: PlotExtent | None,
    axis_names: tuple[str, str],
    *,
    first: bool,
) -> None:
    x0, x1, y0, y1 = id_box or (np.inf, -np.inf, np.inf, -np.inf)
    low, high = np.minimum(points.min(axis=0), (x0, y0)), np.maximum(points.max(axis=0), (x1, y1))
    margin = _MARGIN * (high - low) + 1e-9
    axes.set(
        xlim=(low[0] - margin[0], high[0] + margin[0]),
        ylim=(low[1] - margin[1], high[1] + margin[1]),
        xlabel=axis_names[0],
    )
    axes.locator_params(nbins=5, steps=[1, 2, 5, 10])
    axes.tick_params(labelleft=first)
    if first:
        axes.set_ylabel(axis_names[1])
    if id_box is not None:
        shade: dict[str, Any] = {"facecolor": ID_SHADE, "linewidth": 0, "zorder": 0}
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, **shade, gid="id_box"))
        if first:
            write_beside(axes, "ID", (x0, y1), (2.5, -2.5), "data", va="top")


def _draw_error_colorbar(axes: Axes, scale: Normalize, extend: _ColorbarExtend) -> None:
    Colorbar(axes, ScalarMappable(scale, posterior_colormap()), extend=extend, extendfrac=_TIP)
    axes.spines[:].set_visible(False)
    axes.locator_params(axis="y", nbins=5)
    axes.set_ylabel("local calibration error", fontsize=NOTE_SIZE)
    tip = _TIP if extend == "both" else 0.0
    for text, y, points, va in (
        ("overconfident", 1 + tip, 3, "bottom"),
        ("underconfident", -tip, -3, "top"),
    ):
        write_beside(axes, text, (0, y), (0, points), va=va)


def _check_landscape(
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
        if (np.abs(errors) > 1 + 1e-6).any():  # rows without neighbours are NaN
            raise ValueError(
                f"the errors of {name!r} must lie in [-1, 1], got {np.nanmin(errors):g} to"
                f" {np.nanmax(errors):g}"
            )


# Inches: left margin, the map, its colour bar, from the map to the other panel, right margin.
_BINS_LEFT, _MAP, _BAR, _BAR_SPACE, _BINS_RIGHT = 0.46, 2.5, 0.1, 1.3, 0.16
# Inches: above each row, below its panels, above the first row, height of a panel.
_CAPTION, _BINS_BOTTOM, _NOTE, _HEIGHT = 0.34, 0.38, 0.18, 2.0
_CAPTION_SIZE = 7.5  # points
# Quantile of the errors of a bin that the axis covers, and least length of the axis.
_CDF_QUANTILE, _SHORTEST = 0.99, 0.01
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
    """Rows of one bin of confidence.

    Attributes
    ----------
    title : str
        Title of the bin, e.g. "best bin".
    lower, upper : float
        Edges; the bin contains confidences in (lower, upper].
    points : Float[n, 2]
        Positions of the rows.
    slce : Float[n]
        Signed local calibration errors in [-1, 1]; NaN where a row has none.
    n_eff : Float[n]
        Effective number of rows of each error. Dots below :data:`MIN_EFFECTIVE_ROWS` are small.
    error : float
        Mean confidence minus accuracy in the whole bin.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import ConfidenceBin
    >>> rng = np.random.default_rng(0)
    >>> points, slce = rng.uniform(-1, 1, (200, 2)), rng.normal(0, 0.1, 200)
    >>> ConfidenceBin("best bin", 0.9, 1.0, points, slce, np.full(200, 30.0), error=0.01).title
    'best bin'
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
    """Plot signed local calibration errors inside bins of confidence.

    Each row has a map of the errors and the distribution function of their sizes. If the curve is
    to the right of the bin's own error, the bin is calibrated on average only: over- and
    underconfident regions cancel. Blue is underconfident, yellow overconfident. All bins have the
    same scales.

    Parameters
    ----------
    bins : sequence of ConfidenceBin
        Bins from top to bottom.
    bandwidth : float
        Bandwidth of the neighbourhoods.
    axis_names : tuple of two str, default=("x₁", "x₂")
        Names of the two features.

    Returns
    -------
    Figure
        Figure as wide as the page. The caption of each row has the edges of the bin, its number of
        rows, its own error and the mean LCE.

    Raises
    ------
    ValueError
        If there is no bin, or arrays do not fit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figure 2, which has no
    signs.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import ConfidenceBin, plot_lce_of_bins
    >>> rng = np.random.default_rng(0)
    >>> points, slce = rng.uniform(-1, 1, (200, 2)), rng.normal(0, 0.1, 200)
    >>> bins = [ConfidenceBin("best bin", 0.9, 1.0, points, slce, np.full(200, 30.0), error=0.01)]
    >>> figure = plot_lce_of_bins(bins, bandwidth=0.2)
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['x₁', '', 'LCE']
    """
    _check_bins(bins)
    with style_context():
        row = _CAPTION + _HEIGHT + _BINS_BOTTOM
        figure = new_figure(FULL_WIDTH, _NOTE + len(bins) * row)
        scale, extend = _error_scale(np.concatenate([each.slce for each in bins]))
        # One axis for all bins: it covers nearly all errors and every average error.
        highest = max(
            max(np.nanquantile(np.abs(each.slce), _CDF_QUANTILE), 1.2 * abs(each.error))
            for each in bins
        )
        # All maps have the frame of all points, so that positions can be compared between bins.
        all_points = np.concatenate([each.points for each in bins])
        cdf = FULL_WIDTH - _BINS_LEFT - _MAP - _BAR_SPACE - _BINS_RIGHT
        for index, confidence_bin in enumerate(bins):
            bottom = (len(bins) - 1 - index) * row + _BINS_BOTTOM
            axes = add_axes(figure, _BINS_LEFT, bottom, _MAP, _HEIGHT)
            _draw_rows(
                axes, confidence_bin.points, confidence_bin.slce, confidence_bin.n_eff, scale
            )
            _format_map(axes, all_points, None, axis_names, first=True)
            bar = add_axes(figure, _BINS_LEFT + _MAP + 0.1, bottom, _BAR, _HEIGHT)
            _draw_error_colorbar(bar, scale, extend)
            right = add_axes(figure, FULL_WIDTH - _BINS_RIGHT - cdf, bottom, cdf, _HEIGHT)
            _draw_error_cdf(right, confidence_bin, max(1.04 * highest, _SHORTEST))
            caption = shorten_text(
                figure, _bin_caption(confidence_bin), _CAPTION_SIZE, FULL_WIDTH - _BINS_LEFT
            )
            y = bottom + _HEIGHT + _CAPTION - 0.02
            write_text(figure, _BINS_LEFT, y, caption, va="top", fontsize=_CAPTION_SIZE)
            if index == 0:
                note = _bandwidth_note(bandwidth)
                note_above(axes, note, axes.get_xlim()[0], "left", 72 * _CAPTION + 3)
        # One legend is above all curves, which may cover every position in a panel.
        figure.legend(
            handles=[Line2D([], [], **line) for line in (_CDF_LINE, _MEAN_LINE, _BIN_ERROR_LINE)],
            ncols=3,
            loc="upper right",
            columnspacing=1.2,
            handlelength=1.9,
            borderaxespad=0.2,
            fontsize=NOTE_SIZE,
        )
    return figure


def _bin_caption(confidence_bin: ConfidenceBin) -> str:
    mean = np.nanmean(np.abs(confidence_bin.slce))
    interval = f"confidence in ({confidence_bin.lower:.3g}, {confidence_bin.upper:.3g}]"
    sign = "+" if confidence_bin.error >= 0 else "−"
    return (
        f"{confidence_bin.title}: {interval}, {len(confidence_bin.slce):,} rows; their average"
        f" error {sign}{abs(confidence_bin.error):.4f}, mean LCE {mean:.4f}"
    )


def _draw_error_cdf(axes: Axes, confidence_bin: ConfidenceBin, highest: float) -> None:
    sizes = np.sort(np.abs(confidence_bin.slce[~np.isnan(confidence_bin.slce)]))
    fraction = np.arange(1, len(sizes) + 1) / len(sizes)
    axes.step(
        np.r_[0, sizes, max(highest, sizes[-1])], np.r_[0, fraction, 1], where="post", **_CDF_LINE
    )
    axes.axvline(sizes.mean(), **_MEAN_LINE)
    axes.axvline(abs(confidence_bin.error), **_BIN_ERROR_LINE)
    axes.set(xlim=(0, highest), ylim=(0, 1.02), xlabel="LCE", ylabel="fraction of rows")
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _check_bins(bins: Sequence[ConfidenceBin]) -> None:
    if not bins:
        raise ValueError("lce_of_bins needs a bin")
    for confidence_bin in bins:
        n = len(confidence_bin.slce)
        if (
            np.shape(confidence_bin.points) != (n, 2)
            or np.shape(confidence_bin.n_eff) != (n,)
            or not n
            or np.isnan(confidence_bin.slce).all()
        ):
            raise ValueError(
                f"{confidence_bin.title!r} needs points Float[n, 2], an error and effective rows"
                f" for each, got {np.shape(confidence_bin.points)}, {n}"
            )


@register_figure("lce_landscape")
def plot_lce_landscape_from_run(run: RunFigureData, table: str = "lce_map") -> Any:
    """Plot the local calibration error of every test row over the plane.

    The figure is omitted unless the table was computed, in a space of two dimensions.
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
    """Return the extent of the training rows; None if the points are not features of test rows."""
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
    model: Literal["parent", "calibrated"] = "parent",
) -> Any:
    """Plot the bins of confidence with the smallest and the largest average error.

    ``bins`` is the number of bins that the table was computed with, else a ConfigError is raised.
    Bins with fewer than ``min_count`` rows are ignored; the figure is omitted if no bin has so
    many. ``model`` is the one whose confidence is binned.
    """
    maps = columns_by_model(run, table)
    if maps is None:
        return None
    rows = maps[dict(zip(("parent", "calibrated"), run.names, strict=True))[model]]
    reliability = reliability_bins(rows["confidence"], rows["correct"], bins=bins)
    index = bin_of(rows["confidence"], np.append(reliability.lower, reliability.upper[-1]))
    # The table contains the size of the bin of each row. Different sizes mean other bins.
    if (reliability.count[index] != rows["bin_count"]).any():
        raise ConfigError(
            f"figures.draw.lce_of_bins.bins must be that of the table {table}, got {bins}: its rows"
            " are in other bins"
        )
    error = reliability.confidence - reliability.accuracy
    large_bins = np.flatnonzero(reliability.count >= min_count)
    if not len(large_bins):
        return None
    best, worst = (large_bins[pick(np.abs(error[large_bins]))] for pick in (np.argmin, np.argmax))
    bins_by_title = (
        {"the only large bin": best} if best == worst else {"best bin": best, "worst bin": worst}
    )
    confidence_bins = []
    for title, b in bins_by_title.items():
        bin_columns = {column: values[index == b] for column, values in rows.items()}
        points = np.column_stack([bin_columns["x1"], bin_columns["x2"]])
        edges = float(reliability.lower[b]), float(reliability.upper[b])
        confidence_bins.append(
            ConfidenceBin(
                title, *edges, points, bin_columns["slce"], bin_columns["n_eff"], float(error[b])
            )
        )
    return plot_lce_of_bins(confidence_bins, bandwidth=float(rows["bandwidth"][0]))
