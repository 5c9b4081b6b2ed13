"""Mean ranks of many methods, a line each, and which of them a test does not tell apart: Demšar's
diagram for more than he drew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures import style
from kdgraph.figures.model_names import paper_name
from kdgraph.results.comparison.significance import Ranks

PARENT = " (parent)"
_BAR, _GAP, _LINE, _HEAD, _FOOT, _NOTE = 0.055, 0.1, 0.148, 0.3, 0.36, 0.2  # inches
# Least width of the scale of ranks in inches; names are shortened only where it would be less.
_SCALE = 0.8


def rank_lines(panels: Mapping[str, Ranks]) -> Figure:
    """Draw methods from best to worst at their mean rank, and a bar beside those that are alike.

    Shaded: not farther from the best than the critical difference; these methods are filled and
    blue, parents hollow (Demšar, "Statistical comparisons of classifiers over multiple data sets",
    JMLR 2006, Section 3.2.2).
    """
    most = max(len(ranks.mean) for ranks in panels.values())
    with style.style_context():
        figure = style.new_figure(style.FULL_WIDTH, _HEAD + _LINE * most + _FOOT + _NOTE)
        each = (style.FULL_WIDTH - _GAP) / len(panels)
        for i, (title, ranks) in enumerate(panels.items()):
            bars = _BAR * (len(ranks.groups) + 1)
            widest = max(
                style.text_size(figure, _shown(n, ranks), style.LABEL_SIZE)[0] for n in ranks.mean
            )
            names = min(widest + 0.1, each - _GAP - bars - _SCALE)
            margin = names + bars
            height = _LINE * len(ranks.mean)
            bottom = _NOTE + _FOOT + _LINE * most - height
            axes = style.add_axes(
                figure, i * each + margin, bottom, each - margin - _GAP, height, label=title
            )
            _draw(axes, ranks, each - margin - _GAP, names)
            axes.set_title(
                f"{title}, {ranks.n} data sets", fontsize=style.LABEL_SIZE + 1, loc="left"
            )
            axes.set_xlabel(
                f"mean rank; critical difference {ranks.critical_difference:.1f}",
                fontsize=style.NOTE_SIZE,
            )
        note = (
            "bars: methods that Nemenyi's test does not tell apart; shaded: those not told apart"
            " from the best; hollow: parents"
        )
        grey: dict[str, Any] = {"fontsize": style.NOTE_SIZE, "color": style.GREY, "ha": "center"}
        figure.text(0.5, 0.5 * _NOTE / figure.get_figheight(), note, va="center", **grey)
    return figure


def _draw(axes: Axes, ranks: Ranks, width: float, names_width: float) -> None:
    names, k = list(ranks.mean), len(ranks.mean)
    best = set(ranks.best)
    axes.set(xlim=(1 - 0.3, k + 0.3), ylim=(k - 0.5, -0.5), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10], prune=None))
    axes.spines["left"].set_visible(False)
    first = ranks.mean[names[0]]
    last = min(first + ranks.critical_difference, k + 0.3)
    axes.axvspan(first, last, color=style.ID_SHADE, zorder=0, gid="shade")
    unit = (k + 0.6) / width * _BAR  # a bar's place in ranks
    for i, name in enumerate(names):
        color = style.BLUE if name in best else style.BLACK
        is_parent = name.endswith(PARENT)
        axes.plot((0.7, ranks.mean[name]), (i, i), color=style.GREY, linewidth=0.4, zorder=1)
        face = "white" if is_parent else color
        dot: dict[str, Any] = {"marker": "o", "markersize": 3.6, "markerfacecolor": face}
        axes.plot(ranks.mean[name], i, color=color, zorder=3, gid=f"rank {name}", **dot)
        text = style.shorten_text(
            _figure_of(axes), _shown(name, ranks), style.LABEL_SIZE, names_width
        )
        x = 0.7 - unit * (len(ranks.groups) + 1)
        axes.text(x, i, text, fontsize=style.LABEL_SIZE, ha="right", va="center", color=color)
    for j, group in enumerate(ranks.groups):
        ends = _ends(names, group)
        x = 0.7 - unit * (len(ranks.groups) - j)
        thick: dict[str, Any] = {"linewidth": 1.6, "solid_capstyle": "butt", "clip_on": False}
        thick |= {"color": style.BLUE if j == 0 else style.BLACK, "gid": f"not told apart {j}"}
        axes.plot((x, x), (ends[0] - 0.4, ends[1] + 0.4), **thick)


def _shown(name: str, ranks: Ranks) -> str:
    """Return the name in the picture, of a parent without that word, since its mark is hollow."""
    bare = name.removesuffix(PARENT)
    return paper_name(name if bare in ranks.mean else bare)


def _ends(names: Sequence[str], group: Sequence[str]) -> tuple[int, int]:
    at = [names.index(name) for name in group]
    return min(at), max(at)


def _figure_of(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    return cast("Figure", figure)
