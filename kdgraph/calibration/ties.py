"""Comparison of scores up to rounding, so that a step of a calibration curve never separates equal scores."""

from __future__ import annotations

import numpy as np

SAME = 1e-13
"""Scores in [0, 1] that differ by at most this much count as equal.

A matrix product adds in an order that depends on the CPU and on a row's place in its block, so two equal rows can have scores that differ
in the last bits (by up to 6e-16 behind a logistic regression of 37 features). Where a curve has a step at a score of a calibration row, the
last bit would decide between two sides that may be .4 apart.
"""


def distinct(score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct scores in rising order, Float[m], and the position among them of each of Float[n], Int[n].

    As ``numpy.unique`` with ``return_inverse``, with scores that are at most :data:`SAME` apart taken as one, the lowest of them. Ours.

    >>> distinct(np.array([0.5, 0.1 + 0.2, 0.3]))
    (array([0.3, 0.5]), array([1, 0, 0]))
    """
    order = np.argsort(score, kind="stable")
    rising = np.asarray(score, dtype=np.float64)[order]
    first = np.diff(rising, prepend=-np.inf) > SAME
    position = np.empty(len(rising), dtype=np.intp)
    position[order] = np.cumsum(first) - 1
    return rising[first], position


def first_from(knots: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return for each score the position of the lowest knot that is as high or higher, Int[n]; the number of knots above them all.

    ``knots``: Float[m], rising; ``score``: Float[n]. Ours.
    """
    return np.searchsorted(knots, score - SAME, side="left")


def first_above(knots: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return for each score the position of the lowest knot that is higher, Int[n], as :func:`first_from`. Ours."""
    return np.searchsorted(knots, score + SAME, side="right")
