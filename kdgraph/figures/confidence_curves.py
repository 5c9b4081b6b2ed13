"""Confidence against the score of the predicted class, one panel for each class.

Curves of methods are drawn over the accuracy in bins of the score, as in Figures 4 and 7 to 14 of
Salamon et al.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.drawing import PanelGrid, write_note, write_text
from kdgraph.figures.reliability import FADED, MIN_JOINED_ROWS, wilson_interval
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
    FULL_WIDTH,
    GREY,
    METHOD_STYLES,
    NOTE_SIZE,
    PARENT_STYLE,
    VERMILLION,
    draw_legend_above,
    legend_height,
    legend_label,
    new_figure,
    shorten_text,
    style_context,
)
from kdgraph.metrics import ReliabilityBins, TopLabel, reliability_bins
from kdgraph.metrics.reliability_bins import Strategy
from kdgraph.parameters import Count, Fraction

if TYPE_CHECKING:
    from kdgraph.base import Predictions

MAX_PANELS = 20
"""Largest number of panels that are legible on a page."""
_LEFT, _RIGHT, _BOTTOM, _TITLE, _GAP = 0.44, 0.1, 0.36, 0.2, 0.14  # inches
_LOWEST, _HIGHEST = 0.95, 1.5  # inches: range of the height of a panel
_TICK_SIZE, _DOT = 6.5, 1.7  # points
# Vermillion is the colour of the second set of rows.
_COLORS = [style.color for style in METHOD_STYLES if style.color != VERMILLION]
_DASHES = ("-", (0, (4, 1, 1, 1)), (0, (1, 0.8)))
_SETS = ((BLACK, "-", (0, (2.5, 1.2))), (VERMILLION, (0, (3.2, 1.4)), (0, (1, 1))))
"""Colour and dashes of a set's steps, and the dashes of steps that reach below the first score."""
_IDENTITY_LINE: dict[str, Any] = {
    "color": GREY,
    "linewidth": 0.9,
    "linestyle": PARENT_STYLE.linestyle,
}
_DOTS: dict[str, Any] = {
    "linestyle": "",
    "marker": "o",
    "markersize": _DOT,
    "markeredgewidth": 0,
    "alpha": 0.6,
    "zorder": 3,
}
_NO_BINS: Mapping[str, ReliabilityBins] = {}


@dataclass(frozen=True)
class ClassPanel:
    """Content of the panel of one predicted class.

    Attributes
    ----------
    curves : mapping of str to (Float[n], Float[n])
        Scores and confidences by name. Scores in increasing order are the points of a curve and are
        joined by a line. In any other order they are single rows, and each is drawn as a dot.
    histograms : mapping of str to ReliabilityBins, default={}
        Bins of the score against correctness of the prediction, by name of a set of rows; one or
        two sets.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import ClassPanel
    >>> from kdgraph.metrics import reliability_bins
    >>> rng = np.random.default_rng(0)
    >>> score = rng.uniform(0.4, 1, 500)
    >>> bins = reliability_bins(score, rng.random(500) < score**2)
    >>> panel = ClassPanel({"kde": (np.sort(score), np.sort(score) ** 2)}, {"test rows": bins})
    >>> list(panel.curves), list(panel.histograms)
    (['kde'], ['test rows'])
    """

    curves: Mapping[str, tuple[np.ndarray, np.ndarray]]
    histograms: Mapping[str, ReliabilityBins] = field(default_factory=lambda: _NO_BINS)


