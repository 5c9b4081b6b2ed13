"""Histograms of PIT values, and coverage against the level of the interval, with what chance alone does to calibrated distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kdgraph.figures.style import BLACK, COLUMN_WIDTH, GREY, Role, add_axes, fitted, legend_label, new_figure, roles, styled

_LEFT, _RIGHT, _TOP, _BOTTOM = 0.54, 0.12, 0.08, 0.36  # inches
_WIDTH, _HEIGHT, _DIFFERENCE, _GAP = COLUMN_WIDTH - _LEFT - _RIGHT, 1.7, 0.95, 0.12
_KEY_LINE, _KEY_SIZE = 0.15, 7.0
_BAND = "#d9d9d9"
_ANYWHERE = 0.95
"""Probability that a calibrated distribution stays in the band, in one bin or at one level."""


@dataclass(frozen=True)
class CoverageCurve:
    """Share of rows inside central intervals.

    Attributes
    ----------
    level, coverage : Float[k] in [0, 1]; levels increase.
    """

    level: np.ndarray
    coverage: np.ndarray


def pit_histogram(counts: Mapping[str, np.ndarray]) -> Figure:
    """Density of PIT values by bin; calibrated distributions give 1 everywhere, up to the band that chance alone explains.

    Parameters
    ----------
    counts : name → Int[b], rows in each of b equal bins of [0, 1]; the first is the parent, the others are methods. Names have the same
        bins and the same number of rows.

    Returns
    -------
    Figure
        One column wide. The band is the central 95 % of the binomial distribution of one bin's count: the chance of these rows, not that of
        the rows which a method has learnt from.
    """
    n, bins = _rows_and_bins(counts)
    edges = np.arange(bins + 1) / bins
    with styled():
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _HEIGHT + _KEY_LINE * (len(counts) + 1) + _TOP)
        axes = add_axes(figure, _LEFT, _BOTTOM, _WIDTH, _HEIGHT)
        low, high = binomial_band(n, np.array([1 / bins]))
        band = _band(axes, np.array([0.0, 1.0]), np.repeat(low * bins, 2), np.repeat(high * bins, 2), f"calibrated, {n:,} rows")
        for name, role in roles(list(counts)).items():
            label = legend_label(fitted(figure, name, _KEY_SIZE, _WIDTH - 1.0))
            axes.stairs(
                counts[name] * bins / n, edges, color=role.color, linestyle=role.linestyle, linewidth=1.2, label=label, baseline=None
            )
        axes.axhline(1, color=BLACK, linewidth=0.7, zorder=1.5, gid="uniform")
        axes.set(xlim=(0, 1), xlabel="PIT value F(y | x)", ylabel="density")
        axes.set_ylim(bottom=0, top=1.06 * max(float(high[0]), *(float(found.max()) / n for found in counts.values())) * bins)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        _key(axes, band)
    return figure


def coverage_against_level(curves: Mapping[str, CoverageCurve], n: int) -> Figure:
    """Share of outcomes inside central intervals against their level, and by how many points it misses the level.

    Parameters
    ----------
    curves : name → curve; the first is the parent, the others are methods.
    n : rows that every curve was measured on.

    Returns
    -------
    Figure
        One column wide. The band is the central 95 % of the binomial distribution at each level, as in :func:`pit_histogram`.
    """
    if not curves:
        raise ValueError("coverage_against_level needs at least one curve")
    grid = np.linspace(0, 1, 201)[1:-1]
    low, high = binomial_band(n, grid)
    with styled():
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _DIFFERENCE + _GAP + _HEIGHT + _KEY_LINE * (len(curves) + 1) + _TOP)
        below = add_axes(figure, _LEFT, _BOTTOM, _WIDTH, _DIFFERENCE)
        above = add_axes(figure, _LEFT, _BOTTOM + _DIFFERENCE + _GAP, _WIDTH, _HEIGHT, sharex=below)
        band = _band(above, grid, low, high, f"calibrated, {n:,} rows")
        _band(below, grid, low - grid, high - grid, "")
        for name, role in roles(list(curves)).items():
            _curve(above, below, legend_label(fitted(figure, name, _KEY_SIZE, _WIDTH - 1.0)), curves[name], role)
        above.plot([0, 1], [0, 1], color=BLACK, linewidth=0.7, zorder=1.5, gid="ideal")
        below.axhline(0, color=BLACK, linewidth=0.7, zorder=1.5, gid="ideal")
        above.set(ylim=(0, 1.02), ylabel="coverage")
        above.tick_params(labelbottom=False)
        below.set(xlim=(0, 1), xlabel="level of the central interval", ylabel="coverage - level")
        below.yaxis.set_major_locator(MaxNLocator(4))
        _key(above, band)
    return figure


def binomial_band(n: int, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the central 95 % of Binomial(n, share) / n, Float[k] each, of ``share``: Float[k]."""
    from scipy.stats import binom

    return tuple(binom.ppf(level, n, share) / n for level in ((1 - _ANYWHERE) / 2, (1 + _ANYWHERE) / 2))


def _rows_and_bins(counts: Mapping[str, np.ndarray]) -> tuple[int, int]:
    sizes = {(int(np.sum(found)), len(found)) for found in counts.values()}
    if len(sizes) != 1 or 0 in next(iter(sizes)):
        raise ValueError(f"pit_histogram needs counts of the same rows in the same bins, got (rows, bins) {sorted(sizes)}")
    return next(iter(sizes))


def _band(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, label: str):
    return axes.fill_between(x, low, high, color=_BAND, linewidth=0, zorder=0.5, label=label, gid="band")


def _curve(above: Axes, below: Axes, label: str, found: CoverageCurve, role: Role) -> None:
    above.plot(found.level, found.coverage, label=label, **role.line())
    below.plot(found.level, found.coverage - found.level, **role.line())


def _key(axes: Axes, band) -> None:
    """Names in their order, and the band last, above the axes."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(handles)), key=lambda i: handles[i] is band)
    where = {"loc": "lower left", "bbox_to_anchor": (0, 1.01), "labelspacing": 0.25, "fontsize": _KEY_SIZE}
    axes.legend([handles[i] for i in order], [labels[i] for i in order], **where)
    note = {"ha": "right", "fontsize": _KEY_SIZE - 0.5, "color": GREY}
    axes.annotate(f"band: {100 * _ANYWHERE:g} %", (1, 1.01), (0, 5), xycoords="axes fraction", textcoords="offset points", **note)
