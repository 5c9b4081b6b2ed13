"""Improvement of methods over their parent on many data sets.

Improvements are at most 1 and have no lower bound. They are drawn on a ratio scale, on which half
of the parent's error and twice its error are equally far from 0. The layout follows Figure 2 of Dey
et al.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter
from matplotlib.transforms import ScaledTranslation
from numpy.typing import ArrayLike

from experiments.p1.figures.panels import (
    CurvesByGroup,
    CurvesByQuantity,
    RepeatedCurves,
    check_repeated_curves,
    curve_names,
)
from kdgraph.figures import style
from kdgraph.figures.drawing import write_beside, write_note, write_text

_LOWEST_RATIO = -0.999
"""Lowest position on the scale, at 1,000 times the parent's error."""
_TICK_CANDIDATES = (
    *(0.0, 1.0, -1.0, 0.5, -4.0, -0.5),
    *(0.2, -0.2, 0.1, -0.1, 0.05, -0.05, 0.02, -0.02, 0.01, -0.01),
)
"""Ticks in order of priority; a tick is omitted if it is too close to an earlier one."""
_MIN_TICK_DISTANCE = {"x": 0.3, "y": 0.16}  # least distance of two ticks: inches


def to_ratio(values: ArrayLike) -> np.ndarray:
    """Return positions of improvements on the ratio scale, elementwise.

    Improvements are at most 1, and positions in (-1, 1]. A value v ≥ 0 stays the same. A value
    v < 0 becomes v/(1 - v), which is minus the improvement with parent and method exchanged.
    """
    v = np.asarray(values, dtype=np.float64)
    return np.where(v < 0, v / (1 - np.minimum(v, 0)), v)


def from_ratio(positions: ArrayLike) -> np.ndarray:
    """Return the inverse of :func:`to_ratio`, elementwise; -0.999 is the lowest position."""
    u = np.asarray(positions, dtype=np.float64)
    return np.where(u < 0, u / (1 + np.clip(u, _LOWEST_RATIO, 0)), u)


def set_ratio_scale(axes: Axes, which: Literal["x", "y"], low: float, high: float) -> None:
    """Give one axis the ratio scale of improvements, with space at both ends and separate ticks."""
    bottom, top = to_ratio(np.array([low, high]))
    margin = 0.04 * max(top - bottom, 0.02)
    ends = from_ratio(np.array([bottom - margin, top + margin]))
    box, dpi = axes.get_window_extent(), axes.figure.dpi
    if which == "x":
        axes.set_xscale("function", functions=(to_ratio, from_ratio))
        axes.set_xlim(*ends)
        axis, inches = axes.xaxis, box.width / dpi
    else:
        axes.set_yscale("function", functions=(to_ratio, from_ratio))
        axes.set_ylim(*ends)
        axis, inches = axes.yaxis, box.height / dpi
    axis.set_major_locator(
        FixedLocator(_choose_ticks(*ends, apart=_MIN_TICK_DISTANCE[which] / inches))
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_signed(value)))


def format_signed(value: float, digits: int | None = None) -> str:
    """Return an improvement with a true sign, such as +.5, 0 or −1.

    It has ``digits`` digits after the point, by default three significant digits.
    """
    size = f"{abs(value):.3g}" if digits is None else f"{abs(value):.{digits}f}"
    if float(size) == 0:
        return size if digits is None else size.removeprefix("0")
    return ("+" if value > 0 else "−") + size.removeprefix("0")


def _choose_ticks(low: float, high: float, apart: float) -> list[float]:
    """Return the ticks between ``low`` and ``high`` that do not overlap.

    ``apart`` is their least distance as a fraction of the axis.
    """
    start, length = to_ratio(low), to_ratio(high) - to_ratio(low)
    chosen: dict[float, float] = {}
    # Greedy selection: a tick is kept if it is far enough from all ticks of higher priority.
    for tick in _TICK_CANDIDATES:
        position = float((to_ratio(tick) - start) / length)
        if 0 <= position <= 1 and all(
            abs(position - occupied) >= apart for occupied in chosen.values()
        ):
            chosen[tick] = position
    return sorted(chosen)


# Inches: edge of the figure, between panels, tick labels of an axis, medians of a strip.
_EDGE, _GAP, _TICK_SPACE, _NUMBER = 0.08, 0.1, 0.36, 0.3
# Inches: name of a row, titles, notes, below a row, between rows.
_GROUP, _TITLE, _NOTE, _BOTTOM, _ROW_GAP = 0.16, 0.18, 0.14, 0.36, 0.06
# Inches: height of panels with lines, of one method of a strip, the longest name.
_HEIGHT, _LANE, _LONGEST = 1.35, 0.23, 0.85
# Points: a data set of a strip, between the bars of two methods, between two bars of one method.
_DOT, _DODGE, _BARS = 2.0, 2.4, 26.0


