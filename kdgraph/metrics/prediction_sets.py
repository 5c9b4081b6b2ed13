"""Metrics of prediction sets: their coverage, on average and in the worst part, and their size.

A prediction set (``prediction_set``, Bool[n, K]) covers a row if it contains its label. Coverage is
compared with the target of the method, such as .9. The smallest coverage of several parts of the
rows is below the target by chance, and the more so the more parts there are and the smaller they
are: standard errors, and the tables, show how much of it is chance. What has no reference is
original to kdgraph.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from kdgraph.metrics.inputs import Grouped
from kdgraph.metrics.registry import mean_over_rows, metric, table
from kdgraph.parameters import Count

_LEVEL = 0.95
_SIZES = (1, 3, 10, 100)


def _covered(y: np.ndarray, prediction_set: np.ndarray) -> np.ndarray:
    return prediction_set[np.arange(len(y)), y]


@mean_over_rows("set coverage", better=None)
def set_coverage(y: np.ndarray, prediction_set: np.ndarray) -> np.ndarray:
    """Measure the fraction of rows whose set contains the label, in [0, 1].

    It is the coverage of Vovk, Gammerman and Shafer, "Algorithmic learning in a random world",
    2005.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, True]])
    >>> set_coverage([1, 1], sets)
    0.5
    """
    return _covered(y, prediction_set).astype(np.float64)


@mean_over_rows("set size", better="lower", unit="classes")
def set_size(prediction_set: np.ndarray) -> np.ndarray:
    """Measure the mean number of classes in a set, from 0 to K.

    Of two methods with the same coverage, the one with smaller sets is more useful. On rows out of
    distribution large sets are the better ones. Sadinle, Lei and Wasserman (JASA 2019) call it
    ambiguity.

    Examples
    --------
    >>> set_size(np.array([[True, False], [True, True]]))
    1.5
    """
    return prediction_set.sum(axis=1).astype(np.float64)


@mean_over_rows("empty sets", better=None)
def empty_sets(prediction_set: np.ndarray) -> np.ndarray:
    """Measure the fraction of rows with an empty set, in [0, 1].

    Examples
    --------
    >>> empty_sets(np.array([[False, False], [True, True]]))
    0.5
    """
    return (prediction_set.sum(axis=1) == 0).astype(np.float64)


@mean_over_rows("singleton sets", better="higher")
def singletons(prediction_set: np.ndarray) -> np.ndarray:
    """Measure the fraction of rows whose set is a single class, in [0, 1].

    Vovk, Fedorova, Nouretdinov and Gammerman, "Criteria of efficiency for conformal prediction",
    COPA 2016, call the others multiple predictions.

    Examples
    --------
    >>> singletons(np.array([[True, False], [True, True]]))
    0.5
    """
    return (prediction_set.sum(axis=1) == 1).astype(np.float64)


@mean_over_rows("singleton accuracy", better="higher")
def singleton_accuracy(y: np.ndarray, prediction_set: np.ndarray) -> np.ndarray:
    """Measure the accuracy of the sets with a single class, in [0, 1].

    It is NaN if there are none. No method guarantees it: the coverage of all sets may be that of
    the large ones.

    Examples
    --------
    >>> singleton_accuracy([0, 1, 0], np.array([[True, False], [True, False], [True, True]]))
    0.5
    """
    is_single = prediction_set.sum(axis=1) == 1
    return _covered(y, prediction_set)[is_single].astype(np.float64)


def _size_strata(
    prediction_set: np.ndarray, largest_sizes: Sequence[int]
) -> list[tuple[str, np.ndarray]]:
    sizes, ends = prediction_set.sum(axis=1), [-1, *sorted(largest_sizes), np.inf]
    return [
        (
            f"{low + 1:g}+" if high == np.inf else f"{low + 1:g}-{high:g}",
            np.flatnonzero((sizes > low) & (sizes <= high)),
        )
        for low, high in pairwise(ends)
    ]


def _worst(
    covered: np.ndarray, parts: Iterable[tuple[str, np.ndarray]], min_count: int
) -> tuple[float, float | None]:
    """Return the smallest coverage of parts with ``min_count`` rows, and its standard error."""
    coverages = [
        (float(covered[rows].mean()), len(rows))
        for _, rows in parts
        if len(rows) >= max(min_count, 1)
    ]
    if not coverages:
        return math.nan, None
    value, n = min(coverages)
    return value, math.sqrt(value * (1 - value) / (n - 1)) if n > 1 else None


def _stderr_of_strata(
    y: np.ndarray,
    prediction_set: np.ndarray,
    *,
    largest_sizes: Sequence[int] = _SIZES,
    min_count: Count = 20,
) -> float | None:
    return _worst(
        _covered(y, prediction_set), _size_strata(prediction_set, largest_sizes), min_count
    )[1]


@metric("size-stratified coverage", better="higher", stderr=_stderr_of_strata)
def size_stratified_coverage(
    y: np.ndarray,
    prediction_set: np.ndarray,
    *,
    largest_sizes: Sequence[int] = _SIZES,
    min_count: Count = 20,
) -> float:
    """Measure the smallest coverage of sets of similar size, in [0, 1].

    If a method is adaptive, uncertain rows have larger sets, and each size has the coverage of all
    rows. The standard error is that of the worst stratum.

    Parameters
    ----------
    largest_sizes : sequence of int, default=(1, 3, 10, 100)
        Largest size of each stratum but the last: sets of 0 or 1, 2 or 3, 4 to 10, 11 to 100 and
        more classes.
    min_count : int, default=20
        Strata with fewer rows are left out; NaN if none is left. At 20 rows and a coverage of .9
        the standard error is .07.

    References
    ----------
    Angelopoulos, Bates, Malik and Jordan, "Uncertainty sets for image classifiers using conformal
    prediction", ICLR 2021, Section 4: size-stratified coverage violation, and its strata.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True], [True, True]])
    >>> size_stratified_coverage([0, 1, 0, 1], sets, min_count=1)
    0.5
    """
    return _worst(
        _covered(y, prediction_set), _size_strata(prediction_set, largest_sizes), min_count
    )[0]


def _class_parts(y: np.ndarray, n_classes: int) -> list[tuple[str, np.ndarray]]:
    return [(str(k), np.flatnonzero(y == k)) for k in range(n_classes)]


def _stderr_of_classes(
    y: np.ndarray, prediction_set: np.ndarray, *, min_count: Count = 20
) -> float | None:
    parts = _class_parts(y, prediction_set.shape[1])
    return _worst(_covered(y, prediction_set), parts, min_count)[1]


@metric("worst-class coverage", better="higher", stderr=_stderr_of_classes)
def worst_class_coverage(
    y: np.ndarray, prediction_set: np.ndarray, *, min_count: Count = 20
) -> float:
    """Measure the smallest coverage of the rows of a class, in [0, 1].

    The standard error is that of the worst class. It is the smallest class-specific coverage of
    Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded error levels",
    JASA 2019, Section 2.2.

    Parameters
    ----------
    min_count : int, default=20
        Classes with fewer rows are left out; NaN if none is left.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True], [True, True]])
    >>> worst_class_coverage([0, 1, 0, 1], sets, min_count=1)
    0.5
    """
    parts = _class_parts(y, prediction_set.shape[1])
    return _worst(_covered(y, prediction_set), parts, min_count)[0]


def _stderr_of_groups(
    y: np.ndarray, prediction_set: np.ndarray, groups: Grouped, *, min_count: Count = 20
) -> float | None:
    return _worst(_covered(y, prediction_set), groups.rows(), min_count)[1]


@metric("worst-group set coverage", better="higher", stderr=_stderr_of_groups)
def worst_group_set_coverage(
    y: np.ndarray, prediction_set: np.ndarray, groups: Grouped, *, min_count: Count = 20
) -> float:
    """Measure the smallest coverage of the sets in a group of rows, in [0, 1].

    The standard error is that of the worst group.

    Parameters
    ----------
    min_count : int, default=20
        Groups with fewer rows are left out; NaN if none is left.

    References
    ----------
    Romano, Barber, Sabatti and Candès, "With malice toward none: assessing uncertainty via
    equalized coverage", Harvard Data Science Review 2020.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True], [True, True]])
    >>> worst_group_set_coverage([0, 1, 0, 1], sets, ["a", "a", "b", "b"], min_count=1)
    0.5
    """
    return _worst(_covered(y, prediction_set), groups.rows(), min_count)[0]


def tabulate_sets(
    name: str,
    y: np.ndarray,
    prediction_set: np.ndarray,
    parts: Iterable[tuple[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Return the columns of :func:`sets_by_class`, with ``name`` for the first."""
    from scipy.stats import binomtest

    covered, sizes = _covered(y, prediction_set), prediction_set.sum(axis=1)
    lines = []
    for part, rows in parts:
        if len(rows):
            n_covered = int(covered[rows].sum())
            interval = binomtest(n_covered, len(rows)).proportion_ci(_LEVEL, method="wilson")
            lines.append(
                (
                    part,
                    len(rows),
                    n_covered / len(rows),
                    interval.low,
                    interval.high,
                    sizes[rows].mean(),
                    (sizes[rows] == 1).mean(),
                    (sizes[rows] == 0).mean(),
                )
            )
    columns = (name, "rows", "coverage", "low", "high", "set_size", "singletons", "empty")
    return dict(zip(columns, map(np.array, zip(*lines, strict=True)), strict=True))


