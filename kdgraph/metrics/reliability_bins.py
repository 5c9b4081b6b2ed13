"""Bins of confidence, and confidence against accuracy in each of them.

A bin holds the confidences ``lower < confidence <= upper``; the first bin also holds 0 (Guo et al.,
"On calibration of modern neural networks", ICML 2017, Section 2). Bins have equal widths or equal
numbers of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count

Strategy = Literal["uniform", "mass"]
Norm = Literal["l1", "l2", "max"]


@dataclass(frozen=True)
class ReliabilityBins:
    """Confidence against accuracy by bin (Guo et al., 2017, Section 2).

    The bins cover [0, 1] from left to right.

    Attributes
    ----------
    lower, upper : Float[b]
        Edges. A bin holds ``lower < confidence <= upper``; the first bin also holds 0.
    count : Int[b]
        Number of rows in each bin.
    confidence, accuracy : Float[b]
        Means over the rows of each bin; NaN for empty bins.

    Examples
    --------
    >>> bins = reliability_bins([0.75, 0.75, 1.0], [True, False, True], bins=2)  # one is empty
    >>> bins.count.tolist(), bins.confidence.round(3).tolist(), bins.accuracy.round(3).tolist()
    ([0, 3], [nan, 0.833], [nan, 0.667])
    >>> bins.gap.round(3).tolist(), bins.share.tolist()
    ([0.167], [1.0])
    """

    lower: np.ndarray
    upper: np.ndarray
    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        """Gaps ``|accuracy - confidence|`` of the p populated bins, Float[p]."""
        populated = self.count > 0
        return np.abs(self.accuracy[populated] - self.confidence[populated])

    @property
    def share(self) -> np.ndarray:
        """Fractions of the rows in the p populated bins, Float[p]; their sum is 1."""
        return self.count[self.count > 0] / self.count.sum()


@dataclass(frozen=True)
class BinnedRows:
    """Rows sorted into bins, from which calibration errors are computed (Guo et al., 2017)."""

    confidence: np.ndarray  # Float[n]
    index: np.ndarray  # Int[n], the bin of each row
    n_bins: int  # including empty ones

    @cached_property
    def count(self) -> np.ndarray:
        """Number of rows in each bin, Int[b]."""
        return np.bincount(self.index, minlength=self.n_bins)

    @cached_property
    def mean_confidence(self) -> np.ndarray:
        """Mean confidence in each bin, Float[b]; NaN for empty bins."""
        return self.mean(self.confidence)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the means of values, Float[n], over each bin, Float[b]; NaN for empty bins."""
        sums = np.bincount(self.index, values, minlength=self.n_bins)
        return np.where(self.count > 0, sums / np.maximum(self.count, 1), np.nan)

    def error(self, correct: np.ndarray, norm: Norm, debiased: bool) -> float:
        """Return the :func:`~kdgraph.metrics.ece` of rows that are ``correct``, Bool[n]."""
        if norm not in ("l1", "l2", "max"):
            raise ParameterError(f"norm must be one of l1, l2, max, got {norm!r}")
        if debiased and norm != "l2":
            raise ParameterError(
                f"norm must be l2 where debiased, got {norm!r}; ece_if_calibrated estimates how"
                " much of it is due to sampling"
            )
        populated = self.count > 0
        count, accuracy = self.count[populated], self.mean(correct)[populated]
        gap = np.abs(accuracy - self.mean_confidence[populated])
        if norm == "max":
            return float(gap.max())
        weight = count / count.sum()
        if norm == "l1":
            return float(weight @ gap)
        squared_gap = gap**2
        # The variance of an accuracy can be estimated from two rows on. A bin with a single row
        # gives no estimate, so it contributes 0.
        if debiased:
            squared_gap = np.where(
                count > 1, squared_gap - accuracy * (1 - accuracy) / np.maximum(count - 1, 1), 0
            )
        return float(np.sqrt(max(weight @ squared_gap, 0)))


