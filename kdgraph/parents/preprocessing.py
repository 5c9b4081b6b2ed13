"""Categorical columns and missing values, encoded in the parent's own pipeline, so that the
parent's training rows alone decide how.

A design in front of a parent: which columns it sees, which of them on a logarithmic scale, which as
indicators of their values.

Counts of words as few numbers, learnt in the parent's own pipeline from its training rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.ensemble._forest import BaseForest
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import BaseDecisionTree
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError
from kdgraph.parameters import Count, check_parameters

_UNKNOWN_CODE, _MISSING_CODE = -1, -2
"""Ordinal codes of a category that no training row has, and of a missing one: the best split of a
tree, half way between two codes that training rows have, leaves the first with the second.
"""
_TREE_MODELS = (
    BaseForest,
    BaseDecisionTree,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)


@dataclass(frozen=True)
class Preprocess:
    """What a parent gets of columns that it cannot take as they are.

    Parameters
    ----------
    categories : "one_hot", "ordinal", or "auto": ordinal for trees and forests of scikit-learn,
        which cut along axes and can take any set of categories apart, one_hot for every other
        parent.
    missing : what stands for a missing number: the training rows' "median", "mean" or
        "most_frequent" value of that column. A missing category is a category of its own.
    indicator : add a column of 0 and 1 for each numeric column with missing values, 1 where it was
    missing.
    standardize : numeric columns to mean 0 and variance 1, after missing ones are filled in; the
    others stay as they are.
    max_categories : of "one_hot", columns of one feature at most; the rarest categories share the
        last. None: a column for each.
    """

    categories: Literal["auto", "ordinal", "one_hot"] = "auto"
    missing: Literal["median", "mean", "most_frequent"] = "median"
    indicator: bool = False
    standardize: bool = False
    max_categories: Count | None = 100

    def __post_init__(self) -> None:
        check_parameters(self)

    def wrap(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """``estimator`` behind what encodes the columns of ``dataset``; itself where nothing is to
        be done, and for images.

        Parameters
        ----------
        estimator : not fitted yet.
        dataset : the training rows.
        has_missing : whether any row has a missing value, also one that is not for training; None:
            whether a training row has.
        """
        missing = dataset.has_missing if has_missing is None else has_missing
        if dataset.are_images or not (missing or dataset.is_categorical.any() or self.standardize):
            return estimator
        auto = "ordinal" if isinstance(estimator, _TREE_MODELS) else "one_hot"
        columns = column_encoder(
            dataset.is_categorical,
            categories=auto if self.categories == "auto" else self.categories,
            missing=self.missing,
            indicator=self.indicator,
            standardize=self.standardize,
            max_categories=self.max_categories,
        )
        return PreprocessedModel([("columns", columns), ("model", estimator)])


class PreprocessedModel(Pipeline):
    """A parent behind what encodes its columns; it predicts distributions where the parent does,
    which scikit-learn's pipelines do not.
    """

    @available_if(lambda self: hasattr(self._final_estimator, "predict_dist"))
    def predict_dist(self, X: Any) -> Any:
        """Distributions of the n rows of X: Float[n, d]."""
        return self[-1].predict_dist(self[:-1].transform(X))


class NoPreprocessing:
    """Columns as they are, for a parent that takes categories and missing values itself, as
    scikit-learn's HistGradientBoosting does.
    """

    def wrap(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """``estimator`` itself."""
        return estimator


def column_encoder(
    categorical: Sequence[bool] | np.ndarray,
    *,
    categories: Literal["ordinal", "one_hot"] = "one_hot",
    missing: Literal["median", "mean", "most_frequent"] = "median",
    indicator: bool = False,
    standardize: bool = False,
    max_categories: int | None = None,
) -> ColumnTransformer:
    """A transformer of Float[n, d], with codes for categories and NaN for what is missing, into
    finite Float64[n, m].

    Numeric columns come first, then their indicators, then the categorical ones.

    Parameters
    ----------
    categorical : Bool[d], which columns hold codes of categories.
    categories : "ordinal": the rank of a category among those of the training rows, -1 for one that
        they do not have, -2 for a missing one. "one_hot": a column of 0 and 1 for each category,
        missing being one of them; all 0 for one that the training rows do not have.
    missing, indicator, standardize, max_categories : as in :class:`Preprocess`.

    Notes
    -----
    A column without any value becomes 0, a constant one stays constant. A missing category that no
    training row has is like any other category that none has. Infinity is refused, as
    scikit-learn's own transformers do.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [np.nan, 2.0], [5.0, 2.0]])
    >>> column_encoder([False, True]).fit(X).transform([[np.nan, 2.0], [7.0, 1.0]])
    array([[3., 0., 1.],
           [7., 0., 0.]])
    """
    positions = np.arange(len(categorical))
    numbers, codes = (
        positions[~np.asarray(categorical, dtype=bool)],
        positions[np.asarray(categorical, dtype=bool)],
    )
    numeric = SimpleImputer(strategy=missing, keep_empty_features=True)
    blocks = [
        ("numeric", make_pipeline(numeric, StandardScaler()) if standardize else numeric, numbers),
        (
            "indicator",
            MissingIndicator(features="missing-only", error_on_new=False),
            numbers if indicator else numbers[:0],
        ),
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
    """The design of a parent, by the names of features; what stands after the parent may still look
    at the rows as they are given.

    A design is a decision about one parent: a generalised linear model of prices wants the
    logarithm of a weight, and neighbours are looked for among the weights themselves
    (``where="given"`` of :class:`~kdgraph.recalibration.LocalPit`).

    Parameters
    ----------
    log : features that are replaced by their logarithm; they must be above 0.
    one_hot : features that get a column of 0 and 1 for each value that training rows have, beside
        those that are categorical anyway; all 0 for another value.
    columns : features that are used, also of those above; none: all.
    standardize : all other columns to mean 0 and variance 1, logarithms too.

    Notes
    -----
    Ours. Missing numbers become the training rows' median. Columns that depend on each other, such
    as indicators of all values beside an intercept, are left to the parent;
    :class:`~kdgraph.parents.GammaGlm` takes them.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.array([[1.0, 0.0], [np.e, 1.0], [1.0, 1.0]]), np.array([0.0, 3.0, 1.0])
    >>> weighed = Dataset("weighed", X, y, np.empty(0), ("weight", "grade"), "regression")
    >>> parent = Design(log=("weight",), one_hot=("grade",)).wrap(LinearRegression(), weighed).fit(X, y)
    >>> parent[:-1].transform(X).round(6).tolist(), parent.predict(X).round(6).tolist()
    ([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], [0.0, 3.0, 1.0])
    """

    log: Sequence[str] = ()
    one_hot: Sequence[str] = ()
    columns: Sequence[str] = ()
    standardize: bool = False

    def __post_init__(self) -> None:
        check_parameters(self)

    def wrap(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """``estimator`` behind its design of the columns of ``dataset``; itself for images; ours.

        Parameters
        ----------
        estimator : not fitted yet.
        dataset : the training rows.
        has_missing : as of :meth:`Preprocess.wrap`; here nothing depends on it.

        Raises
        ------
        DataError : of a feature that is not there.
        """
        if dataset.are_images:
            return estimator
        names = list(dataset.feature_names)
        for name in (*self.log, *self.one_hot, *self.columns):
            if name not in names:
                raise DataError(f"{dataset.name} has no column {name!r}; it has {', '.join(names)}")
        used = [names.index(name) for name in self.columns or names]
        logged = [i for i, at in enumerate(used) if names[at] in self.log]
        categorical = [names[at] in self.one_hot or bool(dataset.is_categorical[at]) for at in used]
        encoder = column_encoder(categorical, standardize=self.standardize)
        return PreprocessedModel(
            [("selected", SelectAndLog(used, logged)), ("columns", encoder), ("model", estimator)]
        )


class SelectAndLog(TransformerMixin, BaseEstimator):
    """Some columns of X, and of these some on a logarithmic scale; ours.

    Parameters
    ----------
    columns : positions in X.
    log : positions in ``columns`` of those that are replaced by their logarithm.

    Examples
    --------
    >>> SelectAndLog([2, 0], [0]).fit_transform([[5.0, 6.0, 1.0]]).tolist()
    [[0.0, 5.0]]
    """

    def __init__(self, columns: Sequence[int], log: Sequence[int] = ()) -> None:
        self.columns = columns
        self.log = log

    def fit(self, X, y=None):
        """Look at X: Float[n, d], and learn nothing but d.

        Raises
        ------
        DataError : of a number that has no logarithm.
        """
        self._select_columns(
            validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        )
        return self

    def transform(self, X) -> np.ndarray:
        """Float[n, m] of X: Float[n, d], NaN where that is missing; DataError as :meth:`fit`."""
        check_is_fitted(self)
        return self._select_columns(
            validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        )

    def _select_columns(self, X: np.ndarray) -> np.ndarray:
        found = X[:, list(self.columns)]
        for i in self.log:
            if (bad := found[:, i] <= 0).any():
                row = int(np.argmax(bad))
                raise DataError(
                    f"column {self.columns[i]} must be above 0 for its logarithm, got"
                    f" {found[row, i]:g} in row {row}"
                )
            found[:, i] = np.log(found[:, i])
        return found

    def __sklearn_tags__(self):
        """Missing values stay missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@dataclass(frozen=True)
