"""A scale for improvements, which end at 1 and fall without bound: half of the parent's error and
twice as much lie equally far from 0.

How much better than their parent methods are over many data sets: against a parameter, or as one
dot a data set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter
from matplotlib.transforms import ScaledTranslation
from numpy.typing import ArrayLike

from kdgraph.figures.panels import (
    CurvesByGroup,
    CurvesByQuantity,
    RepeatedCurves,
    check_repeated_curves,
)
from kdgraph.figures.style import (
    BLACK,
    FULL_WIDTH,
    GREY,
    LABEL_SIZE,
    NOTE_SIZE,
    PlotStyle,
    add_axes,
    label_line_ends,
    new_figure,
    note_above,
    set_log_scale,
    shorten_text,
    style_context,
    styles_by_name,
    text_size,
)

_LOWEST_RATIO = -0.999
"""Where the lowest of all numbers is drawn: 1,000 times the parent's error."""
_TICK_LABEL_WIDTH = (
    0.0,
    1.0,
    -1.0,
    0.5,
    -4.0,
    -0.5,
    0.2,
    -0.2,
    0.1,
    -0.1,
    0.05,
    -0.05,
    0.02,
    -0.02,
    0.01,
    -0.01,
)
"""The first of these have a tick before others that would be too near."""
_ROW_GAP = {"x": 0.3, "y": 0.16}  # least distance of two ticks: inches


def to_ratio(values: ArrayLike) -> np.ndarray:
    """Elementwise: improvements as they are, but v < 0 as v/(1 - v), which is minus the improvement
    with parent and method exchanged.
    """
    v = np.asarray(values, dtype=np.float64)
    return np.where(v < 0, v / (1 - np.minimum(v, 0)), v)


def from_ratio(places: ArrayLike) -> np.ndarray:
    """Elementwise the inverse of :func:`to_ratio`; places below -0.999 count as that."""
    u = np.asarray(places, dtype=np.float64)
    return np.where(u < 0, u / (1 + np.clip(u, _LOWEST_RATIO, 0)), u)


def set_ratio_scale(axes: Axes, which: Literal["x", "y"], low: float, high: float) -> None:
    """Give one axis this scale, from the improvement ``low`` to ``high`` with some room at both
    ends, and ticks that are apart.
    """
    bottom, top = to_ratio(np.array([low, high]))
    room = 0.04 * max(top - bottom, 0.02)
    ends = from_ratio(np.array([bottom - room, top + room]))
    if which == "x":
        axes.set_xscale("function", functions=(to_ratio, from_ratio))
        axes.set_xlim(*ends)
    else:
        axes.set_yscale("function", functions=(to_ratio, from_ratio))
        axes.set_ylim(*ends)
    box, dpi = axes.get_window_extent(), axes.figure.dpi
    axis, inches = (axes.xaxis, box.width / dpi) if which == "x" else (axes.yaxis, box.height / dpi)
    axis.set_major_locator(FixedLocator(_choose_ticks(*ends, apart=_ROW_GAP[which] / inches)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_signed(value)))


def format_signed(value: float, digits: int | None = None) -> str:
    """+.5, 0, −1: an improvement with a true minus, to so many digits after the point if they are
    given.
    """
    size = f"{abs(value):.3g}" if digits is None else f"{abs(value):.{digits}f}"
    if float(size) == 0:
        return size if digits is None else size.removeprefix("0")
    return ("+" if value > 0 else "−") + size.removeprefix("0")


def _choose_ticks(low: float, high: float, apart: float) -> list[float]:
    """Those of the ticks within the ends that are at least this share of the axis apart."""
    start, length = to_ratio(low), to_ratio(high) - to_ratio(low)
    chosen: dict[float, float] = {}
    for tick in _TICK_LABEL_WIDTH:
        where = float((to_ratio(tick) - start) / length)
        if 0 <= where <= 1 and all(abs(where - other) >= apart for other in chosen.values()):
            chosen[tick] = where
    return sorted(chosen)


