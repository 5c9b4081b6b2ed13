"""Whether the stated confidence is right for each group of rows apart, and for which of them it is
worst.
"""

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
"""Of errors by group: the largest; their mean, each group counting once; or their mean weighted by
rows.
"""


@metric("group ECE", better="lower")
def group_ece(
    y: np.ndarray,
    top: Top,
    groups: Grouped,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    reduce: Reduce = "max",
    min_count: Count = 1,
) -> float:
    """Measure the ECE within each group, and take the largest or the mean, in [0, 1].

    A group whose rows are too sure and one whose rows are not sure enough make up for each other in
    an ECE of all rows, and not here. Of fewer rows an ECE is larger by chance, so the smallest
    group tends to be the worst one: :func:`by_group` tells rows beside errors.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    groups : Int[n], texts [n], or :class:`~kdgraph.metrics.Groups`. Groups without a row do not
    count.
    bins, strategy : as for :func:`~kdgraph.metrics.ece`; "mass" makes bins of equal shares of each
    group's own rows.
    reduce : "max", "mean" over groups, each counting once, or "rows", that mean weighted by their
    rows.
    min_count : rows of a group in bins with fewer of its rows than this are left out; NaN if none
        is left. With ``reduce="rows"`` they still count in the weight of their group, which is all
        of its rows.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 2.3: "the average
    group-wise ECE".

    Examples
    --------
    >>> y, proba, groups = [0, 0, 1, 1], [[0.75, 0.25]] * 4, ["a", "a", "b", "b"]
    >>> group_ece(y, proba, groups), group_ece(y, proba, groups, reduce="mean")  # for a right, for b wrong, and together 0.25
    (0.75, 0.5)
    """
    return _reduced(
        _cells(y, top, groups, bins, strategy), lambda cells: cells.ece(min_count), reduce
    )


@metric("group MCE", better="lower")
def group_mce(
    y: np.ndarray,
    top: Top,
    groups: Grouped,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    reduce: Reduce = "max",
    min_count: Count = 1,
) -> float:
    """Measure the MCE within each group, and take the largest or the mean: the worst bin of the
    worst group, in [0, 1].

    As printed (``min_count=1``) one row that is alone of its group in its bin may decide it: sure
    of 0.95 and wrong, it says 0.95.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    groups : Int[n], texts [n], or :class:`~kdgraph.metrics.Groups`. Groups without a row do not
    count.
    bins, strategy, reduce : as for :func:`group_ece`.
    min_count : bins with fewer rows of a group than this do not count for it; NaN if none is left.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 5.3 and Table 1:
    the maximum group-wise MCE, with the 15 bins of Section 3.2, or 5 (Appendix A, Communities and
    Crime).

    Examples
    --------
    >>> y, proba = [0, 0, 1, 1], [[0.75, 0.25], [0.75, 0.25], [0.75, 0.25], [0.0, 1.0]]
    >>> group_mce(y, proba, ["a", "a", "b", "b"]), group_mce(y, proba, ["a", "a", "b", "b"], min_count=2)
    (0.75, 0.25)
    """
    return _reduced(
        _cells(y, top, groups, bins, strategy), lambda cells: cells.mce(min_count), reduce
    )


