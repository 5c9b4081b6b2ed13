"""Reliability diagrams and binomial confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.drawing import draw_outline
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    COLUMN_WIDTH,
    GREY,
    PlotStyle,
    add_axes,
    legend_label,
    new_figure,
    note_above,
    shorten_text,
    style_context,
    styles_by_name,
)
from kdgraph.metrics import ReliabilityBins, ece, reliability_bins
from kdgraph.metrics.reliability_bins import Strategy
from kdgraph.parameters import Count

_LEFT, _RIGHT, _TOP, _BOTTOM = 0.48, 0.12, 0.08, 0.36  # inches
_WIDTH, _HEIGHT = COLUMN_WIDTH - _LEFT - _RIGHT, 2.2
_COUNTS, _GAP, _KEY_LINE, _NOTE_LINE = 0.62, 0.1, 0.15, 0.14
_KEY_SIZE = 7.0  # points
_SMALLEST, _LARGEST = 2.2, 6.0  # points: diameter of the markers of no row and of the fullest bin
MIN_JOINED_ROWS = 10
"""Bins with fewer rows are faded, and no line joins them.

The Wilson interval of nine rows is at least .30 wide, a third of the axis.
"""
FADED = 0.35
"""Opacity of these bins."""
_NORMAL_95 = 1.959963984540054
_DASHED = (0, (2.2, 2.2))

AccuracyIntervalName = Literal["wilson", "clopper_pearson"]


def plot_reliability_diagram(
    bins: Mapping[str, ReliabilityBins],
    *,
    ece: Mapping[str, float],
    interval: AccuracyIntervalName = "wilson",
) -> Figure:
    """Plot accuracy against confidence by bin, above the number of rows in each bin.

    Parameters
    ----------
    bins : mapping of str to ReliabilityBins
        Bins of top-label confidence; the first name is the parent, the others are methods.
    ece : mapping of str to float
        Expected calibration error, written next to the name.
    interval : {"wilson", "clopper_pearson"}, default="wilson"
        95 % interval of the accuracy: :func:`wilson_interval` or :func:`clopper_pearson_interval`,
        which is wider and never covers less than 95 %.

    Returns
    -------
    Figure
        Figure of one column.

    Raises
    ------
    ValueError
        If there are no bins, or ``bins`` and ``ece`` have different names.

    Notes
    -----
    Points are at the mean confidence of their bin, and their area grows with its rows. Bars are
    binomial intervals of the accuracy. They show the sampling error of the rows, and unlike
    ±√(a(1-a)/n) they do not vanish if all of a few predictions are correct. Lines join adjacent
    bins of at least 10 rows; bins with fewer rows are faded. Lines from the third model on are
    dashed, so that those below them can be seen.

    Examples
    --------
    >>> confidence = np.array([0.55, 0.6, 0.7, 0.95, 0.9, 0.8])
    >>> correct = np.array([False, True, True, True, True, False])
    >>> bins = {"forest": reliability_bins(confidence, correct, bins=2)}
    >>> figure = plot_reliability_diagram(bins, ece={"forest": 0.083})
    >>> counts, accuracy = figure.axes
    >>> accuracy.get_ylabel(), counts.get_xlabel()
    ('accuracy', 'confidence (largest probability)')
    """
    if not bins or set(bins) != set(ece):
        raise ValueError(
            f"reliability_diagram needs bins and an ECE for the same names, got {sorted(bins)} and"
            f" {sorted(ece)}"
        )
    with style_context():
        key = _KEY_LINE * (len(bins) + 1) + _NOTE_LINE
        fullest = max(int(model_bins.count.max()) for model_bins in bins.values())
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _COUNTS + _GAP + _HEIGHT + key + _TOP)
        below = add_axes(figure, _LEFT, _BOTTOM, _WIDTH, _COUNTS)
        above = add_axes(figure, _LEFT, _BOTTOM + _COUNTS + _GAP, _WIDTH, _HEIGHT, sharex=below)
        for position, (name, style) in enumerate(styles_by_name(list(bins)).items()):
            if position > 1:
                # Two methods may have the same curve, such as a calibrator with a gate and without.
                style = replace(style, linestyle=_DASHED)
            short_name = shorten_text(figure, name, _KEY_SIZE, _WIDTH - 1.2)
            label = f"{legend_label(short_name)}   ECE {ece[name]:.3f}"
            _draw_accuracy(above, label, bins[name], style, interval, fullest)
            edges = np.append(bins[name].lower, bins[name].upper[-1])
            draw_outline(below, bins[name].count, edges, style, short_name)
        ideal: dict[str, Any] = {"color": GREY, "linewidth": 0.7, "zorder": 0.5}
        above.plot([0, 1], [0, 1], label="perfectly calibrated", **ideal)
        _format_axes(above, below, list(bins.values()), interval)
        above.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1 + _NOTE_LINE / _HEIGHT),
            labelspacing=0.25,
            fontsize=_KEY_SIZE,
        )
        # The note explains faded bins only if there are any.
        is_sparse = [(b.count > 0) & (b.count < MIN_JOINED_ROWS) for b in bins.values()]
        faded = f"; faded: fewer than {MIN_JOINED_ROWS} rows" if np.any(is_sparse) else ""
        exact = "exact " if interval == "clopper_pearson" else ""
        note = f"bars: {exact}95 % intervals{faded}"
        note_above(above, note, above.get_xlim()[0], "left", 3)
    return figure


def wilson_interval(fraction: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's 95 % intervals of fractions Float[b] of counts Int[b], at least 1.

    References
    ----------
    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
    """
    z2 = _NORMAL_95**2 / count
    centre = (fraction + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * fraction * (1 - fraction) + z2**2 / 4) / (1 + z2)
    return centre - half, centre + half


