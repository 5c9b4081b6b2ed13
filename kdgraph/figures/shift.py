"""Confidence on families of sets that leave the training data by degrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kdgraph.figures.drawing import IDEAL_LINE, PanelGrid, draw_band
from kdgraph.figures.run_figures import (
    CONFIDENCE_BAND,
    RunFigureData,
    mean_confidence_by_set,
    mean_confidence_intervals,
    register_figure,
    single_parameter,
)
from kdgraph.figures.style import (
    BLACK,
    FULL_WIDTH,
    ID_SHADE,
    LABEL_SIZE,
    CurveBands,
    confidence_axis_start,
    label_line_ends,
    new_figure,
    note_above,
    shorten_text,
    style_context,
    styles_by_name,
    text_size,
)

if TYPE_CHECKING:
    from kdgraph.base import Predictions

# Inches around and between the panels.
_LEFT, _GAP, _TOP, _BOTTOM, _HEIGHT = 0.46, 0.2, 0.2, 0.38, 1.6
_LONGEST_LABEL, _BAND_LINE = 1.0, 0.13  # inches
_PER_ROW = 3
_MARKER_SIZE, _ID_WIDTH = 2.8, 5.0  # points; a panel is 120 points wide and has up to 17 values
ShiftCurves = Mapping[str, np.ndarray]


def plot_confidence_against_shift(
    curves: Mapping[str, ShiftCurves],
    values: Mapping[str, np.ndarray],
    prior: float,
    *,
    id_values: Mapping[str, Sequence[float]] | None = None,
    bands: Mapping[str, CurveBands] | None = None,
    band_of: str | None = None,
) -> Figure:
    """Plot mean max confidence on sets that leave the training data by degrees.

    The figure follows Figure 3 D to F of Dey et al.

    Parameters
    ----------
    curves : mapping of panel to name to Float[v]
        Mean max confidence; the name of a panel is the label of its axis. All panels have the same
        names; the first is the parent, the others are methods.
    values : mapping of panel to Float[v]
        Increasing values of the parameter of the sets.
    prior : float
        Largest class prior, the ideal confidence in the OOD region.
    id_values : mapping of panel to sequence of float, default=None
        Values at which the sets are in distribution, marked by a thin line.
    bands : mapping of panel to name to (Float[v], Float[v]), default=None
        Lower and upper limit of a band around the curve of that name.
    band_of : str, default=None
        Description of the bands, e.g. "25 to 75 % of 10 seeds"; required with ``bands``.

    Returns
    -------
    Figure
        Figure as wide as the page with three panels, narrower with fewer. More panels need further
        rows.

    Raises
    ------
    ValueError
        If there is no panel, panels have different names, a curve does not fit its values, or
        ``band_of`` is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_confidence_against_shift
    >>> curves = {"forest": np.array([0.9, 0.8, 0.8]), "kdf": np.array([0.9, 0.5, 0.5])}
    >>> angles = np.array([0.0, 45.0, 90.0])
    >>> label = "rotation in degrees"
    >>> figure = plot_confidence_against_shift({label: curves}, {label: angles}, prior=0.5)
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['rotation in degrees']
    """
    values = {
        panel: np.asarray(panel_values, dtype=np.float64) for panel, panel_values in values.items()
    }
    _check_curves(curves, values, bands, band_of)
    names = list(next(iter(curves.values())))
    lows = [low for by_name in (bands or {}).values() for low, _ in by_name.values()]
    floor = confidence_axis_start(
        [prior, *(line for by_name in curves.values() for line in by_name.values()), *lows]
    )
    with style_context():
        figure, panels, labels = _make_panels(
            list(curves), [f"prior {prior:.3f}", *names], _BAND_LINE if band_of else 0.0
        )
        for i, (panel, axes) in enumerate(panels.items()):
            _format_axes(axes, panel, values[panel], floor, first=i % _PER_ROW == 0)
            axes.axhline(prior, **IDEAL_LINE, gid="prior")
            _mark_id_values(axes, (id_values or {}).get(panel, ()))
            _draw_curves(axes, curves[panel], values[panel], (bands or {}).get(panel, {}))
            if i % _PER_ROW == _PER_ROW - 1 or i == len(panels) - 1:
                ends = [prior, *(float(curves[panel][name][-1]) for name in names)]
                colors = [BLACK, *(style.color for style in styles_by_name(names).values())]
                label_line_ends(axes, labels, ends, colors)
        if band_of:
            axes = panels[next(iter(curves))]
            note_above(axes, f"bands: {band_of}", axes.get_xlim()[0], "left", 3 + 72 * _BAND_LINE)
    return figure


def _make_panels(
    titles: Sequence[str], names: Sequence[str], above: float
) -> tuple[Figure, dict[str, Axes], list[str]]:
    blank = new_figure(1, 1)
    labels = [shorten_text(blank, name, LABEL_SIZE, _LONGEST_LABEL) for name in names]
    margin = 0.12 + max(text_size(blank, label, LABEL_SIZE)[0] for label in labels)
    # Panels have the same width in all rows, even if there are fewer than three.
    panel = (FULL_WIDTH - _LEFT - margin - (_PER_ROW - 1) * _GAP) / _PER_ROW
    gaps = _GAP, _TOP + _BOTTOM
    grid = PanelGrid(len(titles), _PER_ROW, _LEFT, _BOTTOM, panel, _HEIGHT, *gaps)
    columns = min(len(titles), _PER_ROW)
    width = _LEFT + columns * panel + (columns - 1) * _GAP + margin
    figure = new_figure(width, grid.top - _BOTTOM + above)
    return figure, {title: grid.add_axes(figure, i) for i, title in enumerate(titles)}, labels


def _format_axes(axes: Axes, label: str, values: np.ndarray, floor: float, *, first: bool) -> None:
    margin = 0.04 * (values[-1] - values[0])  # a mark at an end stays visible
    axes.set(
        xlim=(values[0] - margin, values[-1] + margin),
        ylim=(floor, 1 + 0.02 * (1 - floor)),
        xlabel=label,
    )
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=6)
    axes.set_ylabel("mean max confidence" if first else "")
    axes.tick_params(labelleft=first)


def _mark_id_values(axes: Axes, id_values: Sequence[float]) -> None:
    for value in id_values:
        shade = {"color": ID_SHADE, "linewidth": _ID_WIDTH, "solid_capstyle": "butt"}
        axes.axvline(value, zorder=0, gid="id_value", **shade)
        note_above(axes, "ID", value, "center", 3)


def _draw_curves(axes: Axes, curves: ShiftCurves, values: np.ndarray, bands: CurveBands) -> None:
    for name, style in styles_by_name(list(curves)).items():
        line = style.line(clip_on=False, zorder=3, markersize=_MARKER_SIZE)
        axes.plot(values, curves[name], label=name, **line)
        if name in bands:
            draw_band(axes, values, bands[name], style, name)


def _check_curves(
    curves: Mapping[str, ShiftCurves],
    values: Mapping[str, np.ndarray],
    bands: Mapping[str, CurveBands] | None,
    band_of: str | None,
) -> None:
    if not curves or set(curves) != set(values):
        raise ValueError(
            f"confidence_against_shift needs a panel and values for each, got {list(curves)} and"
            f" {list(values)}"
        )
    names = list(next(iter(curves.values())))
    for panel, by_name in curves.items():
        panel_values = values[panel]
        if not names or list(by_name) != names:
            raise ValueError(
                f"every panel must have the same curves, {names}, got {list(by_name)} in {panel!r}"
            )
        if panel_values.ndim != 1 or len(panel_values) < 2 or (np.diff(panel_values) <= 0).any():
            raise ValueError(f"the panel {panel!r} needs two or more increasing values")
        for name, line in by_name.items():
            if np.shape(line) != panel_values.shape or not np.isfinite(line).all():
                rule = f"one finite number for each of {len(panel_values)} values"
                raise ValueError(
                    f"the curve {name!r} of {panel!r} must hold {rule}, got shape {np.shape(line)}"
                )
        if unknown := set((bands or {}).get(panel, {})) - set(names):
            raise ValueError(f"bands without a curve: {sorted(unknown)}")
    if bands and not band_of:
        raise ValueError("band_of must describe the bands, e.g. '25 to 75 % of 10 seeds'")


@register_figure("confidence_against_shift")
def plot_confidence_against_shift_from_run(run: RunFigureData) -> Any:
    """Plot the mean confidence along each family of sets that leaves the data."""
    families = {
        shift_axis_label(family[0]): family
        for family in run.families()
        if len(family) > 1 and "radius" not in family[0].params
    }
    curves = {
        label: means
        for label, family in families.items()
        if (means := mean_confidence_by_set(run, family)) is not None
    }
    if not curves or run.prior is None:
        return None
    values = {
        label: np.array([single_parameter(predictions)[1] for predictions in families[label]])
        for label in curves
    }
    return plot_confidence_against_shift(
        curves,
        values,
        run.prior,
        id_values={label: families[label][0].id_values for label in curves},
        bands={label: mean_confidence_intervals(run, families[label]) for label in curves},
        band_of=CONFIDENCE_BAND,
    )


def shift_axis_label(predictions: Predictions) -> str:
    """Return the label of the axis of a family, such as ``axis of the ellipse``.

    If family and parameter have the same name, it is that name, such as ``intensity``.
    """
    name = single_parameter(predictions)[0]
    return name if name == predictions.ood_name else f"{name} of the {predictions.ood_name}"