def plot_improvement_summary(panels: CurvesByGroup, *, band_of: str) -> Figure:
    """Plot improvements over the parent, one row for each group of models.

    The figure follows Figure 2 of Dey et al. A quantity that depends on a parameter is a line for
    each method, the median over data sets. Bars at some values go from 25 to 75 %; bands of four
    methods would hide each other. A quantity at one value is a strip for each method, with a dot
    for each data set, a bar from 25 to 75 %, and a tick at the median. Quantities of the same name
    have the same scale in all groups.

    The repetitions of ``panels`` are data sets; NaN where a data set has none. The first curve is
    the parent's and is zero. All quantities of a group have the same names, or ValueError is
    raised. ``band_of`` describes the repetitions: "45 data sets".
    """
    _check_panels(panels)
    with style.style_context():
        names = curve_names({"": panels})
        blank = style.new_figure(1, 1)
        side = min(
            max(style.text_size(blank, name, style.LABEL_SIZE)[0] for name in names), _LONGEST
        )
        heights = [_row_height(quantities) for quantities in panels.values()]
        rows = sum(_GROUP + _TITLE + _NOTE + row_height + _BOTTOM for row_height in heights)
        figure = style.new_figure(style.FULL_WIDTH, _NOTE + rows + _ROW_GAP * (len(heights) - 1))
        top = figure.get_figheight() - _NOTE
        limits = {
            quantity: _value_limits(panels, quantity)
            for quantities in panels.values()
            for quantity in quantities
        }
        for (group, quantities), height in zip(panels.items(), heights, strict=True):
            top -= _GROUP + _TITLE + _NOTE + height
            _draw_row(figure, group, quantities, top, height, side, limits)
            top -= _BOTTOM + _ROW_GAP
        note = (
            f"improvement over the parent: median, bars: 25 to 75 % of {band_of}; half and twice"
            " the parent's are equally far from 0"
        )
        corner = style.FULL_WIDTH - _EDGE, figure.get_figheight() - 0.08
        write_note(figure, *corner, note, ha="right", va="center")
    return figure


def _draw_row(
    figure: Figure,
    group: str,
    quantities: CurvesByQuantity,
    bottom: float,
    height: float,
    side: float,
    limits: Mapping[str, tuple[float, float]],
) -> None:
    is_strip = [len(curves.x) == 1 for curves in quantities.values()]
    lefts, width = _panel_positions(is_strip, side)
    for i, (quantity, measured) in enumerate(quantities.items()):
        axes = style.add_axes(figure, lefts[i], bottom, width, height)
        (_draw_strips if is_strip[i] else _draw_lines)(axes, measured, *limits[quantity])
        axes.set_title(quantity, pad=3 + 72 * _NOTE)
        style.note_above(axes, _dataset_counts(measured), axes.get_xlim()[0], "left", 3)
        names = list(measured.curves)
        labels = [style.shorten_text(figure, name, style.LABEL_SIZE, side) for name in names]
        colors = [plot_style.color for plot_style in style.styles_by_name(names).values()]
        if is_strip[i] and not any(is_strip[:i]):
            for lane, (label, color) in enumerate(zip(labels[1:], colors[1:], strict=True)):
                _annotate_lane(axes, label, 0, lane, color)
        if not is_strip[i] and i == 0:
            axes.set_ylabel("improvement")
        if not is_strip[i] and i == len(is_strip) - 1:
            ends = [float(np.nanmedian(values[:, -1])) for values in measured.curves.values()]
            _label_lines(axes, labels, ends, colors)
    top = bottom + height + _NOTE + _TITLE + _GROUP
    heading: dict[str, Any] = {"fontsize": 8, "color": style.BLACK, "fontweight": "bold"}
    write_text(figure, _EDGE, top, group, ha="left", va="top", **heading)


