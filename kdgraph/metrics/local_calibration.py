"""Is the stated confidence right here? Local calibration error (LCE): among rows of like confidence
that are near in feature space.

Local calibration error in one number: its average, its maximum, and how many rows they rest on.

Local calibration error as tables: over the plane of two features, and against the bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kdgraph.metrics.compat import bin_of
from kdgraph.metrics.inputs import Top, TopLabel
from kdgraph.metrics.registry import Itself, kept, metric, table
from kdgraph.metrics.reliability_bins import reliability_bins
from kdgraph.parameters import Count, Positive, check_value
from kdgraph.smoothing import Kernel, check_bandwidths, local_means, rms_of
from kdgraph.smoothing.kernel_means import vectors

Scale = Literal["rms", "none"]


@dataclass(frozen=True)
class LocalErrors:
    """The local calibration error of n rows, or around n places, at b bandwidths (Luo et al., 2022,
    Eq. 4 and 7), and what it rests on.

    Attributes
    ----------
    slce : Float[b, n] in [-1, 1], signed: above 0 the model is too sure around a row, below 0 not
        sure enough. NaN where there is no row to look at: around a row that ``leave_one_out``
        leaves alone in its bin, around a place whose bin is empty.
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
    """Average confidence minus correctness around each row, over the rows in its own bin of
    confidence.

    Parameters
    ----------
    confidence : Float[n] in [0, 1], of the predicted class.
    correct : Bool[n], whether the predicted class is the label.
    X : Float[n, d] or Float[n, ...], features; images are taken as vectors of their pixels.
        Distances between positions of categories mean nothing: encode them first.
    bandwidths : γ, how far "near" goes.
    bins : equal-width bins of confidence over [0, 1], ``(lower, upper]``, as of
    :func:`~kdgraph.metrics.ece`.
    scale : what a bandwidth is a multiple of. "rms": the features' root mean square distance from
        their mean, per dimension, over these rows: one number, so the shape of the space stays and
        its units do not matter. "none": the features' own units, as in the paper.
    kernel : "laplacian", exp(-‖x - x'‖₁ / (d γ)), the paper's; or "gaussian", exp(-‖x - x'‖² / (2 d
    γ²)).
    leave_one_out : leave each row out of its own neighbourhood; without that an error at small γ is
    mostly the row's own.
    n_jobs : threads; never changes a number.

    Raises
    ------
    ParameterError
        A bandwidth or a number of bins out of range, or no such scale or kernel.
    ValueError
        Shapes that differ, a confidence outside [0, 1]; as DataError, X that is not finite.

    Notes
    -----
    SLCE(x) = Σ (p̂(xᵢ) - 1[f(xᵢ) = yᵢ]) k(x, xᵢ) / Σ k(x, xᵢ) over the rows i in the bin of x. LCE
    is its absolute value. It takes time n² d and memory n d; :func:`~kdgraph.smoothing.local_means`
    says how exact it is.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Eq. 4; the signed error is
    Eq. 7. The paper scales nothing.

    Examples
    --------
    Says 0.5 everywhere, is right on the left and wrong on the right: as wrong as can be near every
    row, and calibrated on average.

    >>> found = local_errors([0.5] * 4, [True, True, False, False], [[0.0], [0.1], [1.0], [1.1]], bandwidths=[0.2, 1e9])
    >>> abs(found.slce.round(2)).tolist()
    [[0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]]
    >>> found.n_eff.round(1).tolist()
    [[1.7, 1.7, 1.7, 1.7], [4.0, 4.0, 4.0, 4.0]]
    """
    rows = _vectors("X", X)
    sample = _Sample.of(confidence, correct, rows, bandwidths, bins, scale)
    return sample.errors(
        rows, sample.bin, kernel=kernel, leave_one_out=leave_one_out, n_jobs=n_jobs
    )


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
    """Average confidence minus correctness around any point, over the rows in the bin of the
    confidence there.

    Parameters
    ----------
    points : Float[m, d] or Float[m, ...], where to look.
    confidence_at : Float[m] in [0, 1], what the model says there.
    confidence, correct, X, bandwidths, bins, scale, kernel, n_jobs : as of :func:`local_errors`.
        The scale is that of ``X``.

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
    >>> found.slce.round(2).tolist(), found.count.tolist()  # nobody path_argument anything like 0.9
    ([[-0.5, 0.5, nan]], [4, 4, 0])
    """
    places, rows = _vectors("points", points), _vectors("X", X)
    sample = _Sample.of(confidence, correct, rows, bandwidths, bins, scale)
    said = np.asarray(confidence_at, dtype=np.float64)
    if said.shape != (len(places),):
        raise ValueError(
            f"confidence_at must have a number for each of {len(places)} points, got shape"
            f" {said.shape}"
        )
    if places.shape[1] != rows.shape[1]:
        raise ValueError(
            f"points must have the {rows.shape[1]} features of X, got {places.shape[1]}"
        )
    bad = ~((said >= 0) & (said <= 1))
    if bad.any():
        raise ValueError(
            f"confidence_at must lie in [0, 1], got {said[bad][0]:g} at point"
            f" {np.flatnonzero(bad)[0]} ({bad.sum()} such)"
        )
    return sample.errors(
        places, bin_of(said, sample.edges), kernel=kernel, leave_one_out=False, n_jobs=n_jobs
    )


