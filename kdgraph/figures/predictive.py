"""Predictive densities of single rows before and after recalibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.errors import ConfigError
from kdgraph.figures.drawing import (
    IDEAL_LINE,
    draw_legend_line,
    line_handle,
    shorten_lines,
    write_beside,
)
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    FULL_WIDTH,
    GREY,
    NOTE_SIZE,
    add_axes,
    new_figure,
    style_context,
    styles_by_name,
)
from kdgraph.parameters import Count

_LEFT, _RIGHT, _BOTTOM, _HEAD, _GAP = 0.3, 0.3, 0.38, 0.44, 0.3  # inches
_TITLE_LINE = 0.11  # inches
_WIDEST, _HEIGHT = 2.6, 1.5


@dataclass(frozen=True)
class PredictedRow:
    """Predictive densities of one row.

    Attributes
    ----------
    title : str
        Title of the panel; a line break makes a second line.
    at : Float[m]
        Increasing values of the outcome.
    density : mapping of str to Float[m]
        Densities in 1/units of the outcome; the first name is the parent, "truth" is the true one.
    y : float, default=None
        Outcome of the row.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from kdgraph.figures import PredictedRow
    >>> at = np.linspace(-4, 4, 81)
    >>> density = {"network": norm(0, 2).pdf(at), "truth": norm.pdf(at)}
    >>> list(PredictedRow("x = 0.5", at, density, y=0.3).density)
    ['network', 'truth']
    """

    title: str
    at: np.ndarray
    density: Mapping[str, np.ndarray]
    y: float | None = None


def plot_predictive_densities(rows: Sequence[PredictedRow], outcome: str = "y") -> Figure:
    """Plot densities before and after recalibration, a panel for each row.

    A dotted line marks the outcome of the row.

    Parameters
    ----------
    rows : sequence of PredictedRow
        One to five rows with the same names.
    outcome : str, default="y"
        Name of the outcome.

    Returns
    -------
    Figure
        Figure at most as wide as the page. Each panel has its own scale, without ticks of the
        densities, whose areas are 1.

    Raises
    ------
    ValueError
        If there is no row or more than five, names differ, or arrays do not fit.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figure 5 (b).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from kdgraph.figures import PredictedRow, plot_predictive_densities
    >>> at = np.linspace(-4, 4, 81)
    >>> density = {"network": norm(0, 2).pdf(at), "truth": norm.pdf(at)}
    >>> figure = plot_predictive_densities([PredictedRow("x = 0.5", at, density, y=0.3)], "price")
    >>> [(axes.get_title(), axes.get_xlabel()) for axes in figure.axes]
    [('x = 0.5', 'price')]
    """
    fits = all(
        np.shape(values) == np.shape(row.at) for row in rows for values in row.density.values()
    )
    if (
        not 1 <= len(rows) <= 5
        or len({tuple(row.density) for row in rows}) != 1
        or not rows[0].density
        or not fits
    ):
        raise ValueError(
            "predictive_densities needs one to five rows with the same names, and a density at each"
            " of their values"
        )
    panel = min(_WIDEST, (FULL_WIDTH - _LEFT - _RIGHT - (len(rows) - 1) * _GAP) / len(rows))
    width = _LEFT + len(rows) * panel + (len(rows) - 1) * _GAP + _RIGHT
    names = list(rows[0].density)
    with style_context():
        more_lines = max(row.title.count("\n") for row in rows)
        figure = new_figure(width, _BOTTOM + _HEIGHT + _HEAD + _TITLE_LINE * more_lines)
        for i, row in enumerate(rows):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, _HEIGHT)
            _draw_row(axes, row)
            axes.set_xlabel(outcome)
            if i == 0:
                axes.set_ylabel("density")
            title = shorten_lines(figure, row.title, NOTE_SIZE, panel)
            axes.set_title(title, fontsize=NOTE_SIZE, pad=3, linespacing=1.1)
        lines = [line_handle(styles_by_name(names)[name]) for name in names]
        available = (width - _LEFT - _RIGHT) / len(names) - 0.5
        draw_legend_line(figure, lines, names, _LEFT, available, columnspacing=1.2)
    return figure


def _draw_row(axes: Axes, row: PredictedRow) -> None:
    for name, style in styles_by_name(list(row.density)).items():
        line = {"color": style.color, "linestyle": style.linestyle, "linewidth": 1.2}
        axes.plot(row.at, row.density[name], label=name, **line)
    top_label = 1.08 * max(float(values.max()) for values in row.density.values())
    if row.y is not None:
        axes.plot([row.y, row.y], [0, top_label], **IDEAL_LINE, gid="outcome")
        write_beside(axes, "y", (row.y, top_label), (2.5, -1), "data", va="top", color=GREY)
    axes.set(xlim=(row.at[0], row.at[-1]), ylim=(0, top_label), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(3, prune="both"))


_N_QUANTILES = 400
"""Number of quantiles from which the density of a distribution without one is estimated."""


_TAIL_MASS = 1e-3
"""Mass of a recalibrated or true distribution at either end that is not drawn.

