"""Linear maps of log probabilities: structured matrix and vector scaling, Dirichlet calibration.

All of them are g(x) = softmax(W log p(x) + b). They differ in what is penalised and how strongly:
:class:`MatrixScaling` penalises the distance of (W, b) from temperature scaling,
:class:`DirichletCalibration` only entries off the diagonal and the intercepts.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from scipy.special import log_softmax
from sklearn.utils import check_random_state

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.base.rows import MORE_ROWS_ADVICE
from kdgraph.base.softmax_map import (
    SoftmaxMap,
    fit_softmax_map,
    fit_structured_scaling,
    mix_with_uniform,
    penalty_matrix,
    succession_share,
)
from kdgraph.parameters import Positive, Range

DIAGONAL_PENALTY = 1e-3
"""Penalty of the diagonal in Dirichlet calibration.

The optimum of Kull et al. does not exist if the diagonal alone separates the calibration rows, as
it does if all of them are classified correctly. The penalty moves an optimum that exists by about a
hundredth of its distance from 1, below its standard error for fewer than about 10,000 rows.
"""
PENALTY_GRID = (1e4, 1e3, 100.0, 10.0, 1.0, 0.1, 0.01, 0.001)
"""Candidates of the penalty of Dirichlet calibration, from the most rigid to the most flexible."""


@dataclass(eq=False, repr=False)
class LogLinearCalibrator(PostHocClassifier):
    """Base class of the maps softmax(W log p + b).

    A subclass implements ``_fit_map(proba, y, weight)``, which returns the map. It is fitted also
    if a class has no calibration row, since the penalty keeps its parameters near those of the
    other classes, but rows of two classes are needed. The base class is original to kdgraph.

    Attributes
    ----------
    map_ : SoftmaxMap
        The map.
    """

    def _parent_scores(self, rows: Rows) -> np.ndarray:
        return np.asarray(rows.predict(self.estimator_), dtype=np.float64)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        available = np.unique(calibration.y)
        if len(available) < 2:
            raise ValueError(
                f"{type(self).__name__} needs calibration rows of two classes, got only rows of"
                f" {self.classes_[available].tolist()}; {MORE_ROWS_ADVICE}"
            )
        proba = self._parent_scores(calibration)
        self.map_ = self._fit_map(proba, calibration.y, calibration.weight)

    def _fit_map(self, proba: np.ndarray, y: np.ndarray, weight: np.ndarray) -> SoftmaxMap:
        """Return the map, fitted to probabilities Float[n, K] of n rows."""
        raise NotImplementedError

    def predict_proba(self, X) -> np.ndarray:
        """Return the class probabilities, Float[n, K]."""
        return self._predict_rows(Rows.unweighted(self._validate_X(X)))

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        return self.map_(self._parent_scores(rows))


@dataclass(eq=False, repr=False)
class MatrixScaling(LogLinearCalibrator):
    """Structured matrix or vector scaling: temperature scaling, then a penalised linear map.

    Parameters
    ----------
    structure : "matrix" or "vector", default="matrix"
        Fit the whole matrix W, or only its diagonal.
    mix_before_temperature : bool, default=True
        Mix the parent's probabilities with the uniform distribution also before temperature
        scaling. False: replace those below 1.2e-38 by it, as the authors do.
    intercept_penalty, diagonal_penalty, off_diagonal_penalty : float, default=1.0
        Factors of the penalties of b, of the diagonal of W and of the other entries; the last one
        is not used by structure "vector". Small factors approach vector scaling and matrix scaling
        without a penalty (Guo et al. 2017), whose optimum may not exist.

    Notes
    -----
    Berta et al. 2025, structured matrix scaling (SMS) and structured vector scaling (SVS), with the
    ridge penalty and the defaults of the authors' package probmetrics 1.3. For n calibration rows
    and K classes, the map minimises the mean NLL plus

        K / n (Σ b_k² + Σ (W_kk - 1)²) + K (K - 1) / n Σ_{j ≠ k} W_jk²

    over the log probabilities of temperature scaling, mixed with a share 1 / (n + 1) of the uniform
    distribution. The objective is strictly convex; its optimum is found by Newton's method, whose
    linear systems are solved by conjugate gradients.

    The first mixing is original to kdgraph. A forest often gives a class a probability of 0; if a
    calibration row of that class is among these rows, its clipped logit of -87 decides the
    temperature alone.

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
    >>> model = MatrixScaling(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y)
    >>> model.map_.coef.shape, model.predict_proba(X[:3]).shape
    ((10, 10), (3, 10))
    """

    _: KW_ONLY
    structure: Literal["matrix", "vector"] = "matrix"
    mix_before_temperature: bool = True
    intercept_penalty: Positive = 1.0
    diagonal_penalty: Positive = 1.0
    off_diagonal_penalty: Positive = 1.0

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record: the inverse temperature."""
        return {"inverse_temperature": self.map_.inverse_temperature}

    def _fit_map(self, proba: np.ndarray, y: np.ndarray, weight: np.ndarray) -> SoftmaxMap:
        return fit_structured_scaling(
            proba,
            y,
            weight,
            structure=self.structure,
            mix_before_temperature=self.mix_before_temperature,
            intercept_penalty=self.intercept_penalty,
            diagonal_penalty=self.diagonal_penalty,
            off_diagonal_penalty=self.off_diagonal_penalty,
        )


@dataclass(eq=False, repr=False)
class DirichletCalibration(LogLinearCalibrator):
    """Dirichlet calibration with a penalty of the off-diagonal entries and intercepts (ODIR).

    Parameters
    ----------
    penalty : float or "cv", default="cv"
        Factor λ of the penalties. "cv" chooses among 10,000, 1,000, …, 0.001 the value with the
        least cross-validated NLL on the calibration rows. It tries them in this order, and stops at
        the first one that is worse than the previous one.
    folds : int, default=5
        Number of folds, drawn by ``random_state``; at most as many as calibration rows.

    Attributes
    ----------
    penalty_ : float
        The value λ.
    penalty_nll_ : ndarray of shape (8,) or None
        Cross-validated NLL of each candidate in nats per row, Float[8], NaN for those that were not
        tried; None without "cv".

    Notes
    -----
    Kull et al. 2019: the map minimises the mean NLL plus

        λ / (K (K - 1)) Σ_{j ≠ k} W_jk² + μ / K Σ b_k²

    They choose λ and μ by cross-validation; here μ = λ. Original to kdgraph are two changes that
    make the optimum exist for any rows: a penalty of 0.001 Σ (W_kk - 1)², and a share of 1 / (n +
    1) of the uniform distribution in the parent's probabilities, of which those of a forest are
    often 0.

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

    def _fit_map(self, proba: np.ndarray, y: np.ndarray, weight: np.ndarray) -> SoftmaxMap:
        share = succession_share(weight)
        log_proba = np.log(mix_with_uniform(proba, share))
        if self.penalty == "cv":
            self.penalty_nll_ = self._cross_validate(log_proba, y, weight)
            self.penalty_ = PENALTY_GRID[int(np.nanargmin(self.penalty_nll_))]
        else:
            self.penalty_, self.penalty_nll_ = float(self.penalty), None
        W = _fit_dirichlet(log_proba, y, weight, self.penalty_)
        return SoftmaxMap(W[:, :-1], W[:, -1], share)

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
                logits = log_proba[held_out] @ W[:, :-1].T + W[:, -1]
                with np.errstate(under="ignore"):
                    log_proba_held_out = log_softmax(logits, axis=1)
                loss[held_out] = -log_proba_held_out[np.arange(len(logits)), y[held_out]]
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
