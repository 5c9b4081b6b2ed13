"""Neighbourhoods of query points, and the precision in which their distances are computed.

The module contains the kernels, the validated inputs of kernel means, and a bound on the error of
float32 distances, which is original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Positive, check_value

Kernel = Literal["laplacian", "gaussian"]
"""Kernel of two rows x and x' with d features, at bandwidth γ.

laplacian: exp(-‖x - x'‖₁ / (d γ)), of Luo et al. (2022), section 3.2; gaussian: exp(-‖x - x'‖² /
(2 d γ²)).
"""


def check_bandwidths(bandwidths: Sequence[float]) -> None:
    """Raise an error unless there is a bandwidth and all are above 0.

    Parameters
    ----------
    bandwidths : sequence of float
        Bandwidths γ of a kernel (Luo et al., 2022, section 3.2).

    Raises
    ------
    ParameterError
        If there is no bandwidth, or one that is not above 0.

    Examples
    --------
    >>> check_bandwidths([0.1, 0.0])
    Traceback (most recent call last):
    kdgraph.errors.ParameterError: bandwidth must be in (0, inf), got 0.0
    """
    if len(bandwidths) == 0:
        raise ParameterError("bandwidths must hold at least one number above 0, got none")
    for bandwidth in bandwidths:
        check_value("bandwidth", bandwidth, Positive)


def rms_of(X: np.ndarray) -> float:
    """Return the root mean square deviation from the mean per feature, or 1 if it is 0.

    It is a unit of length for bandwidths.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.

    Examples
    --------
    >>> rms_of(np.array([[0.0, 1.0], [2.0, 1.0]])) == 0.5**0.5
    True
    """
    deviation = X - X.mean(axis=0)
    # Deviations are divided by a power of two, so that their squares stay in the range of float64.
    unit = 2.0 ** float(np.clip(np.frexp(np.abs(deviation).max(initial=0.0))[1] - 1, -1000, 1000))
    deviation /= unit
    return unit * float(np.sqrt(np.square(deviation).mean())) or 1.0


MAX_WEIGHT_RATIO = 1e6
"""Largest ratio of two weights with which float32 is used.