_EDGE, _GAP, _TICKS_IMPROVEMENT, _NUMBER = (
    0.08,
    0.1,
    0.36,
    0.3,
)  # inches: the figure's edge, between panels, an axis' tick labels, a strip's medians
_GROUP, _TITLE, _NOTE, _BOTTOM, _BETWEEN_IMPROVEMENT = (
    0.16,
    0.18,
    0.14,
    0.36,
    0.06,
)  # inches: a row's name, titles, notes; below it, between rows
_HEIGHT, _LANE, _LONGEST = (
    1.35,
    0.23,
    0.85,
)  # inches: panels of lines, one method of a strip, the longest name
_DOT, _DODGE, _BARS = (
    2.0,
    2.4,
    26.0,
)  # points: a data set of a strip; between the bars of two methods, and between two bars of one


def plot_improvement_summary(panels: CurvesByGroup, *, band_of: str) -> Figure:
    """One row for each group of models, as Figure 2 of Dey et al.: each quantity's improvement over
    the parent of the group.

    A quantity against a parameter is a line for each method, the median over data sets, with bars
    from 25 to 75 % here and there: bands of four methods would lie over each other. A quantity at
    one value is a strip for each method: a dot for each data set, a bar from 25 to 75 % and a tick
    at the median, which stands beside it. Improvements are drawn on a scale on which half and twice
    the parent's error are equally far from 0. Quantities of one name have one scale in all groups.

    Parameters
    ----------
    panels : group → quantity → :class:`~kdgraph.figures.RepeatedCurves`, whose repetitions are data sets,
        of improvements, NaN where a data set has none. The first curve is the parent's, all zero;
        all quantities of a group have the same names.
    band_of : what the repetitions are, e.g. "45 data sets".

    Returns
    -------
    Figure
        As wide as the page.

    Raises
    ------
    ValueError
        No group, curves that do not fit their parameter, names that differ within a group.
    """
    _check_panels(panels)
    with style_context():
        names = list(
            dict.fromkeys(
                name
                for quantities in panels.values()
                for one in quantities.values()
                for name in one.curves
            )
        )
        side = min(
            max(text_size(new_figure(1, 1), name, LABEL_SIZE)[0] for name in names), _LONGEST
        )
        heights = [_row_height(quantities) for quantities in panels.values()]
        figure = new_figure(
            FULL_WIDTH,
            _NOTE
            + sum(_GROUP + _TITLE + _NOTE + h + _BOTTOM for h in heights)
            + _BETWEEN_IMPROVEMENT * (len(heights) - 1),
        )
        top = figure.get_figheight() - _NOTE
        limits = {
            quantity: _value_limits(panels, quantity)
            for quantities in panels.values()
            for quantity in quantities
        }
        for (group, quantities), height in zip(panels.items(), heights, strict=True):
            top -= _GROUP + _TITLE + _NOTE + height
            _draw_row(figure, group, quantities, top, height, side, limits)
            top -= _BOTTOM + _BETWEEN_IMPROVEMENT
        note = (
            f"improvement over the parent: median, bars: 25 to 75 % of {band_of}; half and twice"
            " the parent's are equally far from 0"
        )
        where = 1 - _EDGE / FULL_WIDTH, 1 - 0.08 / figure.get_figheight()
        figure.text(*where, note, ha="right", va="center", fontsize=NOTE_SIZE, color=GREY)
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
    strips = [len(one.x) == 1 for one in quantities.values()]
    lefts, width = _panel_positions(strips, side)
    for i, (quantity, measured) in enumerate(quantities.items()):
        axes = add_axes(figure, lefts[i], bottom, width, height)
        (_draw_strips if strips[i] else _draw_lines)(axes, measured, *limits[quantity])
        axes.set_title(quantity, pad=3 + 72 * _NOTE)
        note_above(axes, _dataset_counts(measured), axes.get_xlim()[0], "left", 3)
        names = list(measured.curves)
        labels = [shorten_text(figure, name, LABEL_SIZE, side) for name in names]
        colors = [role.color for role in styles_by_name(names).values()]
        if strips[i] and not any(strips[:i]):
            _label_lanes(axes, labels[1:], colors[1:])
        if not strips[i] and i == 0:
            axes.set_ylabel("improvement")
        if not strips[i] and i == len(strips) - 1:
            _label_lines(
                axes,
                labels,
                [float(np.nanmedian(values[:, -1])) for values in measured.curves.values()],
                colors,
            )
    y = (bottom + height + _NOTE + _TITLE + _GROUP) / figure.get_figheight()
    figure.text(
        _EDGE / FULL_WIDTH,
        y,
        group,
        ha="left",
        va="top",
        fontsize=8,
        color=BLACK,
        fontweight="bold",
    )


