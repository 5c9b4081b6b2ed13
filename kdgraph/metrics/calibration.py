"""Is the stated confidence right? Binned calibration errors of top-label confidence, and the bins behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.registry import metric
from kdgraph.metrics.top_label import Top
from kdgraph.parameters import Count

Strategy = Literal["uniform", "mass"]
Norm = Literal["l1", "l2", "max"]


@dataclass(frozen=True)
class ReliabilityBins:
    """Confidence against accuracy by bin, Guo et al. (2017), Section 2; the bins tile [0, 1] from left to right.

    Attributes
    ----------
    lower, upper : Float[b], the edges; a bin holds ``lower < confidence <= upper``, the first one 0 too.
    count : Int[b], rows in each bin.
    confidence, accuracy : Float[b], means over the bin's rows; NaN where there are none.
    """

    lower: np.ndarray
    upper: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """Float[p]: ``|accuracy - confidence|`` of the p populated bins."""
        populated = self.count > 0
        return np.abs(self.accuracy[populated] - self.confidence[populated])

    @property
    def share(self) -> np.ndarray:
        """Float[p]: the share of rows in each of the p populated bins; sums to 1."""
        return self.count[self.count > 0] / self.count.sum()


def reliability_bins(confidence: np.ndarray, correct: np.ndarray, *, bins: Count = 15, strategy: Strategy = "uniform") -> ReliabilityBins:
    """Sort rows into bins of confidence: those of Guo et al. (2017), Section 2, or of equal numbers of rows, as Nguyen and O'Connor (2015).

    Parameters
    ----------
    confidence : Float[n] in [0, 1], usually the largest probability of each row.
    correct : Bool[n], whether the predicted class is the label.
    bins : how many, from 1.
    strategy : "uniform": equal widths, edges j / bins. "mass": equal shares of rows as far as ties allow; edges are order
        statistics of the confidences, rows of equal confidence stay together (so the order of rows does not matter), and
        edges that coincide are merged: there may be fewer bins than asked for.

    Returns
    -------
    ReliabilityBins

    Raises
    ------
    ValueError
        No rows, shapes that differ, or a confidence outside [0, 1] by more than 1e-6.
    """
    confidence, correct = _checked_rows(confidence, correct)
    edges = bin_edges(confidence, bins, strategy)
    index = bin_of(confidence, edges)
    count = np.bincount(index, minlength=len(edges) - 1)
    nobody = np.where(count > 0, 1.0, np.nan)
    rows = np.maximum(count, 1)
    mean_confidence = np.bincount(index, confidence, minlength=len(count)) / rows * nobody
    accuracy = np.bincount(index, correct, minlength=len(count)) / rows * nobody
    return ReliabilityBins(edges[:-1], edges[1:], count, mean_confidence, accuracy)


@metric("ECE", better="lower")
def ece(y: np.ndarray, top: Top, *, bins: Count = 15, strategy: Strategy = "uniform", norm: Norm = "l1") -> float:
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

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017, Eq. 3 (15 bins). "l2" is the
    plug-in estimator of Kumar, Liang, Ma, "Verified uncertainty calibration", NeurIPS 2019, without debiasing.

    Examples
    --------
    >>> round(ece([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)  # says 0.9, is right half of the time
    0.4
    """
    found = _top_label_bins(y, top, bins, strategy)
    if norm == "l1":
        return float(found.share @ found.gap)
    if norm == "l2":
        return float(np.sqrt(found.share @ found.gap**2))
    if norm == "max":
        return float(found.gap.max())
    raise ParameterError(f"norm must be one of l1, l2, max, got {norm!r}")


@metric("ECE by edges", better="lower")
def ece_by_edges(y: np.ndarray, top: Top, *, edges: Count = 15) -> float:
    """Measure :func:`ece` in ``edges - 1`` equal bins, for comparison with numbers that were published as having ``edges`` of them.

    The published implementation of Dey et al. puts ``edges`` equally spaced edges into [0, 1] and calls their number the bins. What it
    computes is what their paper calls MCE: a mean of gaps, not the largest one.

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
    return float(_top_label_bins(y, top, bins, strategy).gap.max())


def _top_label_bins(y: np.ndarray, top: Top, bins: int, strategy: Strategy) -> ReliabilityBins:
    return reliability_bins(top.confidence, top.correct(y), bins=bins, strategy=strategy)


def bin_of(confidence: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Int[n]: each one's bin, ``lower < confidence <= upper`` of ``edges``, Float[b + 1]; 0 is in the first (Guo et al., 2017)."""
    return np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, len(edges) - 2)


def bin_edges(confidence: np.ndarray, bins: int, strategy: Strategy) -> np.ndarray:
    """Float[b + 1] from 0 to 1: the edges of :func:`reliability_bins`; what happens to ties is ours."""
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ParameterError(f"bins must be an integer from 1, got {bins!r}")
    steps = np.arange(bins + 1)
    if strategy == "uniform":
        return steps / bins  # not linspace, which puts 5/7 below the double 5/7: five votes of seven would leave their bin
    if strategy == "mass":
        last_row = np.ceil(steps[1:-1] * len(confidence) / bins).astype(int) - 1
        inner = np.sort(confidence)[np.maximum(last_row, 0)]
        return np.concatenate([[0.0], np.unique(inner[(inner > 0) & (inner < 1)]), [1.0]])
    raise ParameterError(f"strategy must be one of uniform, mass, got {strategy!r}")


def _checked_rows(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    confidence, correct = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if confidence.ndim != 1 or confidence.size == 0 or confidence.shape != correct.shape:
        raise ValueError(f"confidence and correct must be one number a row, got shapes {confidence.shape} and {correct.shape}")
    outside = ~((confidence >= -1e-6) & (confidence <= 1 + 1e-6))  # NaN is outside too
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(f"confidence must lie in [0, 1], got {confidence[row]:g} in row {row} ({outside.sum()} such)")
    if not np.isin(correct, (0, 1)).all():
        raise ValueError("correct must hold only true and false (or 1 and 0)")
    return confidence, correct
