"""Predictions on which binning rules disagree, from a seed, and some of several classes."""

from __future__ import annotations

import numpy as np

N = 10_000


def two_classes(name: str, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """y, Int[n], and proba, Float[n, 2], whose first class is always predicted.

    The share right is above the confidence in every other bin and below it in those between, so
    that a row in another bin changes its gap: where all gaps have one sign, no rule of binning
    shows.
    """
    rng = np.random.default_rng(0)
    c = 0.5 + rng.random(N) / 2
    if name == "votes":
        c = np.floor(101 * c) / 100  # of a hundred trees
    right_as_often = c + np.where(np.ceil(c * bins) % 2 == 0, 0.07, -0.07)
    if name == "atom":
        at_one = rng.random(N) < 0.5
        c = np.where(at_one, 1.0, 0.94 + 0.04 * (c - 0.5))
        right_as_often = np.where(at_one, 0.92, 0.995)
    y = (rng.random(N) >= right_as_often).astype(int)
    return y, np.stack([c, 1 - c], axis=1)


def four_classes() -> tuple[np.ndarray, np.ndarray]:
    """y, Int[6000], and proba, Float[6000, 4], too sure of the classes 0 and 1, and not sure enough
    of the others.

    Each class is predicted for 1,500 rows: means over classes and over rows are the same.
    """
    rng, n = np.random.default_rng(1), 6000
    proba = -(np.sort(np.log(rng.random((n, 4))), axis=1)[:, ::-1] ** 2)
    proba /= proba.sum(axis=1, keepdims=True)
    proba = -np.sort(-proba, axis=1)
    power = np.where(np.arange(n) % 4 < 2, 0.8, 1.25)[:, None]
    true = proba**power / (proba**power).sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    shift = np.arange(n) % 4
    return (y + shift) % 4, np.take_along_axis(proba, (np.arange(4) - shift[:, None]) % 4, axis=1)
