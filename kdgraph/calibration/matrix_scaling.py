"""Linear maps of log probabilities: structured matrix and vector scaling, Dirichlet calibration.

All of them are g(x) = softmax(W log p(x) + b). They differ in what is penalised and how strongly:
:class:`MatrixScaling` penalises the distance of (W, b) from temperature scaling,
:class:`DirichletCalibration` only entries off the diagonal and the intercepts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.parameters import Positive, Range

GRADIENT_TOLERANCE = 1e-10
"""Largest entry of the gradient at which a fit has converged, in nats per row.

Sums of rounding errors are about 1e-14. The penalties bound the curvature from below by 2 K / n
(Eq. 7 of Berta et al.), so an entry of W is within n / K 1e-10 of the optimum, for any order of
summation.
"""
MAX_ITERATIONS = 100
"""Limit of Newton's iterations; 4 to 12 are usual."""
DIAGONAL_PENALTY = 1e-3
"""Penalty of the diagonal in Dirichlet calibration.

The optimum of Kull et al. does not exist if the diagonal alone separates the calibration rows, as
it does if all of them are classified correctly: the diagonal grows without bound. The curvature of
the NLL in an entry of the diagonal is about .1 or more, so the penalty moves an optimum that exists
by about a hundredth of its distance from 1, which is below its standard error for fewer than about
10,000 rows.
"""
PENALTY_GRID = (1e4, 1e3, 100.0, 10.0, 1.0, 0.1, 0.01, 0.001)
"""Candidates of the penalty of Dirichlet calibration, from the simplest map to the most flexible.

With 10,000 a map of 100 classes and 2,000 rows is about as rigid as that of
:class:`MatrixScaling`.
"""
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)
"""Value that replaces smaller probabilities before their logarithm is taken."""
MAX_LOG_SCALE = 16.0
"""Largest absolute logarithm of an inverse temperature."""


