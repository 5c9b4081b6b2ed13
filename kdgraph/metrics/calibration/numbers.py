"""Calibration errors of top-label confidence: rows binned by confidence alone, whatever class they are predicted as."""

from __future__ import annotations

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.calibration.bins import BinnedRows, Norm, binned_rows
from kdgraph.metrics.calibration.edges import Edges, Strategy
from kdgraph.metrics.registry import metric
from kdgraph.metrics.top_label import Top, TopLabel
from kdgraph.parameters import Count, Seed, check_value


@metric("ECE", better="lower")
def ece(
    y: np.ndarray,
    top: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    edges: Edges = "right",
    debiased: bool = False,
) -> float:
    """Measure the expected calibration error (ECE) of top-label confidence, in [0, 1].

    Rows are binned by their largest probability; a bin's gap is |share of right predictions - mean confidence|, and the gaps
    are averaged with the bins' shares of rows as weights. Empty bins count nothing. Of equally probable classes the first
    is the prediction.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    bins : number of bins over [0, 1], not over [1/K, 1]: with two classes about half of them are empty.
    strategy : "uniform" (Guo et al.: equal widths, ``(lower, upper]``) or "mass" (equal shares of rows, ties together).
    norm : "l1" the mean gap; "l2" the root of the mean squared gap; "max" the largest gap, which is :func:`mce`.
    edges : who has a confidence that is an edge of bins of equal width. "right": the bin below it, as uncertainty-calibration.
        "left": the bin above it. "netcal", "torchmetrics", "torchmetrics_f64", "relplot", "mapie": as these libraries sort, for
        comparison with their numbers; what each does is told by :func:`~kdgraph.metrics.calibration.edges.intervals_of`.
    debiased : with norm "l2", take from each bin's squared gap the part that sampling alone gives, ``a (1 - a) / (rows - 1)`` with a the
        share right. A bin of one row counts nothing, and a mean below 0 is 0. For the other norms :func:`ece_if_calibrated` says how
        much that part is.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017, Eq. 3 (15 bins). "l2" is the
    plug-in estimator of Kumar, Liang, Ma, "Verified uncertainty calibration", NeurIPS 2019, and debiased their other one.

    Examples
    --------
    >>> round(ece([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)  # says 0.9, is right half of the time
    0.4
    """
    return _binned(top, bins, strategy, edges).error(top.correct(y), norm, debiased)


@metric("ECE by edges", better="lower")
def ece_by_edges(y: np.ndarray, top: Top, *, edges: Count = 15) -> float:
    """Measure :func:`ece` in ``edges - 1`` equal bins, for comparison with numbers that were published as having ``edges`` of them.

    The published implementation of Dey et al. puts ``edges`` equally spaced edges into [0, 1] and calls their number the bins. What it
    computes is what their paper calls MCE: a mean of gaps, not the largest one. (``ece`` with ``edges="mapie"`` counts its bins the same
    way, and keeps to the last bit of another library's edges besides.)

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    edges : from 2. Their numbers on tables have 10, those of networks 15.

    References
    ----------
    Dey et al., "Deep discriminative to kernel density graph", Section 5 (R = 15), Figure 2 and Figures 5 to 8.

    Examples
    --------
    >>> round(ece_by_edges([0, 1], [[0.9, 0.1], [0.9, 0.1]], edges=10), 6)
    0.4
    """
    if edges < 2:
        raise ParameterError(f"edges must be at least 2, got {edges!r}")
    return ece(y, top, bins=edges - 1)


@metric("MCE", better="lower")
def mce(y: np.ndarray, top: Top, *, bins: Count = 15, strategy: Strategy = "uniform") -> float:
    """Measure the maximum calibration error (MCE) of top-label confidence: the largest gap of any populated bin, in [0, 1].

    One row alone in a bin gives a gap of its own size, so with "uniform" bins this measures small bins as much as models.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    bins, strategy : as for :func:`ece`.

    References
    ----------
    Guo et al., ICML 2017, Eq. 5.

    Examples
    --------
    >>> round(mce([0, 1, 0], [[0.9, 0.1], [0.9, 0.1], [0.7, 0.3]]), 6)
    0.4
    """
    return _binned(top, bins, strategy).error(top.correct(y), "max", debiased=False)


@metric("ECE if calibrated", better=None)
def ece_if_calibrated(
    top: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    edges: Edges = "right",
    debiased: bool = False,
    draws: Count = 200,
    seed: Seed = 0,
) -> float:
    """Simulate what :func:`ece` would be on these rows if the stated confidences were true: what sampling alone gives.

    Mean over ``draws`` of the error when each prediction is right with the probability that is stated for it. An ECE about as large
    says that nothing is known to be wrong. It is no bias to be taken away: where a model is far from calibrated, sampling adds less.

    Parameters
    ----------
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. No label is looked at.
    bins, strategy, norm, edges, debiased : as for the :func:`ece` that it stands beside.
    draws : 200 leave about 2 % of the number to chance where ten bins have rows, 5 % where one has.
    seed : of the draws, and of nothing else: the number is a function of the predictions.

    References
    ----------
    Bröcker and Smith, "Increasing the reliability of reliability diagrams", Weather and Forecasting 22, 2007: consistency resampling.

    Examples
    --------
    >>> round(ece_if_calibrated([[0.5, 0.5]] * 100), 2)  # how far heads are from half of 100 tosses, on average
    0.04
    """
    check_value("seed", seed, Seed)
    return if_calibrated(_binned(top, bins, strategy, edges), norm, debiased, draws, np.random.default_rng(seed))


def if_calibrated(rows: BinnedRows, norm: Norm, debiased: bool, draws: int, rng: np.random.Generator) -> float:
    """Mean over draws of :meth:`BinnedRows.error` of labels drawn from the confidences, Bröcker and Smith (2007): a number."""
    n = len(rows.confidence)
    return float(np.mean([rows.error(rng.random(n) < rows.confidence, norm, debiased) for _ in range(draws)]))


def _binned(top: TopLabel, bins: int, strategy: Strategy, edges: Edges = "right") -> BinnedRows:
    return binned_rows(np.asarray(top.confidence, dtype=np.float64), bins, strategy, edges)
