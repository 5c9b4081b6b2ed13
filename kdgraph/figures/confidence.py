"""Confidence against the distance from the origin.

The figure shows how the mean max confidence of each model changes on spheres that leave the
training data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kdgraph.figures.drawing import IDEAL_LINE, draw_band
from kdgraph.figures.run_figures import (
    CONFIDENCE_BAND,
    RunFigureData,
    mean_confidence_by_set,
    mean_confidence_intervals,
    register_figure,
)
from kdgraph.figures.style import (
    BLACK,
    COLUMN_WIDTH,
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

_LEFT, _TOP, _BOTTOM, _HEIGHT = 0.46, 0.2, 0.36, 1.75  # inches
_LONGEST_LABEL, _BAND_LINE = 1.2, 0.13  # inches


def plot_confidence_against_radius(
    curves: Mapping[str, np.ndarray],
    radii: np.ndarray,
    prior: float,
    *,
    id_radius: float = 1.0,
    bands: CurveBands | None = None,
    band_of: str | None = None,
    radius_label: str = "distance from the origin",
) -> Figure:
    """Plot mean max confidence on circles or hyperspheres of growing radius.

    A dotted line marks the largest class prior, the ideal confidence in the OOD region.

    Parameters
    ----------
    curves : mapping of str to Float[r]
        Mean max confidence by name; the first is the parent, the others are methods.
    radii : Float[r]
        Increasing radii.
    prior : float
        Largest class prior.
    id_radius : float, default=1.0
        Radius of the region of the training data, which is shaded.
    bands : mapping of str to (Float[r], Float[r]), default=None
        Lower and upper limit of a band around the curve of that name.
    band_of : str, default=None
        Description of the bands, e.g. "25 to 75 % of 10 seeds"; required with ``bands``.
    radius_label : str, default="distance from the origin"
        Label of the axis of radii, with their unit.

    Returns
    -------
    Figure
        Figure of one column; the right margin depends on the longest name.

    Raises
    ------
    ValueError
        If there is no curve, radii do not increase, a curve or band does not fit, or ``band_of`` is
        missing.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_confidence_against_radius
    >>> curves = {"forest": np.array([0.9, 0.8, 0.8]), "kdf": np.array([0.9, 0.5, 0.5])}
    >>> figure = plot_confidence_against_radius(curves, np.array([0.0, 2.0, 4.0]), prior=0.5)
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('distance from the origin', 'mean max confidence')
    """
    radii = np.asarray(radii, dtype=np.float64)
    _check_curves(curves, radii, bands, band_of)
    with style_context():
        figure = new_figure(COLUMN_WIDTH, _BOTTOM + _HEIGHT + _TOP + (_BAND_LINE if band_of else 0))
        labels = [
            shorten_text(figure, label, LABEL_SIZE, _LONGEST_LABEL)
            for label in (f"prior {prior:.3f}", *curves)
        ]
        # The names are outside of the axes, so the margin is measured before the axes are made.
        margin = 0.12 + max(text_size(figure, label, LABEL_SIZE)[0] for label in labels)
        axes = add_axes(figure, _LEFT, _BOTTOM, COLUMN_WIDTH - _LEFT - margin, _HEIGHT)
        axes.axhline(prior, **IDEAL_LINE, gid="prior")
        for name, style in styles_by_name(list(curves)).items():
            # More than 20 markers would merge into one thick line.
            every = max(1, -(-len(radii) // 20))
            line = style.line(markevery=every, clip_on=False, zorder=3)
            axes.plot(radii, curves[name], label=name, **line)
            if bands and name in bands:
                draw_band(axes, radii, bands[name], style, name)
        _format_axes(
            axes,
            radii,
            id_radius,
            radius_label,
            confidence_axis_start(
                [prior, *curves.values(), *(low for low, _ in (bands or {}).values())]
            ),
        )
        if band_of:
            note_above(axes, f"bands: {band_of}", 0, "left", 3 + 72 * _BAND_LINE)
        ends = [prior, *(float(values[-1]) for values in curves.values())]
        colors = [BLACK, *(style.color for style in styles_by_name(list(curves)).values())]
        label_line_ends(axes, labels, ends, colors)
    return figure


def _format_axes(
    axes: Axes, radii: np.ndarray, id_radius: float, radius_label: str, low: float
) -> None:
    axes.set(xlim=(min(0.0, radii[0]), radii[-1]), ylim=(low, 1 + 0.02 * (1 - low)))
    axes.set(xlabel=radius_label, ylabel="mean max confidence")
    axes.locator_params(axis="y", nbins=6)
    axes.axvspan(
        axes.get_xlim()[0], id_radius, color=ID_SHADE, linewidth=0, zorder=0, gid="id_region"
    )
    note_above(axes, "ID", (axes.get_xlim()[0] + id_radius) / 2, "center", 3)
    note_above(axes, " OOD →", id_radius, "left", 3)


def _check_curves(
    curves: Mapping[str, np.ndarray],
    radii: np.ndarray,
    bands: CurveBands | None,
    band_of: str | None,
) -> None:
    if not curves or radii.ndim != 1 or len(radii) < 2 or (np.diff(radii) <= 0).any():
        raise ValueError("confidence_against_radius needs a curve and two or more increasing radii")
    for name, values in curves.items():
        if np.shape(values) != radii.shape or not np.isfinite(values).all():
            raise ValueError(
                f"the curve {name!r} must hold one finite number for each of {len(radii)} radii,"
                f" got shape {np.shape(values)}"
            )
    if bands and not band_of:
        raise ValueError("band_of must describe the bands, e.g. '25 to 75 % of 10 seeds'")
    if bands and set(bands) - set(curves):
        raise ValueError(f"bands without a curve: {sorted(set(bands) - set(curves))}")


@register_figure("confidence_against_radius")
def plot_confidence_against_radius_from_run(run: RunFigureData) -> Any:
    """Plot the mean confidence of both models on spheres around the data."""
    shells = [
        predictions for predictions in run.evaluation.predictions if "radius" in predictions.params
    ]
    shells.sort(key=lambda shell: shell.params["radius"])
    if (
        len(shells) < 2
        or (curves := mean_confidence_by_set(run, shells)) is None
        or run.prior is None
    ):
        return None
    return plot_confidence_against_radius(
        curves,
        np.array([shell.params["radius"] for shell in shells]),
        run.prior,
        bands=mean_confidence_intervals(run, shells),
        band_of=CONFIDENCE_BAND,
        radius_label="distance from the origin (scaled features)",
    )
