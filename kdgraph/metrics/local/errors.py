"""Is the stated confidence right here? Local calibration error (LCE): among rows of like confidence that are near in feature space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kdgraph.metrics.calibration import bin_of, reliability_bins
from kdgraph.metrics.shared import Itself, kept
from kdgraph.metrics.top_label import TopLabel
from kdgraph.parameters import Count, Positive, check_value
from kdgraph.smoothing import Kernel, check_bandwidths, local_means, rms_of
from kdgraph.smoothing.vectors import vectors

Scale = Literal["rms", "none"]


@dataclass(frozen=True)
class LocalErrors:
    """The local calibration error of n rows, or around n places, at b bandwidths (Luo et al., 2022, Eq. 4 and 7), and what it rests on.

    Attributes
    ----------
    slce : Float[b, n] in [-1, 1], signed: above 0 the model is too sure around a row, below 0 not sure enough. NaN where there is no
        row to look at: around a row that ``leave_one_out`` leaves alone in its bin, around a place whose bin is empty.
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
    kernel: Kernel = "laplacian",
    leave_one_out: bool = False,
    n_jobs: int | None = None,
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
    kernel : "laplacian", exp(-‖x - x'‖₁ / (d γ)), the paper's; or "gaussian", exp(-‖x - x'‖² / (2 d γ²)).
    leave_one_out : leave each row out of its own neighbourhood; without that an error at small γ is mostly the row's own.
    n_jobs : threads; never changes a number.

    Raises
    ------
    ParameterError
        A bandwidth or a number of bins out of range, or no such scale or kernel.
    ValueError
        Shapes that differ, a confidence outside [0, 1]; as DataError, X that is not finite.

    Notes
    -----
    SLCE(x) = Σ (p̂(xᵢ) - 1[f(xᵢ) = yᵢ]) k(x, xᵢ) / Σ k(x, xᵢ) over the rows i in the bin of x. LCE is its absolute value. It takes time n² d
    and memory n d; :func:`~kdgraph.smoothing.local_means` says how exact it is.

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
    rows = _vectors("X", X)
    sample = _Sample.of(confidence, correct, rows, bandwidths, bins, scale)
    return sample.errors(rows, sample.bin, kernel=kernel, leave_one_out=leave_one_out, n_jobs=n_jobs)


def local_errors_at(
    points: np.ndarray,
    confidence_at: np.ndarray,
    confidence: np.ndarray,
    correct: np.ndarray,
    X: np.ndarray,
    *,
    bandwidths: Sequence[Positive] = (0.2,),
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    n_jobs: int | None = None,
) -> LocalErrors:
    """Average confidence minus correctness around any point, over the rows in the bin of the confidence there.

    Parameters
    ----------
    points : Float[m, d] or Float[m, ...], where to look.
    confidence_at : Float[m] in [0, 1], what the model says there.
    confidence, correct, X, bandwidths, bins, scale, kernel, n_jobs : as of :func:`local_errors`. The scale is that of ``X``.

    Raises
    ------
    ParameterError, ValueError
        As :func:`local_errors`.

    References
    ----------
    Luo et al., UAI 2022, Eq. 4, of which x need not be a row, as in Theorem 1.

    Examples
    --------
    >>> rows = {"confidence": [0.5] * 4, "correct": [True, True, False, False], "X": [[0.0], [0.1], [1.0], [1.1]]}
    >>> found = local_errors_at([[0.0], [1.0], [1.0]], [0.5, 0.5, 0.9], **rows)
    >>> found.slce.round(2).tolist(), found.count.tolist()  # nobody said anything like 0.9
    ([[-0.5, 0.5, nan]], [4, 4, 0])
    """
    places, rows = _vectors("points", points), _vectors("X", X)
    sample = _Sample.of(confidence, correct, rows, bandwidths, bins, scale)
    said = np.asarray(confidence_at, dtype=np.float64)
    if said.shape != (len(places),):
        raise ValueError(f"confidence_at must have a number for each of {len(places)} points, got shape {said.shape}")
    if places.shape[1] != rows.shape[1]:
        raise ValueError(f"points must have the {rows.shape[1]} features of X, got {places.shape[1]}")
    bad = ~((said >= 0) & (said <= 1))
    if bad.any():
        raise ValueError(f"confidence_at must lie in [0, 1], got {said[bad][0]:g} at point {np.flatnonzero(bad)[0]} ({bad.sum()} such)")
    return sample.errors(places, bin_of(said, sample.edges), kernel=kernel, leave_one_out=False, n_jobs=n_jobs)


@dataclass(frozen=True)
class _Sample:
    """Rows with their bins of confidence, and the gap between what was said of each and whether it was right."""

    rows: np.ndarray
    gap: np.ndarray
    edges: np.ndarray
    bin: np.ndarray
    count: np.ndarray
    bandwidths: list[float]

    @classmethod
    def of(
        cls, confidence: np.ndarray, correct: np.ndarray, rows: np.ndarray, bandwidths: Sequence[float], bins: int, scale: Scale
    ) -> _Sample:
        check_bandwidths(bandwidths)
        check_value("scale", scale, Scale)
        confidence = np.asarray(confidence, dtype=np.float64)
        found = reliability_bins(confidence, correct, bins=bins)
        if len(rows) != len(confidence):
            raise ValueError(f"X must have a row for each of {len(confidence)} confidences, got {len(rows)}")
        edges = np.append(found.lower, found.upper[-1])
        unit = rms_of(rows) if scale == "rms" else 1.0
        gap = confidence - np.asarray(correct, dtype=np.float64)
        return cls(rows, gap, edges, bin_of(confidence, edges), found.count, [unit * bandwidth for bandwidth in bandwidths])

    def errors(self, places: np.ndarray, its_bin: np.ndarray, **options: Any) -> LocalErrors:
        near = local_means(places, self.rows, self.gap, self.bandwidths, within_at=its_bin, within=self.bin, **options)
        return LocalErrors(near.mean, near.n_eff, self.count[its_bin])


def around(
    y: np.ndarray, top: TopLabel, X: np.ndarray, bandwidths: Sequence[float], bins: int, scale: Scale, kernel: Kernel, leave_one_out: bool
) -> LocalErrors:
    """:func:`local_errors` (Luo et al., 2022, Eq. 4) of a metric's inputs; inside :func:`~kdgraph.metrics.sharing`, of each bandwidth once.

    With :func:`local_errors` itself every bandwidth is computed for itself from the same distances, so it does not matter which were
    asked for together.
    """
    check_bandwidths(bandwidths)
    correct = top.correct(y)
    known = kept("local errors", top.confidence.tobytes(), correct.tobytes(), Itself(X), bins, scale, kernel, leave_one_out)
    if missing := [bandwidth for bandwidth in bandwidths if bandwidth not in known]:
        options = {"bins": bins, "scale": scale, "kernel": kernel, "leave_one_out": leave_one_out}
        found = local_errors(top.confidence, correct, X, bandwidths=missing, **options)
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


def _vectors(name: str, X: np.ndarray) -> np.ndarray:
    """Float[n, d], finite, of rows of any shape."""
    rows = np.asarray(X)
    way_out = "; fill what is missing, or do not measure local calibration (metrics=default)"
    return vectors(name, rows.reshape(len(rows), -1), way_out=way_out)
