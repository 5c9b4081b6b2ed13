"""Mean ranks of methods over data sets, and which of them a test does not tell apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kdgraph.figures.style import (
    BLACK,
    BLUE,
    FULL_WIDTH,
    GREY,
    NOTE_SIZE,
    add_axes,
    new_figure,
    shorten_text,
    style_context,
)

_SIDE, _EDGE = 2.15, 0.06  # inches: names at either side of the axis, and the edge of the figure
_WIDTH = FULL_WIDTH - 2 * _SIDE
_HEAD, _BAR, _LINE, _FOOT = (
    0.62,
    0.085,
    0.165,
    0.12,
)  # inches: title and scale, a bar, a name, below the last name
_SIZE, _BOLD = 7.0, 1.18  # points, and how much wider bold text is
_NUMBER, _KEY = (
    0.27,
    0.2,
)  # inches: what a mean rank takes, what the last line says of bars and bold names
_RankPosition = Callable[[float], float]
"""Mean rank → inches from the left."""


@dataclass(frozen=True)
class RankSummary:
    """Mean ranks of one quantity.

    Attributes
    ----------
    ranks : method → mean rank, 1 the best; three methods or more. Names that end in "(parent)" are
    drawn grey.
    critical_difference : how far apart two of them must be.
    groups : methods that are not told apart, the best group first; they may overlap.
    n : data sets.
    p : of Friedman's test.
    """

    ranks: Mapping[str, float]
    critical_difference: float
    groups: Sequence[Sequence[str]]
    n: int
    p: float


def plot_critical_difference_diagram(panels: Mapping[str, RankSummary]) -> Figure:
    """Draw critical differences as Demšar does: methods on a scale of mean ranks, the best at the
    left, bars under those not told apart.

    Parameters
    ----------
    panels : quantity → its ranks, one panel each from top to bottom.

    Returns
    -------
    Figure
        As wide as the page. The length of the critical difference stands above each scale; methods
        that are not told apart from the best are bold.

    Raises
    ------
    ValueError
        No panel, fewer than three methods, a rank outside 1 to k, or a group with a method that has
        no rank.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, Figure 1.
    """
    _check_panels(panels)
    heights = [_panel_height(one) for one in panels.values()]
    with style_context():
        figure = new_figure(FULL_WIDTH, sum(heights) + _KEY)
        for i, (title, one) in enumerate(panels.items()):
            axes = add_axes(
                figure, 0, _KEY + sum(heights[i + 1 :]), FULL_WIDTH, heights[i], label=title
            )
            axes.set(
                xlim=(0, FULL_WIDTH), ylim=(heights[i], 0)
            )  # inches from the panel's upper left corner
            axes.set_axis_off()
            _draw_ranks(axes, title, one)
        key = (
            "bars join methods that Nemenyi's test does not tell apart; bold: not told apart from"
            " the best"
        )
        figure.text(
            0.5,
            0.5 * _KEY / figure.get_figheight(),
            key,
            fontsize=NOTE_SIZE,
            color=GREY,
            ha="center",
            va="center",
        )
    return figure


def _draw_ranks(axes: Axes, title: str, one: RankSummary) -> None:
    k = len(one.ranks)

    def place(rank: float) -> float:
        return _SIDE + _WIDTH * (rank - 1) / (k - 1)

    p = "p < 0.001" if one.p < 0.001 else f"p = {one.p:.3f}"
    note = f"mean rank over {one.n} data sets; Friedman {p}"
    axes.text(_EDGE, 0.14, title, fontsize=8, va="center")
    axes.text(
        FULL_WIDTH - _EDGE, 0.14, note, fontsize=NOTE_SIZE, color=GREY, ha="right", va="center"
    )
    _draw_scale(axes, k, place)
    _draw_critical_difference(axes, one.critical_difference, k, place)
    spans = _group_spans(one)
    levels = _bar_levels(spans)
    for (low, high), level in zip(spans, levels, strict=True):
        y = _HEAD + _BAR * (level + 1)
        ends = place(low) - 0.03, place(high) + 0.03
        axes.plot(
            ends,
            (y, y),
            color=BLUE,
            linewidth=2.2,
            solid_capstyle="butt",
            gid="not told apart",
            zorder=3,
        )
    below = _HEAD + _BAR * (max(levels, default=-1) + 2)
    _draw_names(axes, one, place, below)


def _draw_scale(axes: Axes, k: int, place: _RankPosition) -> None:
    axes.plot((place(1), place(k)), (_HEAD, _HEAD), color=BLACK, linewidth=0.7, gid="scale")
    axes.text(
        place(1) - 0.08, _HEAD, "better ←", fontsize=NOTE_SIZE, color=GREY, ha="right", va="center"
    )
    step = max(1, -(-k // 15))
    for rank in range(1, k + 1):
        axes.plot((place(rank),) * 2, (_HEAD - 0.05, _HEAD), color=BLACK, linewidth=0.7)
        if (rank - 1) % step == 0:
            axes.text(
                place(rank), _HEAD - 0.07, str(rank), fontsize=NOTE_SIZE, ha="center", va="bottom"
            )


def _draw_critical_difference(axes: Axes, difference: float, k: int, place: _RankPosition) -> None:
    """The critical difference as a length above the scale, from its best end; in words alone if the
    scale is shorter.
    """
    y, words = _HEAD - 0.27, f"critical difference {difference:.2f}"
    if difference > k - 1:
        axes.text(
            place(1), y, f"{words}, more than any two can be apart", fontsize=NOTE_SIZE, va="center"
        )
        return
    start, end = place(1), place(1 + difference)
    axes.plot((start, end), (y, y), color=BLACK, linewidth=0.9, gid="critical difference")
    for x in (start, end):
        axes.plot((x, x), (y - 0.03, y + 0.03), color=BLACK, linewidth=0.9)
    axes.text(end + 0.06, y, words, fontsize=NOTE_SIZE, va="center")


def _draw_names(axes: Axes, one: RankSummary, place: _RankPosition, below: float) -> None:
    """The better half at the left from top to bottom, the others at the right from bottom to top,
    so that no two lines cross.
    """
    names = sorted(one.ranks, key=lambda name: one.ranks[name])
    half = (len(names) + 1) // 2
    best = next((set(group) for group in one.groups if names[0] in group), {names[0]})
    bold = best if len(best) < len(names) else set()
    for side, column in (("left", names[:half]), ("right", names[half:][::-1])):
        sign, edge = (1, _EDGE) if side == "left" else (-1, FULL_WIDTH - _EDGE)
        for i, name in enumerate(column):
            y, x = below + _LINE * (i + 0.5), place(one.ranks[name])
            is_parent = name.endswith("(parent)")
            line = {
                "color": GREY if is_parent else BLACK,
                "linewidth": 0.6,
                "linestyle": (0, (3.2, 1.6)) if is_parent else "-",
            }
            end = edge + sign * (_SIDE - 0.12)
            axes.plot((x, x, end), (_HEAD, y, y), gid=f"line {name}", **line)
            color, weight = GREY if is_parent else BLACK, "bold" if name in bold else "normal"
            axes.text(
                end - sign * 0.05,
                y,
                f"{one.ranks[name]:.2f}",
                fontsize=NOTE_SIZE,
                ha=_text_alignment(side),
                va="center",
                color=GREY,
            )
            text = shorten_text(
                cast("Figure", axes.figure),
                name,
                _SIZE,
                (_SIDE - 0.24 - _NUMBER) / (_BOLD if weight == "bold" else 1),
            )
            axes.text(
                end - sign * (0.08 + _NUMBER),
                y,
                text,
                fontsize=_SIZE,
                ha=_text_alignment(side),
                va="center",
                color=color,
                weight=weight,
            )


def _text_alignment(side: str) -> str:
    """Text at the left ends at its line, text at the right begins there."""
    return "right" if side == "left" else "left"


def _group_spans(one: RankSummary) -> list[tuple[float, float]]:
    """Best and worst mean rank of each group."""
    means = [[one.ranks[name] for name in group] for group in one.groups]
    return [(min(of), max(of)) for of in means]


def _bar_levels(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The highest line on which each bar has room behind those before it."""
    ends: list[float] = []
    found = []
    for low, high in spans:
        level = next((i for i, end in enumerate(ends) if low > end), len(ends))
        ends[level:] = [high, *ends[level + 1 :]]
        found.append(level)
    return found


def _panel_height(one: RankSummary) -> float:
    levels = _bar_levels(_group_spans(one))
    return (
        _HEAD + _BAR * (max(levels, default=-1) + 2) + _LINE * ((len(one.ranks) + 1) // 2) + _FOOT
    )


def _check_panels(panels: Mapping[str, RankSummary]) -> None:
    if not panels:
        raise ValueError("critical_difference_diagram needs a panel")
    for title, one in panels.items():
        k = len(one.ranks)
        if k < 3 or not all(1 <= rank <= k for rank in one.ranks.values()):
            raise ValueError(
                f"{title!r} must have three methods or more with mean ranks from 1 to their number,"
                f" got {dict(one.ranks)}"
            )
        if unknown := [name for group in one.groups for name in group if name not in one.ranks]:
            raise ValueError(f"a group of {title!r} has {unknown[0]!r}, which has no rank")
