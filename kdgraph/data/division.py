"""Disjoint parts of the rows of a table: at random by class, by group, or as folds.

Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from kdgraph.errors import DataError
from kdgraph.parameters import Range

Folds = Annotated[int, Range(2)] | None
"""Number of folds of cross-validation, in which each row of a table tests once."""
_N_GROUP_ORDERS = 50
"""Number of random orders of the groups that are tried.

With one order, a class that consists of a few large groups is sometimes missing from a part.
"""


@dataclass(frozen=True)
class Fold:
    """One of ``n`` folds whose test rows are disjoint and together all rows of a table.

    The folds of one division have the same ``seed``; ``index`` counts from 0.

    Examples
    --------
    >>> strata = np.array([0, 1, 0, 1, 0, 1])
    >>> folds = [Fold(3, index, seed=0).test_rows("toy", strata, None) for index in range(3)]
    >>> np.sort(np.concatenate(folds)).tolist()
    [0, 1, 2, 3, 4, 5]
    """

    n: int
    index: int
    seed: int

    def test_rows(self, name: str, strata: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
        """Return the numbers of the test rows, with each class (``strata``, Int[n]) in proportion.

        Rows of one of the ``groups`` (Int[n]) stay together.
        """
        units = len(strata) if groups is None else len(np.unique(groups))
        if units < self.n:
            raise DataError(
                f"{name} has {units} {'rows' if groups is None else 'groups'}, too few for"
                f" {self.n} folds; lower dataset.folds"
            )
        if groups is None:
            sizes = [(len(strata) + i) // self.n for i in range(self.n)]
            return stratified_split(strata, sizes, np.random.default_rng(self.seed))[self.index]
        from sklearn.model_selection import StratifiedGroupKFold

        folds = StratifiedGroupKFold(self.n, shuffle=True, random_state=self.seed)
        with warnings.catch_warnings():
            # A class with fewer rows than folds is missing from some of the tests, no more.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            try:
                divisions = list(folds.split(strata, strata, groups))
            except ValueError as error:
                raise DataError(
                    f"{name} has fewer rows of each class than {self.n} folds; lower dataset.folds"
                ) from error
        return divisions[self.index][1]


def stratified_split(
    y: np.ndarray, sizes: Sequence[int], rng: np.random.Generator
) -> list[np.ndarray]:
    """Divide rows of classes y: Int[n] at random, within each class, into disjoint parts.

    A part contains row numbers, Int[size], in random order. It depends on its own size and on the
    sizes before it, but not on the sizes after it.
    """
    # One random rank per row orders both the rows of each class and the rows of each part. A part
    # takes the first remaining rows of each class, so later sizes cannot change it.
    rank = rng.permutation(len(y))
    members = [
        rows[np.argsort(rank[rows])] for rows in (np.flatnonzero(y == c) for c in np.unique(y))
    ]
    parts = []
    for size in sizes:
        quota = class_quotas(np.array([len(rows) for rows in members]), size, rng)
        part = np.concatenate([rows[:q] for rows, q in zip(members, quota, strict=True)])
        members = [rows[q:] for rows, q in zip(members, quota, strict=True)]
        parts.append(part[np.argsort(rank[part])])
    return parts


def class_quotas(available: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Divide a number of rows among classes in proportion to Int[K] available rows.

    The method is that of largest remainders, with random ties.
    """
    exact = available * size / max(available.sum(), 1)
    quota = np.floor(exact).astype(int)
    by_remainder = np.lexsort((rng.random(len(quota)), quota - exact))
    quota[by_remainder[: size - quota.sum()]] += 1
    return quota


def grouped_split(
    name: str,
    y: np.ndarray,
    groups: np.ndarray | None,
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Divide rows into disjoint parts, with all rows of a group in the same part.

    Groups are put in random order. Each part takes groups until it has its size, and the last part
    takes the remaining groups. This is repeated for 50 random orders. The order with the class
    proportions closest to those of all rows is used. A part with too many rows loses rows at
    random, in proportion to the classes.

    Classes and groups are Int[n], the parts Int[≤ size] in random order.
    """
    values, group = np.unique(np.asarray(groups), return_inverse=True)
    if len(values) < len(sizes):
        raise DataError(
            f"{name} has {len(values)} groups, and each of {len(sizes)} roles needs its own; give"
            " dataset.split=random"
        )
    # rows_of_class[g, c] is the number of rows of class c in group g.
    rows_of_class = np.zeros((len(values), int(y.max()) + 1))
    np.add.at(rows_of_class, (group, y), 1)
    orders = [rng.permutation(len(values)) for _ in range(_N_GROUP_ORDERS)]
    divisions = [
        np.split(order, _part_ends(rows_of_class[order].sum(axis=1), sizes)) for order in orders
    ]
    best = divisions[
        int(np.argmin([_class_imbalance(rows_of_class, parts) for parts in divisions]))
    ]
    parts = []
    for part_groups, size in zip(best, sizes, strict=True):
        rows = np.flatnonzero(np.isin(group, part_groups))
        (part,) = stratified_split(y[rows], [min(size, len(rows))], rng)
        parts.append(rows[part])
    return parts


def _part_ends(n_rows: np.ndarray, sizes: Sequence[int]) -> list[int]:
    """Return the end of each part but the last, as positions in the order of the groups.

    No part is empty, and each part has its size if enough rows are available; ``n_rows`` are those
    of each group.
    """
    cumulative_rows, ends, start = np.cumsum(n_rows), [], 0
    # At least one group stays available for each of the n_later parts.
    for n_later, size in zip(range(len(sizes) - 1, 0, -1), sizes, strict=False):
        used_rows = cumulative_rows[start - 1] if start else 0
        stop = int(np.searchsorted(cumulative_rows, used_rows + size)) + 1
        start = min(max(stop, start + 1), len(n_rows) - n_later)
        ends.append(start)
    return ends


def _class_imbalance(rows_of_class: np.ndarray, parts: Sequence[np.ndarray]) -> float:
    """Return the largest relative error of a class proportion over all parts and classes."""
    overall = rows_of_class.sum(axis=0) / rows_of_class.sum()
    by_part = np.array(
        [rows_of_class[part].sum(axis=0) / rows_of_class[part].sum() for part in parts]
    )
    return float((np.abs(by_part - overall) / overall).max())
