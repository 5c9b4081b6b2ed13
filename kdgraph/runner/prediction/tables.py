"""Files of new rows, read some rows at a time: text, parquet, feather and ARFF, and arrays (.npz).

A spreadsheet has at most a million rows, and is read as a whole.
"""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
import zipfile
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from kdgraph.data.files.arff import declare_numbers_as_text
from kdgraph.data.files.arrays import read_npy_header
from kdgraph.data.files.arrow import FEATHER, errors_of_arrow, frame_from_arrow, index_as_columns
from kdgraph.data.files.delimited import DelimitedLayout, default_separator, read_layout
from kdgraph.data.files.json_lines import objects_of_lines
from kdgraph.data.files.paths import (
    DECOMPRESSORS,
    READ_ERRORS,
    check_text_start,
    codec_name,
    encoding_from_bom,
    path_argument,
)
from kdgraph.data.files.spreadsheets import SPREADSHEET, read_spreadsheet
from kdgraph.data.text_format import TextFormat
from kdgraph.deployment.schema import ARRAY_OF_GROUPS
from kdgraph.errors import DataError

PARQUET = (".parquet", ".pq")
_JSON_LINES = (".jsonl", ".ndjson")
_UNNAMED_LEVEL = re.compile(r"__index_level_\d+__")


class RowsFile:
    """A file of rows, with the numbers of rows that were read and of all.

    ``where`` has the option and the name of the file, for messages.
    """

    def __init__(self, path: Path, where: str) -> None:
        self.path, self.where, self.read, self.total = path, where, 0, 1

    def share_read(self) -> float:
        """Return the fraction of the file that was read, from 0 to 1."""
        return self.read / self.total


class NewTable(RowsFile, ABC):
    """A table in a file."""

    @abstractmethod
    def columns(self) -> list[str]:
        """Return the names of the columns, in order."""

    @abstractmethod
    def frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield the wanted columns, ``rows`` rows at a time and fewer at the end.

        Cells of text stay text: their meaning must not depend on other cells.
        """


def table_of(path: Path, suffix: str, text_format: TextFormat, where: str) -> NewTable:
    """Return the table in a file, whose kind the ``suffix`` of its name determines.

    ``text_format`` is how cells of the run's file are written. ``where`` has the option and the
    name of the file, for messages.
    """
    if path.is_dir() or suffix == FEATHER:
        return ArrowDataset(path, where)
    if suffix in PARQUET:
        return ParquetTable(path, where)
    if suffix == SPREADSHEET:
        return Spreadsheet(path, text_format, where)
    kind = JsonTable if suffix in _JSON_LINES else ArffTable if suffix == ".arff" else TextTable
    return kind(path, suffix, text_format, where)


class _TextFile(NewTable):
    """A table in a file of text, which may be compressed; ``read`` counts its bytes.

    A byte-order mark of the file overrides the encoding of ``text_format``.
    """

    def __init__(self, path: Path, suffix: str, text_format: TextFormat, where: str) -> None:
        super().__init__(path, where)
        self.suffix, self.text_format = suffix, text_format
        self.total = max(path.stat().st_size, 1)
        self.file: IO[bytes] | None = None

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Yield the file, which is decompressed while it is read."""
        with self.path.open("rb") as self.file:
            opener = DECOMPRESSORS.get(self.path.suffix.lower())
            yield opener(self.file) if opener else self.file

    def codec(self, file: IO[bytes]) -> str:
        """Return the codec of a file that is at its beginning, and is there again after it."""
        start = file.read(4096)
        file.seek(0)
        codec = encoding_from_bom(start) or codec_name(self.text_format.encoding)
        return check_text_start(self.where, start, codec)

    def frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        return _each_in_one_line(self.where, self._frames(wanted, rows))

    @abstractmethod
    def _frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]: ...

    def share_read(self) -> float:
        return 1.0 if self.file is None or self.file.closed else self.file.tell() / self.total


