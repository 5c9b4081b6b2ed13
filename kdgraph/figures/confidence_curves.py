"""Confidence against the score, a panel for each predicted class: curves of methods over the shares
of rows that were right.

Confidence class by class, of one run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.reliability import wilson_interval
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
    add_axes,
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
"""Panels that can still be read on a page."""
_LEFT, _RIGHT, _BOTTOM, _TITLE, _GAP = 0.44, 0.1, 0.36, 0.2, 0.14  # inches
_LOWEST, _HIGHEST = 0.95, 1.5  # inches: how high a panel may be
_TICK_SIZE, _DOT = 6.5, 1.7  # points
_COLORS = [
    role.color for role in METHOD_STYLES if role.color != VERMILLION
]  # which the second set of rows has
_DASHES = ("-", (0, (4, 1, 1, 1)), (0, (1, 0.8)))
_SETS = ((BLACK, "-", (0, (2.5, 1.2))), (VERMILLION, (0, (3.2, 1.4)), (0, (1, 1))))
"""Colour and dashes of a set's steps, and the dashes of those that reach below where curves
begin.
"""
_NO_BINS: Mapping[str, ReliabilityBins] = {}


@dataclass(frozen=True)
class ClassPanel:
    """What is drawn of the rows that are predicted as one class.

    Attributes
    ----------
    curves : name → score and confidence, Float[n] both. Scores that only rise are points of a
        curve, and a line joins them; in any other order they are rows, and each has its dot: a
        confidence that depends on more than class and score is a cloud.
    histograms : name of a set of rows → its bins of the score against whether the prediction is
        right; one or two sets.
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
    """What methods make of a score, class by class, and what was right: steps are shares of right
    rows in bins of the score.

    Parameters
    ----------
    panels : title → what is known of this class; up to :data:`MAX_PANELS`. A class may lack a curve or
    a set that others have.
    identity : what the dashed diagonal is called, the score taken for the confidence; None draws
    none.
    columns : panels in a row (default: as many as fill rows evenly, up to five).
    score_label : what the horizontal axis shows; scores lie in [0, 1].
    low : curves begin here, and so does the axis; a step that reaches below it is drawn in finer
    dashes. Default: all that there is.
    note : small text below the panels, about what is not in them.

    Returns
    -------
    Figure
        One column wide for up to two classes, else two columns; all panels have one scale. Steps
        are black for the first set of rows and dashed red for the second; bars are 95 % intervals.

    Raises
    ------
    ValueError
        No panel or too many, nothing in one, lengths that differ, or more than two sets of rows.

    Notes
    -----
    Salamon et al., Figures 4 and 7 to 14, whose scores begin at .15 and whose lowest bin is dashed,
    since few right rows have low scores and kernels' tails "go wild" there (Section XIII D). The
    intervals are ours, and Wilson's.
    """
    _check_panels(panels)
    grid = _Grid.of(len(panels), columns)
    begin = _lowest_score(panels.values()) if low is None else low
    with style_context():
        handles = list(_legend_entries(panels.values(), identity))
        head, foot = legend_height(handles, grid.width), _BOTTOM + (0.12 if note else 0)
        figure = new_figure(grid.width, foot + grid.rows * (grid.height + _TITLE) + head)
        for place, (title, found) in enumerate(panels.items()):
            axes = grid.axes(figure, place, foot)
            _draw_panel(axes, found, _assign_styles(panels.values()), identity is not None, begin)
            axes.set_title(
                shorten_text(figure, title, NOTE_SIZE, grid.panel), fontsize=NOTE_SIZE, pad=3
            )
            axes.tick_params(
                labelsize=_TICK_SIZE,
                labelbottom=place + grid.columns >= len(panels),
                labelleft=place % grid.columns == 0,
            )
        _label_axes(figure, grid, foot, score_label, note)
        draw_legend_above(figure, handles)
    return figure


