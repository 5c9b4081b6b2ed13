"""Rows divided so that those of one group stay together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdgraph.data.stratify import stratified_parts
from kdgraph.errors import DataError

ORDERS = 50
"""Random orders of the groups that are tried: with one, a class of a few large groups is missing from a part now and then."""


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
        raise DataError(f"{name} has {len(values)} groups, and each of {len(sizes)} roles needs its own; give split=random")
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
