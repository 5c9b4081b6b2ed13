"""What is found around a place, and which rows are looked at from there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.errors import DataError

EVEN = 1e6
"""Largest ratio of two weights with which float32 is still used: kernel weights below 2^-126 are 0 there, 1e-32 with the weight."""


@dataclass(frozen=True)
class LocalMeans:
    """Weighted means around m places at b bandwidths.

    Attributes
    ----------
    mean : Float[b, m], or Float[b, m, v] of values with v columns; NaN where there is no row to look at.
    n_eff : Float[b, m], effective sample size (Σw)² / Σw²: how many rows of equal weight would have as uncertain a mean (Kish,
        "Survey sampling", 1965). From 1, where one row has all the weight, to the number of rows; NaN where ``mean`` is.
    mass : Float[b, m], the sum of the weights themselves, which falls as the rows are farther away; 0 where there is none, or so little
        that float64 has no number for it.
    """

    mean: np.ndarray
    n_eff: np.ndarray
    mass: np.ndarray


@dataclass(frozen=True)
class Neighbourhoods:
    """The rows that count, in order of their label, and which of them each of m places looks at: one range of them. Ours.

    Attributes
    ----------
    rows : Int[r], positions of the rows, those of equal label one after the other in their own order; rows of weight 0 are left out.
    values : Float[r, v] of these rows.
    weight : Float[r] of these rows, above 0 and relative to the largest; Float[0] where all are equal.
    unit : the largest weight.
    first, last : Int[m], a place looks at ``rows[first:last]``.
    own : Int[m], where among ``rows`` the place itself is, to be left out; -1 where it is not.
    order : Int[m], the places sorted by what they look at.
    """

    rows: np.ndarray
    values: np.ndarray
    weight: np.ndarray
    unit: float
    first: np.ndarray
    last: np.ndarray
    own: np.ndarray
    order: np.ndarray

    @property
    def alone(self) -> np.ndarray:
        """Bool[m]: places from which there is no row to look at."""
        return self.last - self.first <= (self.own >= 0)

    @property
    def uneven(self) -> bool:
        """Whether weights differ so much (:data:`EVEN`) that a row which float32 has no kernel weight for may count for most."""
        return bool((self.weight < 1 / EVEN).any())


def neighbourhoods(
    m: int,
    n: int,
    values: np.ndarray,
    *,
    within_at: np.ndarray | None,
    within: np.ndarray | None,
    weight: np.ndarray | None,
    leave_one_out: bool,
) -> Neighbourhoods:
    """Sort n rows by label, and look up those of each of m places; ours. Parameters as of :func:`~kdgraph.smoothing.local_means`."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != n or values.shape[1:] == (0,):
        raise DataError(f"values must have a number, or a row of numbers, for each of {n} rows, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise DataError(f"values must be finite, got {values[~np.isfinite(values)][0]:g} among them; leave out rows that have none")
    if (within is None) != (within_at is None):
        raise DataError("within and within_at go together, got only one of them; label both the rows and the places")
    if leave_one_out and m != n:
        raise DataError(f"leave_one_out needs the rows themselves as places, got {m} places and {n} rows")
    label = _labels("within", within, n)
    share, unit = _weights(weight, n)
    counts = np.flatnonzero(share)
    rows = counts[np.argsort(label[counts], kind="stable")]
    label_at = _labels("within_at", within_at, m)
    first, last = (np.searchsorted(label[rows], label_at, side=side) for side in ("left", "right"))
    own = np.full(m, -1)
    if leave_one_out:
        own[rows] = np.arange(len(rows))
        own[(own < first) | (own >= last)] = -1
    equal = bool((share[rows] == 1).all())
    columns = (values if values.ndim == 2 else values[:, None])[rows]
    return Neighbourhoods(rows, columns, share[rows[:0] if equal else rows], unit, first, last, own, np.argsort(first, kind="stable"))


def _labels(name: str, labels: np.ndarray | None, n: int) -> np.ndarray:
    """Int[n], zeros where there are no labels."""
    found = np.zeros(n, dtype=np.intp) if labels is None else np.asarray(labels)
    if found.shape != (n,) or found.dtype.kind not in "iub":
        raise DataError(f"{name} must be an integer for each of {n} rows, got {found.dtype} of shape {found.shape}")
    return found


def _weights(weight: np.ndarray | None, n: int) -> tuple[np.ndarray, float]:
    """Float[n] relative to the largest, and the largest; ones where there are no weights."""
    if weight is None:
        return np.ones(n), 1.0
    found = np.asarray(weight, dtype=np.float64)
    if found.shape != (n,):
        raise DataError(f"weight must be a number for each of {n} rows, got shape {found.shape}")
    bad = ~(np.isfinite(found) & (found >= 0))
    if bad.any():
        raise DataError(f"weight must be finite and not negative, got {found[bad][0]:g} in row {np.flatnonzero(bad)[0]} ({bad.sum()} such)")
    unit = float(found.max(initial=0)) or 1.0
    return found / unit, unit
