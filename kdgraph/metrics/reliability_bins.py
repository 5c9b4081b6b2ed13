"""Bins of confidence, and confidence against accuracy in each of them.

A bin holds the confidences ``lower < confidence <= upper``; the first bin also holds 0 (Guo et al.,
"On calibration of modern neural networks", ICML 2017, Section 2). Bins have equal widths or equal
numbers of rows. The bin edges of other libraries are in :mod:`kdgraph.metrics.compat`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count

Strategy = Literal["uniform", "mass"]
Norm = Literal["l1", "l2", "max"]
Closed = Literal["right", "left"]


@dataclass(frozen=True)
class Intervals:
    """Bins over [0, 1] from left to right (Guo et al., 2017, Section 2).

    Attributes
    ----------
    edges : Float[b + 1]
        Edges in ascending order. Where 0 or 1 occurs twice, that single confidence has its own bin.
    closed : {"right", "left"}, default="right"
        Side on which bins are closed. "right" means ``lower < confidence <= upper``, and "left"
        means ``lower <= confidence < upper``. Values on or beyond the outermost edges belong to
        the outermost bins in both cases.
    """

    edges: np.ndarray
    closed: Closed = "right"

    def __len__(self) -> int:
        return len(self.edges) - 1

    def index(self, confidence: np.ndarray) -> np.ndarray:
        """Return the bin of each confidence.

        Parameters
        ----------
        confidence : Float[n]
            Confidences. They are compared in the precision of the edges, as torch does it.

        Returns
        -------
        Int[n]
            Positions of the bins, from 0.
        """
        values = np.asarray(confidence, dtype=self.edges.dtype)
        side: Closed = "left" if self.closed == "right" else "right"
        return np.clip(np.searchsorted(self.edges, values, side=side) - 1, 0, len(self) - 1)


BinningRule = Callable[[np.ndarray], Intervals]
"""A function from confidences, Float[n], to the bins for them."""


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
    """Rows sorted into bins, from which calibration errors are computed (Guo et al., 2017).

    Attributes
    ----------
    confidence : Float[n]
        Confidences of the rows.
    index : Int[n]
        Bin of each row.
    n_bins : int
        Number of bins b, including empty ones.
    """

    confidence: np.ndarray
    index: np.ndarray
    n_bins: int

    @cached_property
    def count(self) -> np.ndarray:
        """Number of rows in each bin, Int[b]."""
        return np.bincount(self.index, minlength=self.n_bins)

    @cached_property
    def mean_confidence(self) -> np.ndarray:
        """Mean confidence in each bin, Float[b]; NaN for empty bins."""
        return self.mean(self.confidence)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the means of values, Float[n], over the rows of each bin.

        Returns
        -------
        Float[b]
            The means; NaN for empty bins.
        """
        nan_if_empty = np.where(self.count > 0, 1.0, np.nan)
        return (
            np.bincount(self.index, values, minlength=self.n_bins)
            / np.maximum(self.count, 1)
            * nan_if_empty
        )

    def error(self, correct: np.ndarray, norm: Norm, debiased: bool) -> float:
        """Return a norm of the gaps |accuracy - mean confidence| of the populated bins.

        Bins are weighted by their fractions of the rows.

        Parameters
        ----------
        correct : Bool[n]
            True for correct predictions.
        norm, debiased
            As for :func:`~kdgraph.metrics.ece`.

        Raises
        ------
        ParameterError
            If the norm is unknown, or cannot be debiased.
        """
        check_norm(norm, debiased)
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


def check_norm(norm: Norm, debiased: bool) -> None:
    """Check that a norm exists and, if debiased, has the estimator of Kumar et al. (2019).

    Raises
    ------
    ParameterError
        If the norm is unknown, or ``debiased`` is set with a norm other than "l2".
    """
    if norm not in ("l1", "l2", "max"):
        raise ParameterError(f"norm must be one of l1, l2, max, got {norm!r}")
    if debiased and norm != "l2":
        raise ParameterError(
            f"norm must be l2 where debiased, got {norm!r}; ece_if_calibrated estimates how much of"
            " it is due to sampling"
        )


def binning_rule(bins: int, strategy: Strategy) -> BinningRule:
    """Return the function that makes bins for confidences, Float[n]; see :func:`intervals_of`."""
    return partial(intervals_of, bins=bins, strategy=strategy)


