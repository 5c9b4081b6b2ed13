"""The rows of a table divided into roles: as the source prescribes, by group, or at random within classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, Dataset
from kdgraph.data.sizes import Counts, Sizes
from kdgraph.errors import DataError

SplitBy = Literal["auto", "random", "group"]
"""random: rows at random, each role with each class in its share. group: rows of one group all in one role. auto: the roles that the source
prescribes, else by group where it has groups to keep together, else at random."""
ORDERS = 50
"""Random orders of the groups that are tried: with one, a class of a few large groups is missing from a part now and then."""


def rows_by_role(table: Dataset, sizes: Sizes, split: SplitBy, rng: np.random.Generator) -> list[np.ndarray]:
    """Row numbers of train, calibration and test, Int[n_role] each: disjoint, by class if the table has classes."""
    strata = table.y if table.task == "classification" else np.zeros(len(table.y), dtype=int)
    if split == "auto" and table.roles is not None:
        return _prescribed(table, strata, sizes, rng)
    counts = (sizes.of_scores if table.given_scores else sizes.of_table)(table.name, len(table.y))
    wanted = [counts.test, counts.calibration, counts.train]
    if split == "group" and table.split_groups is None:
        way_out = "name their column (dataset.split_groups; of dataset=arrays an array split_groups)"
        raise DataError(f"{table.name} has no groups to keep together; {way_out}, or give dataset.split=random")
    if split == "group" or (split == "auto" and table.split_groups is not None):
        test, calibration, train = grouped_parts(table.name, strata, table.split_groups, wanted, rng)
    else:
        test, calibration, train = stratified_parts(strata, wanted, rng)
    return [train, calibration, test]


def _prescribed(table: Dataset, strata: np.ndarray, sizes: Sizes, rng: np.random.Generator) -> list[np.ndarray]:
    """The same where the source prescribes roles; without calibration rows, these come out of the training rows."""
    train, calibration, test = (np.flatnonzero(table.roles == role) for role in (TRAIN, CALIBRATION, TEST))
    found = Counts(len(train), len(calibration), len(test))
    counts = sizes.of_scores(table.name, len(table.y), found) if table.given_scores else sizes.of_roles(table.name, found)

    def some(rows: np.ndarray, *wanted: int) -> list[np.ndarray]:
        return [rows[part] for part in stratified_parts(strata[rows], wanted, rng)] if len(rows) else [rows] * len(wanted)

    (test,) = some(test, counts.test)
    if len(calibration):
        (calibration,) = some(calibration, counts.calibration)
        (train,) = some(train, counts.train)
    else:
        calibration, train = some(train, counts.calibration, counts.train)
    return [train, calibration, test]


def stratified_parts(y: np.ndarray, sizes: Sequence[int], rng: np.random.Generator) -> list[np.ndarray]:
    """Disjoint random parts of the rows with classes y: Int[n], of ``sizes`` rows with sum at most n.

    Returns
    -------
    list of Int[size]
        Row numbers in random order. A part depends on its own size and on those before it, not on those after it.
    """
    rank = rng.permutation(len(y))
    members = [rows[np.argsort(rank[rows])] for rows in (np.flatnonzero(y == c) for c in np.unique(y))]
    parts = []
    for size in sizes:
        quota = quotas(np.array([len(rows) for rows in members]), size, rng)
        part = np.concatenate([rows[:q] for rows, q in zip(members, quota, strict=True)])
        members = [rows[q:] for rows, q in zip(members, quota, strict=True)]
        parts.append(part[np.argsort(rank[part])])
    return parts


def quotas(available: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """``size`` rows over classes of which Int[K] are ``available``, in proportion, by largest remainder: Int[K]. Chance breaks ties."""
    exact = available * size / max(available.sum(), 1)
    quota = np.floor(exact).astype(int)
    by_remainder = np.lexsort((rng.random(len(quota)), quota - exact))
    quota[by_remainder[: size - quota.sum()]] += 1
    return quota


def grouped_parts(name: str, y: np.ndarray, groups: np.ndarray | None, sizes: Sequence[int], rng: np.random.Generator) -> list[np.ndarray]:
    """Disjoint parts of the rows with classes y: Int[n] and groups: Int[n], of at most ``sizes`` rows, no group in two of them.

    Groups come in random order; each part takes groups until it has its size, the last one those that are left. Of :data:`ORDERS` orders it
    is the one whose parts come closest to the class shares of all rows. What a part has too many is left out at random, by class.

    Returns
    -------
    list of Int[≤ size]
        Row numbers in random order.

    Raises
    ------
    DataError
        If there are fewer groups than parts.
    """
    values, group = np.unique(np.asarray(groups), return_inverse=True)
    if len(values) < len(sizes):
        raise DataError(f"{name} has {len(values)} groups, and each of {len(sizes)} roles needs its own; give dataset.split=random")
    rows_of_class = np.zeros((len(values), int(y.max()) + 1))
    np.add.at(rows_of_class, (group, y), 1)
    orders = [rng.permutation(len(values)) for _ in range(ORDERS)]
    divided = [np.split(order, _ends(rows_of_class[order].sum(axis=1), sizes)) for order in orders]
    best = divided[int(np.argmin([_unevenness(rows_of_class, each) for each in divided]))]
    parts = []
    for chosen, size in zip(best, sizes, strict=True):
        rows = np.flatnonzero(np.isin(group, chosen))
        (part,) = stratified_parts(y[rows], [min(size, len(rows))], rng)
        parts.append(rows[part])
    return parts


def _ends(n_rows: np.ndarray, sizes: Sequence[int]) -> list[int]:
    """Where each part but the last ends, of groups of Float[g] rows in their order; none is empty, and each has its size if it can."""
    reached, ends, start = np.cumsum(n_rows), [], 0
    for left, size in zip(range(len(sizes) - 1, 0, -1), sizes, strict=False):
        before = reached[start - 1] if start else 0
        stop = int(np.searchsorted(reached, before + size)) + 1
        start = min(max(stop, start + 1), len(n_rows) - left)
        ends.append(start)
    return ends


def _unevenness(rows_of_class: np.ndarray, parts: Sequence[np.ndarray]) -> float:
    """The largest distance, over parts and classes, of a class's share in a part from its share in all rows, in units of the latter."""
    share = rows_of_class.sum(axis=0) / rows_of_class.sum()
    found = np.array([rows_of_class[part].sum(axis=0) / rows_of_class[part].sum() for part in parts])
    return float((np.abs(found - share) / share).max())
