"""Rows of a data set in the form that a model was trained on: data frames or arrays.

A data set holds categories as codes; a model that was fitted on a data frame takes their values.
Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin

from kdgraph.base.rows import is_dataframe

Columns = Sequence[Any]
"""Pairs of the name of a column and the values that its codes stand for, None for numbers."""


class ModelRows(TransformerMixin, BaseEstimator):
    """Rows in the form that a model was trained on.

    Parameters
    ----------
    columns : sequence of (str, sequence of str or None), default=()
        Columns of the arrays that are transformed: their names, and for a categorical one the
        values that its codes stand for. Empty if the names are unknown.
    names : sequence of str or None, default=None
        Columns of the data frame that the model takes, in its order; None for an array, or for a
        frame of all columns.
    frame : bool, default=False
        True if a model without ``names`` takes a data frame.

    Notes
    -----
    Categories become a column of pandas' category type, with NaN for a missing value. Values that
    are all numbers, or all True and False, become numbers and truth values, as pandas reads them
    from a file of text.

    Examples
    --------
    >>> rows = ModelRows([("size", None), ("colour", ("blue", "red"))], ["colour", "size"])
    >>> rows.transform(np.array([[1.5, 0.0], [np.nan, 1.0]])).to_dict("list")
    {'colour': ['blue', 'red'], 'size': [1.5, nan]}
    """

    def __init__(
        self, columns: Columns = (), names: Sequence[str] | None = None, frame: bool = False
    ) -> None:
        self.columns = columns
        self.names = names
        self.frame = frame

    def fit(self, X: Any = None, y: Any = None) -> ModelRows:
        """Return the transformer, which learns nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> Any:
        """Return the rows as a data frame or an array.

        Parameters
        ----------
        X : DataFrame, Float[n, d] or images
            Rows; a data frame is used by its names.
        """
        if self.names is None and not self.frame:
            return X.to_numpy(dtype=np.float64) if is_dataframe(X) else np.asarray(X)
        frame = X if is_dataframe(X) else self._as_frame(np.asarray(X, dtype=np.float64))
        return frame if self.names is None else frame[list(self.names)]

    def _as_frame(self, X: np.ndarray) -> pd.DataFrame:
        """Return a data frame of columns of numbers and of categories."""
        columns = self.columns or [(name, None) for name in self.names or ()]
        if not columns:
            return pd.DataFrame(X)
        return pd.DataFrame(
            {
                name: X[:, j] if values is None else _decode(X[:, j], values)
                for j, (name, values) in enumerate(columns)
            }
        )


def _decode(codes: np.ndarray, values: Sequence[str]) -> pd.Categorical:
    """Return the categories that codes Float[n] stand for; NaN is missing."""
    categories: Sequence[Any] = [_parse(value) for value in values]
    # Values of one type, as pandas reads a column: a single text makes all of them text.
    if len({type(value) for value in categories}) > 1 or isinstance(categories[0], str):
        categories = list(values)
    positions = np.where(np.isnan(codes), -1, codes).astype(int)
    return pd.Categorical.from_codes(positions, categories=categories)


def _parse(value: str) -> Any:
    if value in ("True", "False"):
        return value == "True"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
