"""Least squares with normal noise of one size: the linear model, as a parent that predicts
distributions.

Nearest-neighbour regression, as a parent that predicts distributions: the outcomes of the
neighbours themselves.

The Gamma generalised linear model with logarithmic link, as a parent that predicts distributions.
"""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import GammaRegressor, LinearRegression
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.distributions import Normal, ScipyFamily, WeightedSamples
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, check_parameters
from kdgraph.smoothing.neighbours import NearKernel, Nearness, NeighbourSearch


class GaussianLinear(RegressorMixin, BaseEstimator):
    """y = intercept + coef·x + N(0, sigma²), fitted by least squares: the linear parent of Torres
    et al. (2024), Section 4.1.

    Parameters
    ----------
    fit_intercept : whether there is an intercept; else the line goes through the origin.

    Attributes
    ----------
    coef_ : Float[d].
    intercept_ : a number.
    sigma_ : the standard deviation of the noise, in the units of y.

    Notes
    -----
    ``sigma_`` is the unbiased estimate, the residual sum of squares over n minus the rank of the
    design; over 1, where that is less. A line that goes through every point has the resolution of
    float64 for its sigma, since no distribution has none. That coefficients are estimates does not
    widen what is predicted: it is the plug-in distribution of Torres et al., section 4.1.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 3.0, 3.0, 6.0])
    >>> line = GaussianLinear().fit(X, y)
    >>> line.predict([[4.0]]).round(3), round(line.sigma_, 3)
    (array([7.5]), 0.949)
    >>> line.predict_dist([[4.0]]).ppf(0.9).round(3)
    array([8.716])
    """

    def __init__(self, *, fit_intercept: bool = True):
        self.fit_intercept = fit_intercept

    def fit(self, X, y):
        """Fit to X: Float[n, d], finite, and y: Float[n]."""
        check_parameters(self)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        line = LinearRegression(fit_intercept=self.fit_intercept).fit(X, y)
        self.coef_, self.intercept_ = line.coef_, float(line.intercept_)
        residual = y - self._predict_mean(X)
        free = max(len(y) - line.rank_ - self.fit_intercept, 1)
        smallest = np.finfo(np.float64).eps * max(np.abs(y).max(), 1.0)
        self.sigma_ = float(max(np.sqrt((residual**2).sum() / free), smallest))
        return self

    def predict(self, X) -> np.ndarray:
        """Float[n]: the mean at X: Float[n, d]."""
        check_is_fitted(self)
        return self._predict_mean(validate_data(self, X, reset=False, dtype=np.float64))

    def predict_dist(self, X) -> Normal:
        """N(predict(X), sigma_²), of n rows."""
        mean = self.predict(X)
        return Normal(mean, np.full(len(mean), self.sigma_))

    def _predict_mean(self, X: np.ndarray) -> np.ndarray:
        return (X * self.coef_).sum(
            axis=1
        ) + self.intercept_  # row by row: a matrix product may depend on how many rows it has


