"""Seeded predictions on which binning rules disagree, and predictions of four classes."""

from __future__ import annotations

import numpy as np

N = 10_000


def two_classes(name: str, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return y, Int[n], and proba, Float[n, 2], whose first class is always predicted.

    The accuracy is above the confidence in every other bin and below it in the bins between. A row
    in another bin then changes the gaps; if all gaps had one sign, binning rules would not differ.
    """
    rng = np.random.default_rng(0)
    c = 0.5 + rng.random(N) / 2
    if name == "votes":
        c = np.floor(101 * c) / 100  # votes of a hundred trees
    accuracy = c + np.where(np.ceil(c * bins) % 2 == 0, 0.07, -0.07)
    if name == "atom":
        is_one = rng.random(N) < 0.5
        c = np.where(is_one, 1.0, 0.94 + 0.04 * (c - 0.5))
        accuracy = np.where(is_one, 0.92, 0.995)
    y = (rng.random(N) >= accuracy).astype(int)
    return y, np.stack([c, 1 - c], axis=1)


def four_classes() -> tuple[np.ndarray, np.ndarray]:
    """Return y, Int[6000], and proba, Float[6000, 4].

    Predictions of classes 0 and 1 are overconfident, those of the others underconfident. Each class
    is predicted for 1,500 rows, so means over classes and over rows are equal.
    """
    rng, n = np.random.default_rng(1), 6000
    proba = -(np.sort(np.log(rng.random((n, 4))), axis=1)[:, ::-1] ** 2)
    proba /= proba.sum(axis=1, keepdims=True)
    proba = -np.sort(-proba, axis=1)
    power = np.where(np.arange(n) % 4 < 2, 0.8, 1.25)[:, None]
    posterior = proba**power / (proba**power).sum(axis=1, keepdims=True)
    y = (posterior.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    shift = np.arange(n) % 4
    return (y + shift) % 4, np.take_along_axis(proba, (np.arange(4) - shift[:, None]) % 4, axis=1)
