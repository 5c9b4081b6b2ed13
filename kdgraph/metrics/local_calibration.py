"""Local calibration error (LCE): confidence against accuracy near a point (Luo et al., UAI 2022).

The error at a point is a kernel average of confidence minus correctness over the rows whose
confidence lies in the same bin. :func:`local_errors` computes it at every row. :func:`lce` and
:func:`mlce` summarise it in one number, :func:`lce_n_eff` and :func:`mlce_n_eff` give the effective
sample size behind these numbers, and the tables show it by row and by bandwidth.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar, cast

import numpy as np

from kdgraph.metrics.inputs import Top, TopLabel
from kdgraph.metrics.registry import IdentityKey, metric, scope_cache, table
from kdgraph.metrics.reliability_bins import Strategy, bin_of, reliability_bins
from kdgraph.parameters import Count, Positive, check_value
from kdgraph.smoothing import Kernel, check_bandwidths, local_means, rms_of
from kdgraph.smoothing.kernel_means import check_vectors

DistanceScale = Literal["rms", "none"]


@dataclass(frozen=True)
class LocalErrors:
    """Local calibration errors at n rows or points for b bandwidths (Luo et al., 2022, Eq. 4, 7).

    Attributes
    ----------
    slce : Float[b, n]
        Signed errors in [-1, 1], positive where the model is overconfident. NaN if no row
        contributes: at a row that is alone in its bin and left out by ``leave_one_out``, and at a
        point whose bin is empty.
    n_eff : Float[b, n]
        Effective numbers of rows behind the errors; NaN where ``slce`` is NaN.
    count : Int[n]
        Number of rows in the same bin of confidence.

    Examples
    --------
    >>> errors = local_errors([0.5, 0.5, 0.9], [True, False, True], [[0.0], [0.0], [1.0]])
    >>> errors.slce.round(2).tolist(), errors.n_eff.tolist(), errors.count.tolist()
    ([[0.0, 0.0, -0.1]], [[2.0, 2.0, 1.0]], [2, 2, 1])
    >>> errors.summary(min_count=2)["n_eff"].tolist()  # without the last row, alone in its bin
    [2.0]
    """

    slce: np.ndarray
    n_eff: np.ndarray
    count: np.ndarray

    def summary(self, min_count: int = 1) -> dict[str, np.ndarray]:
        """Return the mean ("lce") and maximum ("mlce") of the absolute errors, Float[b] each.

        "n_eff" is the median of the effective numbers of rows, and "mlce_n_eff" that at the
        maximum. Rows without an error, or in bins of fewer than ``min_count`` rows, do not count.
        """
        counted = (self.count >= min_count) & ~np.isnan(self.slce[0])
        # A selection of columns by an index would change the order in memory, and of additions.
        absolute, n_eff = (
            np.compress(counted, values, axis=1) for values in (np.abs(self.slce), self.n_eff)
        )
        if not counted.any():
            return dict.fromkeys(
                ("lce", "mlce", "n_eff", "mlce_n_eff"), np.full(len(n_eff), np.nan)
            )
        return {
            "lce": absolute.mean(axis=1),
            "mlce": absolute.max(axis=1),
            "n_eff": np.median(n_eff, axis=1),
            "mlce_n_eff": n_eff[np.arange(len(n_eff)), absolute.argmax(axis=1)],
        }


def local_errors(
    confidence: np.ndarray,
    correct: np.ndarray,
    X: np.ndarray,
    *,
    at: tuple[np.ndarray, np.ndarray] | None = None,
    bandwidths: Sequence[Positive] = (0.2,),
    bins: Count = 15,
    strategy: Strategy = "uniform",
    scale: DistanceScale = "rms",
    kernel: Kernel = "laplacian",
    leave_one_out: bool = False,
    n_jobs: int | None = None,
) -> LocalErrors:
    """Return the mean of confidence minus correctness near each row, within its confidence bin.

    SLCE(x) = Σ (p̂(xᵢ) - 1[f(xᵢ) = yᵢ]) k(x, xᵢ) / Σ k(x, xᵢ), summed over the rows i in the bin of
    x. LCE is its absolute value. The computation takes time n² d and memory n d.

    Parameters
    ----------
    confidence : Float[n]
        Confidences in the predicted classes, in [0, 1].
    correct : Bool[n]
        True where the predicted class is the label.
    X : Float[n, d] or Float[n, ...]
        Features. Images are flattened to vectors of pixels. Distances between codes of categories
        have no meaning, so encode categories first.
    at : (Float[m, d] or Float[m, ...], Float[m]), optional
        Points at which the errors are evaluated instead of the rows, and the confidences of the
        model there. Bins and the scale are those of the rows, and no row is left out.
    bandwidths : sequence of float, default=(0.2,)
        Kernel bandwidths γ.
    bins : int, default=15
        Number of bins of confidence over [0, 1], ``(lower, upper]``, as for
        :func:`~kdgraph.metrics.ece`.
    strategy : {"uniform", "mass"}, default="uniform"
        "uniform": bins of equal width, as in the paper. "mass": bins with equal numbers of these
        rows, as far as ties allow; see :func:`~kdgraph.metrics.reliability_bins`.
    scale : {"rms", "none"}, default="rms"
        Unit of the bandwidths. "rms": the root mean square distance of these rows from their mean,
        per dimension. It is a single number, so it preserves the shape of the space and removes its
        units. "none": the units of the features, as in the paper.
    kernel : {"laplacian", "gaussian"}, default="laplacian"
        "laplacian": exp(-‖x - x'‖₁ / (d γ)), as in the paper. "gaussian": exp(-‖x - x'‖² / (2 d
        γ²)).
    leave_one_out : bool, default=False
        Exclude each row from its own neighbourhood. Otherwise the error at small γ is mostly that
        of the row itself.
    n_jobs : int, optional
        Number of threads. It does not change the numbers.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Eq. 4, in which x need not
    be a row, as in Theorem 1; the signed error is Eq. 7. The paper does not scale the features.

    Examples
    --------
    >>> rows = [0.5] * 4, [True, True, False, False], [[0.0], [0.1], [1.0], [1.1]]
    >>> errors = local_errors(*rows, bandwidths=[0.2, 1e9])  # 0.5 everywhere, and 0 on average
    >>> abs(errors.slce.round(2)).tolist()
    [[0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]]
    >>> errors = local_errors(*rows, at=([[0.0], [1.0], [1.0]], [0.5, 0.5, 0.9]))
    >>> errors.slce.round(2).tolist(), errors.count.tolist()  # no row has a confidence near 0.9
    ([[-0.5, 0.5, nan]], [4, 4, 0])
    """
    points = None if at is None else _vectors("points", at[0])
    rows = _vectors("X", X)
    check_bandwidths(bandwidths)
    check_value("scale", scale, DistanceScale)
    confidence = np.asarray(confidence, dtype=np.float64)
    reliability = reliability_bins(confidence, correct, bins=bins, strategy=strategy)
    if len(rows) != len(confidence):
        raise ValueError(
            f"X must have a row for each of {len(confidence)} confidences, got {len(rows)}"
        )
    edges = np.append(reliability.lower, reliability.upper[-1])
    bin_of_row = bin_at = bin_of(confidence, edges)
    if at is not None and points is not None:
        bin_at = bin_of(_confidence_at(at[1], points, rows), edges)
    unit = rms_of(rows) if scale == "rms" else 1.0
    means = local_means(
        rows if points is None else points,
        rows,
        confidence - np.asarray(correct, dtype=np.float64),
        [unit * bandwidth for bandwidth in bandwidths],
        kernel=kernel,
        within_at=bin_at,
        within=bin_of_row,
        leave_one_out=leave_one_out and points is None,
        n_jobs=n_jobs,
    )
    return LocalErrors(means.mean, means.n_eff, reliability.count[bin_at])


def _vectors(name: str, X: np.ndarray) -> np.ndarray:
    """Return rows of any shape as finite vectors, Float[n, d]."""
    rows = np.asarray(X)
    remedy = "; fill what is missing, or do not measure local calibration (metrics=default)"
    return check_vectors(name, rows.reshape(len(rows), -1), remedy=remedy)


def _confidence_at(confidence: np.ndarray, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the confidences at points, Float[m], after a check of both."""
    checked = np.asarray(confidence, dtype=np.float64)
    if checked.shape != (len(points),):
        raise ValueError(
            f"confidence_at must have a number for each of {len(points)} points, got shape"
            f" {checked.shape}"
        )
    if points.shape[1] != rows.shape[1]:
        raise ValueError(
            f"points must have the {rows.shape[1]} features of X, got {points.shape[1]}"
        )
    outside = ~((checked >= 0) & (checked <= 1))
    if outside.any():
        raise ValueError(
            f"confidence_at must lie in [0, 1], got {checked[outside][0]:g} at point"
            f" {np.flatnonzero(outside)[0]} ({outside.sum()} such)"
        )
    return checked


