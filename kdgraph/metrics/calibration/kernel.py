"""The calibration error with a kernel on confidences in place of bins."""

from __future__ import annotations

import math

import numpy as np

from kdgraph.metrics.registry import metric
from kdgraph.metrics.top_label import Top
from kdgraph.parameters import Positive


@metric("MMCE", better="lower")
def mmce(y: np.ndarray, top: Top, *, width: Positive = 0.4, debiased: bool = False) -> float:
    """Measure the maximum mean calibration error (MMCE) of top-label confidence, in [0, 1]: no bins, so no edges.

    It is the root of the mean over all pairs of rows of ``(c_i - a_i) (c_j - a_j) exp(-|c_i - c_j| / width)``, with c the confidence and
    a 1 where the prediction is right, else 0: the largest mean of ``c - a`` that a weight gives it, of all functions of c in the unit ball
    of the kernel's space. It is another number than an ECE: compare it with itself.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    width : of the Laplacian kernel, in units of confidence. As it grows, the number becomes |mean confidence - accuracy|.
    debiased : leave out the pairs of a row with itself, which make the number grow as rows get fewer (the U-statistic); a mean below 0 is
        0, and of one row it is NaN.

    References
    ----------
    Kumar, Sarawagi, Jain, "Trainable calibration measures for neural networks from kernel mean embeddings", ICML 2018: the square is their
    estimator of MMCE², a V-statistic, and the width theirs. That one pass over sorted rows gives it, without a pair of them, is ours.

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

    What row j sees of all rows before it is what row j - 1 saw, and that row itself, farther away by one factor.
    """
    factors = np.exp(-np.diff(confidence, prepend=confidence[0]) / width)
    seen = total = before = 0.0
    for factor, own in zip(factors.tolist(), gap.tolist(), strict=True):
        seen = (seen + before) * factor
        total += seen * own
        before = own
    return total
