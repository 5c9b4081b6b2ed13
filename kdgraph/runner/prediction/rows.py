"""New rows of a file as the model takes them: the columns of its schema, some rows at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import tee
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from kdgraph.data.files.paths import DECOMPRESSORS, list_names
from kdgraph.deployment.cells import MISSING_GROUP, Cells, Unseen
from kdgraph.deployment.schema import ARRAY_OF_GROUPS, Schema
from kdgraph.errors import DataError, UsageError, did_you_mean
from kdgraph.runner.prediction.tables import ArrayRows, NewTable, table_of
from kdgraph.wording import some

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arff", ".npz")


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
    option : str, default="--input"
        Option of the command line that names the file, for messages.
    """

    def __init__(
        self,
        path: Path,
        schema: Schema,
        unseen: Unseen,
        report: Callable[[str], None],
        option: str = "--input",
    ) -> None:
        self.path, self.schema, self.report = path, schema, report
        self.where = f"{option} {path}"
        if schema.text:
            schema.text.check_vectors()
        self._cells = Cells(self.where, schema, unseen, "--unseen missing")
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
            raise UsageError(f"{self.where} is a folder; give one file")
        if not os.path.isfile(self.path):
            raise UsageError(
                f"{self.where}: no such"
                f" file{did_you_mean(self.path.name, list_names(self.path.parent))}"
            )
        endings = [
            ending.lower() for ending in self.path.suffixes if ending.lower() not in DECOMPRESSORS
        ]
        if not endings or endings[-1] not in SUFFIXES:
            raise UsageError(
                f"{self.where}: the ending of a file determines its kind, and must be one of"
                f" {', '.join(SUFFIXES)}"
            )
        if endings[-1] == ".npz":
            return self._open_arrays()
        if self.schema.kind == "images":
            raise UsageError(f"{self.where}: the model takes images; give them as X in a .npz file")
        return table_of(
            self.path, endings[-1], self.schema.separator, self.schema.encoding, self.where
        )

    def _open_arrays(self) -> ArrayRows:
        file, schema = ArrayRows(self.path, self.where), self.schema
        if schema.kind == "texts" or any(feature.categories for feature in schema.features):
            raise UsageError(
                f"{self.where}: the model takes text in columns; give a table, such as .csv"
                " or .parquet"
            )
        if list(file.shape()) != schema.shape:
            raise DataError(
                f"{self.where}: the model takes rows of shape {schema.shape}, and those of X"
                f" have {list(file.shape())}"
            )
        if schema.groups and [feature.name for feature in schema.groups.columns] != [
            ARRAY_OF_GROUPS
        ]:
            raise UsageError(
                f"{self.where}: the model takes groups from columns; give a table, such as"
                " .csv or .parquet"
            )
        return file

    def _read(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield unscaled rows and their groups, all unknown if the model takes no groups."""
        if isinstance(self._file, ArrayRows):
            return self._read_arrays(self._file, rows)
        if more := self._cells.unused_columns(self._file.columns()):
            self.report(f"columns that the model does not use are left out: {some(more)}")
        return self._encode(self._file.frames(self._cells.columns, rows))

    def _read_arrays(self, file: ArrayRows, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        groups = (
            self._cells.groups(pd.DataFrame({ARRAY_OF_GROUPS: file.groups()}), 0)
            if self.schema.groups
            else None
        )
        start = 0
        for X in file.arrays(rows):
            yield (
                self._cells.with_probabilities(X, start),
                np.full(len(X), MISSING_GROUP)
                if groups is None
                else groups[start : start + len(X)],
            )
            start += len(X)

    def _encode(self, frames: Iterable[pd.DataFrame]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        start = 0
        for frame in frames:
            X, groups = self._cells.encode(frame, start)
            yield X, np.full(len(X), MISSING_GROUP) if groups is None else groups
            start += len(frame)


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
