"""Critical difference diagrams of the mean ranks of methods over data sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kdgraph.figures.drawing import write_note
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
    text_size,
)

_SIDE, _EDGE = 2.15, 0.06  # inches: names at either side of the axis, and the edge of the figure
_WIDTH = FULL_WIDTH - 2 * _SIDE
# Inches: title and scale, a bar, a name, the space below the last name.
_HEAD, _BAR, _LINE, _FOOT = 0.62, 0.085, 0.165, 0.12
_SECOND_LINE = 0.1  # inches that a second line adds to the height of a name
_SIZE, _BOLD = 7.0, 1.18  # points, and the width of bold text relative to normal text
_NUMBER, _KEY = 0.27, 0.2  # inches: width of a mean rank, height of the note about bars
_RankPosition = Callable[[float], float]
"""Function from a mean rank to inches from the left."""


@dataclass(frozen=True)
class RankSummary:
    """Mean ranks of one quantity and the result of their comparison.

    Attributes
    ----------
    ranks : mapping of str to float
        Mean rank of three or more methods, 1 is the best. Names that end in "(parent)" are drawn
        grey.
    critical_difference : float
        Least significant difference of two mean ranks.
    groups : sequence of sequence of str
        Groups of methods that do not differ significantly, the best group first; groups may
        overlap.
    n : int
        Number of data sets.
    p : float
        p-value of Friedman's test.

    Examples
    --------
    >>> from kdgraph.figures import RankSummary
    >>> ranks = {"kdf": 1.4, "isotonic": 2.0, "random_forest (parent)": 2.6}
    >>> groups = [["kdf", "isotonic"], ["isotonic", "random_forest (parent)"]]
    >>> RankSummary(ranks, critical_difference=0.74, groups=groups, n=20, p=0.0008).groups[0]
    ['kdf', 'isotonic']
    """

    ranks: Mapping[str, float]
    critical_difference: float
    groups: Sequence[Sequence[str]]
    n: int
    p: float


def plot_critical_difference_diagram(panels: Mapping[str, RankSummary]) -> Figure:
    """Plot critical difference diagrams as Demšar does.

    Methods are on a scale of mean ranks with the best at the left. Bars join methods that do not
    differ significantly.

    Parameters
    ----------
    panels : mapping of str to RankSummary
        Ranks by quantity, one panel each from top to bottom.

    Returns
    -------
    Figure
        Figure as wide as the page. The critical difference is drawn above each scale. Methods that
        do not differ significantly from the best are bold.

    Raises
    ------
    ValueError
        If there is no panel, there are fewer than three methods, a rank is outside 1 to k, or a
        method of a group has no rank.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006, Figure 1.

    Examples
    --------
    >>> ranks = {"kdf": 1.4, "isotonic": 1.9, "random_forest (parent)": 2.7}
    >>> groups = [["kdf", "isotonic"], ["isotonic", "random_forest (parent)"]]
    >>> summary = RankSummary(ranks, critical_difference=1.05, groups=groups, n=10, p=0.014)
    >>> figure = plot_critical_difference_diagram({"Brier score": summary})
    >>> len(figure.axes), float(figure.get_figwidth())
    (1, 7.0)
    """
    _check_panels(panels)
    heights = [_panel_height(summary) for summary in panels.values()]
    with style_context():
        figure = new_figure(FULL_WIDTH, sum(heights) + _KEY)
        for i, (title, summary) in enumerate(panels.items()):
            axes = add_axes(
                figure, 0, _KEY + sum(heights[i + 1 :]), FULL_WIDTH, heights[i], label=title
            )
            # Data units are inches from the upper left corner of the panel.
            axes.set(xlim=(0, FULL_WIDTH), ylim=(heights[i], 0))
            axes.set_axis_off()
            _draw_ranks(axes, title, summary)
        key = (
            "bars join methods that do not differ significantly (Nemenyi's test); bold: not"
            " significantly worse than the best"
        )
        write_note(figure, 0.5 * FULL_WIDTH, 0.5 * _KEY, key, ha="center", va="center")
    return figure


def _draw_ranks(axes: Axes, title: str, summary: RankSummary) -> None:
    k = len(summary.ranks)

    def place(rank: float) -> float:
        return _SIDE + _WIDTH * (rank - 1) / (k - 1)

    p = "p < 0.001" if summary.p < 0.001 else f"p = {summary.p:.3f}"
    note = f"mean rank over {summary.n} data sets; Friedman {p}"
    axes.text(_EDGE, 0.14, title, fontsize=8, va="center")
    axes.text(
        FULL_WIDTH - _EDGE, 0.14, note, fontsize=NOTE_SIZE, color=GREY, ha="right", va="center"
    )
    _draw_scale(axes, k, place)
    _draw_critical_difference(axes, summary.critical_difference, k, place)
    spans = _group_spans(summary)
    # Bars that overlap are on different lines, and the lines of the names begin below all bars.
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
            gid="not significant",
            zorder=3,
        )
    below = _HEAD + _BAR * (max(levels, default=-1) + 2)
    _draw_names(axes, summary, place, below)


def _draw_scale(axes: Axes, k: int, place: _RankPosition) -> None:
    axes.plot((place(1), place(k)), (_HEAD, _HEAD), color=BLACK, linewidth=0.7, gid="scale")
    axes.text(
        place(1) - 0.08, _HEAD, "better ←", fontsize=NOTE_SIZE, color=GREY, ha="right", va="center"
    )
    # At most 15 ranks have a number, since more numbers would overlap.
    step = max(1, -(-k // 15))
    for rank in range(1, k + 1):
        axes.plot((place(rank),) * 2, (_HEAD - 0.05, _HEAD), color=BLACK, linewidth=0.7)
        if (rank - 1) % step == 0:
            axes.text(
                place(rank), _HEAD - 0.07, str(rank), fontsize=NOTE_SIZE, ha="center", va="bottom"
            )


def _draw_critical_difference(axes: Axes, difference: float, k: int, place: _RankPosition) -> None:
    """Draw the critical difference as a length, or write its value if the scale is shorter."""
    y, text = _HEAD - 0.27, f"critical difference {difference:.2f}"
    if difference > k - 1:
        axes.text(
            place(1), y, f"{text}, more than any two can be apart", fontsize=NOTE_SIZE, va="center"
        )
        return
    start, end = place(1), place(1 + difference)
    axes.plot((start, end), (y, y), color=BLACK, linewidth=0.9, gid="critical difference")
    for x in (start, end):
        axes.plot((x, x), (y - 0.03, y + 0.03), color=BLACK, linewidth=0.9)
    axes.text(end + 0.06, y, text, fontsize=NOTE_SIZE, va="center")


def _draw_names(axes: Axes, summary: RankSummary, place: _RankPosition, below: float) -> None:
    """Write the names of the methods and join them to their ranks.

    The better half is at the left from top to bottom, the other half at the right from bottom to
    top, so that no two lines cross.
    """
    # Nothing is bold if no method differs significantly from the best.
    bold = _bold_names(summary)
    for side, column in zip(("left", "right"), _name_columns(summary), strict=True):
        sign, edge = (1, _EDGE) if side == "left" else (-1, FULL_WIDTH - _EDGE)
        alignment = "right" if side == "left" else "left"  # the text touches its line
        top = below
        for name in column:
            lines = _name_lines(name, bold=name in bold)
            x, y = place(summary.ranks[name]), top + _name_height(lines) / 2
            top += _name_height(lines)
            is_parent = name.endswith("(parent)")
            line = {
                "color": GREY if is_parent else BLACK,
                "linewidth": 0.6,
                "linestyle": (0, (3.2, 1.6)) if is_parent else "-",
            }
            end = edge + sign * (_SIDE - 0.12)
            axes.plot((x, x, end), (_HEAD, y, y), gid=f"line {name}", **line)
            axes.text(
                end - sign * 0.05,
                y,
                f"{summary.ranks[name]:.2f}",
                fontsize=NOTE_SIZE,
                ha=alignment,
                va="center",
                color=GREY,
            )
            axes.text(
                end - sign * (0.08 + _NUMBER),
                y,
                "\n".join(lines),
                fontsize=_SIZE,
                linespacing=1.0,
                ha=alignment,
                va="center",
                color=GREY if is_parent else BLACK,
                weight="bold" if name in bold else "normal",
            )


def _name_columns(summary: RankSummary) -> tuple[list[str], list[str]]:
    """Return the better half of the names, best first, and the other half, worst first."""
    names = sorted(summary.ranks, key=lambda name: summary.ranks[name])
    half = (len(names) + 1) // 2
    return names[:half], names[half:][::-1]


def _bold_names(summary: RankSummary) -> set[str]:
    """Return the names that do not differ significantly from the best, unless these are all."""
    names = sorted(summary.ranks, key=lambda name: summary.ranks[name])
    best = next((set(group) for group in summary.groups if names[0] in group), {names[0]})
    return best if len(best) < len(names) else set()


def _name_lines(name: str, *, bold: bool) -> list[str]:
    """Return the lines of a name, two if it is too wide for one.

    A name is broken at a space, hyphen or underscore. It is shortened only if it is too wide for
    two lines.
    """
    blank, width = new_figure(1, 1), (_SIDE - 0.24 - _NUMBER) / (_BOLD if bold else 1)
    lines = [name]
    if text_size(blank, name, _SIZE)[0] > width:
        breaks = [match.end() for match in re.finditer("[ _-]", name) if match.end() < len(name)]
        if breaks:
            # The break that makes the longer line shortest.
            middle = min(breaks, key=lambda cut: max(cut, len(name) - cut))
            lines = [name[:middle].rstrip(" "), name[middle:]]
    return [shorten_text(blank, line, _SIZE, width) for line in lines]


def _name_height(lines: Sequence[str]) -> float:
    return _LINE + _SECOND_LINE * (len(lines) - 1)


def _group_spans(summary: RankSummary) -> list[tuple[float, float]]:
    means = [[summary.ranks[name] for name in group] for group in summary.groups]
    return [(min(ranks), max(ranks)) for ranks in means]


def _bar_levels(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return for each bar the highest line on which it overlaps no earlier bar."""
    ends: list[float] = []
    levels = []
    for low, high in spans:
        level = next((i for i, end in enumerate(ends) if low > end), len(ends))
        ends[level:] = [high, *ends[level + 1 :]]
        levels.append(level)
    return levels


def _panel_height(summary: RankSummary) -> float:
    levels, bold = _bar_levels(_group_spans(summary)), _bold_names(summary)
    columns = [
        sum(_name_height(_name_lines(name, bold=name in bold)) for name in column)
        for column in _name_columns(summary)
    ]
    return _HEAD + _BAR * (max(levels, default=-1) + 2) + max(columns) + _FOOT


def _check_panels(panels: Mapping[str, RankSummary]) -> None:
    if not panels:
        raise ValueError("critical_difference_diagram needs a panel")
    for title, summary in panels.items():
        k = len(summary.ranks)
        if k < 3 or not all(1 <= rank <= k for rank in summary.ranks.values()):
            raise ValueError(
                f"{title!r} must have three methods or more with mean ranks from 1 to their number,"
                f" got {dict(summary.ranks)}"
            )
        if unknown := [
            name for group in summary.groups for name in group if name not in summary.ranks
        ]:
            raise ValueError(f"a group of {title!r} has {unknown[0]!r}, which has no rank")
