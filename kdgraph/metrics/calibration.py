"""Calibration errors of probabilities.

:func:`ece`, :func:`mce` and :func:`top_label_ece` bin rows by the confidence in the predicted class
(Guo et al., 2017). :func:`classwise_ece` bins them by the probability of every class. :func:`mmce`
and :func:`smooth_ece` smooth with a kernel and need no bins. ``…_if_calibrated`` simulates what an
error would be if the model were calibrated.
"""

from __future__ import annotations

import math

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.inputs import Top, TopLabel
from kdgraph.metrics.registry import METRICS, check_library, metric
from kdgraph.metrics.reliability_bins import BinnedRows, Norm, Strategy, binned_rows
from kdgraph.parameters import Count, Positive, Seed, check_value


@metric("ECE", better="lower")
def ece(
    y: np.ndarray,
    top_label: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    debiased: bool = False,
) -> float:
    """Measure the expected calibration error (ECE) of top-label confidence, in [0, 1].

    Rows are binned by their largest probability. The gap of a bin is |accuracy - mean confidence|.
    Gaps are averaged with the fractions of rows as weights, so empty bins do not count. If several
    classes are equally probable, the first one is the prediction.

    Parameters
    ----------
    bins : int, default=15
        Number of bins over [0, 1], not over [1/K, 1]. With two classes about half of them are
        empty.
    strategy : {"uniform", "mass"}, default="uniform"
        "uniform": equal widths, ``(lower, upper]`` (Guo et al.). "mass": equal numbers of rows;
        ties stay together.
    norm : {"l1", "l2", "max"}, default="l1"
        "l1": the mean gap. "l2": the root of the mean squared gap. "max": the largest gap, which is
        :func:`mce`.
    debiased : bool, default=False
        With norm "l2", subtract from the squared gap of each bin the part that is expected from
        sampling, ``a (1 - a) / (rows - 1)`` with a the accuracy. A bin with one row counts as 0,
        and a negative mean is replaced by 0. For other norms :func:`ece_if_calibrated` estimates
        this part.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017, Eq. 3 (15
    bins). "l2" is the plug-in estimator of Kumar, Liang, Ma, "Verified uncertainty calibration",
    NeurIPS 2019, and ``debiased`` is their debiased estimator. Confidences on an edge are binned as
    in uncertainty-calibration. Other libraries bin them otherwise; on confidences that often equal
    an edge, such as votes of a forest, this alone can change an ECE by a third.

    Examples
    --------
    >>> round(ece([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)  # 0.9, and half of the rows are correct
    0.4
    """
    return _binned(top_label, bins, strategy).error(top_label.correct(y), norm, debiased)


@metric("MCE", better="lower", like=ece)
def mce(
    y: np.ndarray, top_label: Top, *, bins: Count = 15, strategy: Strategy = "uniform"
) -> float:
    """Measure the maximum calibration error (MCE) of top-label confidence, in [0, 1].

    It is the largest gap of any populated bin (Guo et al., ICML 2017, Eq. 5). A single row in a bin
    has a large gap by chance, so with "uniform" bins this number depends on small bins as much as
    on the model.

    Examples
    --------
    >>> round(mce([0, 1, 0], [[0.9, 0.1], [0.9, 0.1], [0.7, 0.3]]), 6)
    0.4
    """
    return _binned(top_label, bins, strategy).error(top_label.correct(y), "max", debiased=False)


@metric("ECE if calibrated", better=None, like=ece)
def ece_if_calibrated(
    top_label: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    debiased: bool = False,
    draws: Count = 200,
    seed: Seed = 0,
) -> float:
    """Simulate :func:`ece` on these rows under the hypothesis that the confidences are correct.

    It is the mean error over ``draws`` simulations, in which each prediction is correct with its
    predicted confidence: consistency resampling (Bröcker and Smith, "Increasing the reliability of
    reliability diagrams", Weather and Forecasting 22, 2007). An ECE of about this size is no
    evidence of miscalibration. The number is not a bias that can be subtracted: sampling adds less
    to the ECE of a model that is far from calibrated.

    Parameters
    ----------
    draws : int, default=200
        Number of simulations. With 200, the number varies by about 2 % between seeds if ten bins
        are populated, and by 5 % if one is.
    seed : int, default=0
        Seed of the simulations. The number is a function of the predictions and the seed.

    Examples
    --------
    >>> round(ece_if_calibrated([[0.5, 0.5]] * 100), 2)  # of the fraction of heads in 100 tosses
    0.04
    """
    check_value("seed", seed, Seed)
    rows = _binned(top_label, bins, strategy)
    return float(simulated_errors(rows, norm, debiased, draws, np.random.default_rng(seed)).mean())