@dataclass(frozen=True)
class _Grid:
    """Where panels are, in inches."""

    rows: int
    columns: int
    width: float
    panel: float
    height: float

    @classmethod
    def of(cls, n: int, columns: int | None) -> _Grid:
        width = COLUMN_WIDTH if n <= 2 and columns is None else FULL_WIDTH
        columns = columns or -(-n // -(-n // 5))  # 6 are 3 and 3, 11 are 4, 4 and 3
        panel = (width - _LEFT - _RIGHT - (columns - 1) * _GAP) / columns
        return cls(
            -(-n // columns), columns, width, panel, float(np.clip(0.75 * panel, _LOWEST, _HIGHEST))
        )

    def axes(self, figure: Figure, place: int, foot: float) -> Axes:
        row, column = divmod(place, self.columns)
        bottom = foot + (self.rows - 1 - row) * (self.height + _TITLE)
        return add_axes(
            figure, _LEFT + column * (self.panel + _GAP), bottom, self.panel, self.height
        )


def _assign_styles(panels: Collection[ClassPanel]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Name → colour and dashes, of curves and of sets, in the order in which they are met; in grey,
    dashes tell neighbours apart.
    """
    curves = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    sets = list(dict.fromkeys(name for panel in panels for name in panel.histograms))
    drawn = {
        name: (_COLORS[i % len(_COLORS)], _DASHES[i % len(_DASHES)])
        for i, name in enumerate(curves)
    }
    return drawn, dict(zip(sets, _SETS, strict=False))


def _draw_panel(
    axes: Axes,
    found: ClassPanel,
    styles: tuple[dict[str, Any], dict[str, Any]],
    with_identity: bool,
    low: float,
) -> None:
    of_curve, of_set = styles
    if with_identity:
        axes.plot(
            [low, 1],
            [low, 1],
            color=GREY,
            linewidth=0.9,
            linestyle=PARENT_STYLE.linestyle,
            zorder=1,
            gid="identity",
        )
    for i, (name, bins) in enumerate(found.histograms.items()):
        _draw_steps(
            axes, name, bins, of_set[name], low, (0.5 if len(of_set) == 1 else (0.4, 0.6)[i])
        )
    for name, (score, confidence) in found.curves.items():
        color, dashes = of_curve[name]
        here = np.asarray(score) >= low
        if _is_line(score):
            axes.plot(
                score[here],
                confidence[here],
                color=color,
                linestyle=dashes,
                linewidth=1.2,
                zorder=4,
                gid=f"curve {name}",
            )
            continue
        axes.plot(
            score[here],
            confidence[here],
            linestyle="",
            marker="o",
            markersize=_DOT,
            markeredgewidth=0,
            color=color,
            alpha=0.6,
            zorder=3,
            gid=f"cloud {name}",
            rasterized=int(here.sum()) > 500,
        )
    axes.set(xlim=(low - 0.03 * (1 - low), 1 + 0.03 * (1 - low)), ylim=(-0.03, 1.03))
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))


def _draw_steps(
    axes: Axes, name: str, bins: ReliabilityBins, style: tuple[str, Any, Any], low: float, at: float
) -> None:
    """Shares of right rows as steps over neighbouring bins that have rows, and intervals ``at``
    this part of a bin's width.
    """
    color, dashes, fine = style
    here = (bins.count > 0) & (bins.upper > low)
    left, right, share = np.maximum(bins.lower, low)[here], bins.upper[here], bins.accuracy[here]
    for cut in (False, True):
        if (mine := (bins.lower[here] < low - 1e-9) == cut).any():
            x, y = _step_corners(left[mine], right[mine], share[mine])
            axes.plot(
                x,
                y,
                color=color,
                linestyle=fine if cut else dashes,
                linewidth=0.9,
                zorder=2,
                gid=f"steps {name}",
            )
    centre = left + at * (right - left)
    axes.vlines(
        centre,
        *wilson_interval(share, bins.count[here]),
        color=color,
        linewidth=0.6,
        alpha=0.7,
        zorder=2,
        gid=f"intervals {name}",
    )


def _step_corners(
    left: np.ndarray, right: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points of a line that is level in each bin, upright between bins that touch, and broken where
    one lies between them.
    """
    x, y = np.stack([left, right], axis=1).ravel(), np.repeat(share, 2)
    gaps = 2 * np.flatnonzero(~np.isclose(left[1:], right[:-1], atol=1e-9)) + 2
    return np.insert(x, gaps, np.nan), np.insert(y, gaps, np.nan)


def _legend_entries(panels: Collection[ClassPanel], identity: str | None) -> Iterator[Line2D]:
    of_curve, of_set = _assign_styles(panels)
    if identity is not None:
        dashed: dict[str, Any] = {"linestyle": PARENT_STYLE.linestyle}
        yield Line2D([], [], color=GREY, linewidth=0.9, label=legend_label(identity), **dashed)
    for name, (color, dashes) in of_curve.items():
        lines = {_is_line(panel.curves[name][0]) for panel in panels if name in panel.curves}
        dots: dict[str, Any] = {
            "linestyle": "",
            "marker": "o",
            "markersize": 3,
            "markeredgewidth": 0,
        }
        yield Line2D(
            [],
            [],
            color=color,
            label=legend_label(name),
            **({"linestyle": dashes, "linewidth": 1.2} if True in lines else dots),
        )
    for name, (color, dashes, _) in of_set.items():
        yield Line2D(
            [],
            [],
            color=color,
            linewidth=0.9,
            linestyle=dashes,
            label=f"share right and 95 %, {name}",
        )


def _label_axes(
    figure: Figure, grid: _Grid, foot: float, score_label: str, note: str | None
) -> None:
    width, height = figure.get_size_inches()
    line: dict[str, Any] = {"ha": "center", "va": "bottom"}
    figure.text(
        (_LEFT + width - _RIGHT) / 2 / width, (foot - _BOTTOM + 0.05) / height, score_label, **line
    )
    figure.text(
        0.04 / width,
        (foot + grid.rows * (grid.height + _TITLE) / 2) / height,
        "confidence",
        rotation=90,
        ha="left",
        va="center",
    )
    if note:
        text = shorten_text(figure, note, NOTE_SIZE, width - 0.1)
        figure.text(0.5, 0.03 / height, text, fontsize=NOTE_SIZE, color=GREY, **line)


def _is_line(score: np.ndarray) -> bool:
    return len(score) > 1 and bool((np.diff(score) >= 0).all())


def _lowest_score(panels: Collection[ClassPanel]) -> float:
    """Where scores begin, in tenths."""
    of_curves = [float(np.min(score)) for panel in panels for score, _ in panel.curves.values()]
    of_bins = [
        float(bins.lower[bins.count > 0].min())
        for panel in panels
        for bins in panel.histograms.values()
        if bins.count.any()
    ]
    return float(np.floor(10 * min(of_curves + of_bins) + 1e-9) / 10)


def _check_panels(panels: Mapping[str, ClassPanel]) -> None:
    if not 1 <= len(panels) <= MAX_PANELS:
        raise ValueError(
            f"confidence_curves draws 1 to {MAX_PANELS} classes, got {len(panels)}; choose those that"
            " matter"
        )
    sets = list(dict.fromkeys(name for panel in panels.values() for name in panel.histograms))
    if len(sets) > len(_SETS):
        raise ValueError(f"confidence_curves tells two sets of rows apart, got {', '.join(sets)}")
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


_CURVE_POINTS = 501


@register_figure("confidence_by_class")
def plot_confidence_by_class_from_run(
    run: RunFigureData,
    *,
    bins: Count = 10,
    strategy: Strategy = "uniform",
    at_most: Count = 10,
    low: Fraction | None = None,
) -> Any:
    """Confidence against the parent's score, a panel for each of the classes that are predicted
    most often, over shares of right rows.

    Where the method's confidence is a curve over the score its line runs over the scores of all
    rows; of other methods, each test row has a dot. Steps are shares of right rows among
    calibration rows and among test rows.

    Parameters
    ----------
    bins, strategy : of the shares of right predictions, as of
    :func:`kdgraph.metrics.reliability_bins`.
    at_most : panels.
    low : the least score that is drawn (default: that of any row).
    """
    tops = run.top(run.test)
    if tops is None or len(run.splits.train.classes) < 2:
        return None
    sets = (
        {"test rows": run.test}
        if run.calibration is None
        else {"calibration rows": run.calibration, "test rows": run.test}
    )
    parents = {name: _parent_top_label(run, found) for name, found in sets.items()}
    often = np.bincount(tops[run.names[0]].predicted, minlength=len(run.splits.train.classes))
    shown = sorted(np.argsort(-often, kind="stable")[:at_most].tolist())
    panels = {}
    for k in (k for k in shown if often[k]):
        curve = _method_curve(run, k, parents) or _confidence_cloud(
            k, tops[run.names[0]], tops[run.names[1]]
        )
        histograms = {
            name: _class_reliability_bins(k, top, np.asarray(sets[name].y), bins, strategy)
            for name, top in parents.items()
        }
        histograms = {name: found for name, found in histograms.items() if found is not None}
        panels[f"{run.splits.train.classes[k]}: {often[k]:,} test rows"] = ClassPanel(
            {run.names[1]: curve}, histograms
        )
    n_classes = len(run.splits.train.classes)
    left_out = (
        f"the {len(panels)} of {n_classes} classes that are predicted most often"
        if len(panels) < n_classes
        else None
    )
    return plot_confidence_curves(
        panels, identity=f"{run.names[0]} (the score)", low=low, note=left_out
    )


def _parent_top_label(run: RunFigureData, found: Predictions) -> TopLabel:
    tops = run.top(found)
    assert tops is not None  # as of the test rows
    return tops[run.names[0]]


def _method_curve(
    run: RunFigureData, k: int, parents: Mapping[str, TopLabel]
) -> _ScoreCurve | None:
    """The method's own curve over the scores of all rows that are predicted as the class, if it has
    one and nothing stands after it.
    """
    after = list(run.models[1].post_hoc.values())
    if len(after) != 1 or not hasattr(after[0], "confidence_at"):
        return None
    scores = np.concatenate([top.confidence[top.predicted == k] for top in parents.values()])
    grid = np.linspace(scores.min(), scores.max(), _CURVE_POINTS)
    return grid, after[0].confidence_at(k, grid)


def _confidence_cloud(k: int, parent: TopLabel, method: TopLabel) -> _ScoreCurve:
    mine = parent.predicted == k
    return parent.confidence[mine], method.confidence[mine]


def _class_reliability_bins(
    k: int, top: TopLabel, y: np.ndarray, bins: int, strategy: Strategy
) -> ReliabilityBins | None:
    """Shares of right rows among those that are predicted as the class; None where there are
    none.
    """
    mine = top.predicted == k
    return (
        reliability_bins(top.confidence[mine], (y == k)[mine], bins=bins, strategy=strategy)
        if mine.any()
        else None
    )