Kernel weights below 2^-126 are 0 in float32: about 1e-32 with a weight of 1e6 on top.
"""


@dataclass(frozen=True)
class LocalMeans:
    """Weighted means around m query points at b bandwidths.

    Attributes
    ----------
    mean : ndarray of shape (b, m) or (b, m, v)
        Means, with a last axis if values have v columns; NaN if a query point has no row.
    n_eff : ndarray of shape (b, m)
        Effective sample size (Σw)² / Σw², the number of rows of equal weight whose mean would be as
        uncertain (Kish, "Survey sampling", 1965). From 1, if one row has all the weight, to the
        number of rows; NaN if ``mean`` is NaN.
    mass : ndarray of shape (b, m)
        Sum of the weights, which decreases with the distance of the rows; 0 if there is no row or
        if the sum underflows.

    Examples
    --------
    >>> from kdgraph.smoothing import local_means
    >>> means = local_means([[0.0], [9.0]], [[0.0], [0.0]], [1.0, 3.0], bandwidths=[1.0])
    >>> means.mean.tolist(), means.n_eff.tolist(), means.mass.round(4).tolist()
    ([[2.0, 2.0]], [[2.0, 2.0]], [[2.0, 0.0002]])
    """

    mean: np.ndarray
    n_eff: np.ndarray
    mass: np.ndarray


@dataclass(frozen=True)
class Neighbourhoods:
    """Rows with positive weight, sorted by label, and the range of them of each query point."""

    rows: np.ndarray  # [r], positions; those of a label are contiguous and keep their order
    values: np.ndarray  # [r, v]
    weight: np.ndarray  # [r], relative to the largest, in (0, 1]; empty if all are equal
    weight_unit: float  # the largest weight
    first: np.ndarray  # [m]; the neighbourhood of a query point is rows[first:last]
    last: np.ndarray
    own: np.ndarray  # [m], position in ``rows`` of the query point, which is left out, or -1
    order: np.ndarray  # [m], query points sorted by neighbourhood

    @property
    def isolated(self) -> np.ndarray:
        """True for query points without a row in their neighbourhood, Bool[m]."""
        return self.last - self.first <= (self.own >= 0)

    @property
    def has_uneven_weights(self) -> bool:
        """True if two weights differ by more than a factor of :data:`MAX_WEIGHT_RATIO`.

        A row whose kernel weight underflows in float32 may then have the largest product of both.
        """
        return bool((self.weight < 1 / MAX_WEIGHT_RATIO).any())


def build_neighbourhoods(
    m: int,
    n: int,
    values: np.ndarray,
    *,
    within_at: np.ndarray | None,
    within: np.ndarray | None,
    weight: np.ndarray | None,
    leave_one_out: bool,
) -> Neighbourhoods:
    """Validate the inputs of :func:`~kdgraph.smoothing.local_means`, and sort the rows by label."""
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
            " query points"
        )
    if leave_one_out and m != n:
        raise DataError(
            f"leave_one_out needs the rows themselves as query points, got {m} query points and {n}"
            " rows"
        )
    labels = _check_labels("within", within, n)
    relative_weight, weight_unit = _check_weights(weight, n)
    # Rows are sorted by label, with their order kept within a label. The rows of a label are then
    # one range, which the compiled loops read without an index.
    with_weight = np.flatnonzero(relative_weight)
    rows = with_weight[np.argsort(labels[with_weight], kind="stable")]
    query_labels = _check_labels("within_at", within_at, m)
    first, last = (
        np.searchsorted(labels[rows], query_labels, side=side) for side in ("left", "right")
    )
    own = np.full(m, -1)
    if leave_one_out:
        own[rows] = np.arange(len(rows))
        own[(own < first) | (own >= last)] = -1
    is_equal = bool((relative_weight[rows] == 1).all())
    columns = (values if values.ndim == 2 else values[:, None])[rows]
    return Neighbourhoods(
        rows,
        columns,
        relative_weight[rows[:0] if is_equal else rows],
        weight_unit,
        first,
        last,
        own,
        np.argsort(first, kind="stable"),
    )


def _check_labels(name: str, labels: np.ndarray | None, n: int) -> np.ndarray:
    """Return validated integer labels, Int[n], or zeros if there are none."""
    checked = np.zeros(n, dtype=np.intp) if labels is None else np.asarray(labels)
    if checked.shape != (n,) or checked.dtype.kind not in "iub":
        raise DataError(
            f"{name} must be an integer for each of {n} rows, got {checked.dtype} of shape"
            f" {checked.shape}"
        )
    return checked


def _check_weights(weight: np.ndarray | None, n: int) -> tuple[np.ndarray, float]:
    """Return weights relative to the largest, Float[n], and the largest; ones if there are none."""
    if weight is None:
        return np.ones(n), 1.0
    checked = np.asarray(weight, dtype=np.float64)
    if checked.shape != (n,):
        raise DataError(f"weight must be a number for each of {n} rows, got shape {checked.shape}")
    invalid = ~(np.isfinite(checked) & (checked >= 0))
    if invalid.any():
        raise DataError(
            f"weight must be finite and not negative, got {checked[invalid][0]:g} in row"
            f" {np.flatnonzero(invalid)[0]} ({invalid.sum()} such)"
        )
    unit = float(checked.max(initial=0)) or 1.0
    return checked / unit, unit


FEATURES_PER_STEP = 4
"""Number of features in a step of the compiled loops.

The last step is filled up with zeros, which add nothing to a distance.
"""
MAX_RELATIVE_ERROR = 1e-3
"""Largest possible relative error of a weight with which float32 is used."""
MAX_COORDINATE = 1e100
"""Coordinates are clipped to this, in units of the extent of the rows.

