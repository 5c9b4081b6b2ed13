"""Boosted trees of any library as parents.

:class:`BoostedTreesClassifier` fits scikit-learn's histogram gradient boosting, XGBoost, LightGBM
or CatBoost in one way: the number of boosting rounds is chosen on a part of the training rows, and
categories and missing values go to the library as such. Regressors by the same fits are in
:mod:`~kdgraph.parents.boosted_regressors`. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.base.validation import check_weights
from kdgraph.docstrings import inherit_descriptions
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, OpenFraction, check_parameters

# The histogram gradient boosting of scikit-learn takes codes below its number of bins alone.
_MAX_HISTOGRAM_CATEGORIES = 255

# Rows, labels or outcomes, and weights.
_Rows = tuple[Any, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _FitOptions:
    """Options of a fit, which each library has its own names for."""

    patience: int
    categories: list[int]
    n_threads: int
    seed: int


def _fit_histogram_boosting(
    model: Any, train: _Rows, validation: _Rows | None, options: _FitOptions
) -> Any:
    X, y, weight = train
    model.set_params(
        categorical_features=options.categories or None,
        early_stopping=validation is not None,
        n_iter_no_change=options.patience,
        random_state=options.seed,
    )
    names = ("X_val", "y_val", "sample_weight_val")
    held_out = {} if validation is None else dict(zip(names, validation, strict=True))
    return model.fit(X, y, weight, **held_out)


def _fit_xgboost(model: Any, train: _Rows, validation: _Rows | None, options: _FitOptions) -> Any:
    X, y, weight = train
    kinds = np.where(np.isin(np.arange(X.shape[1]), options.categories), "c", "q").tolist()
    model.set_params(
        early_stopping_rounds=None if validation is None else options.patience,
        enable_categorical=bool(options.categories),
        feature_types=kinds if options.categories else None,
        n_jobs=options.n_threads,
        random_state=options.seed,
    )
    held_out = {}
    if validation is not None:
        held_out = {"eval_set": [validation[:2]], "sample_weight_eval_set": [validation[2]]}
    return model.fit(X, y, sample_weight=weight, verbose=False, **held_out)


def _fit_lightgbm(model: Any, train: _Rows, validation: _Rows | None, options: _FitOptions) -> Any:
    from lightgbm import early_stopping

    X, y, weight = train
    model.set_params(n_jobs=options.n_threads, random_state=options.seed)
    if "verbose" not in model.get_params():
        model.set_params(verbose=-1)
    held_out: dict[str, Any] = {}
    if validation is not None:
        X_held_out, y_held_out, held_out_weight = validation
        held_out = {"eval_X": X_held_out, "eval_y": y_held_out}
        held_out |= {"eval_sample_weight": [held_out_weight]}
        held_out |= {"callbacks": [early_stopping(options.patience, verbose=False)]}
    categories = options.categories or "auto"
    return model.fit(X, y, sample_weight=weight, categorical_feature=categories, **held_out)


def _fit_catboost(model: Any, train: _Rows, validation: _Rows | None, options: _FitOptions) -> Any:
    from catboost import Pool

    # Two names of one parameter exclude each other.
    seed = "random_state" if "random_state" in model.get_params() else "random_seed"
    model.set_params(
        thread_count=options.n_threads, allow_writing_files=False, **{seed: options.seed}
    )
    columns = options.categories or None
    pool, held_out = (
        rows and Pool(*rows[:2], weight=rows[2], cat_features=columns)
        for rows in (train, validation)
    )
    rounds = {} if held_out is None else {"early_stopping_rounds": options.patience}
    return model.fit(pool, eval_set=held_out, verbose=False, **rounds)


# Fit of each library, by its class.
_FITS: dict[str, Callable[..., Any]] = {
    "HistGradientBoostingClassifier": _fit_histogram_boosting,
    "XGBClassifier": _fit_xgboost,
    "XGBRegressor": _fit_xgboost,
    "LGBMClassifier": _fit_lightgbm,
    "LGBMRegressor": _fit_lightgbm,
    "CatBoostClassifier": _fit_catboost,
    "CatBoostRegressor": _fit_catboost,
}


@dataclass(eq=False, repr=False)
class BoostedTrees(MetaEstimatorMixin, BaseEstimator):
    """Base class of the estimators that fit boosted trees of a library.

    A subclass names the classes that ``estimator`` may be of in ``_library_classes``.

    Parameters
    ----------
    estimator : estimator
        Model of a library. Its number of rounds is the largest possible.
    validation_size : float in (0, 1), default=0.1
        Fraction of the rows that the number of rounds is chosen on.
    patience : int, default=30
        Rounds without a lower loss on those rows after which boosting stops.
    categorical : sequence of int, default=()
        Positions of the columns that contain codes of categories, 0, 1, …, NaN where missing. The
        libraries split on sets of categories.
    n_jobs : int, default=None
        Number of threads of the library; None for 1.
    random_state : int, RandomState or None, default=None
        Seed of the validation rows and of the library.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    """

    estimator: Any
    _: KW_ONLY
    validation_size: OpenFraction = 0.1
    patience: Count = 30
    categorical: Sequence[int] = ()
    n_jobs: int | None = None
    random_state: Any = None

    _library_classes: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_descriptions(cls)

    def _library(self) -> str | None:
        names = [cls.__name__ for cls in type(self.estimator).__mro__]
        return next((name for name in names if name in self._library_classes), None)

    def _check_library(self, advice: str = "") -> str:
        library = self._library()
        if library is None:
            raise ParameterError(
                f"estimator must be one of {', '.join(self._library_classes)}, got"
                f" {type(self.estimator).__name__}{advice}"
            )
        return library

    def _fit_library(
        self, model: Any, rows: _Rows, is_validation: np.ndarray, rng: np.random.RandomState
    ) -> Any:
        """Return a model of the library, fitted on some rows, its rounds chosen on the others.

        These are the rows of ``is_validation``, Bool[n]; if there are none, all rounds are used.
        ``rng`` is the source of the seed of the library.
        """
        X, y, weight = rows
        train, validation = (
            (self.library_rows(X[chosen]), y[chosen], weight[chosen])
            for chosen in (~is_validation, is_validation)
        )
        seed = int(rng.randint(np.iinfo(np.int32).max))
        return _FITS[self._check_library()](
            model,
            train,
            validation if is_validation.any() else None,
            _FitOptions(self.patience, self._categories(X), self.n_jobs or 1, seed),
        )

    def _categories(self, X: np.ndarray) -> list[int]:
        columns = list(self.categorical)
        if not isinstance(self.estimator, HistGradientBoostingClassifier):
            return columns
        most = np.nanmax(X, axis=0, initial=0)
        return [column for column in columns if most[column] < _MAX_HISTOGRAM_CATEGORIES]

    def library_rows(self, X: np.ndarray) -> Any:
        """Return rows, Float[n, d], in the form that the library takes."""
        is_catboost = str(self._library()).startswith("CatBoost")
        if not is_catboost or not len(self.categorical):
            return X
        # CatBoost takes categories as text or integers, in a column of their own type.
        is_category = np.isin(np.arange(X.shape[1]), self.categorical)
        return pd.DataFrame(
            {
                column: np.nan_to_num(values, nan=-1.0).astype(np.int64) if is_code else values
                for column, (values, is_code) in enumerate(zip(X.T, is_category, strict=True))
            }
        )

    def _validate_X(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@dataclass(eq=False, repr=False)
class BoostedTreesClassifier(ClassifierMixin, BoostedTrees):
    """Boosted trees that stop early on a part of the training rows.

    Too many rounds make boosted trees overconfident, and how many are too many depends on the
    rows. Boosting stops after ``patience`` rounds without a lower log loss on the validation rows,
    and predictions use the rounds up to the best one (of scikit-learn's: all that were fitted).

    Parameters
    ----------
    estimator : estimator
        ``HistGradientBoostingClassifier()``, ``xgboost.XGBClassifier()``,
        ``lightgbm.LGBMClassifier()`` or ``catboost.CatBoostClassifier()``. Its number of rounds is
        the largest possible.
    validation_size : float in (0, 1), default=0.1
        Fraction of the rows of each class that the number of rounds is chosen on. A class with too
        few rows has none among them.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model of the library; its classes are 0 to K - 1.
    classes_ : ndarray of shape (K,)
        Class labels.

    Notes
    -----
    scikit-learn's histogram gradient boosting takes at most 255 categories in a column; a column
    with more is split as numbers. A category that no training row has counts as missing there, and
    goes the way of the rows that are in no set of a split in XGBoost, LightGBM and CatBoost.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> trees = HistGradientBoostingClassifier(max_iter=200)
    >>> model = BoostedTreesClassifier(trees, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _library_classes = (
        "HistGradientBoostingClassifier",
        "XGBClassifier",
        "LGBMClassifier",
        "CatBoostClassifier",
    )

    def fit(self, X, y, sample_weight=None):
        """Fit the library's model on some rows, and choose its number of rounds on the others.

        Rows are Float[n, d], NaN where missing, and weights, Float[n], count in fit and validation.
        """
        check_parameters(self)
        self._check_library()
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        weight = check_weights(sample_weight, X)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("boosting needs rows of two classes at least, got 1 class")
        rng = check_random_state(self.random_state)
        is_validation = _draw_validation_rows(labels, self.validation_size, rng)
        self.estimator_ = self._fit_library(
            clone(self.estimator), (X, labels, weight), is_validation, rng
        )
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Return the class probabilities of the library's model, Float64[n, K]."""
        X = self._validate_X(X)
        proba = self.estimator_.predict_proba(self.library_rows(X))
        # Single precision would leave sums of rows 1e-7 beside 1.
        proba = np.asarray(proba, dtype=np.float64)
        return proba / proba.sum(axis=1, keepdims=True)

    def predict(self, X) -> np.ndarray:
        """Return the most probable class of each row, of shape (n,)."""
        predicted = self.predict_proba(X).argmax(axis=1)  # checks that it is fitted
        return self.classes_[predicted]


def _draw_validation_rows(
    labels: np.ndarray, fraction: float, rng: np.random.RandomState
) -> np.ndarray:
    """Return the rows that the number of rounds is chosen on, Bool[n], of each class its share."""
    is_validation = np.zeros(len(labels), dtype=bool)
    for label in range(labels.max() + 1):
        rows = rng.permutation(np.flatnonzero(labels == label))
        is_validation[rows[: int(fraction * len(rows))]] = True
    return is_validation