def intervals_of(confidence: np.ndarray, bins: int, strategy: Strategy = "uniform") -> Intervals:
    """Return the bins for confidences (Guo et al., 2017, Section 2).

    Parameters
    ----------
    confidence : Float[n]
        Confidences in [0, 1].
    bins : int
        Number of bins, at least 1.
    strategy : {"uniform", "mass"}, default="uniform"
        "uniform": equal widths, with the edges j / bins. "mass": equal numbers of rows, as far as
        ties allow; see :func:`bin_edges`.

    Raises
    ------
    ParameterError
        If a value is out of its range.
    """
    check_bins(bins)
    if strategy == "uniform":
        return Intervals(equal_width_edges(int(bins)))
    if strategy != "mass":
        raise ParameterError(f"strategy must be one of uniform, mass, got {strategy!r}")
    last_row = np.ceil(np.arange(1, bins) * len(confidence) / bins).astype(int) - 1
    inner = np.sort(confidence)[np.maximum(last_row, 0)]
    return Intervals(np.concatenate([[0.0], np.unique(inner[(inner > 0) & (inner < 1)]), [1.0]]))


def check_bins(bins: int) -> None:
    """Check a number of bins.

    Raises
    ------
    ParameterError
        If it is not an integer of at least 1.
    """
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ParameterError(f"bins must be an integer from 1, got {bins!r}")


def equal_width_edges(bins: int) -> np.ndarray:
    """Return the doubles j / bins, Float[bins + 1]."""
    # numpy.linspace puts 5/7 below the double 5/7, so five votes of seven would change their bin.
    return np.arange(bins + 1) / bins


def bin_edges(confidence: np.ndarray, bins: int, strategy: Strategy) -> np.ndarray:
    """Return the edges that :func:`reliability_bins` uses (Guo et al., 2017).

    With "mass" the inner edges are order statistics of the confidences. Rows of equal confidence
    stay together, so the order of the rows does not matter. Edges that coincide are merged, so
    there may be fewer bins than requested.

    Parameters
    ----------
    confidence : Float[n]
        Confidences in [0, 1].
    bins, strategy
        As for :func:`intervals_of`.

    Returns
    -------
    Float[b + 1]
        Edges from 0 to 1.
    """
    return intervals_of(confidence, bins, strategy).edges


def bin_of(confidence: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bin of each confidence, ``lower < confidence <= upper`` (Guo et al., 2017).

    Parameters
    ----------
    confidence : Float[n]
        Confidences; 0 belongs to the first bin.
    edges : Float[b + 1]
        Edges in ascending order.

    Returns
    -------
    Int[n]
        Positions of the bins, from 0.
    """
    return Intervals(edges).index(confidence)


def binned_rows(
    confidence: np.ndarray, rule: BinningRule, *, within: np.ndarray | None = None
) -> BinnedRows:
    """Sort rows into bins of their confidences (Guo et al., 2017, Section 2).

    Parameters
    ----------
    confidence : Float[n]
        Confidences in [0, 1].
    rule : callable
        Function that makes the bins for confidences, such as that of :func:`binning_rule`.
    within : Int[n], optional
        Rows with different values never share a bin. Top-label errors pass the predicted classes.
    """
    if within is None:
        intervals = rule(confidence)
        return BinnedRows(confidence, intervals.index(confidence), len(intervals))
    # Each value of ``within`` gets its own bins, which are numbered after those of the values
    # before it. All errors can then treat them as one list of bins.
    index, n_bins = np.empty(len(confidence), dtype=np.intp), 0
    order = np.argsort(within, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(within[order])) + 1):
        intervals = rule(confidence[rows])
        index[rows] = intervals.index(confidence[rows]) + n_bins
        n_bins += len(intervals)
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

    Returns
    -------
    ReliabilityBins
        Edges, counts and means of the bins.

    Raises
    ------
    ValueError
        If there are no rows, shapes differ, or a confidence is outside [0, 1] by more than 1e-6.

    Examples
    --------
    >>> bins = reliability_bins([0.55, 0.65, 0.95], [True, False, True], bins=2)
    >>> bins.count.tolist(), bins.confidence.round(3).tolist()
    ([0, 3], [nan, 0.717])
    """
    confidence, correct = check_confidences(confidence, correct)
    intervals = intervals_of(confidence, bins, strategy)
    rows = BinnedRows(confidence, intervals.index(confidence), len(intervals))
    return ReliabilityBins(
        intervals.edges[:-1],
        intervals.edges[1:],
        rows.count,
        rows.mean_confidence,
        rows.mean(correct),
    )


def check_confidences(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return confidences and correctness as Float[n], as :func:`reliability_bins` requires them.

    Raises
    ------
    ValueError
        As for :func:`reliability_bins`.
    """
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
