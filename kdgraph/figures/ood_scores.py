"""Histograms of out-of-distribution scores on test rows and on OOD sets.

Each model has a column of panels, each OOD set a row.
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

# Inches; titles are above their panels.
_LEFT, _RIGHT, _BOTTOM, _HEIGHT, _TITLE, _BETWEEN = 0.56, 0.1, 0.36, 0.7, 0.32, 0.42
_KEY, _NAMES = 0.17, 0.17  # inches, above the first title
_KEY_SIZE = 7.0  # points
_FILL = "#d9d9d9"
_BINS, _BEYOND = 40, 4.0
"""Number of bins, and the largest distance of an axis limit from the scores of the test rows.

The distance is in units of the range of these scores. It is limited because a score may be
infinite.
"""
_MIDDLE_QUANTILES = (0.005, 0.995)
ScoresByModel = Mapping[str, np.ndarray]
"""Scores by name, Float[n]; higher is further out of distribution. Models have different scales."""


def plot_ood_scores(
    test: ScoresByModel, sets: Mapping[str, ScoresByModel], *, thresholds: Sequence[str] = ()
) -> Figure:
    """Plot histograms of out-of-distribution scores.

    Test rows are filled, rows of an OOD set are an outline. The AUROC of each score is above its
    panel.

    Parameters
    ----------
    test : mapping of str to Float[n]
        Scores of the test rows; the first name is the parent, the others are methods.
    sets : mapping of title to name to Float[m]
        Scores of each OOD set, with the same names. Infinity is the highest score.
    thresholds : sequence of str, default=()
        Names of models that classify a row as OOD if its score is above 0; the threshold is marked.

    Returns
    -------
    Figure
        Figure of one column, with a column of panels for each model and a row for each set. Scores
        beyond an axis are counted in its last bin, which the label states.

    Raises
    ------
    ValueError
        If there is no set, sets and test rows have different names, or there is no score or a NaN.
    """
    _check_scores(test, sets)
    styles = styles_by_name(list(test))
    width = (COLUMN_WIDTH - _LEFT - _RIGHT - _BETWEEN * (len(test) - 1)) / len(test)
    with style_context():
        figure, is_cut = (
            new_figure(COLUMN_WIDTH, _BOTTOM + len(sets) * (_HEIGHT + _TITLE) + _NAMES + _KEY),
            False,
        )
        for column, (name, style) in enumerate(styles.items()):
            everything = np.concatenate([test[name], *(scores[name] for scores in sets.values())])
            edges = _bin_edges(test[name], everything)
            is_cut |= bool((everything < edges[0]).any() or (everything > edges[-1]).any())
            for row, (title, scores) in enumerate(sets.items()):
                bottom = _BOTTOM + (len(sets) - 1 - row) * (_HEIGHT + _TITLE)
                axes = add_axes(figure, _LEFT + column * (width + _BETWEEN), bottom, width, _HEIGHT)
                _draw_histograms(axes, test[name], scores[name], edges, style)
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
                    axes, f"AUROC {auroc(scores[name], test[name]):.3f}", "right", 3, style.color
                )
                if row == 0:
                    _text_above(
                        axes,
                        shorten_text(figure, name, _KEY_SIZE, width),
                        "left",
                        _TITLE * 72 + 2,
                        style.color,
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
    axes: Axes, test: np.ndarray, ood: np.ndarray, edges: np.ndarray, style: PlotStyle
) -> None:
    """Draw the histograms of test rows and of an OOD set."""
    axes.stairs(_bin_fractions(test, edges), edges, fill=True, color=_FILL, gid="test rows")
    axes.stairs(
        # The outline is not dashed, since dashes would hide narrow bins.
        _bin_fractions(ood, edges),
        edges,
        color=style.color,
        linewidth=1.0,
        gid="out of distribution",
    )
    axes.set_xlim(edges[0], edges[-1] + 0.02 * (edges[-1] - edges[0]))


def _bin_fractions(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the fraction of scores in each bin; scores beyond the edges are in the end bins."""
    return np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] / len(scores)


