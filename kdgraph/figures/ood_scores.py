"""Histograms of out-of-distribution scores on test rows and on OOD sets.

Each model has a column of panels, each OOD set a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from kdgraph.figures.drawing import IDEAL_LINE, PanelGrid, write_beside, write_note, write_text
from kdgraph.figures.run_figures import RunFigureData, ood_set_title, register_figure
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    NOTE_SIZE,
    PlotStyle,
    new_figure,
    shorten_text,
    split_in_two_lines,
    style_context,
    styles_by_name,
)
from kdgraph.metrics import auroc, delong_stderr
from kdgraph.parameters import Count

if TYPE_CHECKING:
    from kdgraph.base import Predictions

# Inches; titles are above their panels.
_LEFT, _RIGHT, _BOTTOM, _HEIGHT, _TITLE, _BETWEEN = 0.56, 0.1, 0.36, 0.7, 0.32, 0.42
_KEY, _NAMES = 0.17, 0.17  # inches, above the first title
_NOTE_LINE, _NOTE_LEFT = 0.13, 0.06  # inches: a line of the notes, and their left end
_KEY_SIZE = 7.0  # points
_FILL = "#d9d9d9"
_BINS = 40
_NOTE = "scale: linear within one interquartile range of the test rows' median, logarithmic beyond"
ScoresByModel = Mapping[str, np.ndarray]
"""Scores by name, Float[n]; higher is further out of distribution. Models have different scales."""


def plot_ood_scores(
    test: ScoresByModel,
    sets: Mapping[str, ScoresByModel],
    *,
    thresholds: Sequence[str] = (),
    note: str | None = None,
) -> Figure:
    """Plot histograms of out-of-distribution scores.

    Test rows are filled, rows of an OOD set are an outline. The AUROC of each score, with its
    standard error, is above its panel.

    Parameters
    ----------
    test : mapping of str to Float[n]
        Scores of the test rows; the first name is the parent, the others are methods.
    sets : mapping of title to name to Float[m]
        Scores of each OOD set, with the same names. Infinity is the highest score.
    thresholds : sequence of str, default=()
        Names of models that classify a row as OOD if its score is above 0; the threshold is marked.
    note : str, default=None
        Note below the axes, such as the names of sets that are not drawn.

    Returns
    -------
    Figure
        Figure of one column, with a column of panels for each model and a row for each set.
        Infinite scores are counted in the last bin, which the label states.

    Raises
    ------
    ValueError
        If there is no set, sets and test rows have different names, or there is no score or a NaN.

    Notes
    -----
    The position of a score s is arsinh((s - m) / q), where m and q are median and interquartile
    range of the test rows. Log densities of OOD rows are often a thousand times farther from the
    median than those of test rows, and confidences of networks differ by powers of ten from 1. On
    this scale both have a shape. The scale is original to kdgraph.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_ood_scores
    >>> rng = np.random.default_rng(0)
    >>> test = {"forest": rng.normal(size=200), "leaf_box": rng.normal(size=200)}
    >>> noise = {"forest": rng.normal(size=200), "leaf_box": rng.normal(3, 1, 200)}
    >>> figure = plot_ood_scores(test, {"noise": noise}, thresholds=["leaf_box"])
    >>> len(figure.axes)
    2
    """
    _check_scores(test, sets)
    styles = styles_by_name(list(test))
    width = (COLUMN_WIDTH - _LEFT - _RIGHT - _BETWEEN * (len(test) - 1)) / len(test)
    has_infinite = False
    with style_context():
        notes = [*_two_lines(_NOTE), *([] if note is None else _two_lines(note))]
        foot = _BOTTOM + _NOTE_LINE * len(notes)
        n_panels, columns = len(test) * len(sets), len(test)
        grid = PanelGrid(n_panels, columns, _LEFT, foot, width, _HEIGHT, _BETWEEN, _TITLE)
        figure = new_figure(COLUMN_WIDTH, grid.top + _NAMES + _KEY)
        for column, (name, style) in enumerate(styles.items()):
            everything = np.concatenate([test[name], *(scores[name] for scores in sets.values())])
            has_infinite |= bool(np.isinf(everything).any())
            scale = _ScoreScale.of_test_rows(test[name], everything)
            edges = scale.bin_edges(everything)
            for row, (title, scores) in enumerate(sets.items()):
                axes = grid.add_axes(figure, row * columns + column)
                axes.set_xscale("function", functions=(scale.position, scale.score))
                _draw_histograms(axes, test[name], scores[name], edges, style)
                if name in thresholds and edges[0] < 0 < edges[-1]:
                    axes.axvline(0, **IDEAL_LINE, gid="threshold")
                _format_axes(axes, is_left=column == 0, is_last=row == len(sets) - 1)
                axes.xaxis.set_major_locator(FixedLocator(scale.ticks(edges)))
                axes.xaxis.set_major_formatter(_tick_label)
                axes.xaxis.set_minor_locator(NullLocator())
                if column == 0:
                    short = shorten_text(figure, title, NOTE_SIZE, 2 * width)
                    write_beside(axes, short, (0, 1), (0, 13), ha="left", color=BLACK)
                error = delong_stderr(scores[name], test[name])
                plus_minus = "" if error is None else f" ± {error:.3f}"
                area = f"AUROC {auroc(scores[name], test[name]):.3f}{plus_minus}"
                write_beside(axes, area, (1, 1), (0, 3), ha="right", color=style.color)
                if row == 0:
                    # A name may reach into the space between the columns.
                    beyond = _RIGHT - 0.02 if column == columns - 1 else _BETWEEN - 0.1
                    short = shorten_text(figure, name, _KEY_SIZE, width + beyond)
                    key: dict[str, Any] = {"color": style.color, "fontsize": _KEY_SIZE}
                    write_beside(axes, short, (0, 1), (0, _TITLE * 72 + 2), ha="left", **key)
        label = f"out-of-distribution score{' (last bin: infinite)' if has_infinite else ''}"
        center = _LEFT + (columns * width + (columns - 1) * _BETWEEN) / 2
        write_text(figure, center, foot - _BOTTOM + 0.06, label, ha="center", fontsize=7.5)
        for line, text in enumerate(reversed(notes)):
            short = shorten_text(figure, text, NOTE_SIZE, COLUMN_WIDTH - _NOTE_LEFT - 0.05)
            write_note(figure, _NOTE_LEFT, 0.05 + _NOTE_LINE * line, short)
        _draw_legend(figure, marked=bool(thresholds))
    return figure


def _two_lines(text: str) -> list[str]:
    blank = new_figure(1, 1)
    return split_in_two_lines(blank, text, NOTE_SIZE, COLUMN_WIDTH - _NOTE_LEFT - 0.05)


def _tick_label(score: float, _: float | None = None) -> str:
    """Return the label of a tick, such as −1,800, 0.99 or 1.8e11."""
    if abs(score) >= 1e6:
        mantissa, exponent = f"{score:.5e}".split("e")
        text = f"{float(mantissa):g}e{int(exponent)}"
    else:
        text = f"{score:,.0f}" if abs(score) >= 1000 else f"{score:.4g}"
    return text.replace("-", "−")


@dataclass(frozen=True)
class _ScoreScale:
    """Scale of an axis of scores: arsinh((score - center) / unit)."""

    center: float  # median of the test rows
    unit: float  # their interquartile range

    @classmethod
    def of_test_rows(cls, test: np.ndarray, everything: np.ndarray) -> _ScoreScale:
        """Return the scale for these test rows.

        If the middle half of the test rows has one score, the unit is a hundredth of the range of
        all scores, and 1 if they are all equal.
        """
        finite, finite_test = everything[np.isfinite(everything)], test[np.isfinite(test)]
        if not len(finite):
            return cls(0.0, 1.0)
        low, center, high = np.quantile(
            finite_test if len(finite_test) else finite, [0.25, 0.5, 0.75]
        )
        return cls(float(center), float(high - low) or float(np.ptp(finite)) / 100 or 1.0)

    def position(self, score: np.ndarray) -> np.ndarray:
        return np.arcsinh((np.asarray(score) - self.center) / self.unit)

    def score(self, position: np.ndarray) -> np.ndarray:
        # Matplotlib evaluates the scale beyond the limits too; sinh of 700 is near the largest
        # number.
        return self.center + self.unit * np.sinh(np.clip(position, -700, 700))

    def bin_edges(self, everything: np.ndarray) -> np.ndarray:
        """Return the edges of bins of equal width on the axis, Float[_BINS + 1]."""
        finite = everything[np.isfinite(everything)]
        ends = np.array([finite.min(), finite.max()]) if len(finite) else np.array([-1.0, 1.0])
        low, high = self.position(ends)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
        edges = self.score(np.linspace(low, high, _BINS + 1))
        # Rounding must not leave the extreme scores outside.
        edges[0], edges[-1] = min(edges[0], ends[0]), max(edges[-1], ends[1])
        return edges

    def ticks(self, edges: np.ndarray) -> list[float]:
        """Return up to three rounded scores that are evenly spaced on the axis."""
        low, high = self.position(edges[[0, -1]])
        targets = self.score(np.linspace(low, high, 7))[1::2]
        # A tick is rounded to the place that separates it from its neighbours.
        spacing = np.gradient(targets) / 2
        places = np.floor(np.log10(np.abs(spacing)))
        rounded = np.round(targets / 10.0**places) * 10.0**places
        # Adding 0 makes 0 of -0, which would be labelled as such.
        return sorted(
            {float(f"{tick:.6g}") + 0.0 for tick in rounded if edges[0] <= tick <= edges[-1]}
        )


def _draw_histograms(
    axes: Axes, test: np.ndarray, ood: np.ndarray, edges: np.ndarray, style: PlotStyle
) -> None:
    axes.stairs(_bin_fractions(test, edges), edges, fill=True, color=_FILL, gid="test rows")
    # The outline is not dashed, since dashes would hide narrow bins.
    outline: dict[str, Any] = {"color": style.color, "linewidth": 1.0, "gid": "out of distribution"}
    axes.stairs(_bin_fractions(ood, edges), edges, **outline)
    axes.set_xlim(edges[0], edges[-1] + 0.02 * (edges[-1] - edges[0]))


def _bin_fractions(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the fraction of scores in each bin; scores beyond the edges are in the end bins."""
    return np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0] / len(scores)


