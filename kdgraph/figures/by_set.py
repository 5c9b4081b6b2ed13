"""How sure models are on each set of rows: histograms of confidence, one panel for each set.

Confidence on single sets, of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.run_figures import RunFigureData, ood_set_title, register_figure
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    GREY,
    NOTE_SIZE,
    PlotStyle,
    add_axes,
    confidence_axis_start,
    legend_label,
    new_figure,
    note_above,
    shorten_text,
    style_context,
    styles_by_name,
)

_LEFT, _RIGHT, _BOTTOM, _HEIGHT, _TITLE = (
    0.48,
    0.12,
    0.36,
    0.7,
    0.2,
)  # inches; the title stands above its panel
_KEY_LINE, _KEY_SIZE, _MEAN = 0.15, 7.0, 24.0  # inches, points, points that a mean takes
_WIDTH = COLUMN_WIDTH - _LEFT - _RIGHT
_BINS = 25
_ConfidenceByName = Mapping[str, np.ndarray]
"""Name → Float[n], the largest probability of each row."""


def plot_confidence_by_set(sets: Mapping[str, _ConfidenceByName], prior: float) -> Figure:
    """The share of rows at each confidence, and where the mean is, for test rows and for every set
    out of distribution.

    Parameters
    ----------
    sets : title → name → Float[n] in [0, 1]; the names are the same in every set, the first is the
    parent, the others are methods.
    prior : the largest class prior, to which confidence should fall away from the data.

    Returns
    -------
    Figure
        One column wide, a panel for each set from top to bottom; each has its own scale of shares.

    Raises
    ------
    ValueError
        No set, sets of different names, a set without rows, a confidence outside [0, 1].
    """
    _check_sets(sets)
    names = list(next(iter(sets.values())))
    floor = confidence_axis_start(
        [prior, *(values for drawn in sets.values() for values in drawn.values())]
    )
    edges = np.linspace(floor, 1, _BINS + 1)
    with style_context():
        figure, panels = _make_panels(list(sets), key=_KEY_LINE * (len(names) + 1) + 0.04)
        for title, axes in panels.items():
            for name, role in styles_by_name(names).items():
                _draw_histogram(
                    axes,
                    legend_label(shorten_text(figure, name, _KEY_SIZE, _WIDTH - 0.6)),
                    sets[title][name],
                    edges,
                    role,
                )
            axes.axvline(
                prior,
                color=BLACK,
                linewidth=0.7,
                linestyle=(0, (1, 1.5)),
                gid="prior",
                label=f"prior {prior:.3f}",
            )
            _format_axes(
                axes,
                title,
                floor,
                [
                    (float(sets[title][name].mean()), role)
                    for name, role in styles_by_name(names).items()
                ],
            )
        _draw_legend(panels[next(iter(sets))], names)
        *_, last = panels.values()
        last.tick_params(labelbottom=True)
        last.set_xlabel("confidence (largest probability)")
    return figure


def _make_panels(titles: list[str], key: float) -> tuple[Figure, dict[str, Axes]]:
    """A figure with a panel for each title, top to bottom, and room for a key above."""
    figure = new_figure(COLUMN_WIDTH, _BOTTOM + len(titles) * (_HEIGHT + _TITLE) + key)
    bottoms = [_BOTTOM + (len(titles) - 1 - i) * (_HEIGHT + _TITLE) for i in range(len(titles))]
    return figure, {
        t: add_axes(figure, _LEFT, bottom, _WIDTH, _HEIGHT)
        for t, bottom in zip(titles, bottoms, strict=True)
    }


def _draw_histogram(
    axes: Axes, label: str, confidence: np.ndarray, edges: np.ndarray, role: PlotStyle
) -> None:
    """The parent is a filled shape behind, the methods are outlines; a line from top to bottom is
    at the mean.
    """
    shares = np.histogram(confidence, edges)[0] / len(confidence)
    if not role.filled:
        axes.stairs(shares, edges, fill=True, color="#d9d9d9", gid="parent rows")
    axes.stairs(
        shares, edges, color=role.color, linestyle=role.linestyle, linewidth=1.1, label=label
    )
    axes.axvline(
        float(confidence.mean()),
        color=role.color,
        linestyle=role.linestyle,
        linewidth=0.8,
        alpha=0.7,
        gid=f"mean {label}",
    )


def _format_axes(
    axes: Axes, title: str, floor: float, means: Sequence[tuple[float, PlotStyle]]
) -> None:
    axes.set(xlim=(floor, 1 + 0.01 * (1 - floor)), ylabel="share")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.tick_params(labelbottom=False)
    words = [("mean", GREY), *((f"{mean:.3f}", role.color) for mean, role in means)]
    for place, (text, color) in enumerate(reversed(words)):
        axes.annotate(
            text,
            (1, 1),
            (-_MEAN * place, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="right",
            fontsize=NOTE_SIZE,
            color=color,
        )
    note_above(
        axes,
        shorten_text(
            cast("Figure", axes.figure), title, NOTE_SIZE, _WIDTH - _MEAN * len(words) / 72
        ),
        floor,
        "left",
        3,
    )


def _draw_legend(axes: Axes, names: list[str]) -> None:
    """One line for each name and the prior, above the first panel's title."""
    handles, labels = axes.get_legend_handles_labels()
    order = [*range(len(names)), len(names)]
    where = {
        "loc": "lower left",
        "bbox_to_anchor": (0, 1 + (_TITLE - 0.04) / _HEIGHT),
        "labelspacing": 0.25,
        "fontsize": _KEY_SIZE,
    }
    axes.legend([handles[i] for i in order], [labels[i] for i in order], **where)


def _check_sets(sets: Mapping[str, _ConfidenceByName]) -> None:
    if not sets:
        raise ValueError("confidence_by_set needs at least one set")
    names = list(next(iter(sets.values())))
    for title, drawn in sets.items():
        if not names or list(drawn) != names:
            raise ValueError(
                f"every set must have the same names, {names}, got {list(drawn)} in {title!r}"
            )
        for name, values in drawn.items():
            if (
                np.ndim(values) != 1
                or not len(values)
                or not (np.min(values) >= 0 and np.max(values) <= 1)
            ):  # NaN fails this too
                raise ValueError(
                    f"the confidence of {name!r} on {title!r} must be numbers in [0, 1], one for"
                    " each row"
                )


@register_figure("confidence_by_set")
def plot_confidence_by_set_from_run(run: RunFigureData) -> Any:
    """Histograms of confidence on the sets that are one of a kind; a family of many has a curve."""
    alone = [family[0] for family in run.families() if len(family) == 1]
    if not alone or run.prior is None:
        return None
    titles = {"test, in distribution": run.test} | {
        ood_set_title(found).replace("\n", ", "): found for found in alone
    }
    sets = {
        f"{title}: {found.n:,} rows": said
        for title, found in titles.items()
        if (said := run.confidence(found)) is not None
    }
    return plot_confidence_by_set(sets, run.prior) if sets else None