def plot_confidence_curves(
    panels: Mapping[str, ClassPanel],
    *,
    identity: str | None = "score",
    columns: int | None = None,
    score_label: str = "score of the predicted class",
    low: float | None = None,
    note: str | None = None,
) -> Figure:
    """Plot the confidence of methods against the score, one panel per class.

    Steps show the accuracy in bins of the score.

    Parameters
    ----------
    panels : mapping of str to ClassPanel
        Panels by title, at most :data:`MAX_PANELS`. A panel may lack a curve or a set that others
        have.
    identity : str or None, default="score"
        Name of the dashed diagonal, on which the confidence equals the score. None draws no
        diagonal.
    columns : int, default=None
        Panels in a row; by default at most five, so that rows are filled evenly.
    score_label : str, default="score of the predicted class"
        Label of the horizontal axis; scores lie in [0, 1].
    low : float, default=None
        Lower limit of curves and axis, by default the lowest score. Steps that reach below it have
        finer dashes.
    note : str, default=None
        Small text below the panels.

    Returns
    -------
    Figure
        Figure of one column for up to two classes, else of two columns. All panels have the same
        scale. Steps are black for the first set of rows and dashed red for the second. Bars are 95
        % intervals. Steps and bars of fewer than 10 rows are faded.

    Raises
    ------
    ValueError
        If there is no panel or there are too many, a panel is empty, lengths differ, or there are
        more than two sets of rows.

    Notes
    -----
    The figures follow Salamon et al., Figures 4 and 7 to 14. There, scores begin at .15 and the
    lowest bin is dashed, since few correct predictions have low scores and the tails of kernels "go
    wild" (Section XIII D). The intervals (Wilson's) are original to kdgraph.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import ClassPanel, plot_confidence_curves
    >>> score = np.linspace(0.4, 1, 50)
    >>> panels = {f"class {k}": ClassPanel({"kde": (score, score**k)}) for k in (1, 2)}
    >>> figure = plot_confidence_curves(panels)
    >>> [axes.get_title() for axes in figure.axes]
    ['class 1', 'class 2']
    """
    _check_panels(panels)
    # Rows are filled evenly: 6 panels are 3 and 3, 11 panels are 4, 4 and 3.
    width = COLUMN_WIDTH if len(panels) <= 2 and columns is None else FULL_WIDTH
    columns = columns or -(-len(panels) // -(-len(panels) // 5))
    panel_width = (width - _LEFT - _RIGHT - (columns - 1) * _GAP) / columns
    height = float(np.clip(0.75 * panel_width, _LOWEST, _HIGHEST))
    foot = _BOTTOM + (0.12 if note else 0)
    grid = PanelGrid(len(panels), columns, _LEFT, foot, panel_width, height, _GAP, _TITLE)
    lowest = _lowest_score(panels.values()) if low is None else low
    with style_context():
        handles = list(_legend_entries(panels.values(), identity))
        figure = new_figure(width, grid.top + legend_height(handles, width))
        for i, (title, panel) in enumerate(panels.items()):
            axes = grid.add_axes(figure, i)
            _draw_panel(axes, panel, _assign_styles(panels.values()), identity is not None, lowest)
            shown_title = shorten_text(figure, title, NOTE_SIZE, panel_width)
            axes.set_title(shown_title, fontsize=NOTE_SIZE, pad=3)
            axes.tick_params(
                labelsize=_TICK_SIZE,
                labelbottom=grid.is_lowest(i),
                labelleft=grid.is_leftmost(i),
            )
        center: dict[str, Any] = {"ha": "center", "va": "bottom"}
        middle = (_LEFT + width - _RIGHT) / 2
        write_text(figure, middle, foot - _BOTTOM + 0.05, score_label, **center)
        middle = (foot + grid.top) / 2
        write_text(figure, 0.04, middle, "confidence", rotation=90, ha="left", va="center")
        if note:
            text = shorten_text(figure, note, NOTE_SIZE, width - 0.1)
            write_note(figure, 0.5 * width, 0.03, text, **center)
        draw_legend_above(figure, handles)
    return figure


def _assign_styles(panels: Collection[ClassPanel]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return colour and dashes of curves and of sets, by name.

    Neighbouring curves have different dashes, so they are distinct without colours.
    """
    # A name has the same style in all panels, including those that lack other names.
    curves = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    sets = list(dict.fromkeys(name for panel in panels for name in panel.histograms))
    curve_styles = {
        name: (_COLORS[i % len(_COLORS)], _DASHES[i % len(_DASHES)])
        for i, name in enumerate(curves)
    }
    return curve_styles, dict(zip(sets, _SETS, strict=False))


def _draw_panel(
    axes: Axes,
    panel: ClassPanel,
    styles: tuple[dict[str, Any], dict[str, Any]],
    with_identity: bool,
    low: float,
) -> None:
    curve_styles, set_styles = styles
    if with_identity:
        axes.plot([low, 1], [low, 1], **_IDENTITY_LINE, zorder=1, gid="identity")
    for i, (name, bins) in enumerate(panel.histograms.items()):
        at = 0.5 if len(set_styles) == 1 else (0.4, 0.6)[i]
        _draw_steps(axes, name, bins, set_styles[name], low, at)
    for name, (score, confidence) in panel.curves.items():
        color, dashes = curve_styles[name]
        is_shown = np.asarray(score) >= low
        style: dict[str, Any] = (
            {"linestyle": dashes, "linewidth": 1.2, "zorder": 4, "gid": f"curve {name}"}
            if _is_line(score)
            else _DOTS | {"gid": f"cloud {name}", "rasterized": int(is_shown.sum()) > 500}
        )
        axes.plot(score[is_shown], confidence[is_shown], color=color, **style)
    axes.set(xlim=(low - 0.03 * (1 - low), 1 + 0.03 * (1 - low)), ylim=(-0.03, 1.03))
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))


def _draw_steps(
    axes: Axes, name: str, bins: ReliabilityBins, style: tuple[str, Any, Any], low: float, at: float
) -> None:
    """Draw accuracies as steps over the non-empty bins, with intervals.

    ``at`` is the position of the interval in units of the width of its bin.
    """
    color, dashes, fine_dashes = style
    is_shown = (bins.count > 0) & (bins.upper > low)
    left, right, accuracy = (
        np.maximum(bins.lower, low)[is_shown],
        bins.upper[is_shown],
        bins.accuracy[is_shown],
    )
    is_sparse = bins.count[is_shown] < MIN_JOINED_ROWS
    is_cut = bins.lower[is_shown] < low - 1e-9
    # Steps that are cut off at the lower limit have finer dashes, and bins of few rows are faded,
    # so each kind needs a line of its own.
    for cut, sparse in product((False, True), repeat=2):
        if (has_style := (is_cut == cut) & (is_sparse == sparse)).any():
            x, y = _step_corners(left[has_style], right[has_style], accuracy[has_style])
            axes.plot(
                x,
                y,
                color=color,
                linestyle=fine_dashes if cut else dashes,
                linewidth=0.9,
                alpha=FADED if sparse else 1.0,
                zorder=2,
                gid=f"steps {name}",
            )
    centre = left + at * (right - left)
    interval_low, interval_high = wilson_interval(accuracy, bins.count[is_shown])
    for sparse in (False, True):
        if (has_style := is_sparse == sparse).any():
            axes.vlines(
                centre[has_style],
                interval_low[has_style],
                interval_high[has_style],
                color=color,
                linewidth=0.6,
                alpha=0.7 * (FADED if sparse else 1.0),
                zorder=2,
                gid=f"intervals {name}",
            )


def _step_corners(
    left: np.ndarray, right: np.ndarray, accuracy: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of steps over bins, interrupted between bins that do not touch."""
    x, y = np.stack([left, right], axis=1).ravel(), np.repeat(accuracy, 2)
    # A NaN interrupts the line. Each bin has two corners, so a gap after bin i is inserted before
    # index 2i + 2.
    gaps = 2 * np.flatnonzero(~np.isclose(left[1:], right[:-1], atol=1e-9)) + 2
    return np.insert(x, gaps, np.nan), np.insert(y, gaps, np.nan)


def _legend_entries(panels: Collection[ClassPanel], identity: str | None) -> Iterator[Line2D]:
    curve_styles, set_styles = _assign_styles(panels)
    if identity is not None:
        yield Line2D([], [], label=legend_label(identity), **_IDENTITY_LINE)
    for name, (color, dashes) in curve_styles.items():
        lines = {_is_line(panel.curves[name][0]) for panel in panels if name in panel.curves}
        style: dict[str, Any] = (
            {"linestyle": dashes, "linewidth": 1.2}
            if True in lines
            else {"linestyle": "", "marker": "o", "markersize": 3, "markeredgewidth": 0}
        )
        yield Line2D([], [], color=color, label=legend_label(name), **style)
    for name, (color, dashes, _) in set_styles.items():
        label = f"accuracy and 95 % interval, {name}"
        yield Line2D([], [], color=color, linewidth=0.9, linestyle=dashes, label=label)


def _is_line(score: np.ndarray) -> bool:
    return len(score) > 1 and bool((np.diff(score) >= 0).all())


def _lowest_score(panels: Collection[ClassPanel]) -> float:
    curve_starts = [float(np.min(score)) for panel in panels for score, _ in panel.curves.values()]
    bin_starts = [
        float(bins.lower[bins.count > 0].min())
        for panel in panels
        for bins in panel.histograms.values()
        if bins.count.any()
    ]
    return float(np.floor(10 * min(curve_starts + bin_starts) + 1e-9) / 10)


def _check_panels(panels: Mapping[str, ClassPanel]) -> None:
    if not 1 <= len(panels) <= MAX_PANELS:
        raise ValueError(
            f"confidence_curves draws 1 to {MAX_PANELS} classes, got {len(panels)};"
            " choose the most important ones"
        )
    sets = list(dict.fromkeys(name for panel in panels.values() for name in panel.histograms))
    if len(sets) > len(_SETS):
        raise ValueError(f"confidence_curves draws at most two sets of rows, got {', '.join(sets)}")
    for title, panel in panels.items():
        shapes = [
            (np.shape(score), np.shape(confidence)) for score, confidence in panel.curves.values()
        ]
        is_empty = not shapes and not any(bins.count.any() for bins in panel.histograms.values())
        if is_empty or any(
            score != confidence or len(score) != 1 or score == (0,) for score, confidence in shapes
        ):
            raise ValueError(
                f"the class {title!r} needs a curve or bins with rows, and as many confidences as"
                " scores"
            )


_ScoreCurve = tuple[np.ndarray, np.ndarray]
"""Scores, Float[n], and the confidence at each, Float[n]."""
_CURVE_POINTS = 501
"""Number of scores at which the curve of a method is evaluated."""


@register_figure("confidence_by_class")
def plot_confidence_by_class_from_run(
    run: RunFigureData,
    *,
    bins: Count = 10,
    strategy: Strategy = "uniform",
    at_most: Count = 10,
    low: Fraction | None = None,
) -> Any:
    """Plot confidence against the parent's score for the most frequent predicted classes.

    If the confidence of the method is a function of the score, its curve covers the scores of all
    rows. Otherwise, each test row is a dot. Steps show the accuracy among calibration rows and
    among test rows. At most ``at_most`` classes are drawn, from the score ``low`` on, by default
    the lowest of all rows.
    """
    tops = run.top_labels(run.test)
    classes = run.splits.train.classes
    if tops is None or len(classes) < 2:
        return None
    sets = (
        {"test rows": run.test}
        if run.calibration is None
        else {"calibration rows": run.calibration, "test rows": run.test}
    )
    parent_tops = {name: _parent_top_label(run, predictions) for name, predictions in sets.items()}
    class_counts = np.bincount(tops[run.names[0]].predicted, minlength=len(classes))
    shown = sorted(np.argsort(-class_counts, kind="stable")[:at_most].tolist())
    panels = {}
    for k in (k for k in shown if class_counts[k]):
        # A curve is possible only if the confidence is a function of the parent's score.
        curve = _method_curve(run, k, parent_tops) or _confidence_cloud(
            k, tops[run.names[0]], tops[run.names[1]]
        )
        histograms = {}
        for name, top_label in parent_tops.items():
            if (is_predicted := top_label.predicted == k).any():
                histograms[name] = reliability_bins(
                    top_label.confidence[is_predicted],
                    (np.asarray(sets[name].y) == k)[is_predicted],
                    bins=bins,
                    strategy=strategy,
                )
        title = f"{classes[k]}: {class_counts[k]:,} test rows"
        panels[title] = ClassPanel({run.names[1]: curve}, histograms)
    notes = []
    if len(panels) < len(classes):
        notes.append(f"the {len(panels)} of {len(classes)} classes that are predicted most often")
    counts = [bins.count for panel in panels.values() for bins in panel.histograms.values()]
    if any(((count > 0) & (count < MIN_JOINED_ROWS)).any() for count in counts):
        notes.append(f"faded: fewer than {MIN_JOINED_ROWS} rows")
    return plot_confidence_curves(
        panels, identity=f"{run.names[0]} (the score)", low=low, note="; ".join(notes) or None
    )


def _parent_top_label(run: RunFigureData, predictions: Predictions) -> TopLabel:
    tops = run.top_labels(predictions)
    assert tops is not None  # the models are classifiers, which the caller has checked
    return tops[run.names[0]]


def _method_curve(
    run: RunFigureData, k: int, parent_tops: Mapping[str, TopLabel]
) -> _ScoreCurve | None:
    """Return the confidence of the method over the scores of the rows predicted as class ``k``.

    It is None if the method has no such function, or several components follow the parent.
    """
    post_hoc = list(run.models[1].post_hoc.values())
    if len(post_hoc) != 1 or not hasattr(post_hoc[0], "confidence_at"):
        return None
    scores = np.concatenate(
        [top_label.confidence[top_label.predicted == k] for top_label in parent_tops.values()]
    )
    grid = np.linspace(scores.min(), scores.max(), _CURVE_POINTS)
    return grid, post_hoc[0].confidence_at(k, grid)


def _confidence_cloud(k: int, parent: TopLabel, method: TopLabel) -> _ScoreCurve:
    is_predicted = parent.predicted == k
    return parent.confidence[is_predicted], method.confidence[is_predicted]
