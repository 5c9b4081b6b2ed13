"""Rows sorted into bins of confidence, and what the bins say: confidence against accuracy, and the
gaps between them as one number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.compat import Edges, Strategy, intervals_of
from kdgraph.parameters import Count

Norm = Literal["l1", "l2", "max"]


@dataclass(frozen=True)
class ReliabilityBins:
    """Confidence against accuracy by bin, Guo et al. (2017), Section 2; the bins tile [0, 1] from
    left to right.

    Attributes
    ----------
    lower, upper : Float[b], the edges; a bin holds ``lower < confidence <= upper``, the first one 0
    too (other rules: ``edges``).
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


@dataclass(frozen=True)
class BinnedRows:
    """Rows sorted into bins: what calibration errors are made of, once it is known which rows were
    right (Guo et al., 2017, Section 2).

    Attributes
    ----------
    confidence : Float[n].
    index : Int[n], each row's bin.
    n_bins : b, the empty ones too.
    """

    confidence: np.ndarray
    index: np.ndarray
    n_bins: int

    @cached_property
    def count(self) -> np.ndarray:
        """Int[b]: rows in each bin."""
        return np.bincount(self.index, minlength=self.n_bins)

    @cached_property
    def stated(self) -> np.ndarray:
        """Float[b]: the mean confidence in each bin; NaN where it is empty."""
        return self.mean(self.confidence)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Float[b]: means of Float[n] over each bin's rows; NaN where there are none."""
        nobody = np.where(self.count > 0, 1.0, np.nan)
        return (
            np.bincount(self.index, values, minlength=self.n_bins)
            / np.maximum(self.count, 1)
            * nobody
        )

    def error(self, correct: np.ndarray, norm: Norm, debiased: bool) -> float:
        """Norm of the gaps |share right - mean confidence| of populated bins, weighted by their
        shares of the rows.

        Parameters
        ----------
        correct : Bool[n].
        norm, debiased : as of :func:`~kdgraph.metrics.ece`.
        """
        check_norm(norm, debiased)
        populated = self.count > 0
        count, accuracy = self.count[populated], self.mean(correct)[populated]
        gap = np.abs(accuracy - self.stated[populated])
        if norm == "max":
            return float(gap.max())
        share = count / count.sum()
        if norm == "l1":
            return float(share @ gap)
        square = gap**2
        # the variance of a share is estimated from two rows on; of a single row nothing is known
        if debiased:
            square = np.where(
                count > 1, square - accuracy * (1 - accuracy) / np.maximum(count - 1, 1), 0
            )
        return float(np.sqrt(max(share @ square, 0)))


def check_norm(norm: Norm, debiased: bool) -> None:
    """Raise :class:`ParameterError` for a norm that is none, or that has no debiased estimator in
    Kumar et al. (2019).
    """
    if norm not in ("l1", "l2", "max"):
        raise ParameterError(f"norm must be one of l1, l2, max, got {norm!r}")
    if debiased and norm != "l2":
        raise ParameterError(
            f"norm must be l2 where debiased, got {norm!r}; ece_if_calibrated says how much of it"
            " sampling alone gives"
        )


def binned_rows(
    confidence: np.ndarray,
    bins: int = 15,
    strategy: Strategy = "uniform",
    edges: Edges = "right",
    *,
    within: np.ndarray | None = None,
) -> BinnedRows:
    """Sort rows into bins of their own confidences, Guo et al. (2017), Section 2.

    Parameters
    ----------
    confidence : Float[n] in [0, 1].
    bins, strategy, edges : as of :func:`~kdgraph.metrics.compat.intervals_of`.
    within : Int[n]: rows with different ones never share a bin (their predicted classes, for
        top-label errors).
    """
    if within is None:
        intervals = intervals_of(confidence, bins, strategy, edges)
        return BinnedRows(confidence, intervals.index(confidence), len(intervals))
    index, n_bins = np.empty(len(confidence), dtype=np.intp), 0
    order = np.argsort(within, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(within[order])) + 1):
        intervals = intervals_of(confidence[mine], bins, strategy, edges)
        index[mine] = intervals.index(confidence[mine]) + n_bins
        n_bins += len(intervals)
    return BinnedRows(confidence, index, n_bins)


def reliability_bins(
    confidence: np.ndarray,
    correct: np.ndarray,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    edges: Edges = "right",
) -> ReliabilityBins:
    """Sort rows into bins of confidence: those of Guo et al. (2017), Section 2, or of equal numbers
    of rows, as Nguyen and O'Connor (2015).

    Parameters
    ----------
    confidence : Float[n] in [0, 1], usually the largest probability of each row.
    correct : Bool[n], whether the predicted class is the label.
    bins : how many, from 1.
    strategy : "uniform": equal widths, edges j / bins. "mass": equal shares of rows as far as ties
        allow; edges are order statistics of the confidences, rows of equal confidence stay together
        (so the order of rows does not matter), and edges that coincide are merged: there may be
        fewer bins than asked for.
    edges : who has the confidence that is an edge: "right", the bin below it; others are those of
        other libraries (:func:`~kdgraph.metrics.compat.intervals_of`).

    Returns
    -------
    ReliabilityBins

    Raises
    ------
    ValueError
        No rows, shapes that differ, or a confidence outside [0, 1] by more than 1e-6.
    """
    confidence, correct = checked_rows(confidence, correct)
    intervals = intervals_of(confidence, bins, strategy, edges)
    rows = BinnedRows(confidence, intervals.index(confidence), len(intervals))
    return ReliabilityBins(
        intervals.edges[:-1], intervals.edges[1:], rows.count, rows.stated, rows.mean(correct)
    )


def checked_rows(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as Float[n], or an error that names the rule; the rules are ours: see
    :func:`reliability_bins`.
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
    outside = ~((confidence >= -1e-6) & (confidence <= 1 + 1e-6))  # NaN is outside too
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"confidence must lie in [0, 1], got {confidence[row]:g} in row {row} ({outside.sum()}"
            " such)"
        )
    if not np.isin(correct, (0, 1)).all():
        raise ValueError("correct must hold only true and false (or 1 and 0)")
    return confidence, correct
