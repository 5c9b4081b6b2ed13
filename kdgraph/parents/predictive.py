"""Regressors of other libraries as parents that predict distributions.

:class:`ProbabilisticRegressor` wraps a regressor. :func:`distribution_from_predictions` converts
predictions to a :class:`~kdgraph.distributions.Distribution`: frozen distributions of scipy.stats,
means with standard deviations, samples, quantiles, or any object with ``cdf`` and ``ppf``.
Original to kdgraph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import getattr_static
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from kdgraph.base.validation import allows_missing
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
from kdgraph.parents.regressors import DistributionRegressor

# Methods that predict distributions, of kdgraph and of ngboost. The first one that exists is used.
_DISTRIBUTION_METHODS = ("predict_dist", "pred_dist")

# Beginnings of the names of methods that only predict or draw samples.
_PREDICTION_PREFIXES = ("predict", "pred_", "sample")

# Lower bound of standard deviation over mean. A Gaussian process without noise predicts a standard
# deviation of 0 at its training rows, which is not a distribution.
_MIN_RELATIVE_SD = 1e-12

# Number of quantiles, at the midpoints of equal intervals of [0, 1], over which the moments of a
# distribution without such methods are taken.
_N_MOMENT_QUANTILES = 64


class ExternalDistribution(Distribution):
    """Distribution of n rows in an object with ``cdf`` and ``ppf`` from any library.

    ``cdf(y)`` takes Float[n] and ``ppf(q)`` a number, and both return Float[n], as frozen
    distributions of scipy.stats do. ``row_ids``, Int[m], are positions of the rows; None for all.
    Mean and variance are those of the object, if it has them. Otherwise they are taken over its
    quantiles at 64 levels, which leave out 1/64 of the probability at the ends.
    """

    def __init__(self, wrapped: Any, row_ids: np.ndarray | None = None) -> None:
        self.wrapped = wrapped
        self.n_rows = len(np.atleast_1d(wrapped.ppf(0.5)))
        self.row_ids = np.arange(self.n_rows) if row_ids is None else row_ids

    def __len__(self) -> int:
        return len(self.row_ids)

    def __getitem__(self, index: Any) -> ExternalDistribution:
        return ExternalDistribution(self.wrapped, np.atleast_1d(self.row_ids[index]))

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        y = np.asarray(y, dtype=np.float64)
        if y.ndim == 2:
            return np.stack([self.cdf(column) for column in y.T], axis=1)
        # The wrapped object needs a value for each of its rows, also for those that are not used.
        values = np.zeros(self.n_rows)
        values[self.row_ids] = y
        return np.asarray(self.wrapped.cdf(values), dtype=np.float64)[self.row_ids]

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        q = np.asarray(q, dtype=np.float64)
        if q.ndim == 1:
            return np.stack([self.ppf(float(level)) for level in q], axis=1)
        if q.ndim == 2:
            return np.stack([self._ppf_per_row(column) for column in q.T], axis=1)
        return np.asarray(self.wrapped.ppf(float(q)), dtype=np.float64)[self.row_ids]

    def mean(self) -> np.ndarray:
        return self._moment("mean", lambda quantiles: quantiles.mean(axis=1))

    def var(self) -> np.ndarray:
        return self._moment("var", lambda quantiles: quantiles.var(axis=1))

    def _ppf_per_row(self, levels: np.ndarray) -> np.ndarray:
        """Return Float[m], the quantile of each row at its own level."""
        all_levels = np.full(self.n_rows, 0.5)
        all_levels[self.row_ids] = levels
        return np.asarray(self.wrapped.ppf(all_levels), dtype=np.float64)[self.row_ids]

    def _moment(self, name: str, from_quantiles: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        method = getattr(self.wrapped, name, None)
        if callable(method):
            moments = np.asarray(method(), dtype=np.float64)
            return np.broadcast_to(moments, self.n_rows)[self.row_ids]
        midpoints = (np.arange(_N_MOMENT_QUANTILES) + 0.5) / _N_MOMENT_QUANTILES
        return from_quantiles(self.ppf(midpoints))


def distribution_from_predictions(
    predictions: Any, quantile_levels: Sequence[float] | None = None
) -> Distribution:
    """Return the predictions of a regressor as a :class:`~kdgraph.distributions.Distribution`.

    Parameters
    ----------
    predictions : object
        One of:

        - a Distribution;
        - a frozen distribution of scipy.stats, such as statsmodels' ``get_distribution()`` returns,
          or an object with one as ``dist``, such as those of ngboost;
        - any object with ``cdf`` and ``ppf``;
        - a tuple of means and standard deviations of normal distributions, Float[n] each;
        - an array Float[n, m] of m samples for each row, such as the members of an ensemble.
    quantile_levels : Float[m], default=None
        Levels of the columns, if the array contains quantiles and not samples.

    Raises
    ------
    TypeError
        For any other object.

    Examples
    --------
    >>> predictions = np.array([[1.0, 2.0, 6.0]])
    >>> distribution_from_predictions(predictions).mean().tolist()
    [3.0]
    >>> levels = (0.25, 0.5, 0.75)
    >>> distribution_from_predictions(predictions, levels).ppf(0.6).round(6).tolist()
    [3.6]
    """
    if isinstance(predictions, Distribution):
        return predictions
    if isinstance(predictions, tuple):
        return _normal_distribution(*predictions)
    # Attributes are looked up without ``__getattr__``: ngboost's distributions forward any name.
    if isinstance(predictions, np.ndarray | list) or getattr_static(predictions, "to_numpy", None):
        values = np.asarray(predictions, dtype=np.float64)
        if values.ndim != 2:
            raise TypeError(
                "predictions must have samples or quantiles for each row, of shape (n, m), got"
                f" {values.shape}"
            )
        if quantile_levels is None:
            return WeightedSamples(values)
        return QuantileGrid(np.asarray(quantile_levels), values)
    # Families of SciPy come before other objects with cdf and ppf, because only they are known to
    # have densities and exact tails. ngboost has them as ``dist``.
    for candidate in (getattr_static(predictions, "dist", None), predictions):
        if is_frozen_family(candidate):
            return as_distribution(candidate)
    if callable(getattr(predictions, "cdf", None)) and callable(getattr(predictions, "ppf", None)):
        return ExternalDistribution(predictions)
    raise TypeError(
        "predictions must have cdf and ppf, or be an array of samples, got"
        f" {type(predictions).__name__}"
    )


def _normal_distribution(*moments: Any) -> Normal:
    arrays = [np.asarray(values, dtype=np.float64) for values in moments]
    if len(arrays) != 2 or arrays[0].ndim != 1 or arrays[0].shape != arrays[1].shape:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise TypeError(
            "predictions that are a tuple must have a mean and a standard deviation for each row,"
            f" got shapes {shapes}"
        )
    mean, sd = arrays
    return Normal(mean, np.maximum(sd, _MIN_RELATIVE_SD * np.maximum(np.abs(mean), 1e-290)))


@dataclass(eq=False, repr=False)
class ProbabilisticRegressor(DistributionRegressor):
    """Parent that wraps a probabilistic regressor of another library.

    The regressor predicts distributions, samples, quantiles, or means and standard deviations.

    Parameters
    ----------
    regressor : regressor
        It is cloned and fitted; ``FrozenEstimator(fitted)`` is used unchanged.
    method : str, default=None
        Name of the method that predicts; it takes X. None selects the first of ``predict_dist`` and
        ``pred_dist`` (ngboost) that exists, or ``predict(X, return_std=True)``, as scikit-learn's
        Gaussian processes and Bayesian linear models have it.
    method_params : mapping, default=None
        Further arguments of the method, such as ``{"quantiles": [0.1, 0.5, 0.9]}`` for a quantile
        forest.
    quantile_levels : sequence of float in (0, 1), default=None
        Levels of the quantiles that the method returns. None if it returns samples or
        distributions.

    Attributes
    ----------
    regressor_ : regressor
        The fitted regressor.

    Notes
    -----
    The distributions of a Gaussian process include the noise of the outcomes only if the process
    has noise (``alpha``, or a ``WhiteKernel``).

    Examples
    --------
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> X, y = np.linspace(0, 1, 20)[:, None], np.arange(20) % 5
    >>> process = ProbabilisticRegressor(GaussianProcessRegressor(alpha=0.1)).fit(X, y)
    >>> type(process.predict_dist(X[:2])).__name__
    'Normal'
    >>> sampler = process.set_params(method="sample_y", method_params={"n_samples": 50}).fit(X, y)
    >>> sampler.predict_dist(X[:2]).x.shape
    (2, 50)
    """

    regressor: Any
    _: KW_ONLY
    method: str | None = None
    method_params: Mapping[str, Any] | None = None
    quantile_levels: Sequence[OpenFraction] | None = None

    def imported_names(self) -> list[str]:
        """Return the full name of ``method``, unless its name shows that it only predicts.

        A model file that calls a method by its name must not call an arbitrary one, so the reader
        of the file checks these names.
        """
        if self.method is None or self.method.startswith(_PREDICTION_PREFIXES):
            return []
        cls = type(getattr(self, "regressor_", self.regressor))
        return [f"{cls.__module__}:{cls.__qualname__}.{self.method}"]

    def fit(self, X, y, **fit_kwargs: Any):
        """Fit the regressor, unless it is frozen, to rows that it takes and outcomes, Float[n].

        ``fit_kwargs`` are further arguments of its ``fit``. A regressor without the method raises
        ParameterError.
        """
        check_parameters(self)
        self._resolve_method(self.regressor)
        # The fit of a frozen one only looks for attributes that end with an underscore, and raises
        # where a library has none: fitted regressors of ngboost.
        self.regressor_ = self.regressor
        if not isinstance(self.regressor, FrozenEstimator):
            self.regressor_ = clone(self.regressor).fit(X, y, **fit_kwargs)
        if hasattr(self.regressor_, "n_features_in_"):
            self.n_features_in_ = self.regressor_.n_features_in_
        return self

    def predict_dist(self, X) -> Distribution:
        """Return the predictions of the regressor for X as distributions of n rows."""
        check_is_fitted(self, "regressor_")
        name, arguments = self._resolve_method(self.regressor_)
        return distribution_from_predictions(
            getattr(self.regressor_, name)(X, **arguments), self.quantile_levels
        )

    def _resolve_method(self, regressor: Any) -> tuple[str, dict[str, Any]]:
        """Return the name of the method that predicts, and its arguments except X."""
        candidates = _DISTRIBUTION_METHODS if self.method is None else (self.method,)
        arguments = dict(self.method_params or {})
        for name in candidates:
            if callable(getattr(regressor, name, None)):
                return name, arguments
        predict = getattr(regressor, "predict", None)
        names = inspect.signature(predict).parameters if callable(predict) else ()
        if self.method is None and "return_std" in names:
            return "predict", {"return_std": True} | arguments
        raise ParameterError(
            f"method must be one that {type(regressor).__name__} has and that predicts"
            f" distributions, got {self.method}"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = allows_missing(self.regressor)
        return tags