class LatentSemanticAnalysis:
    """Counts of words weighted by how rare a word is (TF-IDF), then reduced to their largest
    singular vectors: latent semantic analysis.

    Deerwester et al., "Indexing by latent semantic analysis", 1990. It stands where
    :class:`~kdgraph.parents.Preprocess` does, in front of any parent, for data sets of texts whose
    words are counted or hashed.

    Parameters
    ----------
    dimensions : singular vectors; at most as many as there are columns less one.
    normalize : divide each row of singular vectors by its length, so that a text counts by its
        direction. Without, a text with few words that training texts have lies near 0: single rows
        are then the nearer to all others the stranger they are, and sets of them crowd.
    """

    dimensions: Count = 100
    normalize: bool = True

    def __post_init__(self) -> None:
        check_parameters(self)

    def wrap(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """``estimator`` behind the weights and the singular vectors; rows of length 1 where asked
        for, then each column of variance 1.

        Raises
        ------
        DataError
            For images, categories, missing and negative values, which are no counts of words, and
            for a single column.
        """
        hashed = dataset.feature_names[:1] == (
            "hash_0",
        )  # which may count down, where two words share a column
        unsuited = (
            dataset.are_images or dataset.needs_encoding or has_missing or dataset.X.shape[1] < 2
        )
        if unsuited or (not hashed and dataset.X.min(initial=0.0) < 0):
            raise DataError(
                f"{dataset.name} has no counts of words to learn topics from; choose"
                " preprocess=default"
            )
        reduce = TruncatedSVD(
            min(self.dimensions, dataset.X.shape[1] - 1), random_state=0
        )  # of a search whose end hardly depends on it
        direct = [("direct", Normalizer())] if self.normalize else []
        return Pipeline(
            [
                ("weigh", TfidfTransformer()),
                ("reduce", reduce),
                *direct,
                ("scale", StandardScaler()),
                ("model", estimator),
            ]
        )