def _cached_errors(
    y: np.ndarray, top_label: TopLabel, X: np.ndarray, bandwidths: Sequence[float], **options: Any
) -> LocalErrors:
    """Return :func:`local_errors`, each bandwidth computed once in a cache scope."""
    # local_errors treats every bandwidth separately, given the distances. An error therefore does
    # not depend on the other bandwidths of the call, and can be cached by its bandwidth.
    check_bandwidths(bandwidths)
    correct = top_label.correct(y)
    cache = scope_cache(
        "local errors",
        top_label.confidence.tobytes(),
        correct.tobytes(),
        IdentityKey(X),
        tuple(sorted(options.items())),
    )
    if missing := [bandwidth for bandwidth in bandwidths if bandwidth not in cache]:
        errors = local_errors(top_label.confidence, correct, X, bandwidths=missing, **options)
        cache |= {
            bandwidth: (slce, n_eff, errors.count)
            for bandwidth, slce, n_eff in zip(missing, errors.slce, errors.n_eff, strict=True)
        }
    slce, n_eff, count = zip(*(cache[bandwidth] for bandwidth in bandwidths), strict=True)
    return LocalErrors(np.stack(slce), np.stack(n_eff), count[0])


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _called_as(other: Callable[_P, Any]) -> Callable[[Callable[..., _R]], Callable[_P, _R]]:
    """Return a decorator that gives a function the parameters of another."""

    def decorate(function: Callable[..., _R]) -> Callable[_P, _R]:
        returns = inspect.signature(function).return_annotation
        function.__annotations__ = other.__annotations__ | {"return": returns}
        signature = inspect.signature(other).replace(return_annotation=returns)
        cast(Any, function).__signature__ = signature
        return function

    return decorate