def _draw_lines(axes: Axes, measured: RepeatedCurves, low: float, high: float) -> None:
    if measured.log:
        style.set_log_scale(axes, "x")
    label = f"{measured.x_label} (log scale)" if measured.log else measured.x_label
    names = list(measured.curves)
    axes.set(xlim=_padded_limits(axes, measured, _DODGE * len(names) / 2), xlabel=label)
    set_ratio_scale(axes, "y", low, high)
    bar_positions = _spaced_positions(axes, measured.x)
    for i, (name, plot_style) in enumerate(style.styles_by_name(names).items()):
        lower, middle, upper = np.nanquantile(measured.curves[name], [0.25, 0.5, 0.75], axis=0)
        line = plot_style.line(marker="", linewidth=1.2 + 0.15 * i, zorder=3 - 0.01 * i)
        axes.plot(measured.x, middle, label=name, **line)
        if i == 0:
            continue
        # The bars of methods are shifted by points instead of data units, so that they have the
        # same distance on every scale.
        offset = ScaledTranslation(
            _DODGE * (i - len(names) / 2) / 72, 0, axes.figure.dpi_scale_trans
        )
        points = {
            "transform": axes.transData + offset,
            "color": plot_style.color,
            "zorder": 4 - 0.01 * i,
            "clip_on": False,
        }
        x, bar_low, bar_high = (each[bar_positions] for each in (measured.x, lower, upper))
        bar: dict[str, Any] = {"linewidth": 0.8, "alpha": 0.7, "gid": f"band {name}"}
        axes.vlines(x, bar_low, bar_high, **points | bar)
        options = {
            "linestyle": "",
            "marker": plot_style.marker,
            "markersize": 2.6,
            "markeredgewidth": 0,
            "gid": f"medians {name}",
        }
        axes.plot(x, middle[bar_positions], **points | options)


def _padded_limits(axes: Axes, measured: RepeatedCurves, points: float) -> tuple[float, float]:
    width = 72 * axes.get_window_extent().width / axes.figure.dpi
    first, last = np.log(measured.x[[0, -1]]) if measured.log else measured.x[[0, -1]]
    margin = (last - first) * points / (width - 2 * points)
    ends = np.array([first - margin, last + margin])
    low, high = np.exp(ends) if measured.log else ends
    return float(low), float(high)


def _spaced_positions(axes: Axes, x: np.ndarray) -> np.ndarray:
    """Return indices of values, Int[b], that are far enough apart for bars."""
    points = (
        72
        * axes.transData.transform(np.stack([x, np.zeros(len(x))], axis=1))[:, 0]
        / axes.figure.dpi
    )
    # Greedy selection from the left.
    chosen = [0]
    for i, position in enumerate(points):
        if position - points[chosen[-1]] >= _BARS:
            chosen.append(i)
    return np.array(chosen)


def _draw_strips(axes: Axes, measured: RepeatedCurves, low: float, high: float) -> None:
    set_ratio_scale(axes, "x", low, high)
    methods = list(style.styles_by_name(list(measured.curves)).items())[1:]
    axes.set(ylim=(len(methods) - 0.5, -0.5), yticks=[], xlabel="improvement")
    axes.spines.left.set_visible(False)
    axes.axvline(
        0, color=style.GREY, linewidth=0.8, linestyle=(0, (3.2, 1.6)), zorder=1, gid="parent"
    )
    for lane, (name, plot_style) in enumerate(methods):
        values = measured.curves[name][:, 0]
        _draw_strip(axes, lane, name, plot_style, values[~np.isnan(values)])


def _draw_strip(
    axes: Axes, lane: int, name: str, plot_style: style.PlotStyle, values: np.ndarray
) -> None:
    lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75])
    dots = {
        "linestyle": "",
        "marker": plot_style.marker,
        "markersize": _DOT,
        "color": plot_style.color,
        "alpha": 0.45,
        "markeredgewidth": 0,
    }
    axes.plot(
        values, lane + 0.34 * _spread_dots(to_ratio(values)), label=name, gid=f"dots {name}", **dots
    )
    bar: dict[str, Any] = {"linewidth": 1.3, "solid_capstyle": "butt"}
    band = bar | {"color": plot_style.color, "zorder": 4, "gid": f"band {name}"}
    axes.plot([lower, upper], [lane, lane], **band)
    median = bar | {"color": style.BLACK, "zorder": 5, "gid": f"median {name}"}
    axes.plot([middle] * 2, [lane - 0.36, lane + 0.36], **median)
    _annotate_lane(axes, format_signed(float(middle), digits=3), 1, lane, plot_style.color)


def _spread_dots(positions: np.ndarray, bins: int = 40) -> np.ndarray:
    """Return the offsets of dots from their lane, Float[n] in [-1, 1].

    Dots in the same bin of positions are spread evenly.
    """
    # Dots are assigned to bins of their position. The fullest bin fills the whole lane, unless it
    # has fewer than 6 dots.
    low, high = positions.min(), positions.max()
    dot_bins = np.floor((positions - low) / max(high - low, 1e-12) * (bins - 1)).astype(int)
    largest_count = max(np.bincount(dot_bins).max(), 6)
    result = np.zeros(len(positions))
    for bin_index in np.unique(dot_bins):
        members = np.flatnonzero(dot_bins == bin_index)
        result[members] = (2 * np.arange(len(members)) - (len(members) - 1)) / largest_count
    return result


