"""Whatever another library predicts as distributions, and regressors that do so, as parents."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from inspect import getattr_static
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from kdgraph.base.rows import allows_missing
from kdgraph.distributions import (
    Distribution,
    Normal,
    QuantileGrid,
    WeightedSamples,
    as_distribution,
)
from kdgraph.distributions.parametric import is_frozen_family
from kdgraph.errors import ParameterError
from kdgraph.parameters import OpenFraction, check_parameters

_DISTRIBUTION_METHODS = ("predict_dist", "pred_dist")
"""Of regressors that predict distributions, kdgraph's and ngboost's; the first that is there is
asked.
"""
_PREDICTION_PREFIXES = ("predict", "pred_", "sample")
"""Beginnings of names of methods that predict or draw and do nothing else."""
_MIN_RELATIVE_SD = 1e-12
"""Standard deviation over mean, at least."""
_N_MOMENT_QUANTILES = 64
"""Of 1 that the mean of a distribution without a ``mean`` is taken over: its quantiles at the
middles.
"""


class ExternalDistribution(Distribution):
    """An object with ``cdf`` and ``ppf`` of n rows, whatever made it; ours.

    Parameters
    ----------
    wrapped : ``cdf(y)`` takes Float[n] and ``ppf(q)`` a number, and both give Float[n], as frozen
    distributions of scipy.stats do.
    row_ids : Int[m], which of its rows; None: all.

    Notes
    -----
    Mean and variance are those of the object, if it has them, else of its quantiles at 64 levels,
    whose ends leave out 1/64 of all.
    """

    def __init__(self, wrapped: Any, row_ids: np.ndarray | None = None) -> None:
        self.wrapped = wrapped
        self.n_rows = len(np.atleast_1d(wrapped.ppf(0.5)))
        self.row_ids = np.arange(self.n_rows) if row_ids is None else row_ids

    def __len__(self) -> int:
        return len(self.row_ids)

    def __getitem__(self, index: Any) -> ExternalDistribution:
        return ExternalDistribution(self.wrapped, np.atleast_1d(self.row_ids[index]))

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base
        y = np.asarray(y, dtype=np.float64)
        if y.ndim == 2:
            return np.stack([self.cdf(column) for column in y.T], axis=1)
        values = np.zeros(
            self.n_rows
        )  # the object takes a value for each of its rows, also for those that are not asked
        values[self.row_ids] = y
        return np.asarray(self.wrapped.cdf(values), dtype=np.float64)[self.row_ids]

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        q = np.asarray(q, dtype=np.float64)
        if q.ndim == 1:
            return np.stack([self.ppf(float(each)) for each in q], axis=1)
        if q.ndim == 2:
            return np.stack([self._ppf_per_row(column) for column in q.T], axis=1)
        return np.asarray(self.wrapped.ppf(float(q)), dtype=np.float64)[self.row_ids]

    def mean(self) -> np.ndarray:  # noqa: D102
        return self._moment("mean", lambda values: values.mean(axis=1))

    def var(self) -> np.ndarray:  # noqa: D102
        return self._moment("var", lambda values: values.var(axis=1))

    def _ppf_per_row(self, levels: np.ndarray) -> np.ndarray:
        """Float[m]: quantiles of each row at a level of its own."""
        of_all = np.full(self.n_rows, 0.5)
        of_all[self.row_ids] = levels
        return np.asarray(self.wrapped.ppf(of_all), dtype=np.float64)[self.row_ids]

    def _moment(self, name: str, of_quantiles: Any) -> np.ndarray:
        has = getattr(self.wrapped, name, None)
        if callable(has):
            return np.broadcast_to(np.asarray(has(), dtype=np.float64), self.n_rows)[self.row_ids]
        return of_quantiles(self.ppf((np.arange(_N_MOMENT_QUANTILES) + 0.5) / _N_MOMENT_QUANTILES))


def distribution_from_predictions(
    predictions: Any, quantile_levels: Sequence[float] | None = None
) -> Distribution:
    """A :class:`~kdgraph.distributions.Distribution` of what a regressor has predicted; ours.

    Parameters
    ----------
    predictions : a Distribution; a frozen distribution of scipy.stats, such as statsmodels'
        ``get_distribution()`` gives, or what keeps one as ``dist``, as ngboost's does; any object
        with ``cdf`` and ``ppf``; a tuple of means and standard deviations, Float[n] each, of normal
        distributions; or an array Float[n, m] of m samples for each row, such as members of an
        ensemble.
    quantile_levels : Float[m], where the array has quantiles at these levels in place of samples.

    Raises
    ------
    TypeError : for anything else.

    Examples
    --------
    >>> distribution_from_predictions(np.array([[1.0, 2.0, 6.0]])).mean().tolist()
    [3.0]
    >>> distribution_from_predictions(np.array([[1.0, 2.0, 6.0]]), quantile_levels=(0.25, 0.5, 0.75)).ppf(0.6).round(6).tolist()
    [3.6]
    """
    if isinstance(predictions, Distribution):
        return predictions
    if isinstance(predictions, tuple):
        return _normal_distribution(*predictions)
    if isinstance(predictions, np.ndarray | list) or _has_static_attribute(predictions, "to_numpy"):
        values = np.asarray(predictions, dtype=np.float64)
        if values.ndim != 2:
            raise TypeError(
                "predictions must have samples or quantiles for each row, of shape (n, m), got"
                f" {values.shape}"
            )
        return (
            WeightedSamples(values)
            if quantile_levels is None
            else QuantileGrid(np.asarray(quantile_levels), values)
        )
    for each in (getattr_static(predictions, "dist", None), predictions):
        if is_frozen_family(each):
            return as_distribution(each)
    if callable(getattr(predictions, "cdf", None)) and callable(getattr(predictions, "ppf", None)):
        return ExternalDistribution(predictions)
    raise TypeError(
        "predictions must have cdf and ppf, or be an array of samples, got"
        f" {type(predictions).__name__}"
    )


def _has_static_attribute(obj: Any, name: str) -> bool:
    """Whether it has such an attribute itself: ``__getattr__`` may return something for any name,
    as that of ngboost's distributions.
    """
    return getattr_static(obj, name, None) is not None


def _normal_distribution(*given: Any) -> Normal:
    """Of means and standard deviations."""
    arrays = [np.asarray(each, dtype=np.float64) for each in given]
    if len(arrays) != 2 or arrays[0].ndim != 1 or arrays[0].shape != arrays[1].shape:
        shapes = ", ".join(str(each.shape) for each in arrays)
        raise TypeError(
            "predictions that are a tuple must have a mean and a standard deviation for each row,"
            f" got shapes {shapes}"
        )
    return Normal(
        arrays[0], np.maximum(arrays[1], _MIN_RELATIVE_SD * np.maximum(np.abs(arrays[0]), 1e-290))
    )  # a process has 0 at its own rows


class ProbabilisticRegressor(RegressorMixin, BaseEstimator):
    """A regressor of another library that predicts distributions, samples, quantiles, or means and
    deviations, as a parent; ours.

    Parameters
    ----------
    regressor : cloned and fitted, and ``FrozenEstimator(fitted)`` is used as it is.
    method : what is asked: the name of a method that takes X; None: the first of ``predict_dist``
        and ``pred_dist`` (ngboost) that there is, or ``predict(X, return_std=True)``, as
        scikit-learn's Gaussian processes and Bayesian linear models have it.
    arguments : that the method gets beside X, such as ``{"quantiles": [0.1, 0.5, 0.9]}`` of a
    quantile forest.
    levels : at which what it gives are quantiles; None: it gives samples or distributions.

    Attributes
    ----------
    regressor_ : the fitted regressor.

    Notes
    -----
    A Gaussian process says how far its mean is from the outcome only if it has noise (``alpha``, or
    a ``WhiteKernel``).

    Examples
    --------
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> X, y = np.linspace(0, 1, 20)[:, None], np.arange(20) % 5
    >>> process = ProbabilisticRegressor(GaussianProcessRegressor(alpha=0.1)).fit(X, y)
    >>> type(process.predict_dist(X[:2])).__name__
    'Normal'
    >>> drawn = process.set_params(method="sample_y", arguments={"n_samples": 50}).fit(X, y)
    >>> drawn.predict_dist(X[:2]).x.shape
    (2, 50)
    """

    def __init__(
        self,
        regressor: Any,
        *,
        method: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        levels: Sequence[OpenFraction] | None = None,
    ):
        self.regressor = regressor
        self.method = method
        self.arguments = arguments
        self.levels = levels

    def imported_names(self) -> list[str]:
        """Return the method that :meth:`predict_dist` calls by its name, unless it is one that
        predicts.
        """
        if self.method is None or self.method.startswith(_PREDICTION_PREFIXES):
            return []
        cls = type(getattr(self, "regressor_", self.regressor))
        return [f"{cls.__module__}:{cls.__qualname__}.{self.method}"]

    def fit(self, X, y, **more: Any):
        """Fit the regressor to X: Float[n, d], or what it takes, and y: Float[n]; ``more`` goes to
        it too.

        Raises
        ------
        ParameterError : if the regressor has no such method.
        """
        check_parameters(self)
        self._resolve_method(self.regressor)
        self.regressor_ = clone(self.regressor).fit(X, y, **more)
        if hasattr(self.regressor_, "n_features_in_"):
            self.n_features_in_ = self.regressor_.n_features_in_
        return self

    def predict(self, X) -> np.ndarray:
        """Float[n]: the mean of :meth:`predict_dist`, at X as in ``fit``."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> Distribution:
        """What the regressor predicts at X, as in ``fit``: distributions of n rows."""
        check_is_fitted(self, "regressor_")
        name, arguments = self._resolve_method(self.regressor_)
        return distribution_from_predictions(
            getattr(self.regressor_, name)(X, **arguments), self.levels
        )

    def _resolve_method(self, regressor: Any) -> tuple[str, dict[str, Any]]:
        """The method, and what it gets beside X."""
        names, given = (
            _DISTRIBUTION_METHODS if self.method is None else (self.method,),
            dict(self.arguments or {}),
        )
        for name in names:
            if callable(getattr(regressor, name, None)):
                return name, given
        if self.method is None and "return_std" in _parameter_names(
            getattr(regressor, "predict", None)
        ):
            return "predict", {"return_std": True} | given
        has = f"{type(regressor).__name__} has and that predicts distributions"
        raise ParameterError(f"method must be one that {has}, got {self.method}")

    def __sklearn_tags__(self):
        """Rows may have what the regressor takes, which checks them."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = allows_missing(self.regressor)
        return tags


def _parameter_names(method: Any) -> set[str]:
    return set(inspect.signature(method).parameters) if callable(method) else set()
