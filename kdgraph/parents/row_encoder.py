"""Rows of any parent as finite numbers, for a forest that is fitted beside the parent.

A gate or a detector may have a forest of its own beside a parent that takes text, categories or
missing values. :class:`RowEncoder` puts in front of this forest what the parent itself has in
front, the transformers of its pipeline, and then an encoder. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kdgraph.base.frozen import TREE_MODELS, fitted_inside, unwrap_frozen
from kdgraph.base.validation import (
    accepts_categories,
    allows_missing,
    check_numeric_columns,
    has_missing,
    is_dataframe,
)
from kdgraph.parents.preprocessing import column_encoder


def needs_row_encoder(forest: Any, parent: Any) -> bool:
    """Return whether a forest beside a parent takes fewer kinds of rows than the parent.

    A frozen forest, one with transformers of its own, and models that take missing values
    themselves get the rows as they are. Neither has to be fitted.
    """
    takes_numbers_only = isinstance(forest, TREE_MODELS)
    return takes_numbers_only and (allows_missing(parent) or accepts_categories(parent))


def behind_row_encoder(forest: Any, parent: Any, X: Any) -> Pipeline:
    """Return a forest, not fitted, behind a :class:`RowEncoder` of the rows of a fitted parent.

    The parent may be frozen, tuned, calibrated, or inside of what is fitted after it; X, Float[n,
    d] or a data frame, are its training rows. Finite numbers reach the forest as they are:
    transformers may reduce the dimension, and rows that are far from the data in the dimensions
    left out would look near. Other rows pass the transformers of the pipeline that ends in the
    parent.
    """
    transformers = [] if _are_finite_numbers(X) else _transformers_of(parent)
    encoder = RowEncoder([FrozenEstimator(transformer) for transformer in transformers])
    return Pipeline([("rows", encoder), ("forest", forest)])


@dataclass(eq=False, repr=False)
class RowEncoder(TransformerMixin, BaseEstimator):
    """Transformer of numbers, text, categories and missing values into finite numbers.

    Rows pass the fitted, frozen ``transformers`` first. ``categories_`` has, for each of d columns,
    the values of text or categories in the order of their codes; None for numbers. The ``encoder_``
    of numbers and codes is :func:`~kdgraph.parents.column_encoder`: missing numbers become medians,
    and unknown and missing categories have codes of their own.

    >>> frame = pd.DataFrame({"size": [1.0, np.nan, 3.0], "colour": ["red", "blue", "red"]})
    >>> RowEncoder().fit(frame).transform(frame.assign(colour=["red", "green", "blue"])).tolist()
    [[1.0, 1.0], [2.0, -1.0], [3.0, 0.0]]
    """

    transformers: Sequence[Any] = ()

    def fit(self, X: Any, y: Any = None) -> RowEncoder:
        """Fit the encoder to what the transformers return for X, Float[n, d] or a data frame.

        Columns of dates or durations raise ValueError.
        """
        X = self._transform(X)
        if is_dataframe(X):
            check_numeric_columns(X.select_dtypes(exclude=["object", "string", "category"]), self)
        columns = [column for _, column in X.items()] if is_dataframe(X) else [None] * X.shape[1]
        self.categories_ = [None if column is None else _values_of(column) for column in columns]
        is_categorical = [values is not None for values in self.categories_]
        self.encoder_ = column_encoder(is_categorical, categories="ordinal").fit(self._codes(X))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return finite numbers, Float64[n, m], for rows that the transformers take."""
        check_is_fitted(self)
        codes = self._codes(self._transform(X))
        # The encoder takes a third of the time in which a gate predicts a row.
        if all(values is None for values in self.categories_) and np.isfinite(codes).all():
            return codes
        return self.encoder_.transform(codes)

    def _transform(self, X: Any) -> Any:
        """Return the rows behind the transformers, an array of numbers or a data frame."""
        for transformer in self.transformers:
            X = transformer.transform(X)
        if issparse(X):
            return X.toarray()
        if is_dataframe(X):
            return X.infer_objects()
        X = np.asarray(X)
        return pd.DataFrame(X).infer_objects() if X.dtype.kind in "OUS" else X

    def _codes(self, X: Any) -> np.ndarray:
        """Return numbers, and positions in ``categories_``; NaN if missing. Float64[n, d]."""
        if not is_dataframe(X):
            if all(values is None for values in self.categories_):
                return np.asarray(X, dtype=np.float64)
            X = pd.DataFrame(X)
        codes = np.empty(X.shape)
        for j, values in enumerate(self.categories_):
            column = X.iloc[:, j]
            if values is None:
                codes[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                # -1 for values that no training row has.
                positions = pd.Index(values).get_indexer(column.astype(object))
                codes[:, j] = np.where(column.isna(), np.nan, positions)
        return codes

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def _values_of(column: pd.Series) -> np.ndarray | None:
    if is_numeric_dtype(column.dtype):
        return None
    values = column.astype("category").cat.remove_unused_categories().cat.categories
    return values.to_numpy(dtype=object)


def _are_finite_numbers(X: Any) -> bool:
    if is_dataframe(X) and not all(is_numeric_dtype(dtype) for dtype in X.dtypes):
        return False
    return not has_missing(X)


def _transformers_of(parent: Any) -> list[Any]:
    """Return the fitted transformers in front of the model inside a parent, first ones first."""
    parent = unwrap_frozen(parent)
    if isinstance(parent, Pipeline):
        steps = [step for _, step in parent.steps[:-1] if step not in (None, "passthrough")]
        return steps + _transformers_of(parent.steps[-1][1])
    inner = fitted_inside(parent)
    return [] if inner is None else _transformers_of(inner)