@dataclass(frozen=True)
class _Sample:
    """Rows with their bins of confidence, and the gap between what was said of each and whether it
    was right.
    """

    rows: np.ndarray
    gap: np.ndarray
    edges: np.ndarray
    bin: np.ndarray
    count: np.ndarray
    bandwidths: list[float]

    @classmethod
    def of(
        cls,
        confidence: np.ndarray,
        correct: np.ndarray,
        rows: np.ndarray,
        bandwidths: Sequence[float],
        bins: int,
        scale: Scale,
    ) -> _Sample:
        check_bandwidths(bandwidths)
        check_value("scale", scale, Scale)
        confidence = np.asarray(confidence, dtype=np.float64)
        found = reliability_bins(confidence, correct, bins=bins)
        if len(rows) != len(confidence):
            raise ValueError(
                f"X must have a row for each of {len(confidence)} confidences, got {len(rows)}"
            )
        edges = np.append(found.lower, found.upper[-1])
        unit = rms_of(rows) if scale == "rms" else 1.0
        gap = confidence - np.asarray(correct, dtype=np.float64)
        return cls(
            rows,
            gap,
            edges,
            bin_of(confidence, edges),
            found.count,
            [unit * bandwidth for bandwidth in bandwidths],
        )

    def errors(self, places: np.ndarray, its_bin: np.ndarray, **options: Any) -> LocalErrors:
        near = local_means(
            places,
            self.rows,
            self.gap,
            self.bandwidths,
            within_at=its_bin,
            within=self.bin,
            **options,
        )
        return LocalErrors(near.mean, near.n_eff, self.count[its_bin])


def around(
    y: np.ndarray,
    top: TopLabel,
    X: np.ndarray,
    bandwidths: Sequence[float],
    bins: int,
    scale: Scale,
    kernel: Kernel,
    leave_one_out: bool,
) -> LocalErrors:
    """:func:`local_errors` (Luo et al., 2022, Eq. 4) of a metric's inputs; inside
    :func:`~kdgraph.metrics.sharing`, of each bandwidth once.

    With :func:`local_errors` itself every bandwidth is computed for itself from the same distances,
    so it does not matter which were asked for together.
    """
    check_bandwidths(bandwidths)
    correct = top.correct(y)
    known = kept(
        "local errors",
        top.confidence.tobytes(),
        correct.tobytes(),
        Itself(X),
        bins,
        scale,
        kernel,
        leave_one_out,
    )
    if missing := [bandwidth for bandwidth in bandwidths if bandwidth not in known]:
        options = {"bins": bins, "scale": scale, "kernel": kernel, "leave_one_out": leave_one_out}
        found = local_errors(top.confidence, correct, X, bandwidths=missing, **options)
        known |= {
            bandwidth: (slce, n_eff, found.count)
            for bandwidth, slce, n_eff in zip(missing, found.slce, found.n_eff, strict=True)
        }
    slce, n_eff, count = zip(*(known[bandwidth] for bandwidth in bandwidths), strict=True)
    return LocalErrors(np.stack(slce), np.stack(n_eff), count[0])


def summary(found: LocalErrors, min_count: int) -> dict[str, np.ndarray]:
    """Float[b] each: mean and largest error (Luo et al., 2022, Eq. 5) of the rows that count, and
    the effective number of rows behind.
    """
    counted = found.counted(min_count)
    errors, n_eff = (
        np.compress(counted, each, axis=1) for each in (np.abs(found.slce), found.n_eff)
    )
    if not counted.any():
        return {
            column: np.full(len(errors), np.nan)
            for column in ("lce", "mlce", "n_eff", "mlce_n_eff")
        }
    at_worst = n_eff[np.arange(len(errors)), errors.argmax(axis=1)]
    return {
        "lce": errors.mean(axis=1),
        "mlce": errors.max(axis=1),
        "n_eff": np.median(n_eff, axis=1),
        "mlce_n_eff": at_worst,
    }


def _vectors(name: str, X: np.ndarray) -> np.ndarray:
    """Float[n, d], finite, of rows of any shape."""
    rows = np.asarray(X)
    way_out = "; fill what is missing, or do not measure local calibration (metrics=default)"
    return vectors(name, rows.reshape(len(rows), -1), way_out=way_out)


