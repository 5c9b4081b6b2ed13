"""Cells of a table as the numbers that a saved model takes.

Each cell is converted alone, so that its meaning does not depend on other cells, and what does not
suit the model is refused in one line. Original to kdgraph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from kdgraph.data.files.numbers import exact_numbers
from kdgraph.data.frames.cells import MAX_CELL_VALUE, MissingCells, format_cell
from kdgraph.data.frames.dates import date_rule, is_date_type, to_days
from kdgraph.data.frames.targets import OTHER_GROUP
from kdgraph.data.tables.score_file import to_probabilities
from kdgraph.deployment.schema import Feature, Schema
from kdgraph.errors import DataError, did_you_mean
from kdgraph.parameters import Unseen
from kdgraph.wording import some

MISSING_GROUP = -1
"""Position of a group that the model was not fitted with."""
MOST_DIGITS = 40
"""Longer whole numbers are no names of categories."""
_TRUTH = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}


class Cells:
    """Reader of the cells of a table, which it converts to the rows that a model takes.

    Parameters
    ----------
    where : str
        Name of the table in messages.
    schema : Schema
        Description of the rows that the model was fitted on.
    unseen : {"refuse", "missing"}
        A category that the training data do not have is an error, or a missing cell.
    allow_unseen : str, default='unseen="missing"'
        What the caller gives to read such categories as missing, for messages.

    Attributes
    ----------
    became_missing : Counter
        Feature → number of cells with such a category.

    Examples
    --------
    >>> import pandas as pd
    >>> from kdgraph.deployment import Cells, Schema
    >>> from kdgraph.deployment.schema import Feature
    >>> features = [Feature("age"), Feature("job", ["chef", "nurse"])]
    >>> schema = Schema("people", "rich", features, shape=[2], classes=["no", "yes"])
    >>> cells = Cells("new.csv", schema, unseen="missing")
    >>> cells.unused_columns(["age", "job", "name"])
    ['name']
    >>> X, groups = cells.encode(pd.DataFrame({"age": [31, 45], "job": ["nurse", "pilot"]}))
    >>> X, cells.became_missing
    (array([[31.,  1.],
           [45., nan]]), Counter({'job': 1}))
    """

    def __init__(
        self, where: str, schema: Schema, unseen: Unseen, allow_unseen: str = 'unseen="missing"'
    ) -> None:
        self.where, self.schema, self.unseen = where, schema, unseen
        self.allow_unseen = allow_unseen
        self.became_missing: Counter[str] = Counter()
        self._missing = MissingCells.from_cells(schema.missing)

    @property
    def features(self) -> list[str]:
        """Columns that become features, in their order."""
        schema = self.schema
        return schema.text.columns if schema.text else [feature.name for feature in schema.features]

    @property
    def columns(self) -> list[str]:
        """Columns that the model needs: the features, then those of groups."""
        groups = self.schema.groups.columns if self.schema.groups else []
        return list(dict.fromkeys([*self.features, *(feature.name for feature in groups)]))

    def unused_columns(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of a table that the model does not use.

        Raises
        ------
        DataError
            If a column that the model needs is missing or occurs twice.
        """
        wanted = self.columns
        if absent := [name for name in wanted if name not in columns]:
            others = f" (nor {some(absent[1:])})" if absent[1:] else ""
            has = f"; it has {some(columns)}"
            raise DataError(
                f"{self.where} has no column '{absent[0]}'{others}, which the model"
                f" needs{did_you_mean(absent[0], columns, has)}"
            )
        if twice := [name for name in wanted if list(columns).count(name) > 1]:
            raise DataError(
                f"{self.where} has several columns named '{twice[0]}'; give each its own name"
            )
        return [name for name in columns if name not in wanted]

    def encode(self, frame: pd.DataFrame, start: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the unscaled rows of a frame, Float64[n, d], and their groups.

        Parameters
        ----------
        frame : DataFrame
            Table with :attr:`columns`.
        start : int, default=0
            Number of the first row, for messages.

        Returns
        -------
        X : Float64[n, d]
            Rows, with probabilities in place of class scores.
        groups : Int[n] or None
            Group of each row; None if the model takes no groups.
        """
        groups = self.groups(frame, start) if self.schema.groups else None
        features, texts = frame[self.features], self.schema.text
        X = self._encode_texts(features) if texts else self._encode_table(features, start)
        return self.with_probabilities(X, start), groups

    def with_probabilities(self, X: np.ndarray, start: int) -> np.ndarray:
        """Return rows with probabilities in place of class scores, if they begin with scores.

        Parameters
        ----------
        X : Float64[n, d]
            Unscaled rows.
        start : int
            Number of the first row, for messages.
        """
        if self.schema.scores is None:
            return X
        k = len(self.schema.classes)
        if len(bad := np.flatnonzero(~np.isfinite(X[:, :k]).all(axis=1))):
            raise DataError(f"{self.where}: scores must be finite, row {start + bad[0]} is not")
        way_out = "the run was made of probabilities; give such"
        proba = to_probabilities(self.where, X[:, :k], self.schema.scores, start, way_out)
        return np.hstack([proba, X[:, k:]])

    def _encode_texts(self, frame: pd.DataFrame) -> np.ndarray:
        from kdgraph.data.tables.text import join_text_columns, vectorize_texts

        text = self.schema.text
        assert text is not None
        width = self.schema.shape[0]
        return vectorize_texts(
            join_text_columns(frame), text.n_features, text.vectors, posts=text.posts, width=width
        )

    def _encode_table(self, frame: pd.DataFrame, start: int) -> np.ndarray:
        X = np.empty(frame.shape)
        for j, feature in enumerate(self.schema.features):
            column = frame.iloc[:, j]
            if feature.date_format:
                X[:, j] = self._days(column, feature, start)
            elif feature.categories is None:
                X[:, j] = self._numbers(column, start)
            else:
                X[:, j] = self._codes(column, feature, start)
        return X

    def _days(self, column: pd.Series, feature: Feature, start: int) -> np.ndarray:
        """Return dates as the numbers that they were in training."""
        assert feature.date_format is not None
        cells = (
            column
            if is_date_type(column)
            else column.where(~column.map(format_cell).isin(self._missing.words), None)
        )
        days = to_days(cells, feature.date_format)
        bad = np.isnan(days) & cells.notna().to_numpy()
        self._refuse(bad, column, start, f"the model takes {date_rule(feature.date_format)} there")
        return days

    def groups(self, frame: pd.DataFrame, start: int) -> np.ndarray:
        """Return the group of each row of a frame, Int[n]: positions in the schema's group names.

        :data:`MISSING_GROUP` where the cell is read as missing, or no column is above 0.
        """
        schema = self.schema.groups
        assert schema is not None
        if len(schema.columns) == 1:
            column, feature = frame[schema.columns[0].name], schema.columns[0]
            positions = self._positions(column, feature)
            rule = "the model wants the group of each row"
            self._refuse(np.isnan(positions), column, start, rule)
            if self.unseen == "refuse":
                rule = (
                    f"the model knows the groups {some(schema.names)}; {self.allow_unseen} treats"
                    " others as it treats all rows"
                )
                self._refuse(positions == MISSING_GROUP, column, start, rule)
            return positions.astype(np.int64)
        columns = [frame[feature.name] for feature in schema.columns]
        values = np.stack([self._numbers(column, start) for column in columns], axis=1)
        for j, column in enumerate(columns):
            rule = "the model wants the largest of several columns"
            self._refuse(np.isnan(values[:, j]), column, start, rule)
        other = schema.names.index(OTHER_GROUP) if OTHER_GROUP in schema.names else MISSING_GROUP
        return np.where((values > 0).any(axis=1), values.argmax(axis=1), other)

    def _numbers(self, column: pd.Series, start: int) -> np.ndarray:
        if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            cells = column.astype(object).where(~column.isin(self._missing.words), None)
            if self.schema.text_format.decimal != ".":
                cells = cells.replace(re.escape(self.schema.text_format.decimal), ".", regex=True)
            values, bad = self._parse(cells)
            self._refuse(bad, column, start, "the model takes numbers there")
        values = np.where(np.isin(values, self._missing.numbers), np.nan, values)
        is_large = np.abs(values) >= MAX_CELL_VALUE
        self._refuse(is_large, column, start, "numbers must be finite and below 1e18")
        return values

    def _parse(self, cells: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        """Return Float64[n], and Bool[n] that is True where a cell is no number.

        Truth values are 0 and 1, as they were in training.
        """
        values = exact_numbers(cells)
        bad = np.isnan(values) & cells.notna().to_numpy()
        for row in np.flatnonzero(bad):
            values[row] = _TRUTH.get(format_cell(cells.iloc[row]), np.nan)
        return values, bad & np.isnan(values)

    def _codes(self, column: pd.Series, feature: Feature, start: int) -> np.ndarray:
        """Return positions in the feature's categories, Float64[n]; NaN where a cell is missing."""
        assert feature.categories is not None
        positions = self._positions(column, feature)
        unknown = positions == -1
        if self.unseen == "missing":
            self.became_missing[feature.name] += int(unknown.sum())
        else:
            way_out = f"{self.allow_unseen} reads such cells as missing"
            rule = f"the training data have {some(feature.categories)}; {way_out}"
            self._refuse(unknown, column, start, rule)
        return np.where(unknown, np.nan, positions)

    def _positions(self, column: pd.Series, feature: Feature) -> np.ndarray:
        """Return positions in the feature's categories, Float64[n].

        NaN where a cell is missing, -1 where it is none of the categories.
        """
        codes, values = pd.factorize(column)
        positions = [self._position(format_cell(value), feature) for value in values]
        return np.array([*positions, np.nan])[codes]

    def _position(self, word: str, feature: Feature) -> float:
        """Return the position of a cell among the categories.

        NaN if it is to be read as missing, -1 if it is none of them. Where the categories are
        numbers, 3.0 is the category 3; digit by digit, since a float from 2^53 on stands for
        several integers.
        """
        categories = feature.categories or []
        if word in self._missing.words:
            return np.nan
        if word in categories:
            return categories.index(word)
        if not feature.of_numbers:
            return -1
        try:
            number = Decimal(word)
        except InvalidOperation:
            return -1
        if not number.is_finite() or number.adjusted() > MOST_DIGITS:
            return -1
        is_whole = number == number.to_integral_value()
        name = str(int(number)) if is_whole else format_cell(float(number))
        return categories.index(name) if name in categories else -1

    def _refuse(self, bad: np.ndarray, column: pd.Series, start: int, rule: str) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            cell = column.iloc[row]
            raise DataError(
                f"{self.where}: column '{column.name}' has '{cell}' in row {start + row},"
                f" and {rule}"
            )