def clopper_pearson_interval(
    fraction: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return exact 95 % intervals of fractions Float[b] of counts Int[b], at least 1.

    The coverage is at least 95 % for every true fraction.

    References
    ----------
    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26, 1934.
    """
    from scipy.special import betaincinv

    successes = np.rint(fraction * count)
    low = np.where(
        successes > 0, betaincinv(np.maximum(successes, 1), count - successes + 1, 0.025), 0.0
    )
    return low, np.where(
        successes < count, betaincinv(successes + 1, np.maximum(count - successes, 1), 0.975), 1.0
    )


_INTERVAL_FUNCTIONS = {"wilson": wilson_interval, "clopper_pearson": clopper_pearson_interval}


def _draw_accuracy(
    axes: Axes,
    label: str,
    bins: ReliabilityBins,
    style: PlotStyle,
    interval: AccuracyIntervalName,
    fullest: int,
) -> None:
    """Draw the accuracy of one model with intervals.

    ``fullest`` is the number of rows that has the largest marker.
    """
    unclipped: dict[str, Any] = {"clip_on": False}  # a point at 0 lies on the frame
    is_joined = bins.count >= MIN_JOINED_ROWS
    # NaN interrupts the line: a line over empty and sparse bins would show what was not measured.
    line = {**style.line(), "marker": "", "linewidth": 1.2}
    axes.plot(bins.confidence, np.where(is_joined, bins.accuracy, np.nan), **line, **unclipped)
    axes.plot([], [], label=label, **style.line())  # the legend's line has a marker of one size
    diameters = _SMALLEST + (_LARGEST - _SMALLEST) * np.sqrt(bins.count / fullest)
    face = style.color if style.filled else "white"
    for is_shown, opacity in ((is_joined, 1.0), ((bins.count > 0) & ~is_joined, FADED)):
        if not is_shown.any():
            continue
        x, y = bins.confidence[is_shown], bins.accuracy[is_shown]
        low, high = _INTERVAL_FUNCTIONS[interval](y, bins.count[is_shown])
        bar = {"color": style.color, "linewidth": 0.8, "alpha": 0.6 * opacity}
        axes.vlines(x, low, high, gid="intervals", **bar, **unclipped)
        axes.scatter(
            x,
            y,
            s=diameters[is_shown] ** 2,
            marker=style.marker,
            facecolors=face,
            edgecolors=style.color,
            linewidths=0.9,
            alpha=opacity,
            zorder=3,
            gid="bins",
            **unclipped,
        )


def _format_axes(
    above: Axes, below: Axes, all_bins: Sequence[ReliabilityBins], interval: AccuracyIntervalName
) -> None:
    """Set limits that include every interval and every non-empty bin of all models."""
    left = bottom = 1.0
    for bins in all_bins:
        has_rows = bins.count > 0
        left = min(left, bins.lower[has_rows].min())
        low, _ = _INTERVAL_FUNCTIONS[interval](bins.accuracy[has_rows], bins.count[has_rows])
        bottom = min(bottom, low.min())
    bottom = np.floor(10 * min(bottom, left)) / 10
    above.set(
        xlim=(left, 1 + 0.02 * (1 - left)),
        ylim=(bottom, 1 + 0.02 * (1 - bottom)),
        ylabel="accuracy",
    )
    above.tick_params(labelbottom=False)
    below.set(xlabel="confidence (largest probability)", ylabel="rows")
    below.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    below.set_ylim(bottom=0)


@register_figure("reliability_diagram")
def plot_reliability_diagram_from_run(
    run: RunFigureData,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    interval: AccuracyIntervalName = "wilson",
) -> Any:
    """Plot accuracy against confidence on the test rows, by bin.

    The options are those of :func:`~kdgraph.metrics.reliability_bins` and of
    :func:`plot_reliability_diagram`.
    """
    tops = run.top_labels(run.test)
    if tops is None:
        return None
    y = np.asarray(run.test.y)
    bins_by_name = {
        name: reliability_bins(top.confidence, top.correct(y), bins=bins, strategy=strategy)
        for name, top in tops.items()
    }
    errors = {name: ece(y, top, bins=bins, strategy=strategy) for name, top in tops.items()}
    return plot_reliability_diagram(bins_by_name, ece=errors, interval=interval)
