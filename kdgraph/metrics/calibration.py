"""Calibration errors of top-label confidence: rows binned by confidence alone, whatever class they
are predicted as.

Calibration errors class by class: of every class's probability, and of the confidence in each
predicted class.

The calibration error with a kernel on confidences in place of bins.

The calibration error without bins, by the library of its authors, which is an extra.
"""

from __future__ import annotations

import math

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.compat import Edges, Strategy
from kdgraph.metrics.inputs import Top, TopLabel
from kdgraph.metrics.registry import METRICS, check_package, metric
from kdgraph.metrics.reliability_bins import BinnedRows, Norm, binned_rows
from kdgraph.parameters import Count, Positive, Seed, check_value


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

    Rows are binned by their largest probability; a bin's gap is |share of right predictions - mean
    confidence|, and the gaps are averaged with the bins' shares of rows as weights. Empty bins
    count nothing. Of equally probable classes the first is the prediction.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    bins : number of bins over [0, 1], not over [1/K, 1]: with two classes about half of them are
    empty.
    strategy : "uniform" (Guo et al.: equal widths, ``(lower, upper]``) or "mass" (equal shares of
    rows, ties together).
    norm : "l1" the mean gap; "l2" the root of the mean squared gap; "max" the largest gap, which is
    :func:`mce`.
    edges : who has a confidence that is an edge of bins of equal width. "right": the bin below it,
        as uncertainty-calibration. "left": the bin above it. "netcal", "torchmetrics",
        "torchmetrics_f64", "relplot", "mapie": as these libraries sort, for comparison with their
        numbers; what each does is told by :func:`~kdgraph.metrics.compat.intervals_of`.
    debiased : with norm "l2", take from each bin's squared gap the part that sampling alone gives,
        ``a (1 - a) / (rows - 1)`` with a the share right. A bin of one row counts nothing, and a
        mean below 0 is 0. For the other norms :func:`ece_if_calibrated` says how much that part is.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017, Eq. 3 (15
    bins). "l2" is the plug-in estimator of Kumar, Liang, Ma, "Verified uncertainty calibration",
    NeurIPS 2019, and debiased their other one.

    Examples
    --------
    >>> round(ece([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)  # says 0.9, is right half of the time
    0.4
    """
    return _binned(top, bins, strategy, edges).error(top.correct(y), norm, debiased)


@metric("ECE by edges", better="lower")
def ece_by_edges(y: np.ndarray, top: Top, *, edges: Count = 15) -> float:
    """Measure :func:`ece` in ``edges - 1`` equal bins, for comparison with numbers that were
    published as having ``edges`` of them.

    The published implementation of Dey et al. puts ``edges`` equally spaced edges into [0, 1] and
    calls their number the bins. What it computes is what their paper calls MCE: a mean of gaps, not
    the largest one. (``ece`` with ``edges="mapie"`` counts its bins the same way, and keeps to the
    last bit of another library's edges besides.)

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    edges : from 2. Their numbers on tables have 10, those of networks 15.

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
    return ece(y, top, bins=edges - 1)


@metric("MCE", better="lower")
def mce(y: np.ndarray, top: Top, *, bins: Count = 15, strategy: Strategy = "uniform") -> float:
    """Measure the maximum calibration error (MCE) of top-label confidence: the largest gap of any
    populated bin, in [0, 1].

    One row alone in a bin gives a gap of its own size, so with "uniform" bins this measures small
    bins as much as models.

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
    """Simulate what :func:`ece` would be on these rows if the stated confidences were true: what
    sampling alone gives.

    Mean over ``draws`` of the error when each prediction is right with the probability that is
    stated for it. An ECE about as large says that nothing is known to be wrong. It is no bias to be
    taken away: where a model is far from calibrated, sampling adds less.

    Parameters
    ----------
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. No label is looked at.
    bins, strategy, norm, edges, debiased : as for the :func:`ece` that it stands beside.
    draws : 200 leave about 2 % of the number to chance where ten bins have rows, 5 % where one has.
    seed : of the draws, and of nothing else: the number is a function of the predictions.

    References
    ----------
    Bröcker and Smith, "Increasing the reliability of reliability diagrams", Weather and Forecasting
    22, 2007: consistency resampling.

    Examples
    --------
    >>> round(ece_if_calibrated([[0.5, 0.5]] * 100), 2)  # how far heads are from half of 100 tosses, on average
    0.04
    """
    check_value("seed", seed, Seed)
    return if_calibrated(
        _binned(top, bins, strategy, edges), norm, debiased, draws, np.random.default_rng(seed)
    )


def if_calibrated(
    rows: BinnedRows, norm: Norm, debiased: bool, draws: int, rng: np.random.Generator
) -> float:
    """Mean over draws of :meth:`BinnedRows.error` of labels drawn from the confidences, Bröcker and
    Smith (2007): a number.
    """
    n = len(rows.confidence)
    return float(
        np.mean([rows.error(rng.random(n) < rows.confidence, norm, debiased) for _ in range(draws)])
    )


def _binned(top: TopLabel, bins: int, strategy: Strategy, edges: Edges = "right") -> BinnedRows:
    return binned_rows(np.asarray(top.confidence, dtype=np.float64), bins, strategy, edges)


@metric("top-label ECE", better="lower")
def top_label_ece(
    y: np.ndarray,
    top: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    edges: Edges = "right",
    debiased: bool = False,
) -> float:
    """Measure the calibration error of top-label confidence within each predicted class, in [0, 1].

    As :func:`~kdgraph.metrics.ece`, but only rows of one predicted class share a bin: a class that
    is too sure and one that is not sure enough do not make up for each other. All bins of all
    classes are weighted by their rows. There are up to K times as many, so sampling adds more to it
    than to an ECE of as many bins; :func:`top_label_ece_if_calibrated` says how much.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    bins : for each predicted class.
    strategy : "mass": equal shares of the rows of a class.
    norm, edges, debiased : as for :func:`~kdgraph.metrics.ece`.

    References
    ----------
    Gupta, Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022, whose
    TL-ECE it estimates.

    Examples
    --------
    >>> y, proba = [0, 0, 1, 0], [[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75]]
    >>> top_label_ece(y, proba)  # class 0 is always right, class 1 half of the time, together three in four
    0.25
    """
    return _within_classes(top, bins, strategy, edges).error(top.correct(y), norm, debiased)


@metric("top-label ECE if calibrated", better=None)
def top_label_ece_if_calibrated(
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
    """Simulate what :func:`top_label_ece` would be on these rows if the stated confidences were
    true: what sampling alone gives.

    Parameters
    ----------
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. No label is looked at.
    bins, strategy, norm, edges, debiased : as for the :func:`top_label_ece` that it stands beside.
    draws, seed : as for :func:`~kdgraph.metrics.ece_if_calibrated`.

    References
    ----------
    Bröcker and Smith, Weather and Forecasting 22, 2007: consistency resampling, here within
    predicted classes.

    Examples
    --------
    >>> round(top_label_ece_if_calibrated([[0.5, 0.5]] * 100), 2)
    0.04
    """
    check_value("seed", seed, Seed)
    return if_calibrated(
        _within_classes(top, bins, strategy, edges),
        norm,
        debiased,
        draws,
        np.random.default_rng(seed),
    )


@metric("class-wise ECE", better="lower")
def classwise_ece(
    y: np.ndarray,
    proba: np.ndarray,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    edges: Edges = "right",
    debiased: bool = False,
) -> float:
    """Measure the calibration error of every class's probability, the mean over the classes, in [0,
    1].

    For each class, rows are binned by the probability of that class, and a bin's gap is |share of
    rows of the class - mean probability|. With many classes most probabilities are near 0 and right
    there, so the number falls with K, whatever the model.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    proba : Float[n, K].
    bins, strategy, edges, debiased : as for :func:`~kdgraph.metrics.ece`.
    norm : "l1" the mean over classes of the mean gap; "l2" the root of the mean over classes of the
        mean squared gap; "max" the largest.

    References
    ----------
    Kull et al., "Beyond temperature scaling: obtaining well-calibrated multi-class probabilities
    with Dirichlet calibration", NeurIPS 2019, Section 2; "l2", and that debiased, is the marginal
    calibration error of Kumar, Liang, Ma, NeurIPS 2019.

    Examples
    --------
    >>> round(classwise_ece([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)
    0.4
    """
    errors = np.array(
        [
            binned_rows(p, bins, strategy, edges).error(y == k, norm, debiased)
            for k, p in enumerate(proba.T)
        ]
    )
    if norm == "max":
        return float(errors.max())
    return float(errors.mean() if norm == "l1" else np.sqrt((errors**2).mean()))


def _within_classes(top: TopLabel, bins: int, strategy: Strategy, edges: Edges) -> BinnedRows:
    confidence = np.asarray(top.confidence, dtype=np.float64)
    return binned_rows(confidence, bins, strategy, edges, within=np.asarray(top.predicted))


@metric("MMCE", better="lower")
def mmce(y: np.ndarray, top: Top, *, width: Positive = 0.4, debiased: bool = False) -> float:
    """Measure the maximum mean calibration error (MMCE) of top-label confidence, in [0, 1]: no
    bins, so no edges.

    It is the root of the mean over all pairs of rows of ``(c_i - a_i) (c_j - a_j) exp(-|c_i - c_j|
    / width)``, with c the confidence and a 1 where the prediction is right, else 0: the largest
    mean of ``c - a`` that a weight gives it, of all functions of c in the unit ball of the kernel's
    space. It is another number than an ECE: compare it with itself.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    width : of the Laplacian kernel, in units of confidence. As it grows, the number becomes |mean
    confidence - accuracy|.
    debiased : leave out the pairs of a row with itself, which make the number grow as rows get
        fewer (the U-statistic); a mean below 0 is 0, and of one row it is NaN.

    References
    ----------
    Kumar, Sarawagi, Jain, "Trainable calibration measures for neural networks from kernel mean
    embeddings", ICML 2018: the square is their estimator of MMCE², a V-statistic, and the width
    theirs. That one pass over sorted rows gives it, without a pair of them, is ours.

    Examples
    --------
    >>> round(mmce([0, 1], [[0.75, 0.25], [0.75, 0.25]]), 6)  # one of two right at 0.75: the kernel is 1, and the mean of c - a 0.25
    0.25
    """
    order = np.argsort(top.confidence, kind="stable")
    confidence = np.asarray(top.confidence, dtype=np.float64)[order]
    gap = confidence - top.correct(y)[order]
    n, own, pairs = len(gap), float(gap @ gap), 2 * _sum_over_pairs(confidence, gap, width)
    if not debiased:
        return math.sqrt(max(own + pairs, 0.0)) / n
    return math.sqrt(max(pairs / (n * (n - 1)), 0.0)) if n > 1 else math.nan


def _sum_over_pairs(confidence: np.ndarray, gap: np.ndarray, width: float) -> float:
    """Σ_{i < j} gap_i gap_j exp(-(c_j - c_i) / width) of ascending confidences, Float[n].

    What row j sees of all rows before it is what row j - 1 saw, and that row itself, farther away
    by one factor.
    """
    factors = np.exp(-np.diff(confidence, prepend=confidence[0]) / width)
    seen = total = before = 0.0
    for factor, own in zip(factors.tolist(), gap.tolist(), strict=True):
        seen = (seen + before) * factor
        total += seen * own
        before = own
    return total


@metric("smooth ECE", better="lower", package=("relplot", "smooth"))
def smooth_ece(y: np.ndarray, top: Top) -> float:
    """Measure the smooth calibration error of top-label confidence, in [0, 1]: no bins, so no edges
    and nothing to choose.

    Right minus stated is smoothed over confidence by a Gaussian that is reflected at 0 and 1; its
    width is where the smoothed error equals the width itself. It is another number than an ECE of
    any number of bins: compare it with itself.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.

    Raises
    ------
    ConfigError
        relplot is not installed; a run is refused before it starts. It draws too: its import brings
        seaborn and pyplot along, in half a second, and sets nothing.

    References
    ----------
    Błasiok, Nakkiran, "Smooth ECE: principled reliability diagrams via kernel smoothing", ICLR
    2024, as ``relplot.smECE`` computes it.
    """
    check_package(METRICS["smooth_ece"])
    from relplot.metrics import smECE  # pyright: ignore[reportMissingImports]

    confidence = np.clip(
        np.asarray(top.confidence, dtype=np.float64), 0, 1
    )  # it counts on a grid from 0 to 1
    return float(smECE(confidence, top.correct(y).astype(np.float64)))
