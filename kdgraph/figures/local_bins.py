"""Local calibration inside one bin of confidence: errors that cancel in the bin's average, where they lie and how large they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.labels import NOTE_SIZE, note_above
from kdgraph.figures.local import FEW, draw_rows, dress_map, error_bar, error_scale
from kdgraph.figures.style import BLACK, BLUE, FULL_WIDTH, GREY, add_axes, fitted, new_figure, styled

_LEFT, _MAP, _BAR, _BAR_ROOM, _RIGHT = 0.46, 2.5, 0.1, 1.3, 0.16  # inches: the map, its colour bar, from the map to the other panel
_CAPTION, _BOTTOM, _NOTE, _HEIGHT = 0.34, 0.38, 0.18, 2.0  # inches: above each row, below its panels, above the first, a panel
_CAPTION_SIZE = 7.5  # points
_SHOWN, _SHORTEST = 0.99, 0.01  # of a bin's rows have an error that the axis reaches, which goes this far at least
_ROWS: dict[str, Any] = {"color": BLUE, "linewidth": 1.4, "label": "LCE of rows"}
_MEAN: dict[str, Any] = {"color": BLACK, "linewidth": 1.0, "linestyle": (0, (1, 1.2)), "label": "mean LCE"}
_WHOLE: dict[str, Any] = {"color": GREY, "linewidth": 1.2, "linestyle": (0, (3.2, 1.6)), "label": "average error"}


@dataclass(frozen=True)
class BinOfRows:
    """The rows in one bin of confidence.

    Attributes
    ----------
    title : what the bin is ("best bin").
    lower, upper : its edges; it holds confidences above the one, up to the other.
    points : Float[n, 2], where the rows lie.
    slce : Float[n] in [-1, 1], their signed local calibration errors; NaN where a row has none.
    n_eff : Float[n], effective number of rows behind each; below :data:`~kdgraph.figures.local.FEW` the dot is small.
    error : mean confidence minus the share that was right, of the whole bin.
    """

    title: str
    lower: float
    upper: float
    points: np.ndarray
    slce: np.ndarray
    n_eff: np.ndarray
    error: float


def lce_of_bins(bins: Sequence[BinOfRows], *, bandwidth: float, axis_names: tuple[str, str] = ("x₁", "x₂")) -> Figure:
    """Signed local calibration error of a bin's rows where they lie, and beside it how many rows have an error of at most so much.

    A calibrated bin whose curve lies to the right of its own error is right on average alone: where it is too sure and where it is not sure
    enough cancel. Blue is not sure enough, yellow too sure; all bins have the same scales.

    Parameters
    ----------
    bins : one row of panels for each, from top to bottom.
    bandwidth : of the neighbourhoods.
    axis_names : names of the two features.

    Returns
    -------
    Figure
        As wide as the page. Each row says its bin, how many rows are in it, its own error and the mean LCE.

    Raises
    ------
    ValueError
        No bin, or arrays that do not fit.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figure 2, which has no signs.
    """
    _check(bins)
    with styled():
        row = _CAPTION + _HEIGHT + _BOTTOM
        figure = new_figure(FULL_WIDTH, _NOTE + len(bins) * row)
        scale, extend = error_scale(np.concatenate([one.slce for one in bins]))
        highest = max(max(np.nanquantile(np.abs(one.slce), _SHOWN), 1.2 * abs(one.error)) for one in bins)
        cdf = FULL_WIDTH - _LEFT - _MAP - _BAR_ROOM - _RIGHT
        for place, one in enumerate(bins):
            bottom = (len(bins) - 1 - place) * row + _BOTTOM
            axes = add_axes(figure, _LEFT, bottom, _MAP, _HEIGHT)
            draw_rows(axes, one.points, one.slce, one.n_eff, scale)
            dress_map(axes, np.concatenate([other.points for other in bins]), None, axis_names, first=True)
            error_bar(add_axes(figure, _LEFT + _MAP + 0.1, bottom, _BAR, _HEIGHT), scale, extend)
            _curve(add_axes(figure, FULL_WIDTH - _RIGHT - cdf, bottom, cdf, _HEIGHT), one, max(1.04 * highest, _SHORTEST))
            caption = fitted(figure, _caption(one), _CAPTION_SIZE, FULL_WIDTH - _LEFT)
            y = (bottom + _HEIGHT + _CAPTION - 0.02) / figure.get_figheight()
            figure.text(_LEFT / FULL_WIDTH, y, caption, va="top", fontsize=_CAPTION_SIZE)
            if place == 0:
                note = f"bandwidth {bandwidth:g}; small: fewer than {FEW:g} effective rows"
                note_above(axes, note, axes.get_xlim()[0], "left", 72 * _CAPTION + 3)
        _key(figure)
    return figure


def _key(figure: Figure) -> None:
    """Once for all, above the curves: in their panels there is no place that no curve or line ever takes."""
    handles = [Line2D([], [], **look) for look in (_ROWS, _MEAN, _WHOLE)]
    spaces: dict[str, Any] = {"columnspacing": 1.2, "handlelength": 1.9, "borderaxespad": 0.2, "fontsize": NOTE_SIZE}
    figure.legend(handles=handles, ncols=3, loc="upper right", **spaces)


def _caption(one: BinOfRows) -> str:
    mean = np.nanmean(np.abs(one.slce))
    where = f"confidence in ({one.lower:.3g}, {one.upper:.3g}]"
    sign = "+" if one.error >= 0 else "−"
    return f"{one.title}: {where}, {len(one.slce):,} rows; their average error {sign}{abs(one.error):.4f}, mean LCE {mean:.4f}"


def _curve(axes: Axes, one: BinOfRows, highest: float) -> None:
    """The share of rows up to each LCE."""
    sizes = np.sort(np.abs(one.slce[~np.isnan(one.slce)]))
    share = np.arange(1, len(sizes) + 1) / len(sizes)
    axes.step(np.r_[0, sizes, max(highest, sizes[-1])], np.r_[0, share, 1], where="post", **_ROWS)
    axes.axvline(sizes.mean(), **_MEAN)
    axes.axvline(abs(one.error), **_WHOLE)
    axes.set(xlim=(0, highest), ylim=(0, 1.02), xlabel="LCE", ylabel="share of rows")
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _check(bins: Sequence[BinOfRows]) -> None:
    if not bins:
        raise ValueError("lce_of_bins needs a bin")
    for one in bins:
        n = len(one.slce)
        if np.shape(one.points) != (n, 2) or np.shape(one.n_eff) != (n,) or not n or np.isnan(one.slce).all():
            raise ValueError(
                f"{one.title!r} needs points Float[n, 2], an error and effective rows for each, got {np.shape(one.points)}, {n}"
            )
