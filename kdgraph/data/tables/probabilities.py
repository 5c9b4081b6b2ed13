"""Scores of classes as probabilities: rows that sum to 1 as far as their printed decimals can, or the softmax of logits."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np

from kdgraph.errors import DataError
from kdgraph.overrides import override

ScoreKind = Literal["probabilities", "logits"]
SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may be from summing to 1, however many decimals it has; it is divided by its sum."""
MOST_TOLERANCE = 0.5
"""The same of probabilities of few decimals and many classes, whose sum says little."""
PERCENT_TOLERANCE = 0.02
"""How far, as a share, sums of rows may be from 100 to be taken for sums of percent."""
_DECIMALS = range(2, 8)
"""Printed decimals that are looked for; of more, it takes 20,000 classes for a sum to be off by :data:`SUM_TOLERANCE`."""


def probabilities_of(where: str, scores: np.ndarray, kind: ScoreKind, start: int = 0, way_out: str | None = None) -> np.ndarray:
    """Return the class probabilities of each row.

    Parameters
    ----------
    where : name of the data set or file, for messages.
    scores : Float[n, K], finite.
    kind : "probabilities" are divided by their sum, of "logits" the softmax is taken.
    start : number of the first row, for messages.
    way_out : what messages advise; None: what the scores look like decides.

    Returns
    -------
    Float64[n, K]
        Rows sum to 1.

    Raises
    ------
    DataError
        If rows are no probabilities: one is below 0, or the sum is further from 1 than
        :func:`sum_tolerance`.
    """
    if kind == "logits":
        from scipy.special import softmax

        return softmax(scores.astype(np.float64), axis=1)
    tolerance = sum_tolerance(scores)
    scores = scores.astype(np.float64)
    sums = scores.sum(axis=1)
    if len(bad := _improper(scores, sums, tolerance)):
        row = bad[0]
        found = f"row {start + row} has sum {sums[row]:.6g} and least score {scores[row].min():.6g} ({len(bad):,} such)"
        rule = f"probabilities must be at least 0 and sum to 1 within {tolerance:.2g}"
        raise DataError(f"{where}: {rule}, {found}; {way_out or _way_out(scores, sums)}")
    return scores / sums[:, None]


def warn_of_softmax(name: str, scores: np.ndarray) -> None:
    """Warn where logits, Float[n, K], are probabilities already: their softmax is other numbers."""
    wide = scores.astype(np.float64)
    if len(scores) and not len(_improper(wide, wide.sum(axis=1), sum_tolerance(scores))):
        way_out = override("dataset.kind", "probabilities")
        found = "each row of the scores is at least 0 and sums to 1, as probabilities do"
        warnings.warn(f"{name}: {found}, and the softmax of them is taken; give {way_out}", stacklevel=2)


def _improper(scores: np.ndarray, sums: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the rows that are no probabilities, Int[m]."""
    return np.flatnonzero((scores.min(axis=1) < 0) | ~(np.abs(sums - 1) <= tolerance))


def sum_tolerance(scores: np.ndarray) -> float:
    """Return how far the sum of a row of printed probabilities may be from 1; ours.

    K numbers that are rounded to d decimals are each off by at most half a unit of the last one, so their sum
    is off by at most K · 0.5 · 10⁻ᵈ, and by the rounding of doubles, some units of 2⁻⁵² for each of them.

    Parameters
    ----------
    scores : Float[n, K], of any precision; d is the least number of decimals, from 2, that all of them have.

    Returns
    -------
    float
        At least :data:`SUM_TOLERANCE`, at most :data:`MOST_TOLERANCE`.

    Examples
    --------
    >>> round(sum_tolerance(np.array([[0.333, 0.333, 0.333], [0.5, 0.25, 0.25]])), 6)
    0.0015
    >>> round(sum_tolerance(np.array([[1 / 3, 1 / 3, 1 / 3]])), 6)
    0.001
    """
    n_classes = scores.shape[1]
    # A float32 is as near to a decimal as its own precision allows, not as that of doubles.
    precision = 4 * np.finfo(scores.dtype).eps if scores.dtype.kind == "f" else 0.0
    wide = scores.astype(np.float64)
    tolerance = SUM_TOLERANCE
    for decimals in _DECIMALS:
        if (np.abs(np.round(wide, decimals) - wide) <= precision * np.abs(wide)).all():
            tolerance = max(tolerance, n_classes * 0.5 * 10.0**-decimals)
            break
    return float(min(tolerance, MOST_TOLERANCE) + 4 * n_classes * np.finfo(np.float64).eps)


def _way_out(scores: np.ndarray, sums: np.ndarray) -> str:
    """Return what to do about scores that are no probabilities; ``sums``: [n] of their rows."""
    if scores.min() < 0:
        return f"if they are logits: {override('dataset.kind', 'logits')}"
    if scores.max() <= 1:
        return "divide each row by its sum, or save more decimals"
    if (np.abs(sums / 100 - 1) <= PERCENT_TOLERANCE).all():
        return "if they are percent, divide them by 100"
    return f"divide each row by its sum, or if they are logits: {override('dataset.kind', 'logits')}"
