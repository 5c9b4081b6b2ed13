"""Calibration errors within groups of rows (Luo et al., UAI 2022, Section 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.inputs import Grouped, Groups, Top, TopLabel
from kdgraph.metrics.registry import metric, table
from kdgraph.metrics.reliability_bins import ReliabilityBins, Strategy, reliability_bins
from kdgraph.parameters import Count

Reduce = Literal["max", "mean", "rows"]
"""Reduction of errors by group: the largest, the mean over groups, or the mean weighted by rows."""


@metric("group ECE", better="lower")
def group_ece(
    y: np.ndarray,
    top_label: Top,
    groups: Grouped,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    reduce: Reduce = "max",
    min_count: Count = 1,
) -> float:
    """Measure the largest or the mean ECE of the groups, in [0, 1].

    An overconfident and an underconfident group cancel in the ECE of all rows, but not here ("the
    average group-wise ECE" of Luo et al., UAI 2022, Section 2.3). Groups without rows do not count.
    An ECE of fewer rows is larger by chance, so the smallest group tends to be the worst one;
    :func:`by_group` tabulates the numbers of rows and the errors.

    Parameters
    ----------
    bins : int, default=15
        Number of bins over [0, 1], as for :func:`~kdgraph.metrics.ece`.
    strategy : {"uniform", "mass"}, default="uniform"
        "uniform": equal widths. "mass": equal numbers of the rows of a group.
    reduce : {"max", "mean", "rows"}, default="max"
        "max": the largest error. "mean": the mean over groups. "rows": the mean weighted by the
        number of rows.
    min_count : int, default=1
        Bins with fewer rows of a group are left out of its error; the number is NaN if no bin is
        left. With ``reduce="rows"`` the weight of a group is still the number of all of its rows.

    Examples
    --------
    >>> y, proba, groups = [0, 0, 1, 1], [[0.75, 0.25]] * 4, ["a", "a", "b", "b"]
    >>> group_ece(y, proba, groups), group_ece(y, proba, groups, reduce="mean")
    (0.75, 0.5)
    """
    return _reduced(
        _bin_groups(y, top_label, groups, bins, strategy),
        lambda group: group.ece(min_count),
        reduce,
    )


@metric("group MCE", better="lower", like=group_ece)
def group_mce(
    y: np.ndarray,
    top_label: Top,
    groups: Grouped,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    reduce: Reduce = "max",
    min_count: Count = 1,
) -> float:
    """Measure the largest or the mean MCE of the groups, in [0, 1].

    By default it is the error of the worst bin of the worst group (Luo et al., UAI 2022, Section
    5.3 and Table 1, with 15 bins, or 5 in Appendix A). Groups without rows do not count. As
    published (``min_count=1``), a row that is alone of its group in a bin may determine the number:
    an incorrect prediction with confidence 0.95 gives 0.95.

    Parameters
    ----------
    min_count : int, default=1
        Bins with fewer rows of a group are left out of its error; the number is NaN if no bin is
        left.

    Examples
    --------
    >>> y, proba = [0, 0, 1, 1], [[0.75, 0.25], [0.75, 0.25], [0.75, 0.25], [0.0, 1.0]]
    >>> groups = ["a", "a", "b", "b"]
    >>> group_mce(y, proba, groups), group_mce(y, proba, groups, min_count=2)
    (0.75, 0.25)
    """
    return _reduced(
        _bin_groups(y, top_label, groups, bins, strategy),
        lambda group: group.mce(min_count),
        reduce,
    )


@table("by group", like=group_mce)
def by_group(
    y: np.ndarray,
    top_label: Top,
    groups: Grouped,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    min_count: Count = 1,
) -> dict[str, np.ndarray]:
    """Tabulate rows, error, mean confidence, ECE, MCE and the worst bin of each group.

    The columns are ``group`` (name), ``rows``, ``error``, ``confidence``, ``ece``, ``mce``, and the
    edges ``worst_from`` and ``worst_to`` and the number of rows ``worst_rows`` of the bin with the
    largest gap, each [g]. They are NaN for a group without rows, or without a bin of ``min_count``
    rows.

    Examples
    --------
    >>> proba = [[0.75, 0.25], [0.5, 0.5], [0.75, 0.25]]
    >>> table = by_group([0, 0, 1], proba, ["a", "a", "b"], bins=4)
    >>> [table[column].tolist() for column in ("group", "error", "mce", "worst_rows")]
    [['a', 'b'], [0.0, 1.0], [0.5, 0.75], [1.0, 1.0]]
    """
    binned_groups = _bin_groups(y, top_label, groups, bins, strategy)
    rows = [
        (
            group.rows,
            group.error,
            group.confidence,
            group.ece(min_count),
            group.mce(min_count),
            *group.worst(min_count),
        )
        for group in binned_groups
    ]
    names = ("rows", "error", "confidence", "ece", "mce", "worst_from", "worst_to", "worst_rows")
    columns = dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))
    return {
        "group": np.array([group.name for group in binned_groups]),
        **columns,
        "rows": columns["rows"].astype(int),
    }


@dataclass(frozen=True)
class _BinnedGroup:
    name: str
    rows: int
    error: float  # mean over the rows, as the confidence; NaN if there are none
    confidence: float
    bins: ReliabilityBins

    def counted(self, min_count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the bins with at least ``min_count`` rows, Int[p], and their gaps, Float[p]."""
        selected = np.flatnonzero(self.bins.count >= max(min_count, 1))
        return selected, np.abs(self.bins.accuracy[selected] - self.bins.confidence[selected])

    def ece(self, min_count: int) -> float:
        """Return the ECE of the rows in bins of ``min_count`` rows; NaN if there are none."""
        selected, gap = self.counted(min_count)
        return (
            float(np.average(gap, weights=self.bins.count[selected])) if len(selected) else np.nan
        )

    def mce(self, min_count: int) -> float:
        """Return the largest gap of bins of ``min_count`` rows; NaN if there are none."""
        _, gap = self.counted(min_count)
        return float(gap.max()) if len(gap) else np.nan

    def worst(self, min_count: int) -> tuple[float, float, float]:
        """Return edges and number of rows of the (first) bin with the largest gap."""
        selected, gap = self.counted(min_count)
        if not len(selected):
            return np.nan, np.nan, np.nan
        worst = selected[gap.argmax()]
        return (
            float(self.bins.lower[worst]),
            float(self.bins.upper[worst]),
            float(self.bins.count[worst]),
        )


def _bin_groups(
    y: np.ndarray, top_label: TopLabel, groups: Groups, bins: int, strategy: Strategy
) -> list[_BinnedGroup]:
    """Return the bins of every group, including groups without rows."""
    confidence, correct = np.asarray(top_label.confidence, dtype=np.float64), top_label.correct(y)

    def bin_group(name: str, rows: np.ndarray) -> _BinnedGroup:
        if not len(rows):
            return _BinnedGroup(name, 0, np.nan, np.nan, ReliabilityBins(*[np.empty(0)] * 5))
        binned = reliability_bins(confidence[rows], correct[rows], bins=bins, strategy=strategy)
        return _BinnedGroup(
            name, len(rows), 1 - float(correct[rows].mean()), float(confidence[rows].mean()), binned
        )

    return [bin_group(name, rows) for name, rows in groups.rows()]


def _reduced(
    groups: list[_BinnedGroup], error: Callable[[_BinnedGroup], float], reduce: Reduce
) -> float:
    """Return the reduction of the errors by group; NaN if no group has one."""
    if reduce not in ("max", "mean", "rows"):
        raise ParameterError(f"reduce must be one of max, mean, rows, got {reduce!r}")
    errors, rows = (
        np.array([error(group) for group in groups]),
        np.array([group.rows for group in groups]),
    )
    defined = ~np.isnan(errors)
    if not defined.any():
        return np.nan
    if reduce == "max":
        return float(errors[defined].max())
    return float(np.average(errors[defined], weights=rows[defined] if reduce == "rows" else None))
