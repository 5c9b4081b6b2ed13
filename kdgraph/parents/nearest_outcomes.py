"""Nearest-neighbour regression, as a parent that predicts distributions: the outcomes of the neighbours themselves."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.distributions import WeightedSamples
from kdgraph.parameters import Count, check_parameters
from kdgraph.smoothing.near import NearKernel, Nearness
from kdgraph.smoothing.neighbours import NeighbourSearch


class NearestOutcomes(RegressorMixin, BaseEstimator):
    """The outcomes of the k nearest training rows with weights by their distance: a conditional distribution function by kernel smoothing.

    Its mean is k-nearest-neighbour regression; Torres et al. (2024), Section 3, compare local recalibration with that.

    Parameters
    ----------
    k : neighbours; of fewer rows all, with a warning.
    kernel : of t, the distance over that of the k-th neighbour: "epanechnikov" 1 - t², "uniform" 1, "gaussian" exp(-t²/2).
    scale : "sd": features are divided by their standard deviation on the training rows; "none": they are as they come.

    Attributes
    ----------
    X_, y_ : the training rows, Float[n, d], in units of ``spread_``, and their outcomes, Float[n].
    spread_ : Float[d], what features are divided by.

    References
    ----------
    Stone, "Consistent nonparametric regression", The Annals of Statistics 5, 1977, Section 1: weights of neighbours, and quantiles by them.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([5.0, 7.0, 0.0, 1.0])
    >>> near = NearestOutcomes(k=2, kernel="uniform").fit(X, y)
    >>> near.predict([[0.2]]).tolist(), near.predict_dist([[0.2]]).interval(0.9)[1].tolist()
    ([6.0], [7.0])
    """

    def __init__(self, *, k: Count = 100, kernel: NearKernel = "epanechnikov", scale: Literal["sd", "none"] = "sd"):
        self.k = k
        self.kernel: NearKernel = kernel
        self.scale = scale

    def fit(self, X, y):
        """Keep X: Float[n, d], finite, and y: Float[n]."""
        check_parameters(self)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        if self.k > len(X):
            warnings.warn(f"k={self.k} neighbours were asked for, and there are {len(X)} rows: all are taken", stacklevel=2)
        spread = np.std(X, axis=0)
        some = (self.scale == "sd") & (spread > 1e-14 * np.abs(X).max(axis=0))  # else it is what rounding has made of equal numbers
        self.spread_ = np.where(some, spread, 1.0)
        self.X_, self.y_ = X / self.spread_, np.asarray(y, dtype=np.float64)
        return self

    def predict(self, X) -> np.ndarray:
        """Float[n]: the weighted mean of the neighbours' outcomes, at X: Float[n, d]."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> WeightedSamples:
        """The neighbours' outcomes with their weights, of n rows X: Float[n, d]; memory for n·k numbers, five times."""
        check_is_fitted(self)
        at = validate_data(self, X, reset=False, dtype=np.float64) / self.spread_
        near = Nearness(k=min(self.k, len(self.X_)), kernel=self.kernel).around(NeighbourSearch(self.X_), at)
        return WeightedSamples(self.y_[near.rows], near.weight)