def _draw_lines(axes: Axes, measured: RepeatedCurves, low: float, high: float) -> None:
    if measured.log:
        set_log_scale(axes, "x")
    names = list(measured.curves)
    axes.set(xlim=_padded_limits(axes, measured, _DODGE * len(names) / 2), xlabel=measured.x_label)
    set_ratio_scale(axes, "y", low, high)
    at = _spaced_positions(axes, measured.x)
    for i, (name, role) in enumerate(styles_by_name(names).items()):
        lower, middle, upper = np.nanquantile(measured.curves[name], [0.25, 0.5, 0.75], axis=0)
        line = role.line() | {"marker": "", "linewidth": 1.2 + 0.15 * i}
        axes.plot(measured.x, middle, label=name, zorder=3 - 0.01 * i, **line)
        if i == 0:
            continue
        aside = ScaledTranslation(
            _DODGE * (i - len(names) / 2) / 72, 0, axes.figure.dpi_scale_trans
        )
        points = {
            "transform": axes.transData + aside,
            "color": role.color,
            "zorder": 4 - 0.01 * i,
            "clip_on": False,
        }
        axes.vlines(
            measured.x[at],
            lower[at],
            upper[at],
            linewidth=0.8,
            alpha=0.7,
            gid=f"band {name}",
            **points,
        )
        style = {
            "linestyle": "",
            "marker": role.marker,
            "markersize": 2.6,
            "markeredgewidth": 0,
            "gid": f"medians {name}",
        }
        axes.plot(measured.x[at], middle[at], **points | style)


def _padded_limits(axes: Axes, measured: RepeatedCurves, points: float) -> tuple[float, float]:
    """Both ends of the parameter's axis, with this much room for the bars at its first and last
    value.
    """
    width = 72 * axes.get_window_extent().width / axes.figure.dpi
    first, last = np.log(measured.x[[0, -1]]) if measured.log else measured.x[[0, -1]]
    room = (last - first) * points / (width - 2 * points)
    ends = np.array([first - room, last + room])
    low, high = np.exp(ends) if measured.log else ends
    return float(low), float(high)


def _spaced_positions(axes: Axes, x: np.ndarray) -> np.ndarray:
    """Int[b]: positions of values of the parameter that are far enough from each other for bars
    side by side, the first among them.
    """
    points = (
        72
        * axes.transData.transform(np.stack([x, np.zeros(len(x))], axis=1))[:, 0]
        / axes.figure.dpi
    )
    chosen = [0]
    for i, place in enumerate(points):
        if place - points[chosen[-1]] >= _BARS:
            chosen.append(i)
    return np.array(chosen)


def _draw_strips(axes: Axes, measured: RepeatedCurves, low: float, high: float) -> None:
    set_ratio_scale(axes, "x", low, high)
    methods = list(styles_by_name(list(measured.curves)).items())[1:]
    axes.set(ylim=(len(methods) - 0.5, -0.5), yticks=[], xlabel="improvement")
    axes.spines.left.set_visible(False)
    axes.axvline(0, color=GREY, linewidth=0.8, linestyle=(0, (3.2, 1.6)), zorder=1, gid="parent")
    for lane, (name, role) in enumerate(methods):
        values = measured.curves[name][:, 0]
        _draw_strip(axes, lane, name, role, values[~np.isnan(values)])


def _draw_strip(axes: Axes, lane: int, name: str, role: PlotStyle, values: np.ndarray) -> None:
    lower, middle, upper = np.quantile(values, [0.25, 0.5, 0.75])
    dots = {
        "linestyle": "",
        "marker": role.marker,
        "markersize": _DOT,
        "color": role.color,
        "alpha": 0.45,
        "markeredgewidth": 0,
    }
    axes.plot(
        values, lane + 0.34 * _spread_dots(to_ratio(values)), label=name, gid=f"dots {name}", **dots
    )
    axes.plot(
        [lower, upper],
        [lane, lane],
        color=role.color,
        linewidth=1.3,
        solid_capstyle="butt",
        zorder=4,
        gid=f"band {name}",
    )
    axes.plot(
        [middle] * 2,
        [lane - 0.36, lane + 0.36],
        color=BLACK,
        linewidth=1.3,
        solid_capstyle="butt",
        zorder=5,
        gid=f"median {name}",
    )
    _text_beside_lane(axes, format_signed(float(middle), digits=3), 1, lane, role.color)