BANDWIDTHS = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
"""Bandwidths around 0.2 and 0.4 of the paper, from the error of single rows to that of bins."""


@table("SLCE by row", like=local_errors)
def slce(
    y: np.ndarray,
    top_label: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    scale: DistanceScale = "rms",
    kernel: Kernel = "laplacian",
    leave_one_out: bool = False,
) -> Mapping[str, np.ndarray]:
    """Tabulate the signed local calibration error (SLCE) of every row (Luo et al., Eq. 4 and 7).

    The columns are ``confidence``, ``correct``, ``slce`` (positive where the model is
    overconfident), ``n_eff`` (effective number of rows behind it), ``bin_count`` (number of rows in
    its bin of confidence) and ``bandwidth``, which is constant, each [n].

    Parameters
    ----------
    bandwidth : float, default=0.2
        Kernel bandwidth γ.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> slce(y, proba, X)["slce"].round(2).tolist()
    [-0.25, -0.25, 0.75, 0.75]
    """
    options: dict[str, Any] = {"bins": bins, "strategy": strategy, "scale": scale}
    options |= {"kernel": kernel, "leave_one_out": leave_one_out}
    errors = _cached_errors(y, top_label, X, [bandwidth], **options)
    return {
        "confidence": top_label.confidence,
        "correct": top_label.correct(y),
        "slce": errors.slce[0],
        "n_eff": errors.n_eff[0],
        "bin_count": errors.count,
        "bandwidth": np.full(len(X), float(bandwidth)),
    }