class TextTable(_TextFile):
    """Table in a csv or tsv file.

    Every cell stays text, so that its meaning does not depend on other cells.
    """

    @cached_property
    def layout(self) -> DelimitedLayout:
        """Encoding, separator and header of the file."""
        default = default_separator(self.suffix)
        with _in_one_line(self.where), self.opened() as file:
            layout = read_layout(file, self.codec(file), self.text_format, default, self.where)
        layout.refuse_other_separator(self.where, is_input=True)
        return layout

    def columns(self) -> list[str]:
        if self.layout.names:
            return self.layout.names
        with _in_one_line(self.where), self.opened() as file:
            header = pd.read_csv(file, nrows=0, **self.layout.options).columns
            return [str(name).strip() for name in header]

    def _frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        places = [self.columns().index(name) for name in wanted]
        with (
            self.opened() as file,
            pd.read_csv(file, chunksize=rows, dtype=str, **self.layout.options) as chunks,
        ):
            for frame in chunks:
                yield frame.iloc[:, places].set_axis(list(wanted), axis=1)


class ArffTable(_TextFile):
    """Table in an ARFF file: numbers, and nominal values, which are text."""

    @contextmanager
    def _loaded(self) -> Iterator[dict[str, Any]]:
        import arff

        with self.opened() as file, io.TextIOWrapper(file, self.codec(file)) as text:
            yield arff.load(declare_numbers_as_text(text), return_type=arff.DENSE_GEN)

    def columns(self) -> list[str]:
        with _in_one_line(self.where), self._loaded() as content:
            return [str(name) for name, _ in content["attributes"]]

    def _frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        names = self.columns()
        with self._loaded() as content:
            data = iter(content["data"])
            while block := list(islice(data, rows)):
                yield pd.DataFrame.from_records(block, columns=names)[list(wanted)].astype(object)


class JsonTable(_TextFile):
    """Table in a file with a JSON object in each line, whose cells have types.

    Lines may lack some of the keys, which are the columns.
    """

    @contextmanager
    def _objects(self) -> Iterator[Iterator[dict[str, Any]]]:
        with self.opened() as file:
            yield objects_of_lines(file, self.codec(file), self.where)

    def columns(self) -> list[str]:
        with _in_one_line(self.where), self._objects() as objects:
            return list(dict.fromkeys(key for value in objects for key in value))

    def _frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        with self._objects() as objects:
            while block := list(islice(objects, rows)):
                cells = {name: [value.get(name) for value in block] for name in wanted}
                yield pd.DataFrame(cells, dtype=object)


class Spreadsheet(NewTable):
    """Table in the first sheet of a file of Excel."""

    def __init__(self, path: Path, text_format: TextFormat, where: str) -> None:
        super().__init__(path, where)
        self.text_format = text_format

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The table."""
        try:
            return read_spreadsheet(self.path, self.text_format).frame
        except DataError as error:
            problem = str(error).removeprefix(path_argument(self.path))
            raise DataError(f"{self.where}{problem}") from error

    def columns(self) -> list[str]:
        return [str(name) for name in self.frame.columns]

    def frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield cells of the types that pandas infers from all of a column."""
        places = [self.columns().index(name) for name in wanted]
        frame = self.frame.iloc[:, places].set_axis(list(wanted), axis=1)
        self.total = max(len(frame), 1)
        for start in range(0, len(frame), rows):
            self.read = start
            yield frame.iloc[start : start + rows].reset_index(drop=True)


class ArrowDataset(NewTable):
    """Table in a feather file, or in a folder of parquet files, whose columns have types."""

    @cached_property
    def dataset(self) -> Any:
        """The files, as pyarrow's dataset."""
        from pyarrow import dataset

        kind = "feather" if self.path.suffix.lower() == FEATHER else "parquet"
        with errors_of_arrow(self.path, self.where):
            return dataset.dataset(self.path, format=kind, partitioning="hive")

    def columns(self) -> list[str]:
        return [name for name in self.dataset.schema.names if not _UNNAMED_LEVEL.fullmatch(name)]

    def frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        with errors_of_arrow(self.path, self.where):
            self.total = max(self.dataset.count_rows(), 1)
            batches = self.dataset.to_batches(columns=list(wanted), batch_size=rows)
            for _, table in _tables_of(batches, rows, 0, self.total):
                self.read += len(table)
                yield frame_from_arrow(table)[list(wanted)]