From there on, all rows are at the same distance in float64.
"""
_CHUNK_SIZE = 2**16


@dataclass(frozen=True)
class Frame:
    """Origin, scale and precision of the coordinates of rows."""

    origin: np.ndarray  # [d], subtracted from rows
    scale: float  # brings all rows into [-1, 1]; a power of two, so that products are not rounded
    dtype: type  # float32 or float64

    @classmethod
    def centred(cls, X: np.ndarray) -> Frame:
        """Return the frame in float32 around the mean of X (Float[n, d]).

        Rows close to the mean then keep most digits.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0)
        origin = np.where(np.isfinite(mean), mean, 0.0)
        extent = max(np.abs(chunk - origin).max() for chunk in _chunks(X))
        return cls(origin, _inverse_power_of_two(extent), np.float32)

    @classmethod
    def uncentred(cls, X: np.ndarray) -> Frame:
        """Return the frame in float64 around 0 for X (Float[n, d]).

        A difference of two features is rounded only once, so equal differences stay equal.
        """
        extent = max(np.abs(chunk).max() for chunk in _chunks(X))
        return cls(np.zeros(X.shape[1]), _inverse_power_of_two(extent), np.float64)

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates of rows (Float[p, d]), padded to a multiple of four features."""
        p, d = rows.shape
        coordinates = np.zeros((p, -(-d // FEATURES_PER_STEP) * FEATURES_PER_STEP), self.dtype)
        limit = min(MAX_COORDINATE / self.scale, np.finfo(np.float64).max)
        with np.errstate(over="ignore"):
            coordinates[:, :d] = np.clip(rows - self.origin, -limit, limit) * self.scale
        return coordinates

    def rates(self, bandwidths: np.ndarray, d: int, kernel: Kernel) -> np.ndarray:
        """Return the factors of sums over d coordinates in the exponent of a kernel, Float[b].

        They are 1 / (d γ) or 1 / (2 d γ²), clipped to positive finite numbers.
        """
        power = POWERS[kernel]
        largest = float(np.finfo(self.dtype).max) / 4
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return np.clip(
                1 / (power * d * (bandwidths * self.scale) ** power), 4 / largest, largest
            )


POWERS: dict[Kernel, int] = {"laplacian": 1, "gaussian": 2}
"""Powers of the differences of features, whose sum is the distance."""


def needs_float64(
    frame: Frame, at: np.ndarray, X: np.ndarray, bandwidths: np.ndarray, kernel: Kernel
) -> np.ndarray:
    """Return True where float32 could change a weight by more than MAX_RELATIVE_ERROR, Bool[b, m].

    The weight exp(-rate · S) of a sum S changes by the rate times the error of S, whose bound is
    :func:`rounding_error`.
    """
    error = rounding_error(frame, at, X, kernel)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # The comparison is negated, so that NaN gives True.
        return ~(frame.rates(bandwidths, X.shape[1], kernel)[:, None] * error <= MAX_RELATIVE_ERROR)


def rounding_error(frame: Frame, at: np.ndarray, X: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Return a bound on the error of sums over features in a frame of float32, Float[m].

    It is infinite for query points so far away that squares might exceed float32.

    Rounding two features, their difference (and its square), and d sums of these in steps of four,
    changes Σ |x - x'| by less than u (k + 4) (‖x‖₁ + ‖x'‖₁), and Σ (x - x')² by less than u (k + 8)
    (‖x‖₂ + ‖x'‖₂)², with u = 2⁻²⁴ and k = d/4 + 2 consecutive additions.
    """
    power = POWERS[kernel]
    norm = _norms(at, frame, power)
    with np.errstate(over="ignore"):
        error = (
            2.0**-24
            * (X.shape[1] / FEATURES_PER_STEP + 2 + 4 * power)
            * (norm + _norms(X, frame, power).max()) ** power
        )
    return np.where(norm < 1e15, error, np.inf)


def _norms(rows: np.ndarray, frame: Frame, power: int) -> np.ndarray:
    """Return ‖x‖₁ or ‖x‖₂ of rows in the frame, Float[p]."""
    with np.errstate(over="ignore"):
        return np.concatenate(
            [
                np.linalg.norm((chunk - frame.origin) * frame.scale, ord=power, axis=1)
                for chunk in _chunks(rows)
            ]
        )


def _inverse_power_of_two(extent: float) -> float:
    """Return the power of two whose product with ``extent`` is in [1/2, 1), clipped to 2^±1000."""
    return 2.0 ** -float(np.clip(np.frexp(extent)[1], -1000, 1000))


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield consecutive rows in chunks, so that temporary arrays stay small."""
    step = max(1, _CHUNK_SIZE // max(rows.shape[1], 1))
    return (rows[start : start + step] for start in range(0, max(len(rows), 1), step))
