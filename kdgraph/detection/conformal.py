"""Scores of a detector among those of in-distribution rows: threshold, p-value and tail.

The rank of a score among those of calibration rows gives a threshold (:func:`conformal_offset`) and
p-values (:func:`conformal_p_values`), and :class:`UpperTails` continues them where a rank cannot
tell far from farther.
"""

from __future__ import annotations

import math

import numpy as np


def conformal_offset(score: np.ndarray, target_fpr: float) -> float:
    """Return the split conformal threshold of scores.

    It is the ⌊(m + 1)·target_fpr⌋-th smallest score, or the smallest if that number is 0: at most a
    fraction max(target_fpr, 1/(m + 1)) of in-distribution scores is below it, in expectation.

    Parameters
    ----------
    score : Float[m]
        Scores of held-out rows that are exchangeable with in-distribution rows.
    target_fpr : float
        Target false positive rate.

    References
    ----------
    Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018), "Distribution-free predictive inference
    for regression", applied to scores.

    Examples
    --------
    >>> conformal_offset(np.arange(100.0), 0.05)
    4.0
    """
    return float(np.sort(score)[max(math.floor((len(score) + 1) * target_fpr), 1) - 1])


def conformal_p_values(calibration_scores: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return conformal p-values, Float[n], of the hypothesis that rows are in distribution.

    They are (1 + number of calibration scores that are at most the score) / (m + 1). For an
    in-distribution row P(p ≤ α) ≤ α, on average over calibration rows; p-values of several rows
    depend on each other through the calibration rows.

    Parameters
    ----------
    calibration_scores : Float[m]
        Scores of rows that are exchangeable with in-distribution rows, in increasing order. Lower
        scores are farther out.
    score : Float[n]
        Scores of the rows.

    References
    ----------
    Bates, Candès, Lei, Romano and Sesia (2023), "Testing for outliers with conformal p-values",
    Annals of Statistics 51(1), Eq. 2.

    Examples
    --------
    >>> conformal_p_values(np.arange(99.0), np.array([-1.0, 0.0, 49.0, 200.0]))
    array([0.01, 0.02, 0.51, 1.  ])
    """
    rank = np.searchsorted(calibration_scores, score, side="right")
    return (1.0 + rank) / (len(calibration_scores) + 1.0)


class UpperTails:
    """Negative log tail probabilities of scores, extrapolated beyond the scores of a sample.

    Parameters
    ----------
    scores : Float[m, s]
        Scores of in-distribution rows, one column for each of s scores.
    tail_size : float, default=0.1
        Fraction of the rows beyond which the tail is extrapolated.

    Notes
    -----
    Up to the quantile 1 - ``tail_size`` of a score it is -log p with the rank p of the score among
    those of the sample, as in a conformal p-value; ties count half. Beyond, it is that of an
    exponential distribution with the mean excess of the sample, a straight line: a conformal
    p-value is at least 1/(m + 1), and cannot tell rows far away from rows just outside. Original to
    kdgraph.

    Examples
    --------
    >>> tails = UpperTails(np.arange(99.0)[:, None])
    >>> tails(np.array([[49.0], [98.0], [980.0]])).round(2)[:, 0].tolist()
    [0.69, 4.15, 170.57]
    """

    def __init__(self, scores: np.ndarray, tail_size: float = 0.1):
        self.tail_size = tail_size
        self.sorted_scores = np.sort(scores, axis=0)
        self.start = np.quantile(self.sorted_scores, 1 - tail_size, axis=0)
        excess = np.maximum(self.sorted_scores - self.start, 0.0)
        n_beyond = (excess > 0).sum(axis=0)
        deviation = scores.std(axis=0)
        # If many rows have the largest score, no row is beyond the quantile.
        self.mean_excess = np.where(
            n_beyond > 0,
            excess.sum(axis=0) / np.maximum(n_beyond, 1),
            np.where(deviation > 0, deviation, 1.0),
        )

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return the negative log tail probabilities of scores, Float[n, s], in nats."""
        largest = -np.log(self.tail_size)
        result = np.empty_like(scores)
        for j, (column, sample) in enumerate(zip(scores.T, self.sorted_scores.T, strict=True)):
            below = np.searchsorted(sample, column, "left")
            at_most = np.searchsorted(sample, column, "right")
            p = (len(sample) - 0.5 * (below + at_most) + 0.5) / (len(sample) + 1)
            excess = (column - self.start[j]) / self.mean_excess[j]
            result[:, j] = np.where(excess > 0, largest + excess, np.minimum(-np.log(p), largest))
        return result
