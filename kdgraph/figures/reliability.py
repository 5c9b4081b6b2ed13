"""The reliability diagram: stated confidence against the share that was right, and how many rows
say so.

Whether the stated confidence is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    COLUMN_WIDTH,
    GREY,
    PlotStyle,
    add_axes,
    legend_label,
    new_figure,
    shorten_text,
    style_context,
    styles_by_name,
)
from kdgraph.metrics import ReliabilityBins, ece, reliability_bins
from kdgraph.metrics.reliability_bins import Strategy
from kdgraph.parameters import Count

_LEFT, _RIGHT, _TOP, _BOTTOM = 0.48, 0.12, 0.08, 0.36  # inches
_WIDTH, _HEIGHT = COLUMN_WIDTH - _LEFT - _RIGHT, 2.2
_COUNTS, _GAP, _KEY_LINE = 0.62, 0.1, 0.15
_KEY_SIZE = 7.0  # points
_NORMAL_95 = 1.959963984540054

AccuracyIntervalName = Literal["wilson", "clopper_pearson"]


def plot_reliability_diagram(
    bins: Mapping[str, ReliabilityBins],
    *,
    ece: Mapping[str, float],
    interval: AccuracyIntervalName = "wilson",
) -> Figure:
    """Accuracy against confidence by bin with 95 % intervals, above the number of rows in each bin.

    Parameters
    ----------
    bins : name → bins of top-label confidence; the first is the parent, the others are methods.
    ece : name → expected calibration error, shown beside the name.
    interval : "wilson" (:func:`wilson_interval`), or "clopper_pearson"
        (:func:`clopper_pearson_interval`), which is wider and never covers less than 95 %.

    Returns
    -------
    Figure
        One column wide.

    Notes
    -----
    Points are at the mean confidence of their bin. Bars are binomial intervals of the accuracy: the
    rows' sampling error, which unlike ±√(a(1-a)/n) does not vanish where all of few rows were
    right.
    """
    if not bins or set(bins) != set(ece):
        raise ValueError(
            f"reliability_diagram needs bins and an ECE for the same names, got {sorted(bins)} and"
            f" {sorted(ece)}"
        )
    with style_context():
        key = _KEY_LINE * (len(bins) + 1)
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _COUNTS + _GAP + _HEIGHT + key + _TOP)
        below = add_axes(figure, _LEFT, _BOTTOM, _WIDTH, _COUNTS)
        above = add_axes(figure, _LEFT, _BOTTOM + _COUNTS + _GAP, _WIDTH, _HEIGHT, sharex=below)
        for name, role in styles_by_name(list(bins)).items():
            short = shorten_text(figure, name, _KEY_SIZE, _WIDTH - 1.2)
            _draw_accuracy(
                above, f"{legend_label(short)}   ECE {ece[name]:.3f}", bins[name], role, interval
            )
            _draw_counts(below, short, bins[name], role)
        above.plot(
            [0, 1], [0, 1], color=GREY, linewidth=0.7, zorder=0.5, label="perfectly calibrated"
        )
        _format_axes(above, below, list(bins.values()), interval)
        above.legend(
            loc="lower left", bbox_to_anchor=(0, 1.01), labelspacing=0.25, fontsize=_KEY_SIZE
        )
        note = {"ha": "right", "fontsize": _KEY_SIZE - 0.5, "color": GREY}
        above.annotate(
            _INTERVAL_NOTES[interval],
            (1, 1.01),
            (0, 5),
            xycoords="axes fraction",
            textcoords="offset points",
            **note,
        )
    return figure


def wilson_interval(share: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end of the 95 % interval of a binomial share.

    Parameters
    ----------
    share : Float[b] in [0, 1].
    count : Int[b], from 1.

    References
    ----------
    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
    """
    z2 = _NORMAL_95**2 / count
    centre = (share + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * share * (1 - share) + z2**2 / 4) / (1 + z2)
    return centre - half, centre + half


def clopper_pearson_interval(share: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end of the 95 % interval of a binomial share that holds in the tails exactly:
    it covers 95 % or more.

    Parameters
    ----------
    share : Float[b] in [0, 1].
    count : Int[b], from 1.

    References
    ----------
    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26, 1934.
    """
    from scipy.special import betaincinv

    right = np.rint(share * count)
    low = np.where(right > 0, betaincinv(np.maximum(right, 1), count - right + 1, 0.025), 0.0)
    return low, np.where(
        right < count, betaincinv(right + 1, np.maximum(count - right, 1), 0.975), 1.0
    )


_INTERVAL_FUNCTIONS = {"wilson": wilson_interval, "clopper_pearson": clopper_pearson_interval}
_INTERVAL_NOTES = {
    "wilson": "bars: 95 % intervals",
    "clopper_pearson": "bars: exact 95 % intervals",
}


def _draw_accuracy(
    axes: Axes, label: str, found: ReliabilityBins, role: PlotStyle, interval: AccuracyIntervalName
) -> None:
    here = found.count > 0
    x, y = found.confidence[here], found.accuracy[here]
    low, high = _INTERVAL_FUNCTIONS[interval](y, found.count[here])
    whole: dict[str, Any] = {"clip_on": False}  # a point at 0 lies on the frame
    axes.vlines(x, low, high, color=role.color, linewidth=0.8, alpha=0.55, gid="intervals", **whole)
    axes.plot(x, y, label=label, **role.line(), **whole)


def _draw_counts(axes: Axes, name: str, found: ReliabilityBins, role: PlotStyle) -> None:
    edges = np.append(found.lower, found.upper[-1])
    if not role.filled:  # the parent lies behind as a filled shape, the methods are outlines
        axes.stairs(found.count, edges, fill=True, color="#d9d9d9", gid="parent rows")
    axes.stairs(
        found.count, edges, color=role.color, linestyle=role.linestyle, linewidth=1.1, label=name
    )


def _format_axes(
    above: Axes, below: Axes, found: Sequence[ReliabilityBins], interval: AccuracyIntervalName
) -> None:
    """Limits that leave out where nothing is: confidences from the lowest populated bin, accuracies
    from the lowest interval.
    """
    left = min(bins.lower[bins.count > 0].min() for bins in found)
    bottom = min(
        _INTERVAL_FUNCTIONS[interval](bins.accuracy[bins.count > 0], bins.count[bins.count > 0])[
            0
        ].min()
        for bins in found
    )
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
    """Accuracy against confidence on test rows, by bin.

    Parameters
    ----------
    bins, strategy : as of :func:`kdgraph.metrics.reliability_bins`.
    interval : of the share right in each bin, as of :func:`kdgraph.figures.plot_reliability_diagram`.
    """
    tops = run.top(run.test)
    if tops is None:
        return None
    y = np.asarray(run.test.y)
    found = {
        name: reliability_bins(top.confidence, top.correct(y), bins=bins, strategy=strategy)
        for name, top in tops.items()
    }
    errors = {name: ece(y, top, bins=bins, strategy=strategy) for name, top in tops.items()}
    return plot_reliability_diagram(found, ece=errors, interval=interval)
