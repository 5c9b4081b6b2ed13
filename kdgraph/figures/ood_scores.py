"""How far out of distribution models say that rows are: histograms of test rows under those of each
set, one column for each model.

How well a score for being out of distribution tells sets from test rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.run_figures import RunFigureData, ood_set_title, register_figure
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    NOTE_SIZE,
    PlotStyle,
    add_axes,
    new_figure,
    shorten_text,
    style_context,
    styles_by_name,
)
from kdgraph.metrics import auroc
from kdgraph.parameters import Count

if TYPE_CHECKING:
    from kdgraph.base import Predictions

_LEFT, _RIGHT, _BOTTOM, _HEIGHT, _TITLE, _BETWEEN = (
    0.56,
    0.1,
    0.36,
    0.7,
    0.32,
    0.42,
)  # inches; titles stand above their panels
_KEY, _NAMES = 0.17, 0.17  # inches, above the first title
_KEY_SIZE = 7.0  # points
_FILL = "#d9d9d9"
_BINS, _BEYOND = 40, 4.0
"""An axis goes this many widths of the test rows' scores beyond them, at most: a score may be
infinite.
"""
_MIDDLE_QUANTILES = (0.005, 0.995)
ScoresByModel = Mapping[str, np.ndarray]
"""Name → Float[n], higher is farther out of distribution; every model has a scale of its own."""


def plot_ood_scores(
    test: ScoresByModel, sets: Mapping[str, ScoresByModel], *, thresholds: Sequence[str] = ()
) -> Figure:
    """The share of test rows (filled) and of each set's rows (outline) at each score, and how well
    the score tells them apart (AUROC).

    Parameters
    ----------
    test : name → scores of the test rows; the first is the parent, the others are methods.
    sets : title → name → scores of a set out of distribution, with the same names. Infinity is the
    farthest.
    thresholds : names of models that call a row out of distribution where its score is above 0,
        which is then marked.

    Returns
    -------
    Figure
        One column wide; a column of panels for each model with one axis of scores, a row for each
        set. Scores beyond an axis are in the bin at its end, which is then said.

    Raises
    ------
    ValueError
        No set, sets of other names than the test rows, no score, or NaN.
    """
    _check_scores(test, sets)
    drawn = styles_by_name(list(test))
    width = (COLUMN_WIDTH - _LEFT - _RIGHT - _BETWEEN * (len(test) - 1)) / len(test)
    with style_context():
        figure, is_cut = (
            new_figure(COLUMN_WIDTH, _BOTTOM + len(sets) * (_HEIGHT + _TITLE) + _NAMES + _KEY),
            False,
        )
        for column, (name, role) in enumerate(drawn.items()):
            everything = np.concatenate([test[name], *(scores[name] for scores in sets.values())])
            edges = _bin_edges(test[name], everything)
            is_cut |= bool((everything < edges[0]).any() or (everything > edges[-1]).any())
            for row, (title, scores) in enumerate(sets.items()):
                bottom = _BOTTOM + (len(sets) - 1 - row) * (_HEIGHT + _TITLE)
                axes = add_axes(figure, _LEFT + column * (width + _BETWEEN), bottom, width, _HEIGHT)
                _draw_histograms(axes, test[name], scores[name], edges, role)
                if name in thresholds and edges[0] < 0 < edges[-1]:
                    axes.axvline(
                        0, color=BLACK, linewidth=0.7, linestyle=(0, (1, 1.5)), gid="threshold"
                    )
                _format_axes(axes, is_left=column == 0, is_last=row == len(sets) - 1)
                _text_above(
                    axes,
                    shorten_text(figure, title, NOTE_SIZE, 2 * width) if column == 0 else "",
                    "left",
                    13,
                    BLACK,
                )
                _text_above(
                    axes, f"AUROC {auroc(scores[name], test[name]):.3f}", "right", 3, role.color
                )
                if row == 0:
                    _text_above(
                        axes,
                        shorten_text(figure, name, _KEY_SIZE, width),
                        "left",
                        _TITLE * 72 + 2,
                        role.color,
                        _KEY_SIZE,
                    )
        label = "out-of-distribution score" + (" (bins at the ends: all beyond)" if is_cut else "")
        figure.text(
            _panels_center(width, len(test)),
            0.06 / figure.get_size_inches()[1],
            label,
            ha="center",
            fontsize=7.5,
        )
        _draw_legend(figure, marked=bool(thresholds))
    return figure


def _draw_histograms(
    axes: Axes, test: np.ndarray, out: np.ndarray, edges: np.ndarray, role: PlotStyle
) -> None:
    axes.stairs(_bin_fractions(test, edges), edges, fill=True, color=_FILL, gid="test rows")
    axes.stairs(
        _bin_fractions(out, edges),
        edges,
        color=role.color,
        linewidth=1.0,
        gid="out of distribution",
    )  # dashes would hide narrow bins
    axes.set_xlim(edges[0], edges[-1] + 0.02 * (edges[-1] - edges[0]))


def _bin_fractions(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] / len(scores)


def _bin_edges(test: np.ndarray, everything: np.ndarray) -> np.ndarray:
    """Float[_BINS + 1]: from the lowest score to the highest, but not too far from those of the
    test rows.
    """
    finite, of_test = everything[np.isfinite(everything)], test[np.isfinite(test)]
    if not len(finite):
        return np.linspace(-1.0, 1.0, _BINS + 1)
    low, high = np.quantile(of_test if len(of_test) else finite, _MIDDLE_QUANTILES)
    reach = _BEYOND * (high - low) or np.ptp(finite)
    low, high = max(finite.min(), low - reach), min(finite.max(), high + reach)
    return (
        np.linspace(low, high, _BINS + 1)
        if low < high
        else np.linspace(low - 0.5, low + 0.5, _BINS + 1)
    )


def _format_axes(axes: Axes, *, is_left: bool, is_last: bool) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.tick_params(labelbottom=is_last)
    if is_left:
        axes.set_ylabel("share")


def _text_above(
    axes: Axes, text: str, side: str, points: float, color: str, size: float = NOTE_SIZE
) -> None:
    """Above the axes, from their left or their right end."""
    axes.annotate(
        text,
        (0 if side == "left" else 1, 1),
        (0, points),
        xycoords="axes fraction",
        textcoords="offset points",
        ha=side,
        color=color,
        fontsize=size,
        annotation_clip=False,
    )


def _panels_center(width: float, columns: int) -> float:
    """Of all panels, as a share of the figure's width."""
    return (_LEFT + (columns * width + (columns - 1) * _BETWEEN) / 2) / COLUMN_WIDTH