def simulated_errors(
    rows: BinnedRows, norm: Norm, debiased: bool, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Return errors of predictions that are correct with their confidence, Float[draws]."""
    n = len(rows.confidence)
    return np.array(
        [rows.error(rng.random(n) < rows.confidence, norm, debiased) for _ in range(draws)]
    )


def _binned(
    top_label: TopLabel, bins: int, strategy: Strategy, *, by_class: bool = False
) -> BinnedRows:
    confidence = np.asarray(top_label.confidence, dtype=np.float64)
    within = np.asarray(top_label.predicted) if by_class else None
    return binned_rows(confidence, bins, strategy, within=within)


@metric("ECE by edges", better="lower")
def ece_by_edges(y: np.ndarray, top_label: Top, *, edges: Count = 15) -> float:
    """Measure :func:`ece` between ``edges`` equally spaced edges, in [0, 1].

    The published implementation of Dey et al. (Section 5, Figures 2 and 5 to 8) puts ``edges``
    equally spaced edges into [0, 1] and calls their number the number of bins, so there are ``edges
    - 1`` bins. It computes what the paper calls MCE as a mean of gaps, not as the largest gap.
    MAPIE counts its bins in the same way.

    Parameters
    ----------
    edges : int, default=15
        Number of edges, at least 2. The published numbers have 10 for tables and 15 for networks.

    Examples
    --------
    >>> round(ece_by_edges([0, 1], [[0.9, 0.1], [0.9, 0.1]], edges=10), 6)
    0.4
    """
    if edges < 2:
        raise ParameterError(f"edges must be at least 2, got {edges!r}")
    return ece(y, top_label, bins=edges - 1)


@metric("top-label ECE", better="lower", like=ece)
def top_label_ece(
    y: np.ndarray,
    top_label: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    debiased: bool = False,
) -> float:
    """Measure the calibration error of confidence within each predicted class, in [0, 1].

    It is like :func:`ece`, but only rows with the same predicted class share a bin: the TL-ECE of
    Gupta and Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022. An
    overconfident class and an underconfident class therefore do not cancel. All bins of all classes
    are weighted by their rows. There are up to K times as many bins, so sampling adds more to this
    number than to an ECE with as many bins; :func:`top_label_ece_if_calibrated` estimates how much.

    Parameters
    ----------
    bins : int, default=15
        Number of bins for each predicted class.
    strategy : {"uniform", "mass"}, default="uniform"
        "mass": equal numbers of the rows of a class.

    Examples
    --------
    >>> y, proba = [0, 0, 1, 0], [[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75]]
    >>> top_label_ece(y, proba)  # the accuracy is 1 and 1/2, and 3/4 in total
    0.25
    """
    rows = _binned(top_label, bins, strategy, by_class=True)
    return rows.error(top_label.correct(y), norm, debiased)


@metric("top-label ECE if calibrated", better=None, like=ece_if_calibrated)
def top_label_ece_if_calibrated(
    top_label: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    debiased: bool = False,
    draws: Count = 200,
    seed: Seed = 0,
) -> float:
    """Simulate :func:`top_label_ece` under the hypothesis that the confidences are correct.

    Bins are those of each predicted class (as Bröcker and Smith 2007, see
    :func:`ece_if_calibrated`).

    Examples
    --------
    >>> round(top_label_ece_if_calibrated([[0.5, 0.5]] * 100), 2)
    0.04
    """
    check_value("seed", seed, Seed)
    rows = _binned(top_label, bins, strategy, by_class=True)
    return float(simulated_errors(rows, norm, debiased, draws, np.random.default_rng(seed)).mean())


@metric("class-wise ECE", better="lower", like=ece)
def classwise_ece(
    y: np.ndarray,
    proba: np.ndarray,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    debiased: bool = False,
) -> float:
    """Measure the mean over classes of the calibration error of the class probability, in [0, 1].

    For each class, rows are binned by the probability of that class, and the gap of a bin is
    |fraction of rows of the class - mean probability|. With many classes most probabilities are
    close to 0, and correctly so. The number therefore falls with K for any model.

    Parameters
    ----------
    norm : {"l1", "l2", "max"}, default="l1"
        "l1": the mean over classes of the mean gap. "l2": the root of the mean over classes of the
        mean squared gap. "max": the largest gap.

    References
    ----------
    Kull et al., "Beyond temperature scaling: obtaining well-calibrated multi-class probabilities
    with Dirichlet calibration", NeurIPS 2019, Section 2. With norm "l2" it is the marginal
    calibration error of Kumar, Liang, Ma, NeurIPS 2019, which also has the debiased version.

    Examples
    --------
    >>> round(classwise_ece([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)
    0.4
    """
    errors = np.array(
        [
            binned_rows(p, bins, strategy).error(y == k, norm, debiased)
            for k, p in enumerate(proba.T)
        ]
    )
    if norm == "max":
        return float(errors.max())
    return float(errors.mean() if norm == "l1" else np.sqrt((errors**2).mean()))


@metric("MMCE", better="lower")
def mmce(y: np.ndarray, top_label: Top, *, width: Positive = 0.4, debiased: bool = False) -> float:
    """Measure the maximum mean calibration error (MMCE) of top-label confidence, in [0, 1].

    It is the root of the mean of ``(c_i - a_i) (c_j - a_j) exp(-|c_i - c_j| / width)`` over all
    pairs of rows, with c the confidence, and a = 1 for correct and 0 for incorrect predictions.
    Equivalently, it is the largest weighted mean of ``c - a`` over all weight functions of c in the
    unit ball of the kernel's function space. It uses no bins. Its scale differs from that of an
    ECE, so compare MMCE only with MMCE.

    Parameters
    ----------
    width : float, default=0.4
        Width of the Laplacian kernel, in units of confidence. As it grows, the number approaches
        |mean confidence - accuracy|.
    debiased : bool, default=False
        Leave out the pairs of a row with itself, which increase the number if there are few rows
        (the U-statistic). A negative mean is replaced by 0; for a single row the number is NaN.

    References
    ----------
    Kumar, Sarawagi, Jain, "Trainable calibration measures for neural networks from kernel mean
    embeddings", ICML 2018: the square is their estimator of MMCE², a V-statistic, and the default
    width is theirs. The computation in one pass over sorted rows, without a matrix of pairs, is
    original to kdgraph.

    Examples
    --------
    >>> round(mmce([0, 1], [[0.75, 0.25], [0.75, 0.25]]), 6)
    0.25
    """
    order = np.argsort(top_label.confidence, kind="stable")
    confidence = np.asarray(top_label.confidence, dtype=np.float64)[order]
    gap = confidence - top_label.correct(y)[order]
    n, diagonal, pairs = len(gap), float(gap @ gap), 2 * _sum_over_pairs(confidence, gap, width)
    if not debiased:
        return math.sqrt(max(diagonal + pairs, 0.0)) / n
    return math.sqrt(max(pairs / (n * (n - 1)), 0.0)) if n > 1 else math.nan


def _sum_over_pairs(confidence: np.ndarray, gap: np.ndarray, width: float) -> float:
    """Return Σ_{i < j} gap_i gap_j exp(-(c_j - c_i) / width) for ascending confidences c."""
    # Invariant: ``kernel_sum`` is the sum over all earlier rows i of gap_i times the kernel at
    # the current row. Moving on by one row adds the previous row and multiplies the whole sum by
    # one factor, because the kernel is exponential. The cost is n steps instead of n² pairs.
    factors = np.exp(-np.diff(confidence, prepend=confidence[0]) / width)
    kernel_sum = total = previous_gap = 0.0
    for factor, current_gap in zip(factors.tolist(), gap.tolist(), strict=True):
        kernel_sum = (kernel_sum + previous_gap) * factor
        total += kernel_sum * current_gap
        previous_gap = current_gap
    return total


@metric("smooth ECE", better="lower", library="relplot")
def smooth_ece(y: np.ndarray, top_label: Top) -> float:
    """Measure the smooth calibration error of top-label confidence, in [0, 1].

    The difference between correctness and confidence is smoothed over the confidence by a Gaussian
    that is reflected at 0 and 1. The width of the Gaussian is the one at which the smoothed error
    equals the width. There are no bins and no parameters. Its scale differs from that of an ECE, so
    compare it only with itself. It is computed by relplot, which imports seaborn and pyplot, as
    ``relplot.smECE`` (Błasiok and Nakkiran, "Smooth ECE: principled reliability diagrams via kernel
    smoothing", ICLR 2024).

    Examples
    --------
    >>> y, proba = [0, 0, 0, 1], [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]]
    >>> round(smooth_ece(y, proba), 4)  # doctest: +SKIP
    0.0902
    """
    check_library(METRICS["smooth_ece"])
    from relplot.metrics import smECE  # pyright: ignore[reportMissingImports]

    # relplot counts on a grid from 0 to 1, so rounding must not put a confidence beyond it.
    confidence = np.clip(np.asarray(top_label.confidence, dtype=np.float64), 0, 1)
    return float(smECE(confidence, top_label.correct(y).astype(np.float64)))
