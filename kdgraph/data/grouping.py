"""Rows divided so that those of one group stay together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdgraph.data.stratify import stratified_parts
from kdgraph.errors import DataError


def grouped_parts(name: str, y: np.ndarray, groups: np.ndarray | None, sizes: Sequence[int], rng: np.random.Generator) -> list[np.ndarray]:
    """Disjoint parts of the rows with classes y: Int[n] and groups: Int[n], of at most ``sizes`` rows, no group in two of them.

    Groups come in random order; each part takes groups until it has its size, the last one those that are left. What a part has too many
    is left out at random, by class.

    Returns
    -------
    list of Int[≤ size]
        Row numbers in random order.

    Raises
    ------
    DataError
        If there are fewer groups than parts, or none is left for the last part.
    """
    values, group = np.unique(np.asarray(groups), return_inverse=True)
    if len(values) < len(sizes):
        raise DataError(f"{name} has {len(values)} groups, and each of {len(sizes)} roles needs its own; give split=random")
    order = rng.permutation(len(values))
    ends = np.cumsum(np.bincount(group)[order])
    parts, start = [], 0
    for position, size in enumerate(sizes):
        left = len(sizes) - position - 1
        reached = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + size)) + 1
        stop = min(max(reached, start + 1), len(values) - left) if left else len(values)
        rows = np.flatnonzero(np.isin(group, order[start:stop]))
        (chosen,) = stratified_parts(y[rows], [min(size, len(rows))], rng)
        parts.append(rows[chosen])
        start = stop
    return parts