@dataclass(eq=False, repr=False)
class LogLinearCalibrator(PostHocClassifier):
    """Base class of the maps softmax(W log p + b).

    A subclass implements ``_fit_map(log_proba, y, weight)``, which returns W and b in one array,
    Float[K, K + 1].

    Parameters
    ----------
    estimator : classifier
        Any classifier with ``predict_proba``. It is cloned and fitted; a
        ``FrozenEstimator(fitted)`` is not refitted.
    calibration_size : float, default=0.3
        Fraction of the rows that are held out if ``fit`` gets no calibration rows. Behind a frozen
        estimator, pass rows that it was not fitted on: ``fit(X, y, X_calibration=…,
        y_calibration=…)``; see :class:`~kdgraph.base.PostHoc`.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows, and of a parent without a seed.

    Attributes
    ----------
    coef_ : ndarray of shape (K, K)
        The matrix W, Float[K, K].
    intercept_ : ndarray of shape (K,)
        The intercepts b, Float[K].
    inverse_temperature_ : float
        Factor of the parent's log probabilities before W is applied; 1 without such a step.
    uniform_share_ : float
        Share of the uniform distribution in the probabilities whose logarithm W is applied to.

    Raises
    ------
    ValueError
        If all calibration rows belong to one class.

    Notes
    -----
    The map is fitted also if a class has no calibration row: the penalty keeps its parameters near
    those of the other classes. The base class is original to kdgraph.
    """

    def _parent_scores(self, rows: Rows) -> np.ndarray:
        """Return the parent's probabilities of rows, Float[n, K]."""
        return np.asarray(rows.predict(self.estimator_), dtype=np.float64)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        available = np.unique(calibration.y)
        if len(available) < 2:
            raise ValueError(
                f"{type(self).__name__} needs calibration rows of two classes, got only rows of"
                f" {self.classes_[available].tolist()}"
            )
        proba, weight = self._parent_scores(calibration), calibration.weight
        # A probability of 0 has no logarithm. Among n rows without an event, the rule of succession
        # leaves the event a probability of about 1 / (n + 1).
        self.uniform_share_ = float(1 / (weight.sum() + 1))
        self.inverse_temperature_ = self._fit_inverse_temperature(proba, calibration.y, weight)
        W = self._fit_map(self._log_proba(proba), calibration.y, weight)
        self.coef_, self.intercept_ = W[:, :-1], W[:, -1]

    def _log_proba(self, proba: np.ndarray) -> np.ndarray:
        """Return the log probabilities that W is applied to, Float[n, K]."""
        return np.log(self._mix(proba))

    def _mix(self, proba: np.ndarray) -> np.ndarray:
        """Return the probabilities with a share of the uniform distribution, Float[n, K]."""
        return (1 - self.uniform_share_) * proba + self.uniform_share_ / proba.shape[1]

    def _fit_inverse_temperature(
        self, proba: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> float:
        """Return the factor of the parent's log probabilities before the map."""
        return 1.0

    def _fit_map(self, log_proba: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return W and, as its last column, b: Float[K, K + 1]."""
        raise NotImplementedError

    def predict_proba(self, X) -> np.ndarray:
        """Return the class probabilities, Float[n, K]."""
        return self._predict_rows(Rows.unweighted(self._validate_X(X)))

    @np.errstate(under="ignore")
    def _predict_rows(self, rows: Rows) -> np.ndarray:
        log_proba = self._log_proba(self._parent_scores(rows))
        return softmax(log_proba @ self.coef_.T + self.intercept_, axis=1)


@dataclass(eq=False, repr=False)
class MatrixScaling(LogLinearCalibrator):
    """Structured matrix or vector scaling: temperature scaling, then a penalised linear map.

    Parameters
    ----------
    estimator, calibration_size, random_state
        See :class:`LogLinearCalibrator`.
    structure : "matrix" or "vector", default="matrix"
        Fit the whole matrix W, or only its diagonal.
    mix_before_temperature : bool, default=True
        Mix the parent's probabilities with the uniform distribution also before temperature
        scaling. False: replace those below 1.2e-38 by it, as the authors do.
    intercept_penalty, diagonal_penalty, off_diagonal_penalty : float, default=1.0
        Factors of the penalties of b, of the diagonal of W and of the other entries; the last one
        is not used by structure "vector". Small factors approach vector scaling and matrix scaling
        without a penalty (Guo et al. 2017), whose optimum may not exist.

    Attributes
    ----------
    coef_, intercept_, inverse_temperature_, uniform_share_
        See :class:`LogLinearCalibrator`.

    Notes
    -----
    Berta et al. 2025, structured matrix scaling (SMS) and structured vector scaling (SVS), with the
    ridge penalty and the defaults of the authors' package probmetrics 1.3. For n calibration rows
    and K classes, the map minimises the mean NLL plus

        K / n (Σ b_k² + Σ (W_kk - 1)²) + K (K - 1) / n Σ_{j ≠ k} W_jk²

    over the log probabilities of temperature scaling, mixed with a share 1 / (n + 1) of the uniform
    distribution. The penalty of an entry grows with the number of entries of its kind and falls
    with the number of rows; n is the sum of the sample weights, which are 1 on average. The
    objective is strictly convex, so there is one optimum. It is found by Newton's method, whose
    linear systems are solved by conjugate gradients.

    The first mixing is original to kdgraph. A forest often gives a class a probability of 0; if a
    calibration row of that class is among these rows, its clipped logit of -87 decides the
    temperature alone. Cross-validated on the calibration rows of 55 tables behind a forest of 200
    trees, the mean NLL of structured matrix scaling was .338 with it and .360 without.

    References
    ----------
    Berta, Holzmüller, Jordan and Bach, "Structured matrix scaling for multi-class calibration",
    arXiv:2511.03685, 2025. Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural
    networks", ICML 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0)
    >>> model = MatrixScaling(forest, random_state=0).fit(X[:900], y[:900])
    >>> model.coef_.shape
    (10, 10)
    >>> loss = [-np.log(m.predict_proba(X[900:])[np.arange(897), y[900:]]).mean()
    ...         for m in (model, model.estimator_)]
    >>> bool(loss[0] < loss[1])
    True
    """

    _: KW_ONLY
    structure: Literal["matrix", "vector"] = "matrix"
    mix_before_temperature: bool = True
    intercept_penalty: Positive = 1.0
    diagonal_penalty: Positive = 1.0
    off_diagonal_penalty: Positive = 1.0

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record: the inverse temperature."""
        return {"inverse_temperature": self.inverse_temperature_}

    def _fit_inverse_temperature(
        self, proba: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> float:
        return fit_inverse_temperature(self._parent_logits(proba), y, weight)

    def _parent_logits(self, proba: np.ndarray) -> np.ndarray:
        """Return the logits that the temperature divides, Float[n, K]."""
        if self.mix_before_temperature:
            return np.log(self._mix(proba))
        return np.log(np.maximum(proba, SMALLEST_PROBABILITY))

    def _log_proba(self, proba: np.ndarray) -> np.ndarray:
        scaled = softmax(self.inverse_temperature_ * self._parent_logits(proba), axis=1)
        return np.log(self._mix(scaled))

    def _fit_map(self, log_proba: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        n_classes, n = log_proba.shape[1], weight.sum()
        off_diagonal = (
            self.off_diagonal_penalty * n_classes * (n_classes - 1) / n
            if self.structure == "matrix"
            else np.inf
        )
        penalty = penalty_matrix(
            n_classes,
            self.diagonal_penalty * n_classes / n,
            off_diagonal,
            self.intercept_penalty * n_classes / n,
        )
        return fit_softmax_map(log_proba, y, weight, penalty)


@dataclass(eq=False, repr=False)
class DirichletCalibration(LogLinearCalibrator):
    """Dirichlet calibration with a penalty of the off-diagonal entries and intercepts (ODIR).

    Parameters
    ----------
    estimator, calibration_size, random_state
        See :class:`LogLinearCalibrator`; ``random_state`` also draws the folds.
    penalty : float or "cv", default="cv"
        Factor λ of the penalties. "cv" chooses among 10,000, 1,000, …, 0.001 the value with the
        least cross-validated NLL on the calibration rows. It tries them in this order, and stops at
        the first one that is worse than the previous one.
    folds : int, default=5
        Number of folds, at least 2; at most as many as calibration rows.

    Attributes
    ----------
    coef_, intercept_, uniform_share_
        See :class:`LogLinearCalibrator`.
    penalty_ : float
        The value λ.
    penalty_nll_ : ndarray of shape (8,) or None
        Cross-validated NLL of each candidate in nats per row, Float[8], NaN for those that were not
        tried; None without "cv".

    Notes
    -----
    Kull et al. 2019: the map minimises the mean NLL plus

        λ / (K (K - 1)) Σ_{j ≠ k} W_jk² + μ / K Σ b_k²

    They choose λ and μ by cross-validation; here μ = λ, for a grid of one dimension, as few
    calibration rows do not tell the two apart. Original to kdgraph are two changes that make the
    optimum exist for any rows: a penalty of 0.001 Σ (W_kk - 1)², and a share of 1 / (n + 1) of the
    uniform distribution in the parent's probabilities, of which those of a forest are often 0.

    References
    ----------
    Kull, Perello-Nieto, Kängsepp, Silva Filho, Song and Flach, "Beyond temperature scaling:
    obtaining well-calibrated multiclass probabilities with Dirichlet calibration", NeurIPS 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DirichletCalibration(GaussianNB(), random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (150, 3)
    """

    _: KW_ONLY
    penalty: Positive | Literal["cv"] = "cv"
    folds: Annotated[int, Range(2)] = 5

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record: the penalty and the NLL of its candidates."""
        if self.penalty_nll_ is None:
            return {"penalty": self.penalty_}
        nll = {
            f"{penalty:g}": float(value)
            for penalty, value in zip(PENALTY_GRID, self.penalty_nll_, strict=True)
            if np.isfinite(value)
        }
        return {"penalty": self.penalty_, "penalty_nll": nll}

    def _fit_map(self, log_proba: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        if self.penalty == "cv":
            self.penalty_nll_ = self._cross_validate(log_proba, y, weight)
            self.penalty_ = PENALTY_GRID[int(np.nanargmin(self.penalty_nll_))]
        else:
            self.penalty_, self.penalty_nll_ = float(self.penalty), None
        return _fit_dirichlet(log_proba, y, weight, self.penalty_)

    def _cross_validate(
        self, log_proba: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> np.ndarray:
        """Return the NLL of each candidate, Float[8]; NaN for those that were not tried."""
        # Folds of classes as equal as possible, also of classes with fewer rows than folds.
        order = check_random_state(self.random_state).permutation(len(y))
        fold = np.empty(len(y), dtype=np.intp)
        fold[order[np.argsort(y[order], kind="stable")]] = np.arange(len(y)) % self.folds
        maps: list[np.ndarray | None] = [None] * self.folds
        nll = np.full(len(PENALTY_GRID), np.nan)
        loss = np.empty(len(y))
        for position, penalty in enumerate(PENALTY_GRID):
            for f in range(min(self.folds, len(y))):
                fitted, held_out = fold != f, fold == f
                # Each fit starts at the optimum of the previous penalty.
                W = maps[f] = _fit_dirichlet(
                    log_proba[fitted], y[fitted], weight[fitted], penalty, maps[f]
                )
                loss[held_out] = _nll(log_proba[held_out] @ W[:, :-1].T + W[:, -1], y[held_out])
            nll[position] = np.average(loss, weights=weight)
            # Smaller penalties than one that overfits overfit more, and take the longest: 100
            # classes took 270 s for the whole grid.
            if position and nll[position] > nll[position - 1]:
                break
        return nll


def _fit_dirichlet(
    log_proba: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    penalty: float,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Return the map of Dirichlet calibration with a given penalty, Float[K, K + 1]."""
    K = log_proba.shape[1]
    penalties = penalty_matrix(K, DIAGONAL_PENALTY, penalty / (K * (K - 1)), penalty / K)
    return fit_softmax_map(log_proba, y, weight, penalties, start)


def _nll(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the negative log likelihood of each row, Float[n]."""
    return logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]


def fit_inverse_temperature(log_proba: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """Return the factor β ≥ 0 of the logits with the least NLL of softmax(β log p).

    Parameters
    ----------
    log_proba : ndarray of shape (n, K)
        Finite logits, Float[n, K].
    y : ndarray of shape (n,)
        Labels, Int[n].
    weight : ndarray of shape (n,)
        Sample weights, Float[n].

    Returns
    -------
    float
        Between exp(-16) and exp(16), one of which it is if the NLL has no minimum between them.

    Notes
    -----
    Guo et al. 2017. The NLL is convex in β, so its slope has one root.

    Examples
    --------
    >>> log_proba = np.log([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    >>> beta = fit_inverse_temperature(log_proba, np.array([0, 0, 1]), np.ones(3))
    >>> softmax(beta * log_proba, axis=1)[0].round(6)  # two of three rows are correct
    array([0.666667, 0.333333])
    """
    # Logits relative to the label's: the slope is then free of cancellation between large terms.
    relative = log_proba - log_proba[np.arange(len(y)), y][:, None]

    def slope(log_scale: float) -> float:
        proba = softmax(np.exp(log_scale) * relative, axis=1)
        return float(np.average((proba * relative).sum(axis=1), weights=weight))

    if slope(-MAX_LOG_SCALE) >= 0:
        return float(np.exp(-MAX_LOG_SCALE))
    if slope(MAX_LOG_SCALE) <= 0:
        return float(np.exp(MAX_LOG_SCALE))
    return float(np.exp(brentq(slope, -MAX_LOG_SCALE, MAX_LOG_SCALE, xtol=1e-12)))


def penalty_matrix(
    n_classes: int, diagonal: float, off_diagonal: float, intercept: float
) -> np.ndarray:
    """Return the penalty of each entry of W and, in the last column, of b.

    Parameters
    ----------
    n_classes : int
        Number of classes K.
    diagonal, off_diagonal, intercept : float
        Penalty of each kind of entries.

    Returns
    -------
    ndarray of shape (K, K + 1)
        Float[K, K + 1].

    Notes
    -----
    Original to kdgraph.

    Examples
    --------
    >>> penalty_matrix(2, 1.0, 2.0, 3.0)
    array([[1., 2., 3.],
           [2., 1., 3.]])
    """
    penalty = np.full((n_classes, n_classes + 1), off_diagonal, dtype=np.float64)
    np.fill_diagonal(penalty, diagonal)
    penalty[:, -1] = intercept
    return penalty


def fit_softmax_map(
    log_proba: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    penalty: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Return W and b that minimise the penalised NLL of softmax(W log p + b).

    The penalty is the sum over all entries of penalty times squared distance from the identity map.

    Parameters
    ----------
    log_proba : ndarray of shape (n, K)
        Finite log probabilities, Float[n, K].
    y : ndarray of shape (n,)
        Labels, Int[n].
    weight : ndarray of shape (n,)
        Sample weights, Float[n], not all 0.
    penalty : ndarray of shape (K, K + 1)
        Penalty of each entry of W and, in the last column, of b. They are above 0; infinity keeps
        an entry at its value in the identity map.
    start : ndarray of shape (K, K + 1) or None, default=None
        Start of the iterations; None: the identity map.

    Returns
    -------
    ndarray of shape (K, K + 1)
        W and, in the last column, b.

    Warns
    -----
    ConvergenceWarning
        If the gradient is not small after the last iteration.

    Notes
    -----
    Original to kdgraph: Newton's method with step halving. The Hessian has K² (K + 1)² entries, 10⁸
    for 100 classes, so it is only multiplied with vectors, within conjugate gradients.

    Examples
    --------
    >>> log_proba = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    >>> W = fit_softmax_map(log_proba, np.array([0, 1, 1]), np.ones(3), penalty_matrix(2, 1, 1, 1))
    >>> W.shape
    (2, 3)
    """
    n, K = log_proba.shape
    X = np.column_stack([log_proba, np.ones(n)])
    weight = weight / weight.sum()
    identity = np.eye(K, K + 1)
    is_free = np.isfinite(penalty)
    penalty = np.where(is_free, penalty, 0.0)
    one_hot = np.zeros((n, K))
    one_hot[np.arange(n), y] = 1

    def objective(change: np.ndarray) -> float:
        nll = _nll(log_proba + X @ change.T, y)
        return float(weight @ nll + np.sum(penalty * change**2))

    # The variable is the difference from the identity map, which large penalties keep so small that
    # the entries of W could not hold it.
    change = np.zeros((K, K + 1)) if start is None else start - identity
    value, size = objective(change), np.inf
    for _ in range(MAX_ITERATIONS):
        proba = softmax(log_proba + X @ change.T, axis=1)
        residual = weight[:, None] * (proba - one_hot)
        gradient = np.where(is_free, residual.T @ X + 2 * penalty * change, 0.0)
        size = float(np.abs(gradient).max())
        if size <= GRADIENT_TOLERANCE:
            return identity + change
        # Accurate directions near the optimum make convergence quadratic; far from it they would
        # be wasted work.
        direction = -_solve_newton_system(
            X, proba, weight, penalty, is_free, gradient, min(0.1, size)
        )
        slope = float(np.sum(gradient * direction))
        change, value, has_moved = _line_search(objective, change, value, direction, slope)
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
    """Return the solution V of H V = gradient to a relative tolerance, Float[K, K + 1]."""
    shape = gradient.shape

    def multiply(flat: np.ndarray) -> np.ndarray:
        # Derivative of the softmax in direction U = X Vᵀ: p (U - Σ p U).
        logits = X @ flat.reshape(shape).T
        change = proba * (logits - (proba * logits).sum(axis=1, keepdims=True))
        product = (weight[:, None] * change).T @ X + 2 * penalty * flat.reshape(shape)
        return np.where(is_free, product, 0.0).ravel()

    # Logits and intercepts have different scales, so the system is scaled by its diagonal.
    diagonal = (weight[:, None] * proba * (1 - proba)).T @ X**2 + 2 * penalty
    inverse = np.where(is_free, 1 / np.where(is_free, diagonal, 1.0), 0.0).ravel()
    operator = LinearOperator((gradient.size,) * 2, matvec=multiply, dtype=np.float64)
    scaling = LinearOperator(
        (gradient.size,) * 2, matvec=lambda flat: inverse * flat, dtype=np.float64
    )
    solution, _ = cg(operator, gradient.ravel(), rtol=tolerance, M=scaling)
    return solution.reshape(shape)


def _line_search(
    objective: Callable[[np.ndarray], float],
    start: np.ndarray,
    value: float,
    direction: np.ndarray,
    slope: float,
) -> tuple[np.ndarray, float, bool]:
    """Return the first of start + direction, start + direction / 2, … with a clear decrease.

    Also return its objective, and whether there is one.
    """
    # Near the optimum the decrease is below the rounding errors of the objective.
    rounding = 1e-14 * max(1.0, abs(value))
    step = 1.0
    while step > 1e-10:
        candidate = start + step * direction
        new_value = objective(candidate)
        if new_value <= value + 1e-4 * step * slope + rounding:
            return candidate, new_value, True
        step /= 2
    return start, value, False
