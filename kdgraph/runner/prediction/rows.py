"""New rows as the model was fitted on rows: the columns of its schema, checked cell by cell."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from kdgraph.data.files.paths import DECOMPRESSORS, list_names
from kdgraph.data.tables.score_file import to_probabilities
from kdgraph.errors import DataError, UsageError, did_you_mean
from kdgraph.runner.prediction.arrays import ArrayRows
from kdgraph.runner.prediction.cells import NO_GROUP, Cells, Unseen
from kdgraph.runner.prediction.schema import ARRAY_OF_GROUPS, Schema
from kdgraph.runner.prediction.tables import NewTable, table_of
from kdgraph.wording import some

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arff", ".npz")


class Block(NamedTuple):
    """Some rows as the model takes them: Float64[n, d], or Float32[n, c, h, w]; and Int[n] of their
    groups, None where it wants none.
    """

    X: np.ndarray
    groups: np.ndarray | None


class NewRows:
    """The rows of a file, as the model of a schema takes them.

    Parameters
    ----------
    path : .csv or .tsv (also .gz, .bz2, .xz), .parquet, .arff or .npz.
    schema : what the model was fitted on.
    unseen : what becomes of a category that the training data do not have: an error, or a missing
    cell.
    tell : gets what a user should know of the file, in one line each.
    """

    def __init__(
        self, path: Path, schema: Schema, unseen: Unseen, tell: Callable[[str], None]
    ) -> None:
        self.path, self.schema, self.tell = path, schema, tell
        if schema.text:
            schema.text.check_vectors()
        self._cells = Cells(path, schema, unseen)
        self._file = self._opened()

    @property
    def became_missing(self) -> Counter[str]:
        """By feature, how many cells had a category that the training data do not have."""
        return self._cells.became_missing

    def share_read(self) -> float:
        """How much of the file was read, from 0 to 1."""
        return self._file.share_read()

    def blocks(self, rows: int) -> Iterator[Block]:
        """Scaled rows with their groups, ``rows`` at a time and fewer at the end.

        Raises
        ------
        DataError
            In one line, for a column that is missing, a cell of the wrong type, a category that the
            training data do not have.
        """
        of_rows, of_groups = tee(self._measured(rows))
        X = regrouped((self.schema.scaled(X) for X, _ in of_rows), rows)
        groups = regrouped((groups for _, groups in of_groups), rows)
        for each, its in zip(X, groups, strict=True):
            yield Block(each, its if self.schema.groups else None)

    def _opened(self) -> NewTable | ArrayRows:
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
                f"--input {self.path}: the ending says what a file is, and must be one of"
                f" {', '.join(SUFFIXES)}"
            )
        if endings[-1] == ".npz":
            return self._arrays()
        if self.schema.kind == "images":
            raise UsageError(
                f"--input {self.path}: the model takes images; give them as X in a .npz file"
            )
        return table_of(self.path, endings[-1], self.schema.separator, self.schema.encoding)

    def _arrays(self) -> ArrayRows:
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

    def _measured(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows as they are measured, and their groups, all of them unknown where the model wants
        none.
        """
        if isinstance(self._file, ArrayRows):
            return self._of_arrays(self._file, rows)
        columns, of = self._file.columns(), self.schema
        features = of.text.columns if of.text else [feature.name for feature in of.features]
        groups = [feature.name for feature in of.groups.columns] if of.groups else []
        wanted = list(dict.fromkeys([*features, *groups]))
        self._check_columns(columns, wanted)
        return self._encoded(self._file.frames(wanted, rows), features)

    def _of_arrays(self, file: ArrayRows, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        groups = (
            self._cells.groups(pd.DataFrame({ARRAY_OF_GROUPS: file.groups()}), 0)
            if self.schema.groups
            else None
        )
        start = 0
        for X in file.arrays(rows):
            yield (
                self._rows(X, start),
                np.full(len(X), NO_GROUP) if groups is None else groups[start : start + len(X)],
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
            self.tell(f"columns that the model does not use are left out: {some(more)}")

    def _encoded(
        self, frames: Iterable[pd.DataFrame], features: Sequence[str]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        start = 0
        for frame in frames:
            groups = (
                self._cells.groups(frame, start)
                if self.schema.groups
                else np.full(len(frame), NO_GROUP)
            )
            yield self._rows(self._cells.encoded(frame[features], start), start), groups
            start += len(frame)

    def _rows(self, X: np.ndarray, start: int) -> np.ndarray:
        """Return rows as they are measured, with the probabilities that their class scores are;
        ``start`` numbers the first.
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


def regrouped(arrays: Iterable[np.ndarray], rows: int) -> Iterator[np.ndarray]:
    """The same rows, ``rows`` at a time and fewer at the end, however they come."""
    kept: list[np.ndarray] = []
    for array in arrays:
        kept.append(array)
        if sum(map(len, kept)) < rows:
            continue
        together = np.concatenate(kept) if len(kept) > 1 else array
        full = len(together) - len(together) % rows
        yield from (together[start : start + rows] for start in range(0, full, rows))
        kept = [together[full:]]
    if sum(map(len, kept)):
        yield np.concatenate(kept)