def _format_axes(axes: Axes, *, is_left: bool, is_last: bool) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(lambda fraction, _: f"{100 * fraction:g}")
    axes.tick_params(labelbottom=is_last)
    if is_left:
        axes.set_ylabel("rows (%)")


def _draw_legend(figure: Figure, *, marked: bool) -> None:
    entries = [
        Patch(color=_FILL, label="test rows"),
        Line2D([], [], color=BLACK, linewidth=1.1, label="out of distribution"),
    ]
    entries += [Line2D([], [], **IDEAL_LINE, label="threshold")] if marked else []
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
"""Radius of the sphere that is shown of a family of spheres."""


@register_figure("ood_scores")
def plot_ood_scores_from_run(run: RunFigureData, *, at_most: Count = 8) -> Any:
    """Plot histograms of the OOD score on test rows and on OOD sets.

    A family of sets is represented by the sphere of radius 2, or by the set in the middle, and its
    title has the number of its sets. A model has ``at_most`` panels; a note names the sets that are
    not drawn.
    """
    titles = {_family_title(family): _representative_set(family) for family in run.families()}
    scores = {
        f"{title}: {predictions.n_rows:,} rows": by_name
        for title, predictions in titles.items()
        if (by_name := _score_columns(run, predictions))
    }
    test = _score_columns(run, run.test)
    if not scores or not test:
        return None
    marked = [
        name for name, model in zip(test, run.models, strict=True) if model.supports("ood_score")
    ]
    left_out = [title.rpartition(":")[0] for title in list(scores)[at_most:]]
    return plot_ood_scores(
        test,
        dict(list(scores.items())[:at_most]),
        thresholds=marked,
        note=f"not drawn: {'; '.join(left_out)}" if left_out else None,
    )