@metric("LCE", better="lower")
def lce(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> float:
    """Measure the average local calibration error (LCE) of top-label confidence, in [0, 1].

    Of few rows the share that is right differs from what was said by chance, so even the true
    posterior has an LCE above 0, the more so the fewer rows there are: compare models on the same
    rows, and see :func:`lce_n_eff`. There is no standard error over rows, as near rows share their
    neighbours.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : rows in bins of fewer rows than this are not counted; NaN if none is left.

    References
    ----------
    Luo et al., UAI 2022, Eq. 4; Figures 16 to 19 average it.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(lce(y, proba, X), 2), round(lce(y, proba, X, bandwidth=1e9), 2)  # the second is the bin's |0.75 - 0.5|
    (0.5, 0.25)
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    return float(summary(found, min_count)["lce"][0])


@metric("MLCE", better="lower")
def mlce(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> float:
    """Measure the maximum local calibration error (MLCE) of top-label confidence: the LCE of the
    worst row, in [0, 1].

    As printed (``min_count=1``) one row alone in its bin may decide it, at any bandwidth: on 10,000
    rows of 50 features it was 0.94, and 0.16 with ``min_count=30``. As γ → ∞ it becomes
    :func:`~kdgraph.metrics.mce`.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : rows in bins of fewer rows than this are not counted; NaN if none is left.

    References
    ----------
    Luo et al., UAI 2022, Eq. 5 and Lemma 1.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(mlce(y, proba, X), 2)  # sure of what is wrong, on the right
    0.75
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    return float(summary(found, min_count)["mlce"][0])


@metric("LCE rows", better=None, unit="rows")
def lce_n_eff(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> float:
    """Measure how many rows an LCE rests on: the median over rows of the effective sample size
    (Σw)² / Σw² of Kish (1965).

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : rows in bins of fewer rows than this are not counted; NaN if none is left.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(lce_n_eff(y, proba, X), 1), round(lce_n_eff(y, proba, X, bandwidth=1e9), 1)
    (1.7, 4.0)
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    return float(summary(found, min_count)["n_eff"][0])


@metric("MLCE rows", better=None, unit="rows")
def mlce_n_eff(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> float:
    """Measure how many rows :func:`mlce` rests on: the effective sample size (Σw)² / Σw² of Kish
    (1965) around the worst row.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : rows in bins of fewer rows than this are not counted; NaN if none is left.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(mlce_n_eff(y, proba, X), 1)
    1.7
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    return float(summary(found, min_count)["mlce_n_eff"][0])


BANDWIDTHS = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
"""Around the paper's 0.2 and 0.4, from one row's own error to that of its whole bin."""


@table("SLCE by row")
def slce(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    leave_one_out: bool = False,
) -> Mapping[str, np.ndarray]:
    """The signed local calibration error of every row.

    Columns are ``confidence``, ``correct``, ``slce`` (above 0 where the model is too sure),
    ``n_eff`` (effective number of rows behind it), ``bin_count`` (rows in its bin of confidence)
    and ``bandwidth``, the same everywhere.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.

    References
    ----------
    Luo et al., UAI 2022, Eq. 4 and 7.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> slce(y, proba, X)["slce"].round(2).tolist()
    [-0.25, -0.25, 0.75, 0.75]
    """
    found = around(y, top, X, [bandwidth], bins, scale, kernel, leave_one_out)
    measured = {"slce": found.slce[0], "n_eff": found.n_eff[0], "bin_count": found.count}
    return {
        "confidence": top.confidence,
        "correct": top.correct(y),
        **measured,
        "bandwidth": np.full(len(X), float(bandwidth)),
    }


@table("LCE map")
def lce_map(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    leave_one_out: bool = False,
) -> Mapping[str, np.ndarray]:
    """:func:`slce` with the place of every row; no rows unless there are exactly two features, or a
    space of two dimensions.

    Columns are ``x1, x2`` (the features) and those of :func:`slce`.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, 2]; of any other shape there is no map.
    bandwidth, bins, scale, kernel, leave_one_out : as of :func:`local_errors`.

    References
    ----------
    Luo et al., UAI 2022, Figure 2.
    """
    if X.shape[1:] != (2,):
        return {}
    options = {
        "bandwidth": bandwidth,
        "bins": bins,
        "scale": scale,
        "kernel": kernel,
        "leave_one_out": leave_one_out,
    }
    return {"x1": X[:, 0], "x2": X[:, 1], **slce(y, top, X, **options)}


@table("LCE by bandwidth")
def lce_by_bandwidth(
    y: np.ndarray,
    top: Top,
    X: np.ndarray,
    *,
    bandwidths: Sequence[Positive] = BANDWIDTHS,
    bins: Count = 15,
    scale: Scale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> Mapping[str, np.ndarray]:
    """:func:`lce` and :func:`mlce` at each bandwidth; distances are computed once for all of them.

    Columns are ``bandwidth, lce, mlce, n_eff`` (the median over rows of the effective number of
    rows) and ``mlce_n_eff`` (that of the row with the largest error).

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    X : Float[n, d], features, or images.
    bandwidths : γ, as many as wanted, in the order of the table.
    bins, scale, kernel, leave_one_out : as of :func:`local_errors`.
    min_count : as of :func:`mlce`.

    References
    ----------
    Luo et al., UAI 2022, Figures 1, 3 and 5 to 19.
    """
    found = around(y, top, X, bandwidths, bins, scale, kernel, leave_one_out)
    return {"bandwidth": np.asarray(bandwidths, dtype=np.float64), **summary(found, min_count)}
