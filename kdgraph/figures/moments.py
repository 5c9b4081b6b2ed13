"""Estimated means and standard deviations against the true ones of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.drawing import draw_legend_line
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import BLACK, add_axes, new_figure, style_context, styles_by_name
from kdgraph.parameters import Count

_LEFT, _RIGHT, _BOTTOM, _HEAD, _GAP = 0.62, 0.12, 0.4, 0.26, 0.66  # inches
_PANEL = 2.45
# Points² of a dot, and the number of rows up to which dots have that size.
_DOT, _MANY = 4.0, 1500

_PARENT_DOT_FACTOR = 5.0
"""Area of the parent's dots relative to those of methods.

The parent's dots remain visible below the dots of a method that changes nothing.
"""


@dataclass(frozen=True)
class RowMoments:
    """Mean and standard deviation of the distribution of each row.

    Attributes
    ----------
    mean, sd : Float[n]
        Moments of n rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import RowMoments
    >>> RowMoments(mean=np.array([1.0, 2.0]), sd=np.array([0.1, 0.4])).sd.shape
    (2,)
    """

    mean: np.ndarray
    sd: np.ndarray


def plot_mean_and_sd(truth: RowMoments, estimates: Mapping[str, RowMoments]) -> Figure:
    """Plot estimated against true means and standard deviations of all rows.

    Exact estimates are on the diagonal.

    Parameters
    ----------
    truth : RowMoments
        True moments of n rows of a simulation.
    estimates : mapping of str to RowMoments
        Estimated moments of the same rows; the first name is the parent, the others are methods.

    Returns
    -------
    Figure
        Figure with two square panels, each with the same scale on both axes. Dots are one image in
        SVG too.

    Raises
    ------
    ValueError
        If there is nothing to draw, or numbers of rows differ.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figure 2.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import RowMoments, plot_mean_and_sd
    >>> rng = np.random.default_rng(0)
    >>> mean, sd = rng.normal(size=300), rng.uniform(0.5, 1, 300)
    >>> estimates = {"network": RowMoments(mean + 0.1, np.full(300, 0.7))}
    >>> figure = plot_mean_and_sd(RowMoments(mean, sd), estimates)
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['true mean', 'true standard deviation']
    """
    if (
        not estimates
        or {len(moments.mean) for moments in estimates.values()} != {len(truth.mean)}
        or not len(truth.mean)
    ):
        raise ValueError(
            "mean_and_sd needs at least one name, and a mean and a standard deviation for each of"
            " the same rows"
        )
    width = _LEFT + 2 * _PANEL + _GAP + _RIGHT
    with style_context():
        figure = new_figure(width, _BOTTOM + _PANEL + _HEAD)
        for i, (what, label) in enumerate((("mean", "mean"), ("sd", "standard deviation"))):
            axes = add_axes(figure, _LEFT + i * (_PANEL + _GAP), _BOTTOM, _PANEL, _PANEL)
            _draw_panel(
                axes,
                getattr(truth, what),
                {name: getattr(moments, what) for name, moments in estimates.items()},
            )
            axes.set(xlabel=f"true {label}", ylabel=f"estimated {label}")
        width_of_name = (width - _LEFT - _RIGHT) / len(estimates) - 0.4
        handles = [
            Line2D([], [], color=style.color, linestyle="", marker=style.marker, markersize=3.5)
            for style in styles_by_name(list(estimates)).values()
        ]
        draw_legend_line(figure, handles, list(estimates), _LEFT, width_of_name)
    return figure


def _draw_panel(axes: Axes, true: np.ndarray, estimates: Mapping[str, np.ndarray]) -> None:
    size = _DOT * min(1.0, (_MANY / len(true)) ** 0.5)
    for i, (name, style) in enumerate(styles_by_name(list(estimates)).items()):
        area = size if i else _PARENT_DOT_FACTOR * size
        axes.scatter(
            true,
            estimates[name],
            s=area,
            color=style.color,
            marker=style.marker,
            linewidths=0,
            rasterized=True,
            gid=f"rows {name}",
        )
    ends = np.concatenate([true, *estimates.values()])
    low, high = float(ends.min()), float(ends.max())
    margin = 0.04 * (high - low or 1.0)
    limits = (low - margin, high + margin)
    axes.plot(limits, limits, color=BLACK, linewidth=0.8, zorder=3, gid="right")
    axes.set(xlim=limits, ylim=limits)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4))


@register_figure("mean_and_sd")
def plot_mean_and_sd_from_run(run: RunFigureData, at_most: Count = 2000) -> Any:
    """Plot estimated against true moments of the test rows.

    The figure is omitted if the true distributions are unknown. The first ``at_most`` rows are
    drawn.
    """
    distributions, truth = run.outputs_by_model("distribution", run.test), run.test.truth
    if distributions is None or truth is None:
        return None
    true_moments, *estimates = (
        RowMoments(distribution[:at_most].mean(), np.sqrt(distribution[:at_most].var()))
        for distribution in (truth, *distributions.values())
    )
    return plot_mean_and_sd(true_moments, dict(zip(distributions, estimates, strict=True)))
