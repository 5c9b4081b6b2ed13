"""Preprocessing in front of a parent, as the first steps of its own pipeline.

The encoding of columns is thus fitted on the training rows of the parent alone. Three kinds of
preprocessing have a method ``wrap(estimator, dataset)`` that returns such a pipeline, and
:class:`NoPreprocessing` returns the estimator unchanged:

- :class:`Preprocess` encodes categories and imputes missing values.
- :class:`Design` selects columns by name, takes logarithms and makes indicators.
- :class:`LatentSemanticAnalysis` reduces word counts to a few numbers.

The encoders are those of scikit-learn. Their combination is original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.base.frozen import TREE_MODELS
from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError
from kdgraph.parameters import Count, check_parameters
from kdgraph.parents.boosting import BoostedTrees

# Ordinal codes of a category that no training row has, and of a missing one. A tree splits half way
# between two codes of training rows. So if the training rows contain missing categories, unknown
# categories go to the same side as they do.
_UNKNOWN_CODE, _MISSING_CODE = -1, -2

# Largest number of categories of a column that scikit-learn's histogram gradient boosting takes.
_MAX_NATIVE_CATEGORIES = 255

_ORDINAL_MODELS = (
    *TREE_MODELS,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    BoostedTrees,
)


@dataclass(frozen=True)
class Preprocess:
    """Encoding of categories, imputation and standardisation in front of a parent.

    Parameters
    ----------
    categories : {"auto", "ordinal", "one_hot"}, default="auto"
        Encoding of categories. "auto" is ordinal for trees and forests of scikit-learn, whose
        splits along an axis can separate any set of categories, and one_hot for all other parents
        but boosted trees. These take categories and missing values as such, unless ``standardize``.
    missing : {"median", "mean", "most_frequent"}, default="median"
        Statistic of a column's training rows that replaces missing numbers. A missing category is a
        category.
    indicator : bool, default=False
        Add a column for each numeric column with missing values: 1 if the value was missing,
        otherwise 0.
    standardize : bool, default=False
        Scale numeric columns, after imputation, to mean 0 and variance 1. Other columns are not
        changed.
    max_categories : int or None, default=100
        Maximum number of columns of one feature with "one_hot". The rarest categories share the
        last column. None for a column for each category.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.array([[1.0], [np.nan], [3.0]]), np.array([1.0, 2.0, 3.0])
    >>> data = Dataset("gaps", X, y, np.empty(0), ("x",), "regression")
    >>> parent = Preprocess(missing="mean").wrap(LinearRegression(), data).fit(X, y)
    >>> parent.predict([[np.nan]]).round(6).tolist()
    [2.0]
    """

    categories: Literal["auto", "ordinal", "one_hot"] = "auto"
    missing: Literal["median", "mean", "most_frequent"] = "median"
    indicator: bool = False
    standardize: bool = False
    max_categories: Count | None = 100

    def __post_init__(self) -> None:
        check_parameters(self)

    def wrap(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """Return ``estimator`` behind an encoder of the columns of ``dataset``.

        The estimator is returned unchanged for images and if nothing has to be encoded.

        Parameters
        ----------
        estimator : estimator
            Unfitted estimator.
        dataset : Dataset
            Training rows.
        has_missing : bool, default=None
            True if any row has a missing value, also a row that is not a training row. None: look
            for missing values in the training rows.
        """
        missing = dataset.has_missing if has_missing is None else has_missing
        if self._is_native(estimator) and not dataset.are_images:
            return _with_categories(estimator, dataset)
        if dataset.are_images or not (missing or dataset.is_categorical.any() or self.standardize):
            return estimator
        auto = "ordinal" if isinstance(estimator, _ORDINAL_MODELS) else "one_hot"
        columns = column_encoder(
            dataset.is_categorical,
            categories=auto if self.categories == "auto" else self.categories,
            missing=self.missing,
            indicator=self.indicator,
            standardize=self.standardize,
            max_categories=self.max_categories,
        )
        return PreprocessedModel([("columns", columns), ("model", estimator)])

    def _is_native(self, estimator: Any) -> bool:
        takes_columns = isinstance(estimator, BoostedTrees)
        return takes_columns and self.categories == "auto" and not self.standardize


def _with_categories(estimator: BoostedTrees, dataset: Dataset) -> BoostedTrees:
    positions = {*np.flatnonzero(dataset.is_categorical).tolist(), *estimator.categorical}
    return clone(estimator).set_params(categorical=sorted(positions))


class PreprocessedModel(Pipeline):
    """Pipeline of an encoder and a parent, which predicts distributions if the parent does."""

    @available_if(lambda self: hasattr(self._final_estimator, "predict_dist"))
    def predict_dist(self, X: Any) -> Any:
        """Return the predictive distributions for the n rows of X, Float[n, d]."""
        return self[-1].predict_dist(self[:-1].transform(X))


class NoPreprocessing:
    """No encoding, for a parent that takes categories and missing values.

    scikit-learn's HistGradientBoosting models, :class:`~kdgraph.parents.QuantileBoosting`,
    :class:`~kdgraph.parents.BoostedTreesClassifier` and
    :class:`~kdgraph.parents.BoostedTreesRegressor` are such parents, and get the categorical
    columns of the data set as a parameter; a parameter ``categorical_features`` only if it is not
    set, and without columns of more than 255 categories, which scikit-learn's models do not take.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> X, grades = np.zeros((2, 2)), ("fair", "good")
    >>> data = Dataset("grades", X, np.zeros(2), np.empty(0), ("weight", "grade"), "regression",
    ...     categories=(None, grades))
    >>> parent = NoPreprocessing().wrap(HistGradientBoostingRegressor(), data)
    >>> parent.categorical_features
    [False, True]
    """

    def wrap(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """Return ``estimator``, or a copy with the categorical columns of ``dataset`` as parameter.

        Arguments are those of :meth:`Preprocess.wrap`.
        """
        if dataset.are_images or not dataset.is_categorical.any():
            return estimator
        if isinstance(estimator, BoostedTrees):
            return _with_categories(estimator, dataset)
        if getattr(estimator, "categorical_features", 0) not in (None, "from_dtype"):
            return estimator
        columns = [
            values is not None and len(values) <= _MAX_NATIVE_CATEGORIES
            for values in dataset.categories
        ]
        return clone(estimator).set_params(categorical_features=columns)


def column_encoder(
    categorical: Sequence[bool] | np.ndarray,
    *,
    categories: Literal["ordinal", "one_hot"] = "one_hot",
    missing: Literal["median", "mean", "most_frequent"] = "median",
    indicator: bool = False,
    standardize: bool = False,
    max_categories: int | None = None,
) -> ColumnTransformer:
    """Return a transformer of category codes and NaN into finite numbers.

    It transforms Float[n, d] into Float64[n, m]. Numeric columns come first, then their indicators,
    then the categorical ones.

    Parameters
    ----------
    categorical : Bool[d]
        True for columns that contain codes of categories.
    categories : {"ordinal", "one_hot"}, default="one_hot"
        "ordinal": the rank of a category among those of the training rows, -1 for an unknown and -2
        for a missing category. "one_hot": a column of 0 and 1 for each category, where missing is a
        category; all columns are 0 for a category that no training row has.
    missing, indicator, standardize, max_categories : optional
        As in :class:`Preprocess`.

    Notes
    -----
    A column without any value becomes 0, and a constant column stays constant. If no training row
    has a missing category, a missing category is treated like any unknown one. Infinity is refused,
    as by scikit-learn's own transformers.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [np.nan, 2.0], [5.0, 2.0]])
    >>> column_encoder([False, True]).fit(X).transform([[np.nan, 2.0], [7.0, 1.0]])
    array([[3., 0., 1.],
           [7., 0., 0.]])
    """
    is_categorical = np.asarray(categorical, dtype=bool)
    positions = np.arange(len(categorical))
    numeric, codes = positions[~is_categorical], positions[is_categorical]
    imputer = SimpleImputer(strategy=missing, keep_empty_features=True)
    flags = MissingIndicator(features="missing-only", error_on_new=False)
    blocks = [
        ("numeric", make_pipeline(imputer, StandardScaler()) if standardize else imputer, numeric),
        ("indicator", flags, numeric if indicator else numeric[:0]),
        ("categorical", _category_encoder(categories, max_categories), codes),
    ]
    return ColumnTransformer(
        [block for block in blocks if len(block[2])],
        sparse_threshold=0,
        verbose_feature_names_out=False,
    )


def _category_encoder(
    categories: str, max_categories: int | None
) -> OrdinalEncoder | OneHotEncoder:
    if categories == "ordinal":
        return OrdinalEncoder(
            handle_unknown="use_encoded_value",
            unknown_value=_UNKNOWN_CODE,
            encoded_missing_value=_MISSING_CODE,
        )
    return OneHotEncoder(
        handle_unknown="ignore", max_categories=max_categories, sparse_output=False
    )


@dataclass(frozen=True)
class Design:
    """Design matrix of a parent, by the names of features.

    A design belongs to one parent. A generalised linear model of prices needs the logarithm of a
    weight, while components after the parent may still use the original columns: neighbours are
    searched among the weights themselves (``feature_space="untransformed"`` of
    :class:`~kdgraph.recalibration.LocalPit`).

    Parameters
    ----------
    log : sequence of str, default=()
        Features that are replaced by their logarithm. They must be above 0.
    one_hot : sequence of str, default=()
        Features that get a column of 0 and 1 for each value in the training rows, in addition to
        the categorical features. All columns are 0 for another value.
    columns : sequence of str, default=()
        Features that are used, including those above; empty for all.
    standardize : bool, default=False
        Scale all other columns to mean 0 and variance 1, logarithms too.

    Notes
    -----
    Missing numbers become the median of the training rows. Columns with a linear dependence, such
    as indicators of all values together with an intercept, are not removed: the parent has to be
    able to take them, as :class:`~kdgraph.parents.GammaGlm` is.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.array([[1.0, 0.0], [np.e, 1.0], [1.0, 1.0]]), np.array([0.0, 3.0, 1.0])
    >>> data = Dataset("weights", X, y, np.empty(0), ("weight", "grade"), "regression")
    >>> parent = Design(log=("weight",), one_hot=("grade",)).wrap(LinearRegression(), data)
    >>> parent.fit(X, y)[:-1].transform(X).round(6).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    >>> parent.predict(X).round(6).tolist()
    [0.0, 3.0, 1.0]
    """

    log: Sequence[str] = ()
    one_hot: Sequence[str] = ()
    columns: Sequence[str] = ()
    standardize: bool = False

    def __post_init__(self) -> None:
        check_parameters(self)

    def wrap(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """Return ``estimator`` behind its design; unchanged for images.

        Arguments are those of :meth:`Preprocess.wrap`. A data set that lacks a feature raises
        DataError.
        """
        if dataset.are_images:
            return estimator
        names = list(dataset.feature_names)
        for name in (*self.log, *self.one_hot, *self.columns):
            if name not in names:
                raise DataError(f"{dataset.name} has no column {name!r}; it has {', '.join(names)}")
        positions = [names.index(name) for name in self.columns or names]
        log_positions = [i for i, column in enumerate(positions) if names[column] in self.log]
        categorical = [
            names[column] in self.one_hot or bool(dataset.is_categorical[column])
            for column in positions
        ]
        selected = SelectAndLog(positions, log_positions)
        encoder = column_encoder(categorical, standardize=self.standardize)
        return PreprocessedModel(
            [("selected", selected), ("columns", encoder), ("model", estimator)]
        )


@dataclass(eq=False, repr=False)
class SelectAndLog(TransformerMixin, BaseEstimator):
    """Selection of columns, some of them on a logarithmic scale.

    ``columns`` are positions of the selected columns in X, and ``log`` positions among them of
    those that are replaced by their logarithm.

    >>> SelectAndLog([2, 0], [0]).fit_transform([[5.0, 6.0, 1.0]]).tolist()
    [[0.0, 5.0]]
    """

    columns: Sequence[int]
    log: Sequence[int] = ()

    def fit(self, X, y=None):
        """Validate rows, Float[n, d]; a number without a logarithm raises DataError."""
        self._select_columns(
            validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        )
        return self

    def transform(self, X) -> np.ndarray:
        """Return the selected columns, Float[n, m], where missing values stay NaN.

        It raises DataError like :meth:`fit`.
        """
        check_is_fitted(self)
        return self._select_columns(
            validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        )

    def _select_columns(self, X: np.ndarray) -> np.ndarray:
        selected = X[:, list(self.columns)]
        for i in self.log:
            has_no_log = selected[:, i] <= 0
            if has_no_log.any():
                row = int(np.argmax(has_no_log))
                raise DataError(
                    f"column {self.columns[i]} must be above 0 for its logarithm, got"
                    f" {selected[row, i]:g} in row {row}"
                )
            selected[:, i] = np.log(selected[:, i])
        return selected

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@dataclass(frozen=True)
class LatentSemanticAnalysis:
    """Latent semantic analysis of word counts in front of a parent.

    Counts are weighted by how rare a word is (TF-IDF), and then reduced to their largest singular
    vectors (Deerwester et al. 1990). It is used in place of :class:`~kdgraph.parents.Preprocess`,
    in front of any parent, for data sets of texts whose words are counted or hashed.

    Parameters
    ----------
    dimensions : int, default=100
        Number of singular vectors; at most the number of columns minus 1.
    normalize : bool, default=True
        Divide each row of singular vectors by its length, so that only the direction of a text
        matters. Without it, a text with few words of the training texts is close to 0. The more
        unusual a single text is, the closer it is then to all others, and sets of such texts form
        clusters.

    References
    ----------
    Deerwester et al., "Indexing by latent semantic analysis", 1990.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 0.0, 0.0]]), np.array([0, 1, 0])
    >>> data = Dataset("texts", X, y, np.arange(2), ("cat", "dog", "the"), "classification")
    >>> parent = LatentSemanticAnalysis(dimensions=2).wrap(LogisticRegression(), data)
    >>> list(parent.named_steps)
    ['weigh', 'reduce', 'direct', 'scale', 'model']
    """

    dimensions: Count = 100
    normalize: bool = True

    def __post_init__(self) -> None:
        check_parameters(self)

    def wrap(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """Return ``estimator`` behind weights, singular vectors and scaling.

        Rows have length 1 if ``normalize``. After that, each column is scaled to variance 1.
        Arguments are those of :meth:`Preprocess.wrap`. Images, categories, missing and negative
        values, which are not counts of words, and a single column raise DataError.
        """
        # Hashed counts may be negative, if two words share a column.
        is_hashed = dataset.feature_names[:1] == ("hash_0",)
        if (
            dataset.are_images
            or dataset.needs_encoding
            or has_missing
            or dataset.X.shape[1] < 2
            or (not is_hashed and dataset.X.min(initial=0.0) < 0)
        ):
            raise DataError(
                f"{dataset.name} has no counts of words to learn topics from; choose"
                " preprocess=default"
            )
        # The seed is fixed: the result of the randomised search hardly depends on it.
        svd = TruncatedSVD(min(self.dimensions, dataset.X.shape[1] - 1), random_state=0)
        steps: list[Any] = [("weigh", TfidfTransformer()), ("reduce", svd)]
        steps += [("direct", Normalizer())] if self.normalize else []
        return Pipeline([*steps, ("scale", StandardScaler()), ("model", estimator)])