def _spread_dots(places: np.ndarray, bins: int = 40) -> np.ndarray:
    """Float[n] in [-1, 1]: how far to either side of its lane each dot goes, so that those of about
    one place are spread evenly.
    """
    low, high = places.min(), places.max()
    bin_of = np.floor((places - low) / max(high - low, 1e-12) * (bins - 1)).astype(int)
    most = max(np.bincount(bin_of).max(), 6)
    result = np.zeros(len(places))
    for one in np.unique(bin_of):
        inside = np.flatnonzero(bin_of == one)
        result[inside] = (2 * np.arange(len(inside)) - (len(inside) - 1)) / most
    return result


def _label_lanes(axes: Axes, names: Sequence[str], colors: Sequence[str]) -> None:
    for lane, (name, color) in enumerate(zip(names, colors, strict=True)):
        _text_beside_lane(axes, name, 0, lane, color)


def _text_beside_lane(axes: Axes, text: str, end: int, lane: int, color: str) -> None:
    """Small text left (0) or right (1) of a lane."""
    axes.annotate(
        text,
        (end, lane),
        (6 * end - 4, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha="left" if end else "right",
        va="center",
        fontsize=NOTE_SIZE if end else LABEL_SIZE,
        color=color,
        annotation_clip=False,
    )


def _label_lines(
    axes: Axes, names: Sequence[str], ends: Sequence[float], colors: Sequence[str]
) -> None:
    """As :func:`label_line_ends`, which needs a linear axis: by a twin that has the places of these
    lines.
    """
    low, high = to_ratio(np.array(axes.get_ylim()))
    twin = axes.twinx()
    twin.set(ylim=(low, high), yticks=[])
    twin.spines[:].set_visible(False)
    label_line_ends(twin, names, np.clip(to_ratio(np.array(ends)), low, high).tolist(), colors)


def _dataset_counts(measured: RepeatedCurves) -> str:
    """How many data sets there are, at both ends of the parameter if that differs; a range where
    methods differ.
    """
    each = [(~np.isnan(values)).sum(axis=0) for values in list(measured.curves.values())[1:]]
    first, last = (sorted({int(counts[end]) for counts in each}) for end in (0, -1))
    at_first, at_last = (
        "–".join(map(str, dict.fromkeys((found[0], found[-1])))) for found in (first, last)
    )
    sets = "set" if at_first == "1" else "sets"
    return f"{at_first} {sets}" if at_first == at_last else f"{at_first} {sets} → {at_last}"


def _value_limits(panels: CurvesByGroup, quantity: str) -> tuple[float, float]:
    """Lowest and highest number that is drawn of a quantity in any group: of all dots, or of the
    ends of bars.
    """
    found = [0.0]
    for measured in (
        quantities[quantity] for quantities in panels.values() if quantity in quantities
    ):
        for values in list(measured.curves.values())[1:]:
            found += (
                np.nanquantile(values, [0, 1] if len(measured.x) == 1 else [0.25, 0.75], axis=0)
                .ravel()
                .tolist()
            )
    return min(found), max(found)


def _row_height(quantities: CurvesByQuantity) -> float:
    lanes = _LANE * max(len(one.curves) - 1 for one in quantities.values())
    return max(_HEIGHT, lanes) if any(len(one.x) > 1 for one in quantities.values()) else lanes


def _panel_positions(strips: Sequence[bool], side: float) -> tuple[list[float], float]:
    """Left edges of the panels of a row in inches, and their width; ``side`` is what the longest
    name takes.
    """
    first = strips.index(True) if True in strips else None
    before = [
        side + 0.1 if i == first else _GAP if strip else _TICKS_IMPROVEMENT + 0.12 * (i == 0)
        for i, strip in enumerate(strips)
    ]
    after = [_NUMBER if strip else 0.0 for strip in strips[:-1]] + [
        _NUMBER if strips[-1] else side + 0.12
    ]
    width = (FULL_WIDTH - 2 * _EDGE - sum(before) - sum(after)) / len(strips)
    return [
        _EDGE + sum(before[: i + 1]) + sum(after[:i]) + i * width for i in range(len(strips))
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
