"""Is the stated confidence right here? Local calibration error (LCE): among rows of like confidence that are near in feature space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import DataError
from kdgraph.metrics.calibration import bin_of, reliability_bins
from kdgraph.metrics.local.kernel import check_bandwidths, local_means, rms_of
from kdgraph.metrics.shared import Itself, kept
from kdgraph.metrics.top_label import TopLabel
from kdgraph.parameters import Count, Positive, check_value

Scale = Literal["rms", "none"]


@dataclass(frozen=True)
class LocalErrors:
    """The local calibration error of n rows at b bandwidths (Luo et al., 2022, Eq. 4 and 7), and what it rests on.

    Attributes
    ----------
    slce : Float[b, n] in [-1, 1], signed: above 0 the model is too sure around a row, below 0 not sure enough. NaN for a row without
        neighbours, which only ``leave_one_out`` leaves alone.
    n_eff : Float[b, n], effective number of rows behind it; NaN where ``slce`` is.
    count : Int[n], rows in the row's bin of confidence.
    """

    slce: np.ndarray
    n_eff: np.ndarray
    count: np.ndarray

    def counted(self, min_count: int) -> np.ndarray:
        """Bool[n]: rows with an error, and with at least ``min_count`` rows in their bin."""
        return (self.count >= min_count) & ~np.isnan(self.slce[0])


def local_errors(
    confidence: np.ndarray,
    correct: np.ndarray,
    X: np.ndarray,
    *,
    bandwidths: Sequence[Positive] = (0.2,),
    bins: Count = 15,
    scale: Scale = "rms",
    leave_one_out: bool = False,
) -> LocalErrors:
    """Average confidence minus correctness around each row, over the rows in its own bin of confidence.

    Parameters
    ----------
    confidence : Float[n] in [0, 1], of the predicted class.
    correct : Bool[n], whether the predicted class is the label.
    X : Float[n, d] or Float[n, ...], features; images are taken as vectors of their pixels. Distances between positions of categories
        mean nothing: encode them first.
    bandwidths : γ, how far "near" goes.
    bins : equal-width bins of confidence over [0, 1], ``(lower, upper]``, as of :func:`~kdgraph.metrics.ece`.
    scale : what a bandwidth is a multiple of. "rms": the features' root mean square distance from their mean, per dimension, over these
        rows: one number, so the shape of the space stays and its units do not matter. "none": the features' own units, as in the paper.
    leave_one_out : leave each row out of its own neighbourhood; without that an error at small γ is mostly the row's own.

    Raises
    ------
    ParameterError
        A bandwidth or a number of bins out of range, or no such scale.
    ValueError
        Shapes that differ, a confidence outside [0, 1]; as DataError, X that is not finite.

    Notes
    -----
    SLCE(x) = Σ (p̂(xᵢ) - 1[f(xᵢ) = yᵢ]) k(x, xᵢ) / Σ k(x, xᵢ) over the rows i in the bin of x, with k(x, x') = exp(-‖x - x'‖₁ / (d γ)).
    LCE is its absolute value. It takes time n² d and memory n d.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Eq. 4; the signed error is Eq. 7. The paper scales nothing.

    Examples
    --------
    Says 0.5 everywhere, is right on the left and wrong on the right: as wrong as can be near every row, and calibrated on average.

    >>> found = local_errors([0.5] * 4, [True, True, False, False], [[0.0], [0.1], [1.0], [1.1]], bandwidths=[0.2, 1e9])
    >>> abs(found.slce.round(2)).tolist()
    [[0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]]
    >>> found.n_eff.round(1).tolist()
    [[1.7, 1.7, 1.7, 1.7], [4.0, 4.0, 4.0, 4.0]]
    """
    confidence, rows = np.asarray(confidence, dtype=np.float64), _vectors(X)
    check_bandwidths(bandwidths)
    check_value("scale", scale, Scale)
    found = reliability_bins(confidence, correct, bins=bins)
    if len(rows) != len(confidence):
        raise ValueError(f"X must have a row for each of {len(confidence)} confidences, got {len(rows)}")
    gap = confidence - np.asarray(correct, dtype=np.float64)
    unit = rms_of(rows) if scale == "rms" else 1.0
    widths = [unit * bandwidth for bandwidth in bandwidths]
    index = bin_of(confidence, np.append(found.lower, found.upper[-1]))
    slce, n_eff = np.empty((2, len(bandwidths), len(rows)))
    for b in np.unique(index):
        here = np.flatnonzero(index == b)
        near = local_means(rows[here], rows[here], gap[here], widths, leave_one_out=leave_one_out)
        slce[:, here], n_eff[:, here] = near.mean, near.n_eff
    return LocalErrors(slce, n_eff, found.count[index])


def around(
    y: np.ndarray, top: TopLabel, X: np.ndarray, bandwidths: Sequence[float], bins: int, scale: Scale, leave_one_out: bool
) -> LocalErrors:
    """:func:`local_errors` (Luo et al., 2022, Eq. 4) of a metric's inputs; inside :func:`~kdgraph.metrics.sharing`, of each bandwidth once.

    With :func:`local_errors` itself every bandwidth is computed for itself from the same distances, so it does not matter which were
    asked for together.
    """
    check_bandwidths(bandwidths)
    correct = top.correct(y)
    known = kept("local errors", top.confidence.tobytes(), correct.tobytes(), Itself(X), bins, scale, leave_one_out)
    if missing := [bandwidth for bandwidth in bandwidths if bandwidth not in known]:
        found = local_errors(top.confidence, correct, X, bandwidths=missing, bins=bins, scale=scale, leave_one_out=leave_one_out)
        known |= {bandwidth: (slce, n_eff, found.count) for bandwidth, slce, n_eff in zip(missing, found.slce, found.n_eff, strict=True)}
    slce, n_eff, count = zip(*(known[bandwidth] for bandwidth in bandwidths), strict=True)
    return LocalErrors(np.stack(slce), np.stack(n_eff), count[0])


def summary(found: LocalErrors, min_count: int) -> dict[str, np.ndarray]:
    """Float[b] each: mean and largest error (Luo et al., 2022, Eq. 5) of the rows that count, and the effective number of rows behind."""
    counted = found.counted(min_count)
    errors, n_eff = (np.compress(counted, each, axis=1) for each in (np.abs(found.slce), found.n_eff))
    if not counted.any():
        return {column: np.full(len(errors), np.nan) for column in ("lce", "mlce", "n_eff", "mlce_n_eff")}
    at_worst = n_eff[np.arange(len(errors)), errors.argmax(axis=1)]
    return {"lce": errors.mean(axis=1), "mlce": errors.max(axis=1), "n_eff": np.median(n_eff, axis=1), "mlce_n_eff": at_worst}


def _vectors(X: np.ndarray) -> np.ndarray:
    """Float[n, d], finite."""
    rows = np.asarray(X, dtype=np.float64)
    rows = rows.reshape(len(rows), -1)
    bad = ~np.isfinite(rows)
    if bad.any():
        row, feature = np.argwhere(bad)[0]
        way_out = "fill what is missing, or do not measure local calibration (metrics=default)"
        raise DataError(f"X must be finite for distances, got {rows[row, feature]:g} in row {row} ({bad.sum()} such); {way_out}")
    return rows
