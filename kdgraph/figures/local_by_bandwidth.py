"""Local calibration error against the bandwidth: from the error of single rows to that of a whole bin of confidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from kdgraph.figures.labels import LABEL_SIZE, label_ends, note_above
from kdgraph.figures.local import FEW
from kdgraph.figures.style import COLUMN_WIDTH, Role, add_axes, fitted, new_figure, roles, styled, text_size

_LEFT, _TOP, _BOTTOM, _HEIGHT, _GAP = 0.46, 0.2, 0.36, 0.95, 0.12  # inches
_LONGEST_LABEL, _LABEL = 1.0, 0.34  # inches; how far left of the axes what they show is named
_MARKER, _FEW_MARKER = 3.5, 1.6  # points
Curves = Mapping[str, np.ndarray]
"""Name → Float[b]; the first is the parent, the others are methods."""


def lce_against_bandwidth(bandwidths: np.ndarray, mlce: Curves, lce: Curves, mlce_n_eff: Curves, n_eff: Curves) -> Figure:
    """Largest and mean local calibration error of each model, and the effective number of rows behind the mean.

    Towards the left an error is that of single rows, towards the right MLCE becomes MCE and mean LCE becomes ECE.

    Parameters
    ----------
    bandwidths : Float[b], increasing, above 0; on a logarithmic axis.
    mlce, lce : the largest error of any row, and the mean over rows, in [0, 1].
    mlce_n_eff, n_eff : effective number of rows behind each, of the one row and the median over rows. Where it is below
        :data:`~kdgraph.figures.local.FEW` the marker is small.

    Returns
    -------
    Figure
        One column wide, three panels from top to bottom; the right margin grows with the longest name.

    Raises
    ------
    ValueError
        Fewer than two bandwidths, or curves that do not fit them.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figures 3 (MLCE) and 16 (average LCE).
    """
    bandwidths = np.asarray(bandwidths, dtype=np.float64)
    behind = {"MLCE": mlce_n_eff, "mean LCE": n_eff, "effective rows": n_eff}
    panels = {"MLCE": mlce, "mean LCE": lce, "effective rows": n_eff}
    _check(bandwidths, panels | {"effective rows of MLCE": mlce_n_eff})
    drawn = roles(list(mlce))
    with styled():
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + 3 * _HEIGHT + 2 * _GAP + _TOP)
        labels = [fitted(figure, name, LABEL_SIZE, _LONGEST_LABEL) for name in drawn]
        width = COLUMN_WIDTH - _LEFT - 0.12 - max(text_size(figure, label, LABEL_SIZE)[0] for label in labels)
        for i, (title, curves) in enumerate(panels.items()):
            axes = add_axes(figure, _LEFT, _BOTTOM + (2 - i) * (_HEIGHT + _GAP), width, _HEIGHT)
            for name, role in drawn.items():
                _line(axes, name, role, bandwidths, curves[name], few=behind[title][name] < FEW)
            _dress(axes, bandwidths, title, last=i == 2)
            if i < 2:  # the last is logarithmic, and its lines are the same two
                label_ends(axes, labels, [float(curves[name][-1]) for name in drawn], [role.color for role in drawn.values()])
            if i == 0:
                note_above(axes, f"small: fewer than {FEW:g} effective rows", bandwidths[0], "left", 5)
    return figure


def _line(axes: Axes, name: str, role: Role, x: np.ndarray, y: np.ndarray, few: np.ndarray) -> None:
    """A line whose markers are small where ``few``."""
    line: dict[str, Any] = {**role.line(), "zorder": 3, "clip_on": False, "marker": ""}
    axes.plot(x, y, label=name, **line)
    for size, here in ((_MARKER, ~few), (_FEW_MARKER, few)):
        marks: dict[str, Any] = {**line, "linestyle": "", "marker": role.marker, "markersize": size}
        axes.plot(x[here], y[here], **marks)


def _dress(axes: Axes, bandwidths: np.ndarray, title: str, *, last: bool) -> None:
    axes.set_xscale("log")
    axes.set(xlim=(bandwidths[0], bandwidths[-1]), ylabel=title)
    axes.yaxis.set_label_coords(-_LABEL / axes.get_window_extent().width * axes.figure.dpi, 0.5)
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if last:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=4))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda rows, _: f"{rows:g}" if rows < 1000 else f"{rows / 1000:g}k")
        axes.set_ylim(bottom=1)
        axes.set_xlabel("bandwidth γ")
    else:
        axes.tick_params(labelbottom=False)
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.set_ylim(bottom=0)


def _check(bandwidths: np.ndarray, panels: Mapping[str, Curves]) -> None:
    if bandwidths.ndim != 1 or len(bandwidths) < 2 or not (np.diff(bandwidths) > 0).all() or bandwidths[0] <= 0:
        raise ValueError("lce_against_bandwidth needs two or more increasing bandwidths above 0")
    names = list(next(iter(panels.values())))
    for title, curves in panels.items():
        if not names or list(curves) != names:
            raise ValueError(f"every panel must have the same curves, {names}, got {list(curves)} in {title!r}")
        for name, values in curves.items():
            if np.shape(values) != bandwidths.shape or not np.isfinite(values).all():
                rule = f"one finite number for each of {len(bandwidths)} bandwidths"
                raise ValueError(f"{title} of {name!r} must be {rule}, got shape {np.shape(values)}")
