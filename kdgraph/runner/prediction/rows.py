"""New rows as the model takes them: the columns of its schema, checked cell by cell."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import tee
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from kdgraph.data.files.paths import DECOMPRESSORS, list_names
from kdgraph.data.frames.cells import MAX_CELL_VALUE, MissingCells, format_cell
from kdgraph.data.frames.dates import date_rule, is_date_type, to_days
from kdgraph.data.frames.targets import OTHER_GROUP
from kdgraph.data.tables.score_file import to_probabilities
from kdgraph.errors import DataError, UsageError, did_you_mean
from kdgraph.runner.prediction.schema import ARRAY_OF_GROUPS, Feature, Schema
from kdgraph.runner.prediction.tables import ArrayRows, NewTable, table_of
from kdgraph.wording import reads_as_number, some

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arff", ".npz")
MISSING_GROUP = -1
"""Position of a group that the model was not fitted with."""
Unseen = Literal["refuse", "missing"]
MOST_DIGITS = 40
"""Longer whole numbers are no names of categories."""
_FRACTION = pd.Series(["0.5"], dtype=object)
_WHOLE = re.compile(r"[+-]?\d+")
_TRUTH = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}


class Block(NamedTuple):
    """Some rows as the model takes them.

    Attributes
    ----------
    X : ndarray
        Float64[n, d], or Float32[n, c, h, w].
    groups : ndarray or None
        Int[n], the group of each row; None if the model takes no groups.
    """

    X: np.ndarray
    groups: np.ndarray | None


class NewRows:
    """The rows of a file, as the model of a schema takes them.

    Parameters
    ----------
    path : Path
        A .csv or .tsv file (also .gz, .bz2, .xz), .parquet, .arff or .npz.
    schema : Schema
        Description of the rows that the model was fitted on.
    unseen : {"refuse", "missing"}
        A category that the training data do not have is an error, or a missing cell.
    report : callable
        Receives notes on the file, in one line each.
    """

    def __init__(
        self, path: Path, schema: Schema, unseen: Unseen, report: Callable[[str], None]
    ) -> None:
        self.path, self.schema, self.report = path, schema, report
        if schema.text:
            schema.text.check_vectors()
        self._cells = Cells(path, schema, unseen)
        self._file = self._open()

    @property
    def became_missing(self) -> Counter[str]:
        """Feature → number of cells with a category that the training data do not have."""
        return self._cells.became_missing

    def share_read(self) -> float:
        """Return the fraction of the file that was read, from 0 to 1."""
        return self._file.share_read()

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield scaled rows with their groups, ``rows`` at a time and fewer at the end.

        Raises
        ------
        DataError
            A column is missing, a cell has the wrong type, or the training data do not have a
            category.
        """
        first, second = tee(self._read(rows))
        X_blocks = regroup((self.schema.scaled(X) for X, _ in first), rows)
        group_blocks = regroup((groups for _, groups in second), rows)
        for X, groups in zip(X_blocks, group_blocks, strict=True):
            yield Block(X, groups if self.schema.groups else None)

    def _open(self) -> NewTable | ArrayRows:
        if os.path.isdir(self.path):
            raise UsageError(f"--input {self.path} is a folder; give one file")
        if not os.path.isfile(self.path):
            raise UsageError(
                f"--input {self.path}: no such"
                f" file{did_you_mean(self.path.name, list_names(self.path.parent))}"
            )
        endings = [
            ending.lower() for ending in self.path.suffixes if ending.lower() not in DECOMPRESSORS
        ]
        if not endings or endings[-1] not in SUFFIXES:
            raise UsageError(
                f"--input {self.path}: the ending of a file determines its kind, and must be one of"
                f" {', '.join(SUFFIXES)}"
            )
        if endings[-1] == ".npz":
            return self._open_arrays()
        if self.schema.kind == "images":
            raise UsageError(
                f"--input {self.path}: the model takes images; give them as X in a .npz file"
            )
        return table_of(self.path, endings[-1], self.schema.separator, self.schema.encoding)

    def _open_arrays(self) -> ArrayRows:
        file, schema = ArrayRows(self.path), self.schema
        if schema.kind == "texts" or any(feature.categories for feature in schema.features):
            raise UsageError(
                f"--input {self.path}: the model takes text in columns; give a table, such as .csv"
                " or .parquet"
            )
        if list(file.shape()) != schema.shape:
            raise DataError(
                f"--input {self.path}: the model takes rows of shape {schema.shape}, and those of X"
                f" have {list(file.shape())}"
            )
        if schema.groups and [feature.name for feature in schema.groups.columns] != [
            ARRAY_OF_GROUPS
        ]:
            raise UsageError(
                f"--input {self.path}: the model takes groups from columns; give a table, such as"
                " .csv or .parquet"
            )
        return file

    def _read(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield unscaled rows and their groups, all unknown if the model takes no groups."""
        if isinstance(self._file, ArrayRows):
            return self._read_arrays(self._file, rows)
        columns, schema = self._file.columns(), self.schema
        features = (
            schema.text.columns if schema.text else [feature.name for feature in schema.features]
        )
        groups = [feature.name for feature in schema.groups.columns] if schema.groups else []
        wanted = list(dict.fromkeys([*features, *groups]))
        self._check_columns(columns, wanted)
        return self._encode(self._file.frames(wanted, rows), features)

    def _read_arrays(self, file: ArrayRows, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        groups = (
            self._cells.groups(pd.DataFrame({ARRAY_OF_GROUPS: file.groups()}), 0)
            if self.schema.groups
            else None
        )
        start = 0
        for X in file.arrays(rows):
            yield (
                self._rows(X, start),
                np.full(len(X), MISSING_GROUP)
                if groups is None
                else groups[start : start + len(X)],
            )
            start += len(X)

    def _check_columns(self, columns: Sequence[str], wanted: Sequence[str]) -> None:
        if absent := [name for name in wanted if name not in columns]:
            others = f" (nor {some(absent[1:])})" if absent[1:] else ""
            has = f"; it has {some(columns)}"
            raise DataError(
                f"--input {self.path} has no column '{absent[0]}'{others}, which the model"
                f" needs{did_you_mean(absent[0], columns, has)}"
            )
        if twice := [name for name in wanted if columns.count(name) > 1]:
            raise DataError(
                f"--input {self.path} has several columns named '{twice[0]}'; give each its own"
                " name"
            )
        if more := [name for name in columns if name not in wanted]:
            self.report(f"columns that the model does not use are left out: {some(more)}")

    def _encode(
        self, frames: Iterable[pd.DataFrame], features: Sequence[str]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        start = 0
        for frame in frames:
            groups = (
                self._cells.groups(frame, start)
                if self.schema.groups
                else np.full(len(frame), MISSING_GROUP)
            )
            yield self._rows(self._cells.encode(frame[features], start), start), groups
            start += len(frame)

    def _rows(self, X: np.ndarray, start: int) -> np.ndarray:
        """Return unscaled rows, with probabilities in place of class scores.

        ``start`` is the number of the first row.
        """
        if self.schema.scores is None:
            return X
        k = len(self.schema.classes)
        if len(bad := np.flatnonzero(~np.isfinite(X[:, :k]).all(axis=1))):
            raise DataError(
                f"--input {self.path}: scores must be finite, row {start + bad[0]} is not"
            )
        where, way_out = f"--input {self.path}", "the run was made of probabilities; give such"
        return np.hstack(
            [to_probabilities(where, X[:, :k], self.schema.scores, start, way_out), X[:, k:]]
        )


def regroup(arrays: Iterable[np.ndarray], rows: int) -> Iterator[np.ndarray]:
    """Yield the same rows in arrays of ``rows`` rows, with fewer in the last."""
    buffer: list[np.ndarray] = []
    for array in arrays:
        buffer.append(array)
        if sum(map(len, buffer)) < rows:
            continue
        joined = np.concatenate(buffer) if len(buffer) > 1 else array
        full = len(joined) - len(joined) % rows
        yield from (joined[start : start + rows] for start in range(0, full, rows))
        buffer = [joined[full:]]
    if sum(map(len, buffer)):
        yield np.concatenate(buffer)


class Cells:
    """Reader of the cells of a table: each is converted alone, and refused in one line.

    Parameters
    ----------
    path : Path
        The file, for messages.
    schema : Schema
        Description of the rows that the model was fitted on.
    unseen : {"refuse", "missing"}
        A category that the training data do not have is an error, or a missing cell.

    Attributes
    ----------
    became_missing : Counter
        Feature → number of cells with such a category.
    """

    def __init__(self, path: Path, schema: Schema, unseen: Unseen) -> None:
        self.path, self.schema, self.unseen = path, schema, unseen
        self.became_missing: Counter[str] = Counter()
        self._missing = MissingCells.from_cells(schema.missing)

    def encode(self, frame: pd.DataFrame, start: int) -> np.ndarray:
        """Return the numbers of a frame, Float64[n, d].

        Parameters
        ----------
        frame : DataFrame
            The schema's columns, and no others, in order.
        start : int
            Number of the first row.
        """
        return self._encode_texts(frame) if self.schema.text else self._encode_table(frame, start)

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
            read = (
                self._days
                if feature.date_format
                else self._numbers
                if feature.categories is None
                else self._codes
            )
            X[:, j] = read(column, feature, start)
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
        self._refuse(
            bad, column, feature, start, f"the model takes {date_rule(feature.date_format)} there"
        )
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
            self._refuse(
                np.isnan(positions), column, feature, start, "the model wants the group of each row"
            )
            if self.unseen == "refuse":
                rule = (
                    f"the model knows the groups {some(schema.names)}; --unseen missing treats"
                    " others as it treats all rows"
                )
                self._refuse(positions == MISSING_GROUP, column, feature, start, rule)
            return positions.astype(np.int64)
        values = np.stack(
            [self._numbers(frame[feature.name], feature, start) for feature in schema.columns],
            axis=1,
        )
        for j, feature in enumerate(schema.columns):
            self._refuse(
                np.isnan(values[:, j]),
                frame[feature.name],
                feature,
                start,
                "the model wants the largest of several columns",
            )
        other = schema.names.index(OTHER_GROUP) if OTHER_GROUP in schema.names else MISSING_GROUP
        return np.where((values > 0).any(axis=1), values.argmax(axis=1), other)

    def _numbers(self, column: pd.Series, feature: Feature, start: int) -> np.ndarray:
        if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values, bad = self._parse(
                column.astype(object).where(~column.isin(self._missing.words), None)
            )
            self._refuse(bad, column, feature, start, "the model takes numbers there")
        values = np.where(np.isin(values, self._missing.numbers), np.nan, values)
        self._refuse(
            np.abs(values) >= MAX_CELL_VALUE,
            column,
            feature,
            start,
            "numbers must be finite and below 1e18",
        )
        return values

    def _parse(self, cells: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        """Return Float64[n], and Bool[n] that is True where a cell is no number.

        Truth values are 0 and 1, as they were in training. pandas reads whole numbers exactly if a
        column has no others, else as fractions, which from 2^53 on may give a neighbouring number.
        Here a cell does not depend on others: it is read as a fraction, and a large whole number
        exactly.
        """
        values = (
            pd.to_numeric(pd.concat([cells, _FRACTION]), errors="coerce")
            .to_numpy(dtype=np.float64, na_value=np.nan)[:-1]
            .copy()
        )
        for row in np.flatnonzero(np.abs(values) >= 2**53):
            word = format_cell(cells.iloc[row]).strip()
            values[row] = float(int(word)) if _WHOLE.fullmatch(word) else values[row]
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
            way_out = "--unseen missing reads such cells as missing"
            self._refuse(
                unknown,
                column,
                feature,
                start,
                f"the training data have {some(feature.categories)}; {way_out}",
            )
        return np.where(unknown, np.nan, positions)

    def _positions(self, column: pd.Series, feature: Feature) -> np.ndarray:
        """Return positions in the feature's categories, Float64[n].

        NaN where a cell is missing, -1 where it is none of the categories.
        """
        codes, values = pd.factorize(column)
        return np.array(
            [self._position(format_cell(value), feature.categories or []) for value in values]
            + [np.nan]
        )[codes]

    def _position(self, word: str, categories: list[str]) -> float:
        """Return the position of a cell among the categories.

        NaN if it is to be read as missing, -1 if it is none of them. Where all categories are
        numbers, 3.0 is the category 3; digit by digit, since a float from 2^53 on stands for
        several integers.
        """
        if word in self._missing.words:
            return np.nan
        if word in categories:
            return categories.index(word)
        try:
            number = Decimal(word)
        except InvalidOperation:
            return -1
        if not number.is_finite() or number.adjusted() > MOST_DIGITS:
            return -1
        name = (
            str(int(number)) if number == number.to_integral_value() else format_cell(float(number))
        )
        return (
            categories.index(name)
            if name in categories and all(reads_as_number(name) for name in categories)
            else -1
        )

    def _refuse(
        self, bad: np.ndarray, column: pd.Series, feature: Feature, start: int, rule: str
    ) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            cell = column.iloc[row]
            raise DataError(
                f"--input {self.path}: column '{feature.name}' has '{cell}' in row {start + row},"
                f" and {rule}"
            )
