"""Rows like the training rows: of their shape and type, numbers apart from categories, from generators that do not depend on each other."""

from __future__ import annotations

import math

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError


def n_features_of(train: Dataset) -> int:
    """Numbers in a row: of an image, its pixels times its channels; categories are none."""
    n = math.prod(train.X.shape[1:]) - int(train.is_categorical.sum())
    if not n:
        raise DataError(f"{train.name} has no numeric feature, and these rows out of distribution are points in space; give ood=none")
    return n


def numbers_of(train: Dataset) -> np.ndarray:
    """Float[n, d]: the training rows as flat vectors, without categories; a missing value is its feature's mean."""
    if not train.needs_encoding:
        return train.X.reshape(len(train.X), -1)
    X = train.X[:, ~train.is_categorical]
    known = ~np.isnan(X)
    mean = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, X, mean)


def like_rows_of(train: Dataset, X: np.ndarray, seed: int) -> np.ndarray:
    """Rows X: Float64[n, d] of numbers as rows of the shape and type of ``train``'s; what an image cannot hold is not cut off.

    ``seed`` decides from which training rows categories are taken.
    """
    if train.are_images:
        return X.reshape(len(X), *train.X.shape[1:]).astype(train.X.dtype, copy=False)
    if not train.is_categorical.any():
        return X
    rows = train.X[np.random.default_rng(seed).integers(len(train.X), size=len(X))]
    rows[:, ~train.is_categorical] = X
    return rows


def a_seed(rng: np.random.Generator) -> int:
    """Another generator's seed."""
    return int(rng.integers(2**63))


def generator_of(family: int, value: float, *more: int) -> np.random.Generator:
    """The generator of one set of a family: made from its value, not from its place among the others."""
    return np.random.default_rng([family, *more, int(np.float64(value).view(np.uint64))])


def largest_norm(X: np.ndarray, rows_at_a_time: int = 256) -> float:
    """The largest L2 norm of the rows of X: Float[n, …], in float64, some rows at a time: images are held in float32."""
    flat = X.reshape(len(X), -1)
    blocks = (flat[start : start + rows_at_a_time].astype(np.float64) for start in range(0, len(flat), rows_at_a_time))
    return max(float(np.linalg.norm(block, axis=1).max()) for block in blocks)
