"""Regression models as parents that predict distributions.

- :class:`GaussianLinear`: least squares with normal noise of constant variance.
- :class:`NearestNeighbourRegressor`: the weighted outcomes of the nearest training rows.
- :class:`GammaGlm`: the Gamma generalised linear model with logarithmic link.

They are parents of Torres et al. (2024), "Model-free local recalibration of neural networks", and
baselines for recalibrated networks.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import GammaRegressor, LinearRegression
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.base.validation import check_squares
from kdgraph.distributions import Distribution, Normal, ScipyFamily, WeightedSamples
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, check_parameters
from kdgraph.smoothing.neighbour_weights import NeighbourKernel, NeighbourWeighting
from kdgraph.smoothing.neighbours import NeighbourSearch

# A standard deviation below this fraction of the largest value is rounding error of a constant
# feature.
_MIN_RELATIVE_SD = 1e-14


QUANTILE_LEVELS = (
    *(0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    *(0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99),
)
"""Deciles, and the ends of the central intervals of 90, 95 and 98 %."""


class DistributionRegressor(RegressorMixin, BaseEstimator):
    """Base class of regressors that predict distributions, whose means are their predictions."""

    def predict_dist(self, X) -> Distribution:
        """Return the predicted distributions of n rows."""
        raise NotImplementedError

    def predict(self, X) -> np.ndarray:
        """Return the mean of :meth:`predict_dist` for each row of X, Float[n]."""
        return self.predict_dist(X).mean()


def _linear_predictor(X: np.ndarray, coef: np.ndarray, intercept: float) -> np.ndarray:
    # Sums are taken row by row: the result of a matrix product may depend on the number of rows.
    return (X * coef).sum(axis=1) + intercept


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianLinear(RegressorMixin, BaseEstimator):
    """Linear regression with normal noise: y = intercept + coef·x + N(0, sigma²).

    It is fitted by least squares, and is the linear parent of Torres et al. (2024), Section 4.1.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Fit an intercept. Otherwise the line goes through the origin.

    Attributes
    ----------
    coef_ : Float[d]
        Coefficients.
    intercept_ : float
        Intercept.
    sigma_ : float
        Standard deviation of the noise, in the units of y.

    Notes
    -----
    ``sigma_`` is the unbiased estimate, the residual sum of squares over n minus the rank of the
    design; over 1, if that is less. If the line goes through every point, ``sigma_`` is the
    resolution of float64, since a distribution needs a positive one. The prediction is the plug-in
    distribution of Torres et al., Section 4.1: it is not wider because coefficients are estimates.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 3.0, 3.0, 6.0])
    >>> line = GaussianLinear().fit(X, y)
    >>> line.predict([[4.0]]).round(3), round(line.sigma_, 3)
    (array([7.5]), 0.949)
    >>> line.predict_dist([[4.0]]).ppf(0.9).round(3)
    array([8.716])
    """

    fit_intercept: bool = True

    def fit(self, X, y):
        """Fit coefficients and the noise to finite rows, Float[n, d], and outcomes, Float[n]."""
        check_parameters(self)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        line = LinearRegression(fit_intercept=self.fit_intercept).fit(X, y)
        self.coef_, self.intercept_ = line.coef_, float(line.intercept_)
        residual = y - _linear_predictor(X, self.coef_, self.intercept_)
        degrees_of_freedom = max(len(y) - line.rank_ - self.fit_intercept, 1)
        min_sigma = np.finfo(np.float64).eps * max(np.abs(y).max(), 1.0)
        self.sigma_ = float(max(np.sqrt((residual**2).sum() / degrees_of_freedom), min_sigma))
        return self

    def predict(self, X) -> np.ndarray:
        """Return the mean for each row of X (Float[n, d]), Float[n]."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return _linear_predictor(X, self.coef_, self.intercept_)

    def predict_dist(self, X) -> Normal:
        """Return N(predict(X), sigma_²) for each row of X, Float[n, d]."""
        mean = self.predict(X)
        return Normal(mean, np.full(len(mean), self.sigma_))


