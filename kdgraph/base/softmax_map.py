"""Penalised linear maps of log probabilities, and structured matrix scaling.

:func:`fit_softmax_map` fits softmax(W log p + b) with a penalty on the distance from the identity,
and :func:`fit_structured_scaling` applies it as Berta, Holzmüller, Jordan and Bach do ("Structured
matrix scaling for multi-class calibration", arXiv:2511.03685, 2025). Calibrators and posteriors
share them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

GRADIENT_TOLERANCE = 1e-10
"""Largest entry of the gradient at which a fit has converged, in nats per row.

Sums of rounding errors are about 1e-14. The penalties bound the curvature from below by 2 K / n
(Eq. 7 of Berta et al.), so an entry of W is within n / K 1e-10 of the optimum, for any order of
summation.
"""
MAX_ITERATIONS = 100
"""Limit of Newton's iterations; 4 to 12 are usual."""
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)
"""Value that replaces smaller probabilities before their logarithm is taken."""
MAX_LOG_SCALE = 16.0
"""Largest absolute logarithm of an inverse temperature."""
USUAL_LOG_SCALE = 1.0
"""Absolute logarithm that inverse temperatures rarely exceed."""


@dataclass(frozen=True)
class SoftmaxMap:
    """Map softmax(W log q + b) of probabilities p, with q a mixture of p and the uniform one.

    W is ``coef``, Float[K, K], b ``intercept``, Float[K], and ``uniform_share`` the share of the
    uniform distribution. With an ``inverse_temperature`` β, q is a mixture of softmax(β log p);
    without ``mix_before_temperature``, that p is not mixed, and entries below 1.2e-38 become
    1.2e-38.
    """

    coef: np.ndarray
    intercept: np.ndarray
    uniform_share: float
    inverse_temperature: float | None = None
    mix_before_temperature: bool = True

    @np.errstate(under="ignore")
    def __call__(self, proba: np.ndarray) -> np.ndarray:
        """Return the mapped probabilities, Float[n, K], of probabilities Float[n, K]."""
        if self.inverse_temperature is not None:
            logits = temperature_logits(proba, self.uniform_share, self.mix_before_temperature)
            proba = softmax(self.inverse_temperature * logits, axis=1)
        logits = np.log(mix_with_uniform(proba, self.uniform_share))
        # BLAS would add in an order that depends on the other rows.
        return softmax(np.einsum("nk,jk->nj", logits, self.coef) + self.intercept, axis=1)


def mix_with_uniform(proba: np.ndarray, share: float) -> np.ndarray:
    """Return probabilities with a share of the uniform distribution, Float[n, K].

    >>> mix_with_uniform(np.array([[1.0, 0.0]]), 0.2)
    array([[0.9, 0.1]])
    """
    return (1 - share) * proba + share / proba.shape[1]


def temperature_logits(proba: np.ndarray, uniform_share: float, mixes: bool) -> np.ndarray:
    """Return finite logits for temperature scaling, Float[n, K].

    With ``mixes`` they are those of a mixture with the uniform distribution, otherwise those of
    probabilities of at least 1.2e-38.
    """
    if mixes:
        return np.log(mix_with_uniform(proba, uniform_share))
    return np.log(np.maximum(proba, SMALLEST_PROBABILITY))


def succession_share(weight: np.ndarray) -> float:
    """Return 1 / (n + 1), the share of the uniform distribution for rows of weights Float[n].

    A probability of 0 has no logarithm. Among n rows without an event, the rule of succession
    leaves the event a probability of about 1 / (n + 1).
    """
    return float(1 / (weight.sum() + 1))