For the parent, which may be much wider, it is a quarter.
"""


@register_figure("predictive_densities")
def plot_predictive_densities_from_run(
    run: RunFigureData, rows: Sequence[int] = (), n_rows: Count = 4
) -> Any:
    """Plot predictive densities of single test rows, with their outcomes.

    The true density is drawn too if it is known. ``rows`` are positions of up to five test rows, by
    default ``n_rows`` rows, evenly spaced in the order of the parent's means. ConfigError is raised
    if a row does not exist, or there are more than five.

    If a distribution has no density, such as an empirical one after a recalibrator, 400 quantiles
    are smoothed by scipy's ``gaussian_kde``. Its bandwidth rule (Scott's) widens distributions with
    several peaks.
    """
    distributions, truth = run.outputs_by_model("distribution", run.test), run.test.truth
    if distributions is None:
        return None
    if invalid := [row for row in rows if not 0 <= row < run.test.n_rows]:
        raise ConfigError(
            f"figures.draw.predictive_densities.rows must be in 0 to {run.test.n_rows - 1}, got"
            f" {invalid[0]}"
        )
    if max(len(rows), n_rows) > 5:
        raise ConfigError(
            "figures.draw.predictive_densities draws five rows at most, got"
            f" {max(len(rows), n_rows)}"
        )
    if not rows:
        order = np.argsort(distributions[run.names[0]].mean(), kind="stable")
        rows = order[((np.arange(n_rows) + 0.5) / n_rows * len(order)).astype(int)].tolist()
    all_distributions = distributions if truth is None else {**distributions, "truth": truth}
    y = np.asarray(run.test.y)
    return plot_predictive_densities(
        [
            make_predicted_row(
                f"test row {i}{_feature_text(run, i)}",
                {name: distribution[i : i + 1] for name, distribution in all_distributions.items()},
                y[i],
            )
            for i in rows
        ]
    )


def make_predicted_row(title: str, distributions: Mapping[str, Any], y: float) -> PredictedRow:
    """Return the densities of one row, at outcomes where its distributions have mass.

    The first distribution is the parent's.
    """
    # The parent may be much wider than the other distributions, so its tails may be cut off.
    outer_masses = [0.25 if i == 0 else _TAIL_MASS for i in range(len(distributions))]
    ends = [
        y,
        *(
            end
            for distribution, mass in zip(distributions.values(), outer_masses, strict=True)
            for end in distribution.ppf(np.array([mass, 1 - mass]))[0]
        ),
    ]
    margin = 0.15 * float(np.ptp(ends))  # the kernel extends beyond the quantiles
    values = np.linspace(min(ends) - margin, max(ends) + margin, 600)
    return PredictedRow(
        title,
        values,
        {
            name: _estimate_density(distribution, values)
            for name, distribution in distributions.items()
        },
        float(y),
    )


def _feature_text(run: RunFigureData, row: int) -> str:
    X, names = run.splits.test.X, run.splits.test.feature_names
    if X.ndim != 2 or X.shape[1] > 2:
        return ""
    return "\n" + ", ".join(f"{name} = {X[row, i]:.3g}" for i, name in enumerate(names))


def _estimate_density(distribution: Any, at: np.ndarray) -> np.ndarray:
    """Return the density of the distribution of one row, Float[m]."""
    if hasattr(distribution, "pdf"):
        return distribution.pdf(at[None])[0]
    from scipy.stats import gaussian_kde

    return gaussian_kde(distribution.ppf((np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES)[0])(at)
