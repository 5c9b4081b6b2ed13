"""Rows that are held out of a fit, drawn by class. Original to kdgraph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from kdgraph.errors import DataError


def hold_rows_out(
    n_samples: int, strata: np.ndarray | None, size: float, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the rows of a fit, Int[n - m], and of those held out, Int[m].

    ``strata``, Int[n], are the classes of the rows, from 0; None to draw from all rows alike.
    ``size`` is the fraction of the rows to hold out. DataError is raised if no row can be held out,
    because there are fewer than two, or because every class has a single one, which the fit needs.

    The draw is that of scikit-learn's ``train_test_split``, where each class has a row on both
    sides; a class of one row is in the fit. With more classes than rows to hold out, classes give
    their rows in turn, by the fraction of their rows that they have given, and each keeps one. For
    100 classes of two to four rows, and parents behind temperature scaling or a density gate, NLL
    on new rows was about that of a row held out of every class, or lower; it was higher where all
    rows but one of each class were drawn alike.
    """
    if n_samples < 2:
        raise DataError(
            f"no row can be held out of n_samples={n_samples}, which the fit needs; pass more rows,"
            " or X_calibration and y_calibration"
        )
    rows = np.arange(n_samples)
    if strata is None:
        train, held_out = train_test_split(rows, test_size=size, random_state=random_state)
        return train, held_out
    counts = np.bincount(strata)
    divisible, n_strata = rows[counts[strata] > 1], int((counts > 1).sum())
    if not n_strata:
        raise DataError(
            f"no row can be held out of {n_samples} rows of as many classes, which the fit needs;"
            " pass more rows of a class, or X_calibration and y_calibration"
        )
    n_held_out = math.ceil(size * len(divisible))
    if n_strata <= min(n_held_out, len(divisible) - n_held_out):
        train, held_out = train_test_split(
            divisible, test_size=size, stratify=strata[divisible], random_state=random_state
        )
        return np.concatenate([train, rows[counts[strata] == 1]]), held_out
    held_out = _draw_in_turn(strata, n_held_out, random_state)
    return np.setdiff1d(rows, held_out), held_out


def _draw_in_turn(strata: np.ndarray, n_held_out: int, random_state: Any) -> np.ndarray:
    """Return rows, Int[m], that classes give in turn until each has one left."""
    order = check_random_state(random_state).permutation(len(strata))
    counts, turn = np.bincount(strata), np.empty(len(strata), dtype=np.intp)
    by_class = order[np.argsort(strata[order], kind="stable")]
    turn[by_class] = np.arange(len(strata)) - np.repeat(np.cumsum(counts) - counts, counts)
    fraction = (turn + 1) / counts[strata]
    given = order[turn[order] < counts[strata[order]] - 1]
    return given[np.argsort(fraction[given], kind="stable")][:n_held_out]