class NearestNeighbourRegressor(RegressorMixin, BaseEstimator):
    """The outcomes of the k nearest training rows with weights by their distance: a conditional
    distribution function by kernel smoothing.

    Its mean is k-nearest-neighbour regression; Torres et al. (2024), Section 3, compare local
    recalibration with that.

    Parameters
    ----------
    k : neighbours; of fewer rows all, with a warning.
    kernel : of t, the distance over that of the k-th neighbour: "epanechnikov" 1 - t², "uniform" 1,
    "gaussian" exp(-t²/2).
    scale : "sd": features are divided by their standard deviation on the training rows; "none":
        they are as they come.

    Attributes
    ----------
    X_, y_ : the training rows, Float[n, d], in units of ``spread_``, and their outcomes, Float[n].
    scale_ : Float[d], what features are divided by.

    References
    ----------
    Stone, "Consistent nonparametric regression", The Annals of Statistics 5, 1977, Section 1:
    weights of neighbours, and quantiles by them.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([5.0, 7.0, 0.0, 1.0])
    >>> near = NearestNeighbourRegressor(k=2, kernel="uniform").fit(X, y)
    >>> near.predict([[0.2]]).tolist(), near.predict_dist([[0.2]]).interval(0.9)[1].tolist()
    ([6.0], [7.0])
    """

    def __init__(
        self,
        *,
        k: Count = 100,
        kernel: NearKernel = "epanechnikov",
        scale: Literal["sd", "none"] = "sd",
    ):
        self.k = k
        self.kernel: NearKernel = kernel
        self.scale = scale

    def fit(self, X, y):
        """Keep X: Float[n, d], finite, and y: Float[n]."""
        check_parameters(self)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        if self.k > len(X):
            warnings.warn(
                f"k={self.k} neighbours were asked for, and there are {len(X)} rows: all are taken",
                stacklevel=2,
            )
        spread = np.std(X, axis=0)
        some = (self.scale == "sd") & (
            spread > 1e-14 * np.abs(X).max(axis=0)
        )  # else it is what rounding has made of equal numbers
        self.scale_ = np.where(some, spread, 1.0)
        self.X_, self.y_ = X / self.scale_, np.asarray(y, dtype=np.float64)
        return self

    def predict(self, X) -> np.ndarray:
        """Float[n]: the weighted mean of the neighbours' outcomes, at X: Float[n, d]."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> WeightedSamples:
        """The neighbours' outcomes with their weights, of n rows X: Float[n, d]; memory for n·k
        numbers, five times.
        """
        check_is_fitted(self)
        at = validate_data(self, X, reset=False, dtype=np.float64) / self.scale_
        near = Nearness(k=min(self.k, len(self.X_)), kernel=self.kernel).around(
            NeighbourSearch(self.X_), at
        )
        return WeightedSamples(self.y_[near.rows], near.weight)


MAX_GAMMA_SHAPE = 1e12
"""Of a fit without residuals, whose shape has no bound: a relative standard deviation of 1e-6, of
which SciPy's quantiles have 6 digits.
"""
_MAX_LOG_PREDICTION = 690.0
"""Of a mean: e^690 = 1e299, so that far from all rows there still is a distribution."""


class GammaGlm(RegressorMixin, BaseEstimator):
    """y ~ Gamma with mean exp(intercept + coef·x) and one shape α, by maximum likelihood: the GLM
    of Torres et al. (2024), Section 4.4.

    Parameters
    ----------
    dispersion : how 1/α is estimated. "pearson": Σ ((y - μ)/μ)² over n minus the rank of the
        design, as R's ``summary.glm`` has it; "ml": by maximum likelihood, log α - ψ(α) = D/(2n)
        with the deviance D.
    fit_intercept : whether there is an intercept.

    Attributes
    ----------
    coef_ : Float[d], by unit of each feature, of log y.
    intercept_ : a number.
    shape_ : α; 1/α is the variance of y/μ. At most 1e12.

    Raises
    ------
    ParameterError : in ``fit``, for a y that is not above 0.

    Notes
    -----
    The means do not depend on α. They are those of scikit-learn's ``GammaRegressor`` without a
    penalty (``alpha=0``, Newton's method). It gets the left singular vectors of the design, so
    features in any units and features that depend on each other linearly, such as indicators of all
    categories beside an intercept, are one problem; of all coefficients that fit alike, those of
    least norm are kept, as of ``LinearRegression``.

    References
    ----------
    McCullagh and Nelder, "Generalized linear models", 1989, Sections 8.3.6 (dispersion) and 8.4.

    Examples
    --------
    >>> X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([1.0, 3.0, 4.0, 12.0])
    >>> glm = GammaGlm().fit(X, y)
    >>> glm.predict([[0.0], [1.0]]).round(6), round(glm.shape_, 6)
    (array([2., 8.]), 2.0)
    >>> glm.predict_dist([[1.0]]).interval(0.9)[1].round(2)
    array([18.98])
    """

    def __init__(
        self, *, dispersion: Literal["pearson", "ml"] = "pearson", fit_intercept: bool = True
    ):
        self.dispersion = dispersion
        self.fit_intercept = fit_intercept

    def fit(self, X, y):
        """Fit to X: Float[n, d], finite, and y: Float[n], above 0."""
        check_parameters(self)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        y = check_positive_targets(y, type(self).__name__)
        center = X.mean(axis=0) if self.fit_intercept else np.zeros(X.shape[1])
        spread = np.sqrt(np.square(X - center).mean(axis=0))
        spread[spread <= 1e-14 * np.abs(X).max(axis=0)] = np.inf  # a constant feature says nothing
        left, singular, right = np.linalg.svd((X - center) / spread, full_matrices=False)
        rank = (
            int((singular > max(X.shape) * np.finfo(np.float64).eps * singular[0]).sum())
            if singular[0]
            else 0
        )
        unit = float(np.exp(np.log(y).mean())) if self.fit_intercept else 1.0
        slope, self.intercept_ = self._fit_coefficients(left[:, :rank] * np.sqrt(len(y)), y / unit)
        self.coef_ = right[:rank].T @ (slope * np.sqrt(len(y)) / singular[:rank]) / spread
        self.intercept_ += float(np.log(unit) - center @ self.coef_) if self.fit_intercept else 0.0
        self.shape_ = self._estimate_shape(y / self.predict(X), rank + self.fit_intercept)
        return self

    def _fit_coefficients(self, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients Float[rank] on orthogonal columns, and the intercept."""
        if not design.shape[1]:
            return np.zeros(0), float(np.log(y.mean())) if self.fit_intercept else 0.0
        solver = GammaRegressor(
            alpha=0.0,
            fit_intercept=self.fit_intercept,
            solver="newton-cholesky",
            tol=1e-8,
            max_iter=200,
        )
        found = solver.fit(design, y)
        return found.coef_, float(found.intercept_)

    def _estimate_shape(self, ratio: np.ndarray, n_parameters: int) -> float:
        """α, of y/μ."""
        if self.dispersion == "ml":
            return gamma_shape_mle(float((ratio - 1 - np.log(ratio)).mean()))
        return float(
            min(
                max(len(ratio) - n_parameters, 1) / max(np.square(ratio - 1).sum(), 1e-300),
                MAX_GAMMA_SHAPE,
            )
        )

    def predict(self, X) -> np.ndarray:
        """Float[n]: the mean at X: Float[n, d]."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        line = (X * self.coef_).sum(
            axis=1
        ) + self.intercept_  # row by row: a matrix product may depend on how many rows it has
        return np.exp(np.clip(line, -_MAX_LOG_PREDICTION, _MAX_LOG_PREDICTION))

    def predict_dist(self, X) -> ScipyFamily:
        """Gamma with mean ``predict(X)`` and shape ``shape_``, of n rows."""
        mean = self.predict(X)
        return ScipyFamily(
            "gamma", {"a": np.full(len(mean), self.shape_), "scale": mean / self.shape_}
        )

    def __sklearn_tags__(self):
        """The outcome is above 0."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def check_positive_targets(y: np.ndarray, owner: str) -> np.ndarray:
    """Float64[n]: y, or a ParameterError in the name of the model whose outcome must be above 0;
    ours.
    """
    y = np.asarray(y, dtype=np.float64)
    if (y <= 0).any():
        row = int(np.argmax(y <= 0))
        raise ParameterError(f"{owner} needs y above 0, got {y[row]:g} in row {row}")
    return y


def gamma_shape_mle(half_deviance: float) -> float:
    """α with log α - ψ(α) = ``half_deviance``, the mean of y/μ - 1 - log(y/μ): its maximum
    likelihood, at most 1e12.

    McCullagh and Nelder, "Generalized linear models", 1989, Section 8.3.6.

    >>> round(gamma_shape_mle(np.log(3.0) - float(digamma(3.0))), 9)
    3.0
    """
    # 1/(2α) < log α - ψ(α) < 1/α, so that the root lies between; for large α the difference has no
    # digits left, but its series does.
    if half_deviance < 1e-5:
        return min(0.5 / max(half_deviance, 1e-300) + 1 / 6, MAX_GAMMA_SHAPE)
    low, high = 0.5 / half_deviance * (1 - 1e-9), 1 / half_deviance * (1 + 1e-9)
    return float(
        brentq(
            lambda a: np.log(a) - digamma(a) - half_deviance,
            low,
            high,
            xtol=1e-14 * low,
            rtol=1e-14,
        )
    )
