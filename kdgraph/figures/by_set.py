"""Histograms of confidence on sets of rows.

One panel for each set shows how confident the parent and the methods are on its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.drawing import IDEAL_LINE, PanelGrid, draw_outline, write_beside
from kdgraph.figures.run_figures import RunFigureData, ood_set_title, register_figure
from kdgraph.figures.style import (
    COLUMN_WIDTH,
    GREY,
    NOTE_SIZE,
    PlotStyle,
    confidence_axis_start,
    legend_label,
    new_figure,
    note_above,
    shorten_text,
    style_context,
    styles_by_name,
)

# Inches; the title is above its panel.
_LEFT, _RIGHT, _BOTTOM, _HEIGHT, _TITLE = 0.48, 0.12, 0.36, 0.7, 0.2
# Inches, points, and the width in points of a mean above a panel.
_KEY_LINE, _KEY_SIZE, _MEAN = 0.15, 7.0, 24.0
_WIDTH = COLUMN_WIDTH - _LEFT - _RIGHT
_BINS = 25
_ConfidenceByName = Mapping[str, np.ndarray]
"""Largest probability of each row, Float[n], by model name."""


def plot_confidence_by_set(sets: Mapping[str, _ConfidenceByName], prior: float) -> Figure:
    """Plot histograms of confidence on test rows and on OOD sets.

    A vertical line in each panel marks the mean confidence of each model.

    Parameters
    ----------
    sets : mapping of title to name to Float[n]
        Confidences in [0, 1]. All sets have the same names; the first is the parent, the others are
        methods.
    prior : float
        Largest class prior, the ideal confidence in the OOD region.

    Returns
    -------
    Figure
        Figure of one column with a panel for each set from top to bottom. Each panel has its own
        vertical scale.

    Raises
    ------
    ValueError
        If there is no set, sets have different names, a set has no rows, or a confidence is outside
        [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_confidence_by_set
    >>> rng = np.random.default_rng(0)
    >>> test = {"forest": rng.uniform(0.5, 1, 100), "kdf": rng.uniform(0.5, 1, 100)}
    >>> noise = {"forest": rng.uniform(0.5, 1, 100), "kdf": rng.uniform(0.5, 0.6, 100)}
    >>> figure = plot_confidence_by_set({"test": test, "noise": noise}, prior=0.5)
    >>> len(figure.axes)
    2
    """
    _check_sets(sets)
    names = list(next(iter(sets.values())))
    floor = confidence_axis_start(
        [prior, *(values for by_name in sets.values() for values in by_name.values())]
    )
    # All panels share their bins, so that histograms of different sets can be compared.
    edges = np.linspace(floor, 1, _BINS + 1)
    with style_context():
        grid = PanelGrid(len(sets), 1, _LEFT, _BOTTOM, _WIDTH, _HEIGHT, row_gap=_TITLE)
        figure = new_figure(COLUMN_WIDTH, grid.top + (_KEY_LINE * (len(names) + 1) + 0.04))
        for i, title in enumerate(sets):
            axes = grid.add_axes(figure, i)
            for name, style in styles_by_name(names).items():
                _draw_histogram(
                    axes,
                    legend_label(shorten_text(figure, name, _KEY_SIZE, _WIDTH - 0.6)),
                    sets[title][name],
                    edges,
                    style,
                )
            axes.axvline(prior, **IDEAL_LINE, gid="prior", label=f"prior {prior:.3f}")
            _format_axes(
                axes,
                title,
                floor,
                [
                    (float(sets[title][name].mean()), style)
                    for name, style in styles_by_name(names).items()
                ],
            )
        figure.axes[0].legend(
            loc="lower left",
            bbox_to_anchor=(0, 1 + (_TITLE - 0.04) / _HEIGHT),
            labelspacing=0.25,
            fontsize=_KEY_SIZE,
        )
        figure.axes[-1].tick_params(labelbottom=True)
        figure.axes[-1].set_xlabel("confidence (largest probability)")
    return figure


def _draw_histogram(
    axes: Axes, label: str, confidence: np.ndarray, edges: np.ndarray, style: PlotStyle
) -> None:
    fractions = np.histogram(confidence, edges)[0] / len(confidence)
    draw_outline(axes, fractions, edges, style, label)
    axes.axvline(
        float(confidence.mean()),
        color=style.color,
        linestyle=style.linestyle,
        linewidth=0.8,
        alpha=0.7,
        gid=f"mean {label}",
    )


def _format_axes(
    axes: Axes, title: str, floor: float, means: Sequence[tuple[float, PlotStyle]]
) -> None:
    axes.set(xlim=(floor, 1 + 0.01 * (1 - floor)), ylabel="rows (%)")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(lambda fraction, _: f"{100 * fraction:g}")
    axes.tick_params(labelbottom=False)
    texts = [("mean", GREY), *((f"{mean:.3f}", role.color) for mean, role in means)]
    # The texts are right-aligned, so the last one is drawn first.
    for i, (text, color) in enumerate(reversed(texts)):
        write_beside(axes, text, (1, 1), (-_MEAN * i, 3), ha="right", color=color)
    note_above(
        axes,
        shorten_text(
            cast("Figure", axes.figure), title, NOTE_SIZE, _WIDTH - _MEAN * len(texts) / 72
        ),
        floor,
        "left",
        3,
    )


def _check_sets(sets: Mapping[str, _ConfidenceByName]) -> None:
    if not sets:
        raise ValueError("confidence_by_set needs at least one set")
    names = list(next(iter(sets.values())))
    for title, by_name in sets.items():
        if not names or list(by_name) != names:
            raise ValueError(
                f"every set must have the same names, {names}, got {list(by_name)} in {title!r}"
            )
        for name, values in by_name.items():
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
    """Plot histograms of confidence on the test rows and on single OOD sets.

    Families of several sets are omitted, since other figures show them as curves.
    """
    single_sets = [family[0] for family in run.families() if len(family) == 1]
    if not single_sets or run.prior is None:
        return None
    predictions_by_title = {"test, in distribution": run.test} | {
        ood_set_title(predictions).replace("\n", ", "): predictions for predictions in single_sets
    }
    sets = {
        f"{title}: {predictions.n_rows:,} rows": confidence
        for title, predictions in predictions_by_title.items()
        if (confidence := run.confidence(predictions)) is not None
    }
    return plot_confidence_by_set(sets, run.prior) if sets else None