@table("sets by class")
def sets_by_class(y: np.ndarray, prediction_set: np.ndarray) -> dict[str, np.ndarray]:
    """Tabulate coverage and size of the sets of the rows of each class.

    The columns are ``class`` (its position), ``rows``, ``coverage``, the ends ``low`` and ``high``
    of its Wilson interval of 95 %, ``set_size`` (mean), ``singletons`` and ``empty`` (fractions),
    each [c]; classes without rows are left out.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, True], [True, True]])
    >>> columns = sets_by_class([0, 1, 1], sets)
    >>> [columns[name].tolist() for name in ("class", "rows", "coverage", "set_size")]
    [[0, 1], [1, 2], [1.0, 1.0], [1.0, 2.0]]
    """
    columns = tabulate_sets("class", y, prediction_set, _class_parts(y, prediction_set.shape[1]))
    return columns | {"class": columns["class"].astype(int)}


@table("sets by group")
def sets_by_group(
    y: np.ndarray, prediction_set: np.ndarray, groups: Grouped
) -> dict[str, np.ndarray]:
    """Tabulate coverage and size of the sets of each group of rows.

    The columns are ``group`` (name), and the other columns of :func:`sets_by_class`.

    Examples
    --------
    >>> columns = sets_by_group([0, 1], np.array([[True, False], [True, False]]), ["a", "b"])
    >>> [columns[name].tolist() for name in ("group", "coverage")]
    [['a', 'b'], [1.0, 0.0]]
    """
    return tabulate_sets("group", y, prediction_set, groups.rows())


@table("sets by size")
def sets_by_size(y: np.ndarray, prediction_set: np.ndarray) -> dict[str, np.ndarray]:
    """Tabulate the coverage of the sets of each size.

    The columns are ``size`` (number of classes), ``rows``, ``coverage``, ``low`` and ``high`` as in
    :func:`sets_by_class`; sizes without rows are left out.

    Examples
    --------
    >>> columns = sets_by_size([0, 1], np.array([[True, False], [True, True]]))
    >>> [columns[name].tolist() for name in ("size", "rows", "coverage")]
    [[1, 2], [1, 1], [1.0, 1.0]]
    """
    sizes = prediction_set.sum(axis=1)
    parts = [(str(size), np.flatnonzero(sizes == size)) for size in np.unique(sizes).tolist()]
    columns = tabulate_sets("size", y, prediction_set, parts)
    return {name: columns[name] for name in ("rows", "coverage", "low", "high")} | {
        "size": columns["size"].astype(int)
    }