class ParquetTable(NewTable):
    """Table in a parquet file, whose columns have types.

    A level of the index that has a name is a column, as in a run.
    """

    def columns(self) -> list[str]:
        from pyarrow import parquet

        with errors_of_arrow(self.path, self.where):
            schema = parquet.read_schema(self.path)
        unnamed = [
            name
            for name in _index_of(schema)
            if isinstance(name, str) and _UNNAMED_LEVEL.fullmatch(name)
        ]
        return [*(str(name) for name in schema.names if name not in unnamed), *_ranges_of(schema)]

    @cached_property
    def group_ends(self) -> list[int]:
        """Number of rows up to the end of each row group."""
        from pyarrow import parquet

        with errors_of_arrow(self.path, self.where), parquet.ParquetFile(self.path) as file:
            groups = range(file.metadata.num_row_groups)
            return list(accumulate(file.metadata.row_group(k).num_rows for k in groups))

    def frames(
        self, wanted: Sequence[str], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[pd.DataFrame]:
        """Yield cells of the columns' types, ``rows`` rows at a time and fewer at the end.

        Only the row groups that contain rows from ``start`` to before ``stop`` are read.
        """
        end = self.group_ends[-1] if self.group_ends else 0
        stop = end if stop is None else min(stop, end)
        return self._frames(wanted, rows, start, stop)

    def _frames(
        self, wanted: Sequence[str], rows: int, start: int, stop: int
    ) -> Iterator[pd.DataFrame]:
        from pyarrow import parquet

        if start >= stop:
            return
        first, last = bisect_right(self.group_ends, start), bisect_left(self.group_ends, stop)
        position = self.group_ends[first - 1] if first else 0
        # Not buffered ahead: a whole row group, of any size, would be in memory.
        with (
            errors_of_arrow(self.path, self.where),
            parquet.ParquetFile(self.path, pre_buffer=False) as file,
        ):
            self.total = max(file.metadata.num_rows, 1)
            ranges = _ranges_of(file.schema_arrow)
            stored = [name for name in wanted if name not in ranges]
            batches = file.iter_batches(rows, row_groups=range(first, last + 1), columns=stored)
            for low, table in _tables_of(batches, rows, start - position, stop - start):
                self.read = position + low + len(table)
                numbers = {
                    name: ranges[name][self.read - len(table) : self.read]
                    for name in wanted
                    if name in ranges
                }
                frame = index_as_columns(self.where, frame_from_arrow(table))
                yield frame.assign(**numbers)[list(wanted)]


def _tables_of(
    batches: Iterable[Any], rows: int, skip: int, limit: int
) -> Iterator[tuple[int, Any]]:
    """Yield Arrow tables of ``rows`` rows and fewer at the end, with the number of their first row.

    A batch ends where its row group does, so that batches have fewer rows than they may. The first
    ``skip`` rows are left out, and so are those after ``limit`` more.
    """
    import pyarrow as pa

    position, waiting, n_waiting, left = 0, [], 0, limit
    for batch in batches:
        low = min(max(skip - position, 0), len(batch))
        position += len(batch)
        piece = batch.slice(low, max(min(len(batch) - low, left - n_waiting), 0))
        if not len(piece):
            continue
        waiting.append(piece)
        n_waiting += len(piece)
        while n_waiting >= rows or (n_waiting and n_waiting == left):
            table = pa.Table.from_batches(waiting)
            piece = table.slice(0, rows)
            yield skip + limit - left, piece
            left -= len(piece)
            waiting = table.slice(len(piece)).to_batches()
            n_waiting -= len(piece)


def _index_of(schema: Any) -> list[Any]:
    """Return the levels of pandas' index, as the metadata of a parquet file have them."""
    return (schema.pandas_metadata or {}).get("index_columns", [])


def _ranges_of(schema: Any) -> dict[str, range]:
    """Return name → values of each index level that has a name and counts.

    pandas does not store such a level as a column.
    """
    counts = [
        level
        for level in _index_of(schema)
        if isinstance(level, dict) and level.get("name") is not None
    ]
    return {
        str(level["name"]): range(level["start"], level["stop"], level["step"]) for level in counts
    }


@contextmanager
def _in_one_line(where: str) -> Iterator[None]:
    """Raise DataError in one line for the errors of readers of a file of another format."""
    from arff import ArffException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", pd.errors.ParserWarning
            )  # rows that are longer than the header
            yield
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{where} is empty") from error
    except (
        pd.errors.ParserError,
        pd.errors.ParserWarning,
        csv.Error,
        UnicodeDecodeError,
        ArffException,
        *READ_ERRORS,
    ) as error:
        reason = " ".join(str(error).removeprefix("Error tokenizing data. C error: ").split())[:160]
        raise DataError(f"{where} cannot be read: {reason}") from error