def _bin_edges(test: np.ndarray, everything: np.ndarray) -> np.ndarray:
    """Return the edges of the bins, Float[_BINS + 1].

    They go from the lowest to the highest score, but not too far from those of the test rows.
    """
    finite, finite_test = everything[np.isfinite(everything)], test[np.isfinite(test)]
    if not len(finite):
        return np.linspace(-1.0, 1.0, _BINS + 1)
    # Extreme scores of a few rows would compress the histogram of all others, so the range of the
    # test rows excludes 0.5 % at each end.
    low, high = np.quantile(finite_test if len(finite_test) else finite, _MIDDLE_QUANTILES)
    reach = _BEYOND * (high - low) or np.ptp(finite)
    low, high = max(finite.min(), low - reach), min(finite.max(), high + reach)
    return (
        np.linspace(low, high, _BINS + 1)
        if low < high
        else np.linspace(low - 0.5, low + 0.5, _BINS + 1)
    )


def _format_axes(axes: Axes, *, is_left: bool, is_last: bool) -> None:
    """Set limits and ticks of a panel."""
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
    """Write text above the axes, aligned with their left or right end."""
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
    """Return the centre of all panels as a fraction of the width of the figure."""
    return (_LEFT + (columns * width + (columns - 1) * _BETWEEN) / 2) / COLUMN_WIDTH


def _draw_legend(figure: Figure, *, marked: bool) -> None:
    """Draw the legend of fill, outline and dotted line above all panels."""
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
    """Check that all sets have the names of the test rows and valid scores."""
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
"""Radius of the sphere that is shown of a family of spheres."""


@register_figure("ood_scores")
def plot_ood_scores_from_run(run: RunFigureData, *, at_most: Count = 3) -> Any:
    """Plot histograms of the OOD score on test rows and on OOD sets.

    Parameters
    ----------
    at_most : int, default=3
        Largest number of OOD sets; the first ones are drawn. A family of sets is represented by the
        sphere of radius 2, or by the set in the middle.
    """
    predictions_by_title = {
        ood_set_title(predictions).replace("\n", ", "): predictions
        for predictions in map(_representative_set, run.families())
    }
    scores = {
        f"{title}: {predictions.n_rows:,} rows": _score_columns(run, predictions)
        for title, predictions in predictions_by_title.items()
    }
    sets = {title: by_name for title, by_name in list(scores.items())[:at_most] if by_name}
    test = _score_columns(run, run.test)
    if not sets or not test:
        return None
    marked = [
        name for name, model in zip(test, run.models, strict=True) if model.supports("ood_score")
    ]
    return plot_ood_scores(test, sets, thresholds=marked)


def _score_columns(run: RunFigureData, predictions: Predictions) -> dict[str, np.ndarray]:
    """Return the scores of both models on a set, Float[n], by name.

    The result is empty unless both models output a score. The name of a model that scores sets
    contains the size of the sets.
    """
    outputs = run.outputs_by_model("ood_score", predictions) or {}
    return {_score_label(name, scores): np.asarray(scores) for name, scores in outputs.items()}


def _score_label(name: str, scores: Any) -> str:
    """Return the name of a score.

    For scores of sets it contains the size that was drawn; a test set with fewer rows is one set.
    """
    from kdgraph.base import SetScores  # imports scikit-learn

    return (
        f"{name}, {'rows in ' if scores.unit == 'instance' else ''}sets of {scores.set_size}"
        if isinstance(scores, SetScores)
        else name
    )


def _representative_set(family: list[Predictions]) -> Predictions:
    """Return the sphere of radius 2 of a family, or the OOD set in its middle."""
    outside = [predictions for predictions in family if not predictions.in_distribution] or family
    middle = outside[(len(outside) - 1) // 2]
    return next(
        (
            predictions
            for predictions in outside
            if predictions.params.get("radius") == _PREFERRED_RADIUS
        ),
        middle,
    )
