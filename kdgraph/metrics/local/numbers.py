"""Local calibration error in one number: its average, its maximum, and how many rows they rest on."""

from __future__ import annotations

import numpy as np

from kdgraph.metrics.local.errors import Scale, around, summary
from kdgraph.metrics.registry import metric
from kdgraph.metrics.top_label import Top
from kdgraph.parameters import Count, Positive
from kdgraph.smoothing import Kernel


@metric("LCE", better="lower")
def lce(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> float:
    """Measure the average local calibration error (LCE) of top-label confidence, in [0, 1].

    Of few rows the share that is right differs from what was said by chance, so even the true posterior has an LCE above 0, the more so the
    fewer rows there are: compare models on the same rows, and see :func:`lce_n_eff`. There is no standard error over rows, as near rows
    share their neighbours.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : rows in bins of fewer rows than this are not counted; NaN if none is left.

    References
    ----------
    Luo et al., UAI 2022, Eq. 4; Figures 16 to 19 average it.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(lce(y, proba, X), 2), round(lce(y, proba, X, bandwidth=1e9), 2)  # the second is the bin's |0.75 - 0.5|
    (0.5, 0.25)
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    return float(summary(found, min_count)["lce"][0])


@metric("MLCE", better="lower")
def mlce(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> float:
    """Measure the maximum local calibration error (MLCE) of top-label confidence: the LCE of the worst row, in [0, 1].

    As printed (``min_count=1``) one row alone in its bin may decide it, at any bandwidth: on 10,000 rows of 50 features it was 0.94, and
    0.16 with ``min_count=30``. As γ → ∞ it becomes :func:`~kdgraph.metrics.mce`.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : rows in bins of fewer rows than this are not counted; NaN if none is left.

    References
    ----------
    Luo et al., UAI 2022, Eq. 5 and Lemma 1.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(mlce(y, proba, X), 2)  # sure of what is wrong, on the right
    0.75
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    return float(summary(found, min_count)["mlce"][0])


@metric("LCE rows", better=None, unit="rows")
def lce_n_eff(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> float:
    """Measure how many rows an LCE rests on: the median over rows of the effective sample size (Σw)² / Σw² of Kish (1965).

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : rows in bins of fewer rows than this are not counted; NaN if none is left.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(lce_n_eff(y, proba, X), 1), round(lce_n_eff(y, proba, X, bandwidth=1e9), 1)
    (1.7, 4.0)
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    return float(summary(found, min_count)["n_eff"][0])


@metric("MLCE rows", better=None, unit="rows")
def mlce_n_eff(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> float:
    """Measure how many rows :func:`mlce` rests on: the effective sample size (Σw)² / Σw² of Kish (1965) around the worst row.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : rows in bins of fewer rows than this are not counted; NaN if none is left.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(mlce_n_eff(y, proba, X), 1)
    1.7
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    return float(summary(found, min_count)["mlce_n_eff"][0])