def _annotate_lane(axes: Axes, text: str, end: int, lane: int, color: str) -> None:
    """Write small text to the left (0) or the right (1) of a lane."""
    plot_style: dict[str, Any] = (
        {"ha": "left", "fontsize": style.NOTE_SIZE}
        if end
        else {"ha": "right", "fontsize": style.LABEL_SIZE}
    )
    plot_style |= {"va": "center", "color": color}
    write_beside(
        axes, text, (end, lane), (6 * end - 4, 0), axes.get_yaxis_transform(), **plot_style
    )


def _label_lines(
    axes: Axes, names: Sequence[str], ends: Sequence[float], colors: Sequence[str]
) -> None:
    """Write the names of lines at their ends on the ratio scale.

    The names are drawn on linear twin axes, since :func:`label_line_ends` needs a linear scale.
    """
    low, high = to_ratio(np.array(axes.get_ylim()))
    twin = axes.twinx()
    twin.set(ylim=(low, high), yticks=[])
    twin.spines[:].set_visible(False)
    style.label_line_ends(
        twin, names, np.clip(to_ratio(np.array(ends)), low, high).tolist(), colors
    )


def _dataset_counts(measured: RepeatedCurves) -> str:
    """Return the number of data sets, at both ends of the parameter and a range if they differ."""
    counts_by_method = [
        (~np.isnan(values)).sum(axis=0) for values in list(measured.curves.values())[1:]
    ]
    first, last = (sorted({int(counts[end]) for counts in counts_by_method}) for end in (0, -1))
    at_first, at_last = (
        "–".join(map(str, dict.fromkeys((end_counts[0], end_counts[-1]))))
        for end_counts in (first, last)
    )
    sets = "set" if at_first == "1" else "sets"
    return f"{at_first} {sets}" if at_first == at_last else f"{at_first} {sets} → {at_last}"


def _value_limits(panels: CurvesByGroup, quantity: str) -> tuple[float, float]:
    """Return the extremes of the dots of strips, and of the ends of bars, in any group."""
    extremes = [0.0]
    for measured in (
        quantities[quantity] for quantities in panels.values() if quantity in quantities
    ):
        drawn = [0, 1] if len(measured.x) == 1 else [0.25, 0.75]
        for values in list(measured.curves.values())[1:]:
            extremes += np.nanquantile(values, drawn, axis=0).ravel().tolist()
    return min(extremes), max(extremes)


def _row_height(quantities: CurvesByQuantity) -> float:
    lanes = _LANE * max(len(curves.curves) - 1 for curves in quantities.values())
    has_lines = any(len(curves.x) > 1 for curves in quantities.values())
    return max(_HEIGHT, lanes) if has_lines else lanes


def _panel_positions(is_strip: Sequence[bool], side: float) -> tuple[list[float], float]:
    """Return left edges and width of the panels of a row, in inches.

    ``side`` is the width of the longest name.
    """
    # Names are to the left of the first strip, and at the line ends of the last panel. A strip has
    # a median at its right, and a panel with lines has tick labels at its left.
    first_strip = is_strip.index(True) if True in is_strip else None
    left_margins = [
        side + 0.1 if i == first_strip else _GAP if strip else _TICK_SPACE + 0.12 * (i == 0)
        for i, strip in enumerate(is_strip)
    ]
    right_margins = [_NUMBER if strip else 0.0 for strip in is_strip[:-1]] + [
        _NUMBER if is_strip[-1] else side + 0.12
    ]
    width = (style.FULL_WIDTH - 2 * _EDGE - sum(left_margins) - sum(right_margins)) / len(is_strip)
    return [
        _EDGE + sum(left_margins[: i + 1]) + sum(right_margins[:i]) + i * width
        for i in range(len(is_strip))
    ], width


def _check_panels(panels: CurvesByGroup) -> None:
    if not panels or not all(panels.values()):
        raise ValueError("improvement_summary needs a group with a quantity")
    for group, quantities in panels.items():
        names = list(next(iter(quantities.values())).curves)
        for quantity, measured in quantities.items():
            if list(measured.curves) != names or len(names) < 2:
                raise ValueError(
                    f"every quantity of {group!r} needs the parent and the same methods, {names},"
                    f" got {list(measured.curves)}"
                )
            check_repeated_curves(f"{quantity!r} of {group!r}", measured, at_least=1)