@table("LCE by bandwidth", like=slce)
def lce_by_bandwidth(
    y: np.ndarray,
    top_label: Top,
    X: np.ndarray,
    *,
    bandwidths: Sequence[Positive] = BANDWIDTHS,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    scale: DistanceScale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> Mapping[str, np.ndarray]:
    """Tabulate :func:`lce` and :func:`mlce` by bandwidth (Luo et al., Figures 1, 3 and 5 to 19).

    The columns are ``bandwidth``, ``lce``, ``mlce``, ``n_eff`` (the median over rows of the
    effective number of rows) and ``mlce_n_eff`` (that of the row with the largest error), each
    Float[b].

    Parameters
    ----------
    bandwidths : sequence of float
        Bandwidths γ, in the order of the table. The default ranges from 0.0125 to 12.8.
    min_count : int, default=1
        Rows in bins with fewer rows are left out; numbers are NaN if no row is left.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> table = lce_by_bandwidth(y, proba, X, bandwidths=[0.2, 1e9])
    >>> [table[column].round(2).tolist() for column in ("lce", "mlce", "n_eff")]
    [[0.5, 0.25], [0.75, 0.25], [1.65, 4.0]]
    """
    options: dict[str, Any] = {"bins": bins, "strategy": strategy, "scale": scale}
    options |= {"kernel": kernel, "leave_one_out": leave_one_out}
    errors = _cached_errors(y, top_label, X, bandwidths, **options)
    return {"bandwidth": np.asarray(bandwidths, dtype=np.float64), **errors.summary(min_count)}


@table("LCE map", like=slce)
@_called_as(slce)
def lce_map(y: np.ndarray, top_label: Top, X: np.ndarray, **options: Any) -> Mapping[str, Any]:
    """Tabulate :func:`slce` with the features of every row, if these are two (Luo et al., Fig. 2).

    The columns are ``x1`` and ``x2`` (the features, or the two dimensions of a feature space) and
    the columns of :func:`slce`, each [n].

    Parameters
    ----------
    X : Float[n, 2]
        Features. For any other shape the table is empty.

    Examples
    --------
    >>> y, proba = [0, 0, 1, 1], [[0.75, 0.25]] * 4
    >>> X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 1.0], [1.1, 1.0]])
    >>> table = lce_map(y, proba, X)
    >>> [table[column].round(2).tolist() for column in ("x1", "x2", "slce")]
    [[0.0, 0.1, 1.0, 1.1], [1.0, 1.0, 1.0, 1.0], [-0.25, -0.25, 0.75, 0.75]]
    """
    if X.shape[1:] != (2,):
        return {}
    return {"x1": X[:, 0], "x2": X[:, 1], **slce(y, top_label, X, **options)}


def _at_bandwidth(
    y: np.ndarray,
    top_label: Top,
    X: np.ndarray,
    *,
    bandwidth: Positive = 0.2,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    scale: DistanceScale = "rms",
    kernel: Kernel = "laplacian",
    min_count: Count = 1,
    leave_one_out: bool = False,
) -> dict[str, float]:
    """Return the numbers of :func:`lce_by_bandwidth` at one bandwidth."""
    options: dict[str, Any] = {"bins": bins, "strategy": strategy, "scale": scale}
    options |= {"kernel": kernel, "leave_one_out": leave_one_out}
    summary = _cached_errors(y, top_label, X, [bandwidth], **options).summary(min_count)
    return {name: float(values[0]) for name, values in summary.items()}


@metric("LCE", better="lower", like=slce)
@_called_as(_at_bandwidth)
def lce(**inputs: Any) -> float:
    """Measure the average local calibration error (LCE) of top-label confidence, in [0, 1].

    The accuracy of a few rows differs from their confidence by chance. Even the true posterior
    therefore has an LCE above 0, and a larger one with fewer rows. Compare models on the same rows,
    and see :func:`lce_n_eff`. There is no standard error over rows, because rows that are close to
    each other share their neighbours (Luo et al., Eq. 4).

    Parameters
    ----------
    min_count : int, default=1
        Rows in bins with fewer rows are left out; the number is NaN if no row is left.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(lce(y, proba, X), 2), round(lce(y, proba, X, bandwidth=1e9), 2)
    (0.5, 0.25)
    """
    return _at_bandwidth(**inputs)["lce"]


@metric("MLCE", better="lower", like=lce)
@_called_as(_at_bandwidth)
def mlce(**inputs: Any) -> float:
    """Measure the maximum local calibration error (MLCE) of top-label confidence, in [0, 1].

    As published (``min_count=1``), a row that is alone in its bin may determine the number at any
    bandwidth: on 10,000 rows with 50 features it was 0.94, and 0.16 with ``min_count=30``. As γ →
    ∞, MLCE approaches :func:`~kdgraph.metrics.mce` (Luo et al., Eq. 5 and Lemma 1).

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(mlce(y, proba, X), 2)
    0.75
    """
    return _at_bandwidth(**inputs)["mlce"]


@metric("LCE rows", better=None, unit="rows", like=lce)
@_called_as(_at_bandwidth)
def lce_n_eff(**inputs: Any) -> float:
    """Measure the effective number of rows behind an LCE, as a median over rows.

    The effective sample size at a row is (Σw)² / Σw² (Kish, 1965), with the kernel weights w.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(lce_n_eff(y, proba, X), 1), round(lce_n_eff(y, proba, X, bandwidth=1e9), 1)
    (1.7, 4.0)
    """
    return _at_bandwidth(**inputs)["n_eff"]


@metric("MLCE rows", better=None, unit="rows", like=lce)
@_called_as(_at_bandwidth)
def mlce_n_eff(**inputs: Any) -> float:
    """Measure the effective number of rows behind :func:`mlce`.

    It is the effective sample size (Σw)² / Σw² (Kish, 1965) at the row with the largest error.

    Examples
    --------
    >>> y, proba, X = [0, 0, 1, 1], [[0.75, 0.25]] * 4, [[0.0], [0.1], [1.0], [1.1]]
    >>> round(mlce_n_eff(y, proba, X), 1)
    1.7
    """
    return _at_bandwidth(**inputs)["mlce_n_eff"]