@dataclass(eq=False, repr=False, kw_only=True)
class NearestNeighbourRegressor(DistributionRegressor):
    """Weighted outcomes of the k nearest training rows, as a predictive distribution.

    The weights depend on the distance, so this is a conditional distribution function by kernel
    smoothing. Its mean is k-nearest-neighbour regression, with which Torres et al. (2024),
    Section 3, compare local recalibration.

    Parameters
    ----------
    k : int, default=100
        Number of neighbours. If there are fewer training rows, all are used, with a warning.
    kernel : {"epanechnikov", "uniform", "gaussian"}, default="epanechnikov"
        Weight as a function of t, the distance divided by that of the k-th neighbour: 1 - t² for
        "epanechnikov", 1 for "uniform", exp(-t²/2) for "gaussian".
    scale : {"sd", "none"}, default="sd"
        Divide features by their standard deviation on the training rows, or leave them unchanged.

    Attributes
    ----------
    X_ : Float[n, d]
        Training rows in units of ``scale_``.
    y_ : Float[n]
        Outcomes of the training rows.
    scale_ : Float[d]
        Divisors of the features.

    Notes
    -----
    All training rows are kept, and the time of a prediction grows with their number. From
    20,000 to 200,000 rows it grew 4 times with 5 features, 6 times with 20 and 10 times with 100.

    References
    ----------
    Stone, "Consistent nonparametric regression", The Annals of Statistics 5, 1977, Section 1:
    weights of neighbours, and quantiles by them.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([5.0, 7.0, 0.0, 1.0])
    >>> model = NearestNeighbourRegressor(k=2, kernel="uniform").fit(X, y)
    >>> model.predict([[0.2]]).tolist(), model.predict_dist([[0.2]]).interval(0.9)[1].tolist()
    ([6.0], [7.0])
    """

    k: Count = 100
    kernel: NeighbourKernel = "epanechnikov"
    scale: Literal["sd", "none"] = "sd"

    def fit(self, X, y):
        """Store finite rows, Float[n, d], and outcomes, Float[n], and scale the features."""
        check_parameters(self)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        if self.k > len(X):
            warnings.warn(
                f"k={self.k} is more than the {len(X)} training rows; all of them are used as"
                " neighbours",
                stacklevel=2,
            )
        check_squares(X, type(self).__name__)
        sd = np.std(X, axis=0)
        is_scaled = (self.scale == "sd") & (sd > _MIN_RELATIVE_SD * np.abs(X).max(axis=0))
        self.scale_ = np.where(is_scaled, sd, 1.0)
        self.X_, self.y_ = X / self.scale_, np.asarray(y, dtype=np.float64)
        return self

    def predict_dist(self, X) -> WeightedSamples:
        """Return the neighbours' outcomes with their weights for each row of X, Float[n, d].

        It needs memory for five times n·k numbers.
        """
        check_is_fitted(self)
        query = validate_data(self, X, reset=False, dtype=np.float64) / self.scale_
        weighting = NeighbourWeighting(k=min(self.k, len(self.X_)), kernel=self.kernel)
        neighbours = weighting.find_neighbours(NeighbourSearch(self.X_), query)
        return WeightedSamples(self.y_[neighbours.rows], neighbours.weight)


MAX_GAMMA_SHAPE = 1e12
"""Shape of a Gamma fit without residuals, for which the likelihood has no maximum.

The relative standard deviation is then 1e-6, of which SciPy's quantiles have 6 digits.
"""

# Bound of the logarithm of a mean: e^690 = 1e299, so that the prediction is a distribution even far
# from all training rows.
_MAX_LOG_PREDICTION = 690.0


