"""Predictive densities of a few chosen rows, of the parent and of what repairs it.

Predictive densities of single rows, of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kdgraph.errors import ConfigError
from kdgraph.figures.run_figures import RunFigureData, register_figure
from kdgraph.figures.style import (
    BLACK,
    FULL_WIDTH,
    GREY,
    NOTE_SIZE,
    add_axes,
    legend_label,
    new_figure,
    shorten_text,
    style_context,
    styles_by_name,
)
from kdgraph.parameters import Count

_LEFT, _RIGHT, _BOTTOM, _HEAD, _GAP = 0.3, 0.3, 0.38, 0.44, 0.3  # inches
_WIDEST, _HEIGHT = 2.6, 1.5
_KEY_SIZE = 7.0


@dataclass(frozen=True)
class PredictedRow:
    """What is predicted for one row.

    Attributes
    ----------
    title : what is written above its panel.
    at : Float[m], increasing values of the outcome.
    density : name → Float[m], in 1/units; the first is the parent; "truth" where it is known.
    y : the outcome, or None.
    """

    title: str
    at: np.ndarray
    density: Mapping[str, np.ndarray]
    y: float | None = None


def plot_predictive_densities(rows: Sequence[PredictedRow], outcome: str = "y") -> Figure:
    """Densities before and after recalibration, a panel for each row, and where its outcome was.

    Parameters
    ----------
    rows : one to five; all have the same names.
    outcome : what y is called.

    Returns
    -------
    Figure
        A page wide at most. Each panel has a scale of its own, and no ticks of densities, whose
        areas are 1.

    Raises
    ------
    ValueError
        No row, more than five, different names, or arrays that do not fit.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Figure 5 (b).
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
        figure = new_figure(width, _BOTTOM + _HEIGHT + _HEAD)
        for i, row in enumerate(rows):
            axes = add_axes(figure, _LEFT + i * (panel + _GAP), _BOTTOM, panel, _HEIGHT)
            _draw_row(axes, row)
            axes.set_xlabel(outcome)
            axes.set_title(
                shorten_text(figure, row.title, NOTE_SIZE, panel), fontsize=NOTE_SIZE, pad=3
            )
        lines = [Line2D([], [], linewidth=1.2) for _ in names]
        for line, role in zip(lines, (styles_by_name(names)[name] for name in names), strict=True):
            line.set(color=role.color, linestyle=role.linestyle)
        labels = [
            shorten_text(figure, name, _KEY_SIZE, (width - _LEFT - _RIGHT) / len(names) - 0.5)
            for name in names
        ]
        place = {
            "loc": "upper left",
            "bbox_to_anchor": (_LEFT / width, 1),
            "borderaxespad": 0.3,
            "columnspacing": 1.2,
        }
        figure.legend(
            lines,
            [legend_label(label) for label in labels],
            ncols=len(names),
            fontsize=_KEY_SIZE,
            **place,
        )
    return figure


def _draw_row(axes: Axes, row: PredictedRow) -> None:
    for name, role in styles_by_name(list(row.density)).items():
        axes.plot(
            row.at,
            row.density[name],
            color=role.color,
            linestyle=role.linestyle,
            linewidth=1.2,
            label=name,
        )
    top = 1.08 * max(float(values.max()) for values in row.density.values())
    if row.y is not None:
        axes.plot(
            [row.y, row.y],
            [0, top],
            color=BLACK,
            linewidth=0.7,
            linestyle=(0, (1, 1.5)),
            gid="outcome",
        )
        axes.annotate(
            "y",
            (row.y, top),
            (2.5, -1),
            textcoords="offset points",
            va="top",
            fontsize=NOTE_SIZE,
            color=GREY,
        )
    axes.set(xlim=(row.at[0], row.at[-1]), ylim=(0, top), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(3, prune="both"))


_N_QUANTILES = 400
"""Of a distribution without a density, whose density is estimated from them."""


_TAIL_MASS = 1e-3
"""Mass of a recalibrated or true distribution at either end that is not drawn; of the parent, which
may be far wider, the outer quarters need not be.
"""


@register_figure("predictive_densities")
def plot_predictive_densities_from_run(
    run: RunFigureData, rows: Sequence[int] = (), n_rows: Count = 4
) -> Any:
    """Densities of single test rows before and after recalibration, with the true one where it is
    known, and the outcome.

    Parameters
    ----------
    rows : positions of test rows, up to five; none: ``n_rows`` of them, evenly spaced in the order
    of the parent's means.
    n_rows : how many then, up to five.

    Notes
    -----
    Of a distribution without a density, as an empirical one behind a recalibrator is, 400 quantiles
    are smoothed by scipy's ``gaussian_kde``, whose bandwidth rule (Scott's) widens what has several
    peaks.
    """
    said, truth = run.outputs_by_model("distribution", run.test), run.test.truth
    if said is None:
        return None
    if bad := [row for row in rows if not 0 <= row < run.test.n]:
        raise ConfigError(
            f"figures.draw.predictive_densities.rows must be in 0 to {run.test.n - 1}, got {bad[0]}"
        )
    if max(len(rows), n_rows) > 5:
        raise ConfigError(
            "figures.draw.predictive_densities draws five rows at most, got"
            f" {max(len(rows), n_rows)}"
        )
    if not rows:
        order = np.argsort(said[run.names[0]].mean(), kind="stable")
        rows = order[((np.arange(n_rows) + 0.5) / n_rows * len(order)).astype(int)].tolist()
    every = said if truth is None else {**said, "truth": truth}
    y = np.asarray(run.test.y)
    return plot_predictive_densities(
        [
            make_predicted_row(
                f"test row {i}{_feature_text(run, i)}",
                {n: each[i : i + 1] for n, each in every.items()},
                y[i],
            )
            for i in rows
        ]
    )


def make_predicted_row(title: str, said: Mapping[str, Any], y: float) -> Any:
    """A panel of :func:`kdgraph.figures.plot_predictive_densities`: where the distributions of one row
    have their mass, and its outcome.

    Parameters
    ----------
    title : of the panel.
    said : name → distribution of one row; the first is the parent's.
    y : the outcome.
    """
    outside = [0.25 if i == 0 else _TAIL_MASS for i in range(len(said))]
    ends = [
        y,
        *(
            end
            for given, mass in zip(said.values(), outside, strict=True)
            for end in given.ppf(np.array([mass, 1 - mass]))[0]
        ),
    ]
    room = 0.15 * float(np.ptp(ends))  # into which the kernel reaches
    at = np.linspace(min(ends) - room, max(ends) + room, 600)
    return PredictedRow(
        title, at, {name: _estimate_density(given, at) for name, given in said.items()}, float(y)
    )


def _feature_text(run: RunFigureData, row: int) -> str:
    """The row's features, where there are no more than two."""
    X, names = run.splits.test.X, run.splits.test.feature_names
    return (
        "".join(f" · {name} = {X[row, i]:.3g}" for i, name in enumerate(names))
        if X.ndim == 2 and X.shape[1] <= 2
        else ""
    )


def _estimate_density(given: Any, at: np.ndarray) -> np.ndarray:
    """Float[m] of the distribution of one row."""
    if hasattr(given, "pdf"):
        return given.pdf(at[None])[0]
    from scipy.stats import gaussian_kde

    return gaussian_kde(given.ppf((np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES)[0])(at)