@np.errstate(under="ignore")
def fit_structured_scaling(
    proba: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    structure: Literal["matrix", "vector"] = "matrix",
    mix_before_temperature: bool = True,
    intercept_penalty: float = 1.0,
    diagonal_penalty: float = 1.0,
    off_diagonal_penalty: float = 1.0,
) -> SoftmaxMap:
    """Return the map of structured matrix or vector scaling (Berta et al. 2025).

    ``proba``, Float[n, K], are probabilities of rows that the parent was not fitted on, ``y``,
    Int[n], their classes, and ``weight``, Float[n], is 1 on average. The options are those of
    :class:`~kdgraph.calibration.MatrixScaling`.
    """
    n_classes, n = proba.shape[1], weight.sum()
    share = succession_share(weight)
    logits = temperature_logits(proba, share, mix_before_temperature)
    inverse_temperature = fit_inverse_temperature(logits, y, weight)
    scaled = softmax(inverse_temperature * logits, axis=1)
    off_diagonal = (
        off_diagonal_penalty * n_classes * (n_classes - 1) / n if structure == "matrix" else np.inf
    )
    penalty = penalty_matrix(
        n_classes, diagonal_penalty * n_classes / n, off_diagonal, intercept_penalty * n_classes / n
    )
    W = fit_softmax_map(np.log(mix_with_uniform(scaled, share)), y, weight, penalty)
    return SoftmaxMap(W[:, :-1], W[:, -1], share, inverse_temperature, mix_before_temperature)