def _each_in_one_line(where: str, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Yield the frames; their errors are one line.

    Warnings are errors only while a frame is read, not while it is used: a reader that is never
    ended would leave them so.
    """
    while True:
        with _in_one_line(where):
            frame = next(frames, None)
        if frame is None:
            return
        yield frame


class ArrayRows(RowsFile):
    """The arrays ``X`` and ``groups`` of a .npz file.

    ``X`` is read from inside the zip archive, some rows at a time: [n, d] or images [n, c, h, w],
    which are divided by 255 if they are of uint8.
    """

    def shape(self) -> tuple[int, ...]:
        """Return the shape of one row; raise DataError if there is no ``X`` of numbers."""
        with self._opened() as file:
            return self._header(file)[0][1:]

    def arrays(self, rows: int) -> Iterator[np.ndarray]:
        """Yield at most ``rows`` rows at a time: Float64[n, d], or Float32[n, c, h, w]."""
        with self._opened() as file:
            shape, fortran, dtype = self._header(file)
            if fortran:
                raise DataError(
                    f"{self.where}: X lies column by column; write np.ascontiguousarray(X)"
                )
            self.total = max(shape[0], 1)
            size = dtype.itemsize * math.prod(shape[1:])
            while self.read < shape[0]:
                n = min(rows, shape[0] - self.read)
                content = file.read(n * size)
                if len(content) < n * size:
                    raise DataError(f"{self.where} is damaged: X ends before its {shape[0]:,} rows")
                self.read += n
                yield _as_read(np.frombuffer(content, dtype).reshape(n, *shape[1:]))

    def groups(self) -> np.ndarray:
        """Return the array ``groups``, [n]: the group of each row.

        Raises DataError if there is none, or it does not have the group of every row.
        """
        with self._opened() as file, np.load(self.path, allow_pickle=False) as arrays:
            n = self._header(file)[0][0]
            if ARRAY_OF_GROUPS not in arrays:
                raise DataError(
                    f"{self.where} has no array '{ARRAY_OF_GROUPS}', and the model wants the"
                    " group of each row"
                )
            groups = arrays[ARRAY_OF_GROUPS]
        if groups.shape != (n,):
            raise DataError(
                f"{self.where}: {ARRAY_OF_GROUPS} must name the group of each of {n:,} rows,"
                f" got shape {groups.shape}"
            )
        return groups

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
                if "X" not in names:
                    raise DataError(
                        f"{self.where} has no array 'X'; it has"
                        f" {', '.join(names) or 'none'}; name the rows X"
                    )
                with archive.open("X.npy") as file:
                    yield file
        except (zipfile.BadZipFile, OSError, EOFError) as error:
            raise DataError(f"{self.where} is no .npz file, or damaged: {error}") from error

    def _header(self, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
        try:
            shape, fortran, dtype = read_npy_header(file)
        except ValueError as error:
            raise DataError(f"{self.where} is damaged: {error}") from error
        if dtype.kind not in "biuf" or len(shape) not in (2, 4):
            raise DataError(
                f"{self.where}: X must hold numbers, [n, d] or images [n, c, h, w], got"
                f" {dtype}, shape {shape}"
            )
        return shape, fortran, dtype


def _as_read(X: np.ndarray) -> np.ndarray:
    """Return rows with the type and the range that they have in a data set of arrays."""
    if X.ndim == 2:
        return X.astype(np.float64)
    return X.astype(np.float32) / np.float32(255 if X.dtype == np.uint8 else 1)
