"""Calibration errors as other libraries and publications compute them.

These metrics exist only for comparison with published numbers. They differ from
:func:`~kdgraph.metrics.ece` in the bin of a confidence that equals an edge, and in the last bits of
the edges. On continuous confidences all rules agree, except for MAPIE's number of bins. On
confidences that often equal an edge (votes of a forest, the confidence 1 of a saturated network)
the rule alone can change an ECE by a third.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.calibration import classwise_error, ece, within_predicted_class
from kdgraph.metrics.inputs import Top
from kdgraph.metrics.registry import metric
from kdgraph.metrics.reliability_bins import (
    BinningRule,
    Intervals,
    Norm,
    binned_rows,
    check_bins,
    equal_width_edges,
)
from kdgraph.parameters import Count, check_value

Library = Literal["left", "netcal", "torchmetrics", "torchmetrics_f64", "relplot", "mapie"]


@metric("ECE of another library", better="lower")
def ece_compat(
    y: np.ndarray,
    top_label: Top,
    *,
    library: Library = "netcal",
    bins: Count = 15,
    norm: Norm = "l1",
) -> float:
    """Measure :func:`~kdgraph.metrics.ece` with the bins of another library, in [0, 1].

    Bins have equal widths. ``ece`` itself uses the bins of uncertainty-calibration.

    Parameters
    ----------
    library : str, default="netcal"
        Library whose bins are reproduced, edge by edge:

        - "left": none in particular. A bin holds ``lower <= confidence < upper``, the mirror image
          of ``ece``; 1 belongs to the last bin.
        - "netcal": like "left", with the edges of ``numpy.linspace``, whose last bits may differ
          from j / bins.
        - "torchmetrics": like "left", in single precision, with the edges of ``torch.linspace`` and
          a separate bin for 1. torchmetrics does so for multi-class predictions.
        - "torchmetrics_f64": the same in double precision, as torchmetrics does for binary
          predictions.
        - "relplot": a separate bin for 1; ``floor(confidence / (1 / bins))`` is the bin of all
          other confidences.
        - "mapie": closed like ``ece``, but ``bins`` edges of ``numpy.linspace`` make ``bins - 1``
          intervals, and 0 has a separate bin.
    bins : int, default=15
        Number of bins, as the library counts them.
    norm : {"l1", "l2", "max"}, default="l1"
        As for :func:`~kdgraph.metrics.ece`.

    Raises
    ------
    ParameterError
        If a value is out of its range.

    Notes
    -----
    The rules reproduce netcal 1.4.0, torchmetrics 1.9.0, relplot 1.0.3 and MAPIE 1.6.0.

    Examples
    --------
    >>> y, proba = [0, 1], [[0.6, 0.4], [0.5, 0.5]]
    >>> round(ece(y, proba, bins=2), 6), round(ece_compat(y, proba, library="netcal", bins=2), 6)
    (0.45, 0.05)
    """
    confidence = np.asarray(top_label.confidence, dtype=np.float64)
    return binned_rows(confidence, library_rule(library, bins)).error(
        top_label.correct(y), norm, debiased=False
    )


@metric("top-label ECE of another library", better="lower")
def top_label_ece_compat(
    y: np.ndarray,
    top_label: Top,
    *,
    library: Library = "netcal",
    bins: Count = 15,
    norm: Norm = "l1",
) -> float:
    """Measure :func:`~kdgraph.metrics.top_label_ece` with the bins of another library, in [0, 1].

    Parameters
    ----------
    library, bins, norm
        As for :func:`ece_compat`; the bins are those of each predicted class.

    References
    ----------
    Gupta, Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022.

    Examples
    --------
    >>> y, proba = [0, 0, 1, 0], [[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75]]
    >>> top_label_ece_compat(y, proba, library="relplot")
    0.25
    """
    return within_predicted_class(top_label, library_rule(library, bins)).error(
        top_label.correct(y), norm, debiased=False
    )


@metric("class-wise ECE of another library", better="lower")
def classwise_ece_compat(
    y: np.ndarray,
    proba: np.ndarray,
    *,
    library: Library = "netcal",
    bins: Count = 15,
    norm: Norm = "l1",
) -> float:
    """Measure :func:`~kdgraph.metrics.classwise_ece` with the bins of another library, in [0, 1].

    Parameters
    ----------
    library, bins, norm
        As for :func:`ece_compat`.

    References
    ----------
    Kull et al., "Beyond temperature scaling", NeurIPS 2019, Section 2.

    Examples
    --------
    >>> round(classwise_ece_compat([0, 1], [[0.9, 0.1], [0.9, 0.1]], library="netcal"), 6)
    0.4
    """
    return classwise_error(y, proba, library_rule(library, bins), norm, debiased=False)


@metric("ECE by edges", better="lower")
def ece_by_edges(y: np.ndarray, top_label: Top, *, edges: Count = 15) -> float:
    """Measure :func:`~kdgraph.metrics.ece` between ``edges`` equally spaced edges, in [0, 1].

    The published implementation of Dey et al. puts ``edges`` equally spaced edges into [0, 1] and
    calls their number the number of bins, so there are ``edges - 1`` bins. It computes what the
    paper calls MCE as a mean of gaps, not as the largest gap. :func:`ece_compat` with
    ``library="mapie"`` counts its bins in the same way, and also reproduces MAPIE's edges to the
    last bit.

    Parameters
    ----------
    edges : int, default=15
        Number of edges, at least 2. The published numbers have 10 for tables and 15 for networks.

    Raises
    ------
    ParameterError
        If ``edges`` is less than 2.

    References
    ----------
    Dey et al., "Deep discriminative to kernel density graph", Section 5 (R = 15), Figure 2 and
    Figures 5 to 8.

    Examples
    --------
    >>> round(ece_by_edges([0, 1], [[0.9, 0.1], [0.9, 0.1]], edges=10), 6)
    0.4
    """
    if edges < 2:
        raise ParameterError(f"edges must be at least 2, got {edges!r}")
    return ece(y, top_label, bins=edges - 1)


def library_rule(library: Library, bins: int) -> BinningRule:
    """Return the function that makes a library's bins for confidences, Float[n].

    Parameters
    ----------
    library, bins
        As for :func:`ece_compat`, where the rules are described (Guo et al., 2017, Section 2).

    Raises
    ------
    ParameterError
        If a value is out of its range.
    """
    check_bins(bins)
    check_value("library", library, Library)
    intervals = LIBRARY_INTERVALS[library](int(bins))
    return lambda confidence: intervals


def _left_intervals(bins: int) -> Intervals:
    return Intervals(equal_width_edges(bins), "left")


def _netcal_intervals(bins: int) -> Intervals:
    return Intervals(np.linspace(0, 1, bins + 1), "left")


def _torchmetrics_intervals(bins: int, dtype: type[np.floating]) -> Intervals:
    """Return the bins of torchmetrics in this precision."""
    # torch.linspace counts the first half of the edges up from 0 and the second half down from 1.
    # Each edge is rounded once, as on processors that multiply and add in one step (x86 since
    # 2013). On other processors the last bits of torch differ.
    step, half = Fraction(float(dtype(1) / dtype(bins))), (bins + 1) // 2
    exact = [step * j if j < half else 1 - step * (bins - j) for j in range(bins + 1)]
    return Intervals(np.array([*map(float, exact), 1.0]).astype(dtype), "left")


def _relplot_intervals(bins: int) -> Intervals:
    """Return the bins of relplot."""
    # Edge j is the smallest double whose quotient with 1 / bins reaches j, so that searching the
    # edges gives the same bin as relplot's rounded division. If the quotient of 1 stays below
    # ``bins``, 1 has no separate bin.
    width, j = 1 / bins, np.arange(bins + 1)
    edges = j * width
    while (too_low := edges / width < j).any():
        edges = np.where(too_low, np.nextafter(edges, 2), edges)
    while (too_high := np.nextafter(edges, -1) / width >= j).any():
        edges = np.where(too_high, np.nextafter(edges, -1), edges)
    return Intervals(np.append(edges[edges <= 1], 1.0), "left")


def _mapie_intervals(bins: int) -> Intervals:
    if bins < 2:
        raise ParameterError(
            f"bins must be at least 2 with library mapie, got {bins}: MAPIE counts edges, so there"
            " is one interval fewer"
        )
    return Intervals(np.append(0.0, np.linspace(0, 1, bins)))


LIBRARY_INTERVALS: dict[str, Callable[[int], Intervals]] = {
    "left": _left_intervals,
    "netcal": _netcal_intervals,
    "torchmetrics": partial(_torchmetrics_intervals, dtype=np.float32),
    "torchmetrics_f64": partial(_torchmetrics_intervals, dtype=np.float64),
    "relplot": _relplot_intervals,
    "mapie": _mapie_intervals,
}
"""Functions from a number of bins to bins of equal width, by library."""