@np.errstate(under="ignore")
def fit_inverse_temperature(log_proba: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """Return the factor β ≥ 0 of finite logits with the least NLL of softmax(β log p).

    ``log_proba`` are Float[n, K], labels Int[n], weights Float[n]. The factor is between exp(-16)
    and exp(16), one of which it is if the NLL has no minimum between them (Guo et al. 2017). The
    NLL is convex in β, so its slope has one root.

    >>> log_proba = np.log([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    >>> beta = fit_inverse_temperature(log_proba, np.array([0, 0, 1]), np.ones(3))
    >>> softmax(beta * log_proba, axis=1)[0].round(6)  # two of three rows are correct
    array([0.666667, 0.333333])
    """
    # Logits relative to the label's: the slope is then free of cancellation between large terms.
    relative = _by_class(log_proba - log_proba[np.arange(len(y)), y][:, None])

    def slope(log_scale: float) -> float:
        proba, _ = _softmax_by_class(np.exp(log_scale) * relative)
        return float(np.average((proba * relative).sum(axis=0), weights=weight))

    # Most roots are near, where a search takes half as many steps.
    low, high = -USUAL_LOG_SCALE, USUAL_LOG_SCALE
    if slope(low) >= 0:
        low, high = -MAX_LOG_SCALE, low
        if slope(low) >= 0:
            return float(np.exp(low))
    elif slope(high) <= 0:
        low, high = high, MAX_LOG_SCALE
        if slope(high) <= 0:
            return float(np.exp(high))
    return float(np.exp(brentq(slope, low, high, xtol=1e-12)))


def _by_class(values: np.ndarray) -> np.ndarray:
    """Return values Float[n, K] as a contiguous array Float[K, n].

    Sums over few classes are several times as fast along the first axis.
    """
    return np.ascontiguousarray(values.T)


def _softmax_by_class(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities, Float[K, n], and log normalisers, Float[n], of logits Float[K, n].

    For few rows the checks of SciPy's functions take longer than the sums.
    """
    largest = logits.max(axis=0)
    proba = np.exp(logits - largest)
    total = proba.sum(axis=0)
    return proba / total, largest + np.log(total)


def penalty_matrix(
    n_classes: int, diagonal: float, off_diagonal: float, intercept: float
) -> np.ndarray:
    """Return the penalty of each entry of W and, in the last column, of b, Float[K, K + 1].

    >>> penalty_matrix(2, 1.0, 2.0, 3.0)
    array([[1., 2., 3.],
           [2., 1., 3.]])
    """
    penalty = np.full((n_classes, n_classes + 1), off_diagonal, dtype=np.float64)
    np.fill_diagonal(penalty, diagonal)
    penalty[:, -1] = intercept
    return penalty


@np.errstate(under="ignore")
def fit_softmax_map(
    log_proba: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    penalty: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Return W and, in the last column, b that minimise the penalised NLL of softmax(W log p + b).

    The penalty is the sum over all entries of ``penalty`` times squared distance from the identity
    map; ``penalty``, ``start`` (None: the identity map) and the result are Float[K, K + 1].
    Penalties are above 0, and infinity keeps an entry at its value in the identity map.
    ``log_proba`` are finite, Float[n, K], labels Int[n], weights Float[n], not all 0. If the
    gradient is not small after the last iteration, there is a ConvergenceWarning.

    Newton's method with step halving is original to kdgraph. The Hessian has K² (K + 1)² entries,
    10⁸ for 100 classes, so it is only multiplied with vectors, within conjugate gradients.
    """
    n, K = log_proba.shape
    logits = _by_class(log_proba)
    X = np.vstack([logits, np.ones(n)])
    weight = weight / weight.sum()
    identity = np.eye(K, K + 1)
    is_free = np.isfinite(penalty)
    penalty = np.where(is_free, penalty, 0.0)
    rows = np.arange(n)

    def objective(change: np.ndarray) -> tuple[float, np.ndarray]:
        mapped = logits + change @ X
        proba, log_total = _softmax_by_class(mapped)
        nll = weight @ (log_total - mapped[y, rows])
        return float(nll + np.sum(penalty * change**2)), proba

    # The variable is the difference from the identity map, which large penalties keep so small that
    # the entries of W could not hold it.
    change = np.zeros((K, K + 1)) if start is None else start - identity
    (value, proba), size = objective(change), np.inf
    for _ in range(MAX_ITERATIONS):
        residual = proba.copy()
        residual[y, rows] -= 1
        gradient = np.where(is_free, (weight * residual) @ X.T + 2 * penalty * change, 0.0)
        size = float(np.abs(gradient).max())
        if size <= GRADIENT_TOLERANCE:
            return identity + change
        # Accurate directions near the optimum make convergence quadratic; far from it they would
        # be wasted work.
        direction = -_solve_newton_system(
            X, proba, weight, penalty, is_free, gradient, min(0.1, size)
        )
        slope = float(np.sum(gradient * direction))
        change, value, proba, has_moved = _line_search(
            objective, change, (value, proba), direction, slope
        )
        if not has_moved:
            break
    warnings.warn(
        f"the fit of the scaling matrix did not converge: its gradient is {size:.1e}, should be"
        f" {GRADIENT_TOLERANCE:.0e}; larger penalties make the fit easier",
        ConvergenceWarning,
        stacklevel=2,
    )
    return identity + change


def _solve_newton_system(
    X: np.ndarray,
    proba: np.ndarray,
    weight: np.ndarray,
    penalty: np.ndarray,
    is_free: np.ndarray,
    gradient: np.ndarray,
    tolerance: float,
) -> np.ndarray:
    """Return the solution V of H V = gradient to a relative tolerance, Float[K, K + 1].

    X is Float[K + 1, n], ``proba`` Float[K, n] and ``weight`` Float[n].
    """
    shape = gradient.shape

    def multiply(flat: np.ndarray) -> np.ndarray:
        # Derivative of the softmax in direction U = V X: p (U - Σ p U).
        logits = flat.reshape(shape) @ X
        change = proba * (logits - (proba * logits).sum(axis=0))
        product = (weight * change) @ X.T + 2 * penalty * flat.reshape(shape)
        return np.where(is_free, product, 0.0).ravel()

    # Logits and intercepts have different scales, so the system is scaled by its diagonal.
    diagonal = (weight * proba * (1 - proba)) @ X.T**2 + 2 * penalty
    inverse = np.where(is_free, 1 / np.where(is_free, diagonal, 1.0), 0.0).ravel()
    operator = LinearOperator((gradient.size,) * 2, matvec=multiply, dtype=np.float64)
    scaling = LinearOperator(
        (gradient.size,) * 2, matvec=lambda flat: inverse * flat, dtype=np.float64
    )
    solution, _ = cg(operator, gradient.ravel(), rtol=tolerance, M=scaling)
    return solution.reshape(shape)


def _line_search(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    at_start: tuple[float, np.ndarray],
    direction: np.ndarray,
    slope: float,
) -> tuple[np.ndarray, float, np.ndarray, bool]:
    """Return the first of start + direction, start + direction / 2, … with a clear decrease.

    Also return its objective and probabilities, and whether there is one.
    """
    # Near the optimum the decrease is below the rounding errors of the objective.
    value, proba = at_start
    rounding = 1e-14 * max(1.0, abs(value))
    step = 1.0
    while step > 1e-10:
        candidate = start + step * direction
        new_value, new_proba = objective(candidate)
        if new_value <= value + 1e-4 * step * slope + rounding:
            return candidate, new_value, new_proba, True
        step /= 2
    return start, value, proba, False