def _family_title(family: list[Predictions]) -> str:
    title = ood_set_title(_representative_set(family)).replace("\n", ", ")
    return title if len(family) == 1 else f"{title} (one of {len(family)} sets)"


def _score_columns(run: RunFigureData, predictions: Predictions) -> dict[str, np.ndarray]:
    """Return the scores of both models on a set, Float[n], by name; none unless both have some.

    The name of a model that scores sets contains their size; a set of fewer rows is one set.
    """
    from kdgraph.base import SetScores  # imports scikit-learn

    columns = {}
    for name, scores in (run.outputs_by_model("ood_score", predictions) or {}).items():
        if isinstance(scores, SetScores):
            rows_in = "rows in " if scores.unit == "instance" else ""
            columns[f"{name}, {rows_in}sets of {scores.set_size}"] = np.asarray(scores)
        else:
            columns[name] = np.asarray(scores)
    return columns


def _representative_set(family: list[Predictions]) -> Predictions:
    """Return the sphere of radius 2 of a family, or the OOD set in its middle."""
    outside = [ood_set for ood_set in family if not ood_set.in_distribution] or family
    preferred = (s for s in outside if s.params.get("radius") == _PREFERRED_RADIUS)
    return next(preferred, outside[(len(outside) - 1) // 2])
