"""Rows divided so that every part has each class in its share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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