def bin_edges(confidence: np.ndarray, bins: int, strategy: Strategy = "uniform") -> np.ndarray:
    """Return the b + 1 ascending edges of bins for confidences, Float[n], from 0 to 1.

    With "mass" the inner edges are order statistics of the confidences. Rows of equal confidence
    stay together, so the order of the rows does not matter. Edges that coincide are merged, so
    there may be fewer bins than requested.
    """
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ParameterError(f"bins must be an integer from 1, got {bins!r}")
    if strategy == "uniform":
        # numpy.linspace puts 5/7 below the double 5/7, so five votes of seven would change their
        # bin.
        return np.arange(int(bins) + 1) / int(bins)
    if strategy != "mass":
        raise ParameterError(f"strategy must be one of uniform, mass, got {strategy!r}")
    last_row = np.ceil(np.arange(1, bins) * len(confidence) / bins).astype(int) - 1
    inner = np.sort(confidence)[np.maximum(last_row, 0)]
    return np.concatenate([[0.0], np.unique(inner[(inner > 0) & (inner < 1)]), [1.0]])


def bin_of(confidence: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bin of each confidence, ``lower < confidence <= upper``, Int[n].

    Values on or beyond the outermost edges belong to the outermost bins.
    """
    values = np.asarray(confidence, dtype=edges.dtype)
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)


def binned_rows(
    confidence: np.ndarray, bins: int, strategy: Strategy, *, within: np.ndarray | None = None
) -> BinnedRows:
    """Sort rows into bins of their confidences, Float[n].

    Rows with different values of ``within``, Int[n], never share a bin.
    """
    if within is None:
        edges = bin_edges(confidence, bins, strategy)
        return BinnedRows(confidence, bin_of(confidence, edges), len(edges) - 1)
    # Each value of ``within`` gets its own bins, which are numbered after those of the values
    # before it. All errors can then treat them as one list of bins.
    index, n_bins = np.empty(len(confidence), dtype=np.intp), 0
    order = np.argsort(within, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(within[order])) + 1):
        binned = binned_rows(confidence[rows], bins, strategy)
        index[rows] = binned.index + n_bins
        n_bins += binned.n_bins
    return BinnedRows(confidence, index, n_bins)


def reliability_bins(
    confidence: np.ndarray,
    correct: np.ndarray,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
) -> ReliabilityBins:
    """Return mean confidence and accuracy of rows in bins of confidence.

    Bins are those of Guo et al. (2017), Section 2, or have equal numbers of rows, as in Nguyen and
    O'Connor (2015).

    Parameters
    ----------
    confidence : Float[n]
        Confidences in [0, 1], usually the largest probability of each row.
    correct : Bool[n]
        True where the predicted class is the label.
    bins : int, default=15
        Number of bins, at least 1.
    strategy : {"uniform", "mass"}, default="uniform"
        "uniform": equal widths, with the edges j / bins. "mass": equal numbers of rows, as far as
        ties allow; see :func:`bin_edges`.

    Examples
    --------
    >>> bins = reliability_bins([0.5, 0.7, 0.8, 1.0], [1, 0, 1, 1], bins=2, strategy="mass")
    >>> bins.lower.tolist(), bins.upper.tolist(), bins.accuracy.tolist()
    ([0.0, 0.7], [0.7, 1.0], [0.5, 1.0])
    """
    confidence, correct = _checked(confidence, correct)
    edges = bin_edges(confidence, bins, strategy)
    rows = BinnedRows(confidence, bin_of(confidence, edges), len(edges) - 1)
    return ReliabilityBins(
        edges[:-1], edges[1:], rows.count, rows.mean_confidence, rows.mean(correct)
    )


def _checked(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    confidence, correct = (
        np.asarray(confidence, dtype=np.float64),
        np.asarray(correct, dtype=np.float64),
    )
    if confidence.ndim != 1 or confidence.size == 0 or confidence.shape != correct.shape:
        raise ValueError(
            f"confidence and correct must be one number a row, got shapes {confidence.shape} and"
            f" {correct.shape}"
        )
    # The comparison is negated so that NaN counts as outside.
    outside = ~((confidence >= -1e-6) & (confidence <= 1 + 1e-6))
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"confidence must lie in [0, 1], got {confidence[row]:g} in row {row} ({outside.sum()}"
            " such)"
        )
    if not np.isin(correct, (0, 1)).all():
        raise ValueError("correct must hold only true and false (or 1 and 0)")
    return confidence, correct