@dataclass(eq=False, repr=False, kw_only=True)
class GammaGlm(RegressorMixin, BaseEstimator):
    """Gamma generalised linear model with logarithmic link, by maximum likelihood.

    The outcome is y ~ Gamma with mean exp(intercept + coef·x) and one shape α for all rows. It is
    the GLM of Torres et al. (2024), Section 4.4.

    Parameters
    ----------
    dispersion : {"pearson", "ml"}, default="pearson"
        Estimator of 1/α. "pearson": Σ ((y - μ)/μ)² over n minus the rank of the design, as in R's
        ``summary.glm``. "ml": maximum likelihood, log α - ψ(α) = D/(2n) with the deviance D.
    fit_intercept : bool, default=True
        Fit an intercept.

    Attributes
    ----------
    coef_ : Float[d]
        Change of log y per unit of each feature.
    intercept_ : float
        Intercept.
    shape_ : float
        Shape α, at most 1e12; 1/α is the variance of y/μ.

    Notes
    -----
    The means do not depend on α. They are those of scikit-learn's ``GammaRegressor`` without a
    penalty (``alpha=0``, Newton's method), which is fitted on the left singular vectors of the
    design. So features in any units, and features with a linear dependence, such as indicators of
    all categories together with an intercept, are not a problem. Of all coefficients that fit
    equally well, those of least norm are used, as in ``LinearRegression``.

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

    dispersion: Literal["pearson", "ml"] = "pearson"
    fit_intercept: bool = True

    def fit(self, X, y):
        """Fit coefficients and shape to finite rows, Float[n, d], and outcomes y above 0."""
        check_parameters(self)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        check_squares(X, type(self).__name__)
        y = check_positive_targets(y, type(self).__name__)
        # Features are standardised before the singular value decomposition, so that its rank does
        # not depend on their units. An infinite divisor removes a constant feature.
        center = X.mean(axis=0) if self.fit_intercept else np.zeros(X.shape[1])
        sd = np.sqrt(np.square(X - center).mean(axis=0))
        sd[sd <= _MIN_RELATIVE_SD * np.abs(X).max(axis=0)] = np.inf
        left, singular, right = np.linalg.svd((X - center) / sd, full_matrices=False)
        min_singular = max(X.shape) * np.finfo(np.float64).eps * singular[0]
        rank = int((singular > min_singular).sum()) if singular[0] else 0
        # Outcomes are in units of their geometric mean, and columns have mean square 1, so that the
        # solver's tolerance does not depend on units. The next lines undo both scalings.
        unit = float(np.exp(np.log(y).mean())) if self.fit_intercept else 1.0
        slope, self.intercept_ = self._fit_coefficients(left[:, :rank] * np.sqrt(len(y)), y / unit)
        self.coef_ = right[:rank].T @ (slope * np.sqrt(len(y)) / singular[:rank]) / sd
        self.intercept_ += float(np.log(unit) - center @ self.coef_) if self.fit_intercept else 0.0
        self.shape_ = self._estimate_shape(y / self.predict(X), rank + self.fit_intercept)
        return self

    def _fit_coefficients(self, design: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
        """Return coefficients of the orthogonal columns, Float[rank], and the intercept."""
        if not design.shape[1]:
            return np.zeros(0), float(np.log(y.mean())) if self.fit_intercept else 0.0
        solver = GammaRegressor(
            alpha=0.0,
            fit_intercept=self.fit_intercept,
            solver="newton-cholesky",
            tol=1e-8,
            max_iter=200,
        )
        solver.fit(design, y)
        return solver.coef_, float(solver.intercept_)

    def _estimate_shape(self, ratio: np.ndarray, n_parameters: int) -> float:
        if self.dispersion == "ml":
            return gamma_shape_mle(float((ratio - 1 - np.log(ratio)).mean()))
        degrees_of_freedom = max(len(ratio) - n_parameters, 1)
        sum_of_squares = max(np.square(ratio - 1).sum(), 1e-300)
        return float(min(degrees_of_freedom / sum_of_squares, MAX_GAMMA_SHAPE))

    def predict(self, X) -> np.ndarray:
        """Return the mean for each row of X (Float[n, d]), Float[n]."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        log_mean = _linear_predictor(X, self.coef_, self.intercept_)
        return np.exp(np.clip(log_mean, -_MAX_LOG_PREDICTION, _MAX_LOG_PREDICTION))

    def predict_dist(self, X) -> ScipyFamily:
        """Return Gamma distributions with mean ``predict(X)`` and shape ``shape_``, of n rows."""
        mean = self.predict(X)
        return ScipyFamily(
            "gamma", {"a": np.full(len(mean), self.shape_), "scale": mean / self.shape_}
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def check_positive_targets(y: np.ndarray, owner: str) -> np.ndarray:
    """Return y, of shape [n], as Float64[n]; outcomes that are not above 0 raise ParameterError."""
    y = np.asarray(y, dtype=np.float64)
    if (y <= 0).any():
        row = int(np.argmax(y <= 0))
        raise ParameterError(f"{owner} needs y above 0, got {y[row]:g} in row {row}")
    return y


def gamma_shape_mle(half_deviance: float) -> float:
    """Return the maximum likelihood estimate of the shape of a Gamma distribution, at most 1e12.

    It is the α with log α - ψ(α) = ``half_deviance``, the mean of y/μ - 1 - log(y/μ) (McCullagh and
    Nelder 1989, Section 8.3.6).

    >>> round(gamma_shape_mle(np.log(3.0) - float(digamma(3.0))), 9)
    3.0
    """
    # For large α the difference log α - ψ(α) has no correct digits left, but its series
    # 1/(2α) + 1/(12α²) does.
    if half_deviance < 1e-5:
        return min(0.5 / max(half_deviance, 1e-300) + 1 / 6, MAX_GAMMA_SHAPE)
    # The root is bracketed, because 1/(2α) < log α - ψ(α) < 1/α.
    low, high = 0.5 / half_deviance * (1 - 1e-9), 1 / half_deviance * (1 + 1e-9)

    def excess(shape: float) -> float:
        return np.log(shape) - digamma(shape) - half_deviance

    return float(brentq(excess, low, high, xtol=1e-14 * low, rtol=1e-14))
