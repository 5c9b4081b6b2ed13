"""New rows of a file as the model takes them: the columns of its schema, some rows at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from kdgraph.data.files.arrow import is_partitioned
from kdgraph.data.files.paths import list_names, uncompressed_endings
from kdgraph.data.files.tables import TABLE_SUFFIXES
from kdgraph.deployment.cells import Cells
from kdgraph.deployment.schema import ARRAY_OF_GROUPS, Schema
from kdgraph.errors import DataError, UsageError, did_you_mean
from kdgraph.parameters import Unseen
from kdgraph.runner.prediction.tables import ArrayRows, NewTable, ParquetTable, table_of
from kdgraph.wording import some

SUFFIXES = (*TABLE_SUFFIXES, ".npz")


class Block(NamedTuple):
    """Some rows as the model takes them.

    ``start`` is the number of the first row in its file, ``X`` Float64[n, d] or Float32[n, c, h,
    w], ``groups`` Int[n] or None if the model takes none. ``became_missing`` counts the cells of
    each feature with a category that the training data do not have.
    """

    start: int
    X: np.ndarray
    groups: np.ndarray | None
    became_missing: Counter[str]


class NewRows:
    """The rows of a file, as the model of a schema takes them.

    ``path`` is a file of one of :data:`SUFFIXES`, a compressed text file, or a folder of parquet
    files. A category that the training data do not have is an error, or a missing cell where
    ``unseen`` is "missing". ``report`` receives notes on the file, in one line each; ``option``
    names the file in messages.
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
        self.unseen: Unseen = unseen
        self._checked = False
        self._cells = Cells(self.where, schema, unseen, "--unseen missing")
        self._file = self._open()

    def share_read(self) -> float:
        """Return the fraction of the file that was read, from 0 to 1."""
        return self._file.share_read()

    def blocks(
        self,
        rows: int,
        start: int = 0,
        stop: int | None = None,
        skip: Callable[[int], bool] = lambda first: False,
    ) -> Iterator[Block]:
        """Yield scaled rows with their groups, ``rows`` at a time and fewer at the end.

        ``start`` and ``stop`` are for a file with :attr:`row_groups` alone. The cells of a block
        are not converted where ``skip`` of the number of its first row is True. Raises DataError
        where a column is missing, a cell has the wrong type, or the training data do not have a
        category.
        """
        for first, X, groups in self._read(rows, start, stop, skip):
            became_missing = Counter(self._cells.became_missing)
            self._cells.became_missing.clear()
            yield Block(first, self.schema.scaled(X), groups, became_missing)

    def check_columns(self) -> None:
        """Report columns that the model does not use, once.

        A column that it needs and that is missing or occurs twice raises DataError.
        """
        if isinstance(self._file, ArrayRows) or self._checked:
            return
        if more := self._cells.unused_columns(self._file.columns()):
            self.report(f"columns that the model does not use are left out: {some(more)}")
        self._checked = True

    @property
    def row_groups(self) -> list[int] | None:
        """Number of rows up to the end of each row group; None of a file without such groups.

        Only a file with row groups can be read from any row on.
        """
        return self._file.group_ends if isinstance(self._file, ParquetTable) else None

    def _open(self) -> NewTable | ArrayRows:
        if is_partitioned(self.path):
            return table_of(self.path, "", self.schema.text_format, self.where)
        if os.path.isdir(self.path):
            raise UsageError(f"{self.where} is a folder without parquet files; give one file")
        if not os.path.isfile(self.path):
            raise UsageError(
                f"{self.where}: no such"
                f" file{did_you_mean(self.path.name, list_names(self.path.parent))}"
            )
        endings = uncompressed_endings(self.path)
        if not endings or endings[-1] not in SUFFIXES:
            raise UsageError(
                f"{self.where}: the ending of a file determines its kind, and must be one of"
                f" {', '.join(SUFFIXES)}"
            )
        if endings[-1] == ".npz":
            return self._open_arrays()
        if self.schema.kind == "images":
            raise UsageError(f"{self.where}: the model takes images; give them as X in a .npz file")
        return table_of(self.path, endings[-1], self.schema.text_format, self.where)

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

    def _read(
        self, rows: int, start: int, stop: int | None, skip: Callable[[int], bool]
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        """Yield the number of the first row, unscaled rows, and their groups if there are any."""
        if isinstance(self._file, ArrayRows):
            yield from self._read_arrays(self._file, rows, skip)
            return
        self.check_columns()
        columns = self._cells.columns
        frames = (
            self._file.frames(columns, rows, start, stop)
            if isinstance(self._file, ParquetTable)
            else self._file.frames(columns, rows)
        )
        first = start
        for frame in frames:
            if len(frame) and not skip(first):
                yield first, *self._cells.encode(frame, first)
            first += len(frame)

    def _read_arrays(
        self, file: ArrayRows, rows: int, skip: Callable[[int], bool]
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        groups = (
            self._cells.groups(pd.DataFrame({ARRAY_OF_GROUPS: file.groups()}), 0)
            if self.schema.groups
            else None
        )
        first = 0
        for X in file.arrays(rows):
            if not skip(first):
                rows_of_block = slice(first, first + len(X))
                yield (
                    first,
                    self._cells.with_probabilities(X, first),
                    None if groups is None else groups[rows_of_block],
                )
            first += len(X)
