"""Rows of a data set in the form that a model was trained on: data frames or arrays.

Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from sklearn.base import BaseEstimator, TransformerMixin

from kdgraph.base.validation import is_dataframe
from kdgraph.data.source_columns import SourceColumn
from kdgraph.errors import DataError
from kdgraph.fitted.columns import ANY_COLUMNS, ModelColumns, check_known, convert
from kdgraph.parameters import Unseen
from kdgraph.wording import some

_MAX_LISTED = 5
_MAX_LISTED_COLUMNS = 8


@dataclass(eq=False, repr=False)
class ModelRows(TransformerMixin, BaseEstimator):
    """Rows in the form that a model was trained on.

    Parameters
    ----------
    columns : sequence of SourceColumn, default=()
        Columns of the arrays that are transformed, as their source has them. Empty if they are
        unknown.
    of_model : ModelColumns, default=ANY_COLUMNS
        Columns that the model takes.
    unseen : {"refuse", "missing"}, default="refuse"
        Treatment of a category that the model does not know, where its library refuses it.
    missing_category : str or None, default=None
        Text of a missing cell, for a model that takes no missing category.

    Notes
    -----
    A model that was fitted on a data frame gets the frame that pandas reads from the file of the
    rows: with the types of the columns, the text of categories and the kind of missing cells. A
    function that takes frames gets one for arrays whose columns are known.

    Examples
    --------
    >>> columns = [SourceColumn("size"), SourceColumn("zip", "object", cells=("01", "1"))]
    >>> rows = ModelRows(columns, ModelColumns(("zip", "size")))
    >>> rows.transform(np.array([[1.5, 0.0], [np.nan, 1.0]])).to_dict("list")
    {'zip': ['01', '1'], 'size': [1.5, nan]}
    """

    columns: Sequence[SourceColumn] = ()
    of_model: ModelColumns = ANY_COLUMNS
    unseen: Unseen = "refuse"
    missing_category: str | None = None

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
            Rows; the columns of a data frame are found by their names.

        Raises
        ------
        DataError
            If a column is missing, or a category is refused.
        """
        if self._takes_arrays:
            return _as_numbers(X) if is_dataframe(X) else np.asarray(X)
        if self.of_model.names is None:
            return self._as_frame(X)
        return self._with_categories(*self._chosen(X))

    def check_columns(self, path: str) -> None:
        """Raise DataError unless the model takes the columns; warn if it takes them in their order.

        Parameters
        ----------
        path : str
            Path of the model, for the warning.
        """
        model, names = self.of_model, [column.name for column in self.columns]
        if not names:
            return
        model.check_names(names)
        if not self._takes_arrays:
            model.check_types(self.columns)
        categories = [column.name for column in self.columns if column.holds_categories]
        if categories and self._takes_arrays:
            raise DataError(
                f"takes an array of numbers, and columns hold categories"
                f" ({some(categories, _MAX_LISTED_COLUMNS)}); fit the model on a data frame,"
                " in a pipeline that encodes them"
            )
        if model.given_names is None and not model.takes_frames and len(names) > 1:
            warnings.warn(
                f"the model in {path} has no names of columns, and takes those of the table in"
                f" their order: {some(names, _MAX_LISTED_COLUMNS)}",
                stacklevel=4,
            )

    def check_rows(self, X: Any) -> None:
        """Raise DataError if rows have other columns than the model, or none of its categories.

        Parameters
        ----------
        X : DataFrame, Float[n, d] or images
            Rows.

        Warns
        -----
        UserWarning
            If the model does not know most cells of a column.
        """
        if is_dataframe(X):
            self.of_model.check_names([str(name) for name in X.columns])
        elif not len(self.columns) and self.of_model.n_features not in (None, X.shape[1]):
            raise DataError(
                f"was fitted on {self.of_model.n_features} columns, and the rows have {X.shape[1]}"
            )
        if self.of_model.names is None or not len(X):
            return
        chosen, sources = self._chosen(X)
        for column in self._resolved(chosen, sources).categories:
            if column.values is not None:
                j = chosen.columns.get_loc(column.name)
                check_known(column, chosen.iloc[:, j], sources[j])

    def holds_categories(self, X: Any) -> list[bool]:
        """Return for each column of rows whether it holds categories, or text.

        Parameters
        ----------
        X : DataFrame, Float[n, d] or images
            Rows.
        """
        if is_dataframe(X):
            return [not is_numeric_dtype(dtype) for dtype in X.dtypes]
        if len(self.columns):
            return [column.holds_categories for column in self.columns]
        return [False] * X.shape[1]

    def keeps_positions(self) -> bool:
        """Return whether the model numbers all categories of the columns as the arrays do."""
        names = self.of_model.names or ()
        positions = self.of_model.positions([column.name for column in self.columns])
        sources = {name: self.columns[j] for name, j in zip(names, positions, strict=True)}
        are_numbers = [not source.holds_categories for source in sources.values()]
        for column in self.of_model.with_lists(are_numbers).categories:
            source = sources[column.name]
            cells = source.restore(np.arange(len(source.cells or ())))
            converted = convert(column, cells, source, "missing")
            is_numbered = isinstance(converted.dtype, pd.CategoricalDtype)
            if is_numbered and (
                source.cells is None or (converted.cat.codes != range(len(cells))).any()
            ):
                return False
        return True

    def types_of_rows(self, X: Any) -> np.ndarray:
        """Return a number for each row, Int[n], such that rows of one number are of equal types.

        A gap or a fraction in a column of whole numbers changes the type of the column, and so
        would change how the other rows are written as text. Rows that are transformed with those of
        their number alone do not depend on others.
        """
        if is_dataframe(X) or self._takes_arrays:
            return np.zeros(len(X), dtype=np.int64)
        X = np.asarray(X, dtype=np.float64)
        whole = [
            j
            for j, column in enumerate(self.columns)
            if column.cells is None and column.dtype in _TYPES_WITHOUT_GAPS
        ]
        is_other = np.isnan(X[:, whole]) | (X[:, whole] != np.rint(X[:, whole]))
        if not is_other.any():
            return np.zeros(len(X), dtype=np.int64)
        return np.unique(is_other, axis=0, return_inverse=True)[1].reshape(-1)

    def way_out_of_gaps(self, X: Any) -> str:
        """Return the end of an error about rows, if words of their text may be read as missing.

        Parameters
        ----------
        X : DataFrame, Float[n, d] or images
            Rows that the model refused.
        """
        if is_dataframe(X):
            return ""
        is_missing = [
            column.name
            for j, column in enumerate(self.columns)
            if column.holds_categories and np.isnan(X[:, j]).any()
        ]
        if not is_missing:
            return ""
        return (
            f"; cells of {some(is_missing, _MAX_LISTED)} are missing, and"
            " dataset.not_missing=[NA] takes a word such as NA as text"
        )

    @property
    def _takes_arrays(self) -> bool:
        model = self.of_model
        return model.names is None and not (model.takes_frames and len(self.columns))

    def _as_frame(self, X: Any) -> pd.DataFrame:
        """Return the columns as their source has them."""
        if is_dataframe(X):
            return X
        X, names = np.asarray(X, dtype=np.float64), self.of_model.names
        if len(self.columns):
            return pd.DataFrame(
                {
                    column.name: column.restore_array(X[:, j])
                    for j, column in enumerate(self.columns)
                }
            )
        if names is not None and len(names) != X.shape[1]:
            raise DataError(f"was fitted on {len(names)} columns, and the rows have {X.shape[1]}")
        return pd.DataFrame(X, columns=names)

    def _chosen(self, X: Any) -> tuple[pd.DataFrame, list[SourceColumn | None]]:
        """Return the columns of the model by its names, and their sources where they are known."""
        assert self.of_model.names is not None
        frame = self._as_frame(X)
        positions = self.of_model.positions([str(name) for name in frame.columns])
        chosen = frame.iloc[:, positions].set_axis(list(self.of_model.names), axis=1)
        is_of_source = len(self.columns) > 0 and not is_dataframe(X)
        return chosen, [self.columns[j] if is_of_source else None for j in positions]

    def _with_categories(
        self, frame: pd.DataFrame, sources: Sequence[SourceColumn | None]
    ) -> pd.DataFrame:
        """Return columns of the model with its categories, and whole where it takes no fraction."""
        changed = {}
        for name in self.of_model.whole_numbers:
            j = frame.columns.get_loc(name)
            column, source = frame.iloc[:, j], sources[j]
            was_whole = source is not None and source.cells is None and "int" in source.dtype
            if was_whole and column.dtype == np.float64 and bool(column.notna().all()):
                changed[name] = column.round().astype(np.int64)
        frame = frame.assign(**changed) if changed else frame
        for column in self._resolved(frame, sources).categories:
            j = frame.columns.get_loc(column.name)
            changed[column.name] = convert(
                column, frame.iloc[:, j], sources[j], self.unseen, self.missing_category
            )
        return frame.assign(**changed) if changed else frame

    def _resolved(
        self, frame: pd.DataFrame, sources: Sequence[SourceColumn | None]
    ) -> ModelColumns:
        """Return the model's columns, with lists of categories that are found by types."""
        return self.of_model.with_lists(
            [
                is_numeric_dtype(dtype) if source is None else not source.holds_categories
                for dtype, source in zip(frame.dtypes, sources, strict=True)
            ]
        )


def _as_numbers(frame: pd.DataFrame) -> np.ndarray:
    """Return a data frame as Float64[n, d]; raise DataError if it holds other cells."""
    for name, dtype in frame.dtypes.items():
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)):
            raise DataError(f"takes an array of numbers, and column {name!r} holds {dtype}")
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


_TYPES_WITHOUT_GAPS = frozenset(
    ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
)
