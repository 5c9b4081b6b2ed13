"""Least squares with normal noise of one size: the linear model, as a parent that predicts distributions."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.distributions import Normal
from kdgraph.parameters import check_parameters


class GaussianLinear(RegressorMixin, BaseEstimator):
    """y = intercept + coef·x + N(0, sigma²), fitted by least squares: the linear parent of Torres et al. (2024), Section 4.1.

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
    ``sigma_`` is the unbiased estimate, the residual sum of squares over n minus the rank of the design; over 1, where that is less. A line
    that goes through every point has the resolution of float64 for its sigma, since no distribution has none. That coefficients
    are estimates does not widen what is predicted: it is the plug-in distribution of Torres et al., section 4.1.

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
        residual = y - self._line(X)
        free = max(len(y) - line.rank_ - self.fit_intercept, 1)
        smallest = np.finfo(np.float64).eps * max(np.abs(y).max(), 1.0)
        self.sigma_ = float(max(np.sqrt((residual**2).sum() / free), smallest))
        return self

    def predict(self, X) -> np.ndarray:
        """Float[n]: the mean at X: Float[n, d]."""
        check_is_fitted(self)
        return self._line(validate_data(self, X, reset=False, dtype=np.float64))

    def predict_dist(self, X) -> Normal:
        """N(predict(X), sigma_²), of n rows."""
        mean = self.predict(X)
        return Normal(mean, np.full(len(mean), self.sigma_))

    def _line(self, X: np.ndarray) -> np.ndarray:
        return (X * self.coef_).sum(axis=1) + self.intercept_  # row by row: a matrix product may depend on how many rows it has
