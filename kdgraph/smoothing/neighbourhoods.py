"""Rows that count around each place, and the precision in which distances are computed.

The module holds the kernels, the checked inputs of kernel means, and a bound on the error of
float32 distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Positive, check_value

Kernel = Literal["laplacian", "gaussian"]
"""laplacian: exp(-‖x - x'‖₁ / (d γ)), of Luo et al. (2022), section 3.2; gaussian: exp(-‖x - x'‖² /
(2 d γ²)), of d features.
"""


def check_bandwidths(bandwidths: Sequence[float]) -> None:
    """Raise :class:`ParameterError` unless there is a bandwidth and all are above 0, as γ of Luo et
    al. (2022) is.
    """
    if len(bandwidths) == 0:
        raise ParameterError("bandwidths must hold at least one number above 0, got none")
    for bandwidth in bandwidths:
        check_value("bandwidth", bandwidth, Positive)


def rms_of(X: np.ndarray) -> float:
    """Return the root mean square distance from the mean per dimension of Float[n, d], or 1 if 0.

    Original to kdgraph.

    >>> rms_of(np.array([[0.0, 1.0], [2.0, 1.0]])) == 0.5**0.5
    True
    """
    off = X - X.mean(axis=0)
    unit = 2.0 ** float(
        np.clip(np.frexp(np.abs(off).max(initial=0.0))[1] - 1, -1000, 1000)
    )  # so that squares stay in float64
    off /= unit
    return unit * float(np.sqrt(np.square(off).mean())) or 1.0


EVEN = 1e6
"""Largest ratio of two weights with which float32 is still used: kernel weights below 2^-126 are 0
there, 1e-32 with the weight.
"""


@dataclass(frozen=True)
class LocalMeans:
    """Weighted means around m places at b bandwidths.

    Attributes
    ----------
    mean : Float[b, m], or Float[b, m, v] of values with v columns; NaN where there is no row to
    look at.
    n_eff : Float[b, m], effective sample size (Σw)² / Σw²: how many rows of equal weight would have
        as uncertain a mean (Kish, "Survey sampling", 1965). From 1, where one row has all the
        weight, to the number of rows; NaN where ``mean`` is.
    mass : Float[b, m], the sum of the weights themselves, which falls as the rows are farther away;
        0 where there is none, or so little that float64 has no number for it.
    """

    mean: np.ndarray
    n_eff: np.ndarray
    mass: np.ndarray


@dataclass(frozen=True)
class Neighbourhoods:
    """The rows that count, in order of their label, and which of them each of m places looks at:
    one range of them. Original to kdgraph.

    Attributes
    ----------
    rows : Int[r], positions of the rows, those of equal label one after the other in their own
    order; rows of weight 0 are left out.
    values : Float[r, v] of these rows.
    weight : Float[r] of these rows, above 0 and relative to the largest; Float[0] where all are
    equal.
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
        """Whether weights differ so much (:data:`EVEN`) that a row which float32 has no kernel
        weight for may count for most.
        """
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
    """Sort n rows by label, and look up those of each of m places; original to kdgraph. Parameters
    as of :func:`~kdgraph.smoothing.local_means`.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim not in (1, 2) or len(values) != n or values.shape[1:] == (0,):
        raise DataError(
            f"values must have a number, or a row of numbers, for each of {n} rows, got shape"
            f" {values.shape}"
        )
    if not np.isfinite(values).all():
        raise DataError(
            f"values must be finite, got {values[~np.isfinite(values)][0]:g} among them; leave out"
            " rows that have none"
        )
    if (within is None) != (within_at is None):
        raise DataError(
            "within and within_at go together, got only one of them; label both the rows and the"
            " places"
        )
    if leave_one_out and m != n:
        raise DataError(
            f"leave_one_out needs the rows themselves as places, got {m} places and {n} rows"
        )
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
    return Neighbourhoods(
        rows,
        columns,
        share[rows[:0] if equal else rows],
        unit,
        first,
        last,
        own,
        np.argsort(first, kind="stable"),
    )


def _labels(name: str, labels: np.ndarray | None, n: int) -> np.ndarray:
    """Int[n], zeros where there are no labels."""
    found = np.zeros(n, dtype=np.intp) if labels is None else np.asarray(labels)
    if found.shape != (n,) or found.dtype.kind not in "iub":
        raise DataError(
            f"{name} must be an integer for each of {n} rows, got {found.dtype} of shape"
            f" {found.shape}"
        )
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
        raise DataError(
            f"weight must be finite and not negative, got {found[bad][0]:g} in row"
            f" {np.flatnonzero(bad)[0]} ({bad.sum()} such)"
        )
    unit = float(found.max(initial=0)) or 1.0
    return found / unit, unit


FEATURES_AT_ONCE = 4
"""The loops take four features to a step; the last ones are filled up with zeros, which add nothing
to a distance.
"""
ROUGH = 1e-3
"""Largest relative error of a weight, of all that there could be, with which float32 is still
used.
"""
FAR = 1e100
"""In units of the rows' reach: from this far all rows are equally near in float64, and from farther
away too.
"""
_CHUNK = 2**16


@dataclass(frozen=True)
class Frame:
    """An origin and a unit of feature space, and the precision in which rows are kept there.
    Original to kdgraph.

    Attributes
    ----------
    origin : Float[d].
    unit : a power of two, so that to multiply by it rounds nothing; rows then lie in [-1, 1].
    dtype : float32 or float64.
    """

    origin: np.ndarray
    unit: float
    dtype: type

    @classmethod
    def centred(cls, X: np.ndarray) -> Frame:
        """Of ``X``: Float[n, d] in float32, around its mean: what is near to the mean keeps the
        most digits.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0)
        origin = np.where(np.isfinite(mean), mean, 0.0)
        return cls(
            origin, _unit(max(np.abs(chunk - origin).max() for chunk in _chunks(X))), np.float32
        )

    @classmethod
    def as_it_is(cls, X: np.ndarray) -> Frame:
        """Of ``X``: Float[n, d] in float64, where a difference of two features is rounded once and
        equal differences stay equal.
        """
        return cls(
            np.zeros(X.shape[1]),
            _unit(max(np.abs(chunk).max() for chunk in _chunks(X))),
            np.float64,
        )

    def put(self, rows: np.ndarray) -> np.ndarray:
        """[p, d'] of this precision, d' a multiple of four, of ``rows``: Float[p, d]."""
        p, d = rows.shape
        there = np.zeros((p, -(-d // FEATURES_AT_ONCE) * FEATURES_AT_ONCE), self.dtype)
        far = min(FAR / self.unit, np.finfo(np.float64).max)
        with np.errstate(over="ignore"):
            there[:, :d] = np.clip(rows - self.origin, -far, far) * self.unit
        return there

    def rates(self, bandwidths: np.ndarray, d: int, kernel: Kernel) -> np.ndarray:
        """Float[b], what sums over d features in this frame are multiplied by: 1 / (d γ), or 1 / (2
        d γ²), kept off 0 and infinity.
        """
        power = POWERS[kernel]
        largest = float(np.finfo(self.dtype).max) / 4
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return np.clip(
                1 / (power * d * (bandwidths * self.unit) ** power), 4 / largest, largest
            )


POWERS: dict[Kernel, int] = {"laplacian": 1, "gaussian": 2}
"""Of the differences of features, which are added up."""


def is_rough(
    frame: Frame, at: np.ndarray, X: np.ndarray, bandwidths: np.ndarray, kernel: Kernel
) -> np.ndarray:
    """Bool[b, m]: whether float32 might change a weight between a place ``at``: Float[m, d] and a
    row of ``X`` by over 1 in 1,000.

    The weight exp(-rate · S) of a sum S changes by the rate times the error of S, whose bound is
    :func:`rounding_error`. Original to kdgraph.
    """
    error = rounding_error(frame, at, X, kernel)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return ~(frame.rates(bandwidths, X.shape[1], kernel)[:, None] * error <= ROUGH)


def rounding_error(frame: Frame, at: np.ndarray, X: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Float[m]: how far sums over features in a frame of float32 may be off, of places ``at``:
    Float[m, d] and any row of ``X``. Original to kdgraph.

    To round two features, their difference (and its square), and to add up d of these, four at a
    time, changes Σ |x - x'| by less than u (k + 4) (‖x‖₁ + ‖x'‖₁), and Σ (x - x')² by less than u
    (k + 8) (‖x‖₂ + ‖x'‖₂)², with u = 2⁻²⁴ and k = d/4 + 2 additions one after the other. Infinite
    where a place is so far that squares might leave float32.
    """
    power = POWERS[kernel]
    size = _sizes(at, frame, power)
    with np.errstate(over="ignore"):
        error = (
            2.0**-24
            * (X.shape[1] / FEATURES_AT_ONCE + 2 + 4 * power)
            * (size + _sizes(X, frame, power).max()) ** power
        )
    return np.where(size < 1e15, error, np.inf)


def _sizes(rows: np.ndarray, frame: Frame, power: int) -> np.ndarray:
    """Float[p], ‖x‖₁ or ‖x‖₂ in the frame."""
    with np.errstate(over="ignore"):
        return np.concatenate(
            [
                np.linalg.norm((chunk - frame.origin) * frame.unit, ord=power, axis=1)
                for chunk in _chunks(rows)
            ]
        )


def _unit(reach: float) -> float:
    """The power of two that takes ``reach`` to [1/2, 1), as far as float64 has one."""
    return 2.0 ** -float(np.clip(np.frexp(reach)[1], -1000, 1000))


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Some rows at a time, so that nothing of the size of all is made."""
    step = max(1, _CHUNK // max(rows.shape[1], 1))
    return (rows[start : start + step] for start in range(0, max(len(rows), 1), step))
