"""Categorical columns and missing values, encoded in the parent's own pipeline, so that the parent's training rows alone decide how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.ensemble._forest import BaseForest
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import BaseDecisionTree
from sklearn.utils.metaestimators import available_if

from kdgraph.data.dataset import Dataset
from kdgraph.parameters import Count, check_parameters

UNKNOWN, MISSING = -1, -2
"""Ordinal codes of a category that no training row has, and of a missing one: the best split of a tree, half way between two codes that
training rows have, leaves the first with the second."""
_TREES = (
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
    categories : "one_hot", "ordinal", or "auto": ordinal for trees and forests of scikit-learn, which cut along axes and can take any set
        of categories apart, one_hot for every other parent.
    missing : what stands for a missing number: the training rows' "median", "mean" or "most_frequent" value of that column. A missing
        category is a category of its own.
    indicator : add a column of 0 and 1 for each numeric column with missing values, 1 where it was missing.
    standardize : numeric columns to mean 0 and variance 1, after missing ones are filled in; the others stay as they are.
    max_categories : of "one_hot", columns of one feature at most; the rarest categories share the last. None: a column for each.
    """

    categories: Literal["auto", "ordinal", "one_hot"] = "auto"
    missing: Literal["median", "mean", "most_frequent"] = "median"
    indicator: bool = False
    standardize: bool = False
    max_categories: Count | None = 100

    def __post_init__(self) -> None:
        check_parameters(self)

    def around(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
        """``estimator`` behind what encodes the columns of ``dataset``; itself where nothing is to be done, and for images.

        Parameters
        ----------
        estimator : not fitted yet.
        dataset : the training rows.
        has_missing : whether any row has a missing value, also one that is not for training; None: whether a training row has.
        """
        missing = dataset.has_missing if has_missing is None else has_missing
        if dataset.are_images or not (missing or dataset.is_categorical.any() or self.standardize):
            return estimator
        auto = "ordinal" if isinstance(estimator, _TREES) else "one_hot"
        columns = column_encoder(
            dataset.is_categorical,
            categories=auto if self.categories == "auto" else self.categories,
            missing=self.missing,
            indicator=self.indicator,
            standardize=self.standardize,
            max_categories=self.max_categories,
        )
        return Encoded([("columns", columns), ("model", estimator)])


class Encoded(Pipeline):
    """A parent behind what encodes its columns; it predicts distributions where the parent does, which scikit-learn's pipelines do not."""

    @available_if(lambda self: hasattr(self._final_estimator, "predict_dist"))
    def predict_dist(self, X: Any) -> Any:
        """Distributions of the n rows of X: Float[n, d]."""
        return self[-1].predict_dist(self[:-1].transform(X))


class Untouched:
    """Columns as they are, for a parent that takes categories and missing values itself, as scikit-learn's HistGradientBoosting does."""

    def around(self, estimator: Any, dataset: Dataset, *, has_missing: bool | None = None) -> Any:
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
    """A transformer of Float[n, d], with codes for categories and NaN for what is missing, into finite Float64[n, m].

    Numeric columns come first, then their indicators, then the categorical ones.

    Parameters
    ----------
    categorical : Bool[d], which columns hold codes of categories.
    categories : "ordinal": the rank of a category among those of the training rows, -1 for one that they do not have, -2 for a missing one.
        "one_hot": a column of 0 and 1 for each category, missing being one of them; all 0 for one that the training rows do not have.
    missing, indicator, standardize, max_categories : as in :class:`Preprocess`.

    Notes
    -----
    A column without any value becomes 0, a constant one stays constant. A missing category that no training row has is like any other
    category that none has. Infinity is refused, as scikit-learn's own transformers do.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [np.nan, 2.0], [5.0, 2.0]])
    >>> column_encoder([False, True]).fit(X).transform([[np.nan, 2.0], [7.0, 1.0]])
    array([[3., 0., 1.],
           [7., 0., 0.]])
    """
    positions = np.arange(len(categorical))
    numbers, codes = positions[~np.asarray(categorical, dtype=bool)], positions[np.asarray(categorical, dtype=bool)]
    numeric = SimpleImputer(strategy=missing, keep_empty_features=True)
    blocks = [
        ("numeric", make_pipeline(numeric, StandardScaler()) if standardize else numeric, numbers),
        ("indicator", MissingIndicator(features="missing-only", error_on_new=False), numbers if indicator else numbers[:0]),
        ("categorical", _of_categories(categories, max_categories), codes),
    ]
    return ColumnTransformer([block for block in blocks if len(block[2])], sparse_threshold=0, verbose_feature_names_out=False)


def _of_categories(categories: str, max_categories: int | None) -> OrdinalEncoder | OneHotEncoder:
    if categories == "ordinal":
        return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=UNKNOWN, encoded_missing_value=MISSING)
    return OneHotEncoder(handle_unknown="ignore", max_categories=max_categories, sparse_output=False)