def _draw_legend(figure: Figure, *, marked: bool) -> None:
    """What is filled, what is outlined, and what the dotted line is: in one line above
    everything.
    """
    entries = [
        Patch(color=_FILL, label="test rows"),
        Line2D([], [], color=BLACK, linewidth=1.1, label="out of distribution"),
    ]
    entries += (
        [Line2D([], [], color=BLACK, linewidth=0.7, linestyle=(0, (1, 1.5)), label="threshold")]
        if marked
        else []
    )
    figure.legend(
        handles=entries,
        loc="upper left",
        bbox_to_anchor=(_LEFT / COLUMN_WIDTH, 1),
        ncols=len(entries),
        fontsize=_KEY_SIZE,
        columnspacing=1.2,
        handlelength=1.6,
        borderaxespad=0.1,
    )


def _check_scores(test: ScoresByModel, sets: Mapping[str, ScoresByModel]) -> None:
    if not sets or not test:
        raise ValueError("ood_scores needs at least one model and one set")
    for title, scores in {"test": test, **sets}.items():
        if list(scores) != list(test):
            raise ValueError(
                f"every set must have the names of the test rows, {list(test)}, got {list(scores)}"
                f" in {title!r}"
            )
        for name, values in scores.items():
            if np.ndim(values) != 1 or not len(values) or np.isnan(values).any():
                raise ValueError(
                    f"the scores of {name!r} on {title!r} must be numbers, and at least one, none"
                    " of them NaN"
                )


_PREFERRED_RADIUS = 2.0
"""Of many spheres the one that is shown."""


@register_figure("ood_scores")
def plot_ood_scores_from_run(run: RunFigureData, *, at_most: Count = 3) -> Any:
    """Histograms of the out-of-distribution score on test rows and on sets out of distribution.

    Parameters
    ----------
    at_most : so many sets, the first ones: all that are one of a kind, and of a family of many the
        sphere of radius 2 or the one in the middle.
    """
    found = {
        ood_set_title(one).replace("\n", ", "): one
        for one in map(_representative_set, run.families())
    }
    scores = {f"{title}: {one.n:,} rows": _score_columns(run, one) for title, one in found.items()}
    sets = {title: said for title, said in list(scores.items())[:at_most] if said}
    test = _score_columns(run, run.test)
    if not sets or not test:
        return None
    marked = [
        name for name, model in zip(test, run.models, strict=True) if model.supports("ood_score")
    ]
    return plot_ood_scores(test, sets, thresholds=marked)


def _score_columns(run: RunFigureData, found: Predictions) -> dict[str, np.ndarray]:
    """Name → Float[n]; nothing unless both models have a score. A model that scores sets is named
    so.
    """
    said = run.outputs_by_model("ood_score", found) or {}
    return {_score_label(name, given): np.asarray(given) for name, given in said.items()}


def _score_label(name: str, given: Any) -> str:
    """Sets are named by the size that was drawn; a test set that is smaller is one set."""
    from kdgraph.base import SetScores  # imports scikit-learn

    return (
        f"{name}, {'rows in ' if given.unit == 'instance' else ''}sets of {given.set_size}"
        if isinstance(given, SetScores)
        else name
    )


def _representative_set(family: list[Predictions]) -> Predictions:
    """One set of a family: at :data:`RADIUS`, or in the middle of those that are out of
    distribution.
    """
    outside = [found for found in family if not found.in_distribution] or family
    middle = outside[(len(outside) - 1) // 2]
    return next(
        (found for found in outside if found.params.get("radius") == _PREFERRED_RADIUS), middle
    )