@table("by group")
def by_group(
    y: np.ndarray,
    top: Top,
    groups: Grouped,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    min_count: Count = 1,
) -> dict[str, np.ndarray]:
    """Tabulate each group's rows, error, mean confidence, ECE and MCE, and which bin is the worst
    one; ours.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    groups : Int[n], texts [n], or :class:`~kdgraph.metrics.Groups`.
    bins, strategy, min_count : as for :func:`group_mce`, whose value is the largest ``mce``.

    Returns
    -------
    dict
        ``group`` (name), ``rows``, ``error``, ``confidence``, ``ece``, ``mce``, and of the bin with
        that gap its edges ``worst_from`` and ``worst_to`` and its ``worst_rows``, each [g]; NaN
        where a group has no row, or no bin of ``min_count``.

    Examples
    --------
    >>> found = by_group([0, 0, 1], [[0.75, 0.25], [0.5, 0.5], [0.75, 0.25]], ["a", "a", "b"], bins=4)
    >>> found["group"].tolist(), found["error"].tolist(), found["mce"].tolist(), found["worst_rows"].tolist()
    (['a', 'b'], [0.0, 1.0], [0.5, 0.75], [1.0, 1.0])
    """
    cells = _cells(y, top, groups, bins, strategy)
    rows = [
        (
            one.rows,
            one.error,
            one.confidence,
            one.ece(min_count),
            one.mce(min_count),
            *one.worst(min_count),
        )
        for one in cells
    ]
    names = ("rows", "error", "confidence", "ece", "mce", "worst_from", "worst_to", "worst_rows")
    columns = dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))
    return {
        "group": np.array([one.name for one in cells]),
        **columns,
        "rows": columns["rows"].astype(int),
    }


@dataclass(frozen=True)
class _Cells:
    """One group and its bins of confidence.

    Attributes
    ----------
    name, rows : of the group, and how many it has.
    error, confidence : means over its rows; NaN if there are none.
    bins : of its rows.
    """

    name: str
    rows: int
    error: float
    confidence: float
    bins: ReliabilityBins

    def counted(self, min_count: int) -> tuple[np.ndarray, np.ndarray]:
        """Int[p], which bins have ``min_count`` rows, and Float[p], their gaps."""
        which = np.flatnonzero(self.bins.count >= max(min_count, 1))
        return which, np.abs(self.bins.accuracy[which] - self.bins.confidence[which])

    def ece(self, min_count: int) -> float:
        """Over the rows in bins of ``min_count``; NaN if there are none."""
        which, gap = self.counted(min_count)
        return float(np.average(gap, weights=self.bins.count[which])) if len(which) else np.nan

    def mce(self, min_count: int) -> float:
        """The largest gap of bins of ``min_count``; NaN if there are none."""
        _, gap = self.counted(min_count)
        return float(gap.max()) if len(gap) else np.nan

    def worst(self, min_count: int) -> tuple[float, float, float]:
        """Edges and rows of the bin with that gap, the first of equals."""
        which, gap = self.counted(min_count)
        if not len(which):
            return np.nan, np.nan, np.nan
        at = which[gap.argmax()]
        return float(self.bins.lower[at]), float(self.bins.upper[at]), float(self.bins.count[at])


def _cells(
    y: np.ndarray, top: TopLabel, groups: Groups, bins: int, strategy: Strategy
) -> list[_Cells]:
    """Bins of each group, whether it has rows or not."""
    confidence, correct = np.asarray(top.confidence, dtype=np.float64), top.correct(y)

    def of(name: str, rows: np.ndarray) -> _Cells:
        if not len(rows):
            return _Cells(name, 0, np.nan, np.nan, ReliabilityBins(*[np.empty(0)] * 5))
        binned = reliability_bins(confidence[rows], correct[rows], bins=bins, strategy=strategy)
        return _Cells(
            name, len(rows), 1 - float(correct[rows].mean()), float(confidence[rows].mean()), binned
        )

    return [of(name, rows) for name, rows in groups.rows()]


def _reduced(cells: list[_Cells], error: Callable[[_Cells], float], reduce: Reduce) -> float:
    """One number of the errors by group; NaN if no group has one."""
    if reduce not in ("max", "mean", "rows"):
        raise ParameterError(f"reduce must be one of max, mean, rows, got {reduce!r}")
    errors, rows = np.array([error(one) for one in cells]), np.array([one.rows for one in cells])
    known = ~np.isnan(errors)
    if not known.any():
        return np.nan
    if reduce == "max":
        return float(errors[known].max())
    return float(np.average(errors[known], weights=rows[known] if reduce == "rows" else None))
