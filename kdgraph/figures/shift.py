"""Confidence on the way out of the data by degrees of meaning: one panel for each kind of shift.

Confidence along families of sets that leave the data, of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kdgraph.figures.run_figures import (
    RunFigureData,
    mean_confidence_by_set,
    register_figure,
    single_parameter,
)
from kdgraph.figures.style import (
    BLACK,
    FULL_WIDTH,
    ID_SHADE,
    LABEL_SIZE,
    CurveBands,
    add_axes,
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

_LEFT, _GAP, _TOP, _BOTTOM, _HEIGHT = (
    0.46,
    0.2,
    0.2,
    0.38,
    1.6,
)  # inches around and between the panels
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
    """Mean max confidence of each model on sets that leave the training data by degrees, as Figure
    3 D to F of Dey et al.

    Parameters
    ----------
    curves : panel → name → Float[v]; a panel's name is the label of its axis. The names are the
        same in every panel; the first is the parent, the others are methods.
    values : panel → Float[v], increasing: the parameter of the sets.
    prior : the largest class prior, to which confidence should fall away from the data.
    id_values : panel → the values at which the sets are in distribution; a thin line marks them.
    bands : panel → name → (lower, upper), Float[v] each, drawn around that name's curve.
    band_of : what the bands are, e.g. "25 to 75 % of 10 seeds"; required with ``bands``.

    Returns
    -------
    Figure
        As wide as the page with three panels, less with fewer; more panels go into further rows.

    Raises
    ------
    ValueError
        No panel, panels of different names, a curve that does not fit its values, bands without
        what they are.
    """
    values = {panel: np.asarray(given, dtype=np.float64) for panel, given in values.items()}
    _check_curves(curves, values, bands, band_of)
    names = list(next(iter(curves.values())))
    lows = [low for drawn in (bands or {}).values() for low, _ in drawn.values()]
    floor = confidence_axis_start(
        [prior, *(line for drawn in curves.values() for line in drawn.values()), *lows]
    )
    with style_context():
        figure, panels, labels = _make_panels(
            list(curves), [f"prior {prior:.3f}", *names], _BAND_LINE if band_of else 0.0
        )
        for i, (panel, axes) in enumerate(panels.items()):
            _format_axes(axes, panel, values[panel], floor, first=i % _PER_ROW == 0)
            axes.axhline(prior, color=BLACK, linewidth=0.7, linestyle=(0, (1, 1.5)), gid="prior")
            _mark_id_values(axes, (id_values or {}).get(panel, ()))
            _draw_curves(axes, curves[panel], values[panel], (bands or {}).get(panel, {}))
            if i % _PER_ROW == _PER_ROW - 1 or i == len(panels) - 1:
                ends = [prior, *(float(curves[panel][name][-1]) for name in names)]
                label_line_ends(
                    axes,
                    labels,
                    ends,
                    [BLACK, *(role.color for role in styles_by_name(names).values())],
                )
        if band_of:
            axes = panels[next(iter(curves))]
            note_above(axes, f"bands: {band_of}", axes.get_xlim()[0], "left", 3 + 72 * _BAND_LINE)
    return figure


def _make_panels(
    titles: Sequence[str], names: Sequence[str], above: float
) -> tuple[Figure, dict[str, Axes], list[str]]:
    """A figure with a panel for each title, left to right and top to bottom, and the names as short
    as the right margin needs them.
    """
    measure = new_figure(1, 1)
    labels = [shorten_text(measure, name, LABEL_SIZE, _LONGEST_LABEL) for name in names]
    margin = 0.12 + max(text_size(measure, label, LABEL_SIZE)[0] for label in labels)
    panel = (FULL_WIDTH - _LEFT - margin - (_PER_ROW - 1) * _GAP) / _PER_ROW
    columns, rows = min(len(titles), _PER_ROW), -(-len(titles) // _PER_ROW)
    row = _BOTTOM + _HEIGHT + _TOP
    figure = new_figure(_LEFT + columns * panel + (columns - 1) * _GAP + margin, rows * row + above)
    places = [
        (_LEFT + i % _PER_ROW * (panel + _GAP), (rows - 1 - i // _PER_ROW) * row + _BOTTOM)
        for i in range(len(titles))
    ]
    return (
        figure,
        {
            t: add_axes(figure, *place, panel, _HEIGHT)
            for t, place in zip(titles, places, strict=True)
        },
        labels,
    )


def _format_axes(axes: Axes, label: str, values: np.ndarray, floor: float, *, first: bool) -> None:
    room = 0.04 * (values[-1] - values[0])  # so that a mark at an end is seen
    axes.set(
        xlim=(values[0] - room, values[-1] + room),
        ylim=(floor, 1 + 0.02 * (1 - floor)),
        xlabel=label,
    )
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=6)
    if first:
        axes.set_ylabel("mean max confidence")
    else:
        axes.tick_params(labelleft=False)


def _mark_id_values(axes: Axes, id_values: Sequence[float]) -> None:
    """A stripe and a word where the sets are in distribution."""
    for value in id_values:
        axes.axvline(
            value,
            color=ID_SHADE,
            linewidth=_ID_WIDTH,
            zorder=0,
            solid_capstyle="butt",
            gid="id_value",
        )
        note_above(axes, "ID", value, "center", 3)


def _draw_curves(axes: Axes, curves: ShiftCurves, values: np.ndarray, bands: CurveBands) -> None:
    for name, role in styles_by_name(list(curves)).items():
        axes.plot(
            values,
            curves[name],
            label=name,
            clip_on=False,
            zorder=3,
            markersize=_MARKER_SIZE,
            **role.line(),
        )
        if name in bands:
            axes.fill_between(
                values, *bands[name], color=role.color, alpha=0.2, linewidth=0, gid=f"band {name}"
            )


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
    for panel, drawn in curves.items():
        given = values[panel]
        if not names or list(drawn) != names:
            raise ValueError(
                f"every panel must have the same curves, {names}, got {list(drawn)} in {panel!r}"
            )
        if given.ndim != 1 or len(given) < 2 or (np.diff(given) <= 0).any():
            raise ValueError(f"the panel {panel!r} needs two or more increasing values")
        for name, line in drawn.items():
            if np.shape(line) != given.shape or not np.isfinite(line).all():
                rule = f"one finite number for each of {len(given)} values"
                raise ValueError(
                    f"the curve {name!r} of {panel!r} must hold {rule}, got shape {np.shape(line)}"
                )
        if unknown := set((bands or {}).get(panel, {})) - set(names):
            raise ValueError(f"bands without a curve: {sorted(unknown)}")
    if bands and not band_of:
        raise ValueError("band_of must describe the bands, e.g. '25 to 75 % of 10 seeds'")


@register_figure("confidence_against_shift")
def plot_confidence_against_shift_from_run(run: RunFigureData) -> Any:
    """Mean confidence along each family of sets that leads away from the data."""
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
        label: np.array([single_parameter(one)[1] for one in families[label]]) for label in curves
    }
    return plot_confidence_against_shift(
        curves,
        values,
        run.prior,
        id_values={label: families[label][0].id_values for label in curves},
    )


def shift_axis_label(found: Predictions) -> str:
    """``axis of the ellipse``; ``intensity`` alone where family and parameter have one name."""
    name = single_parameter(found)[0]
    return name if name == found.ood else f"{name} of the {found.ood}"
