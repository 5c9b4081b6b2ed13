"""Tables in files of Arrow, parquet and feather, whose columns have types.

:class:`ParquetNumbers` divides the columns of a large file. Numbers whose meaning needs no look at
other cells are streamed some rows at a time; all others, such as labels, text and dates, are read
as a data frame, which :func:`kdgraph.data.frames.from_frame` then treats as any other.
Original to kdgraph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kdgraph.data import mapped_rows
from kdgraph.data.files.numbers import FLOAT_INTEGER_LIMIT
from kdgraph.data.files.parsed_table import ParsedTable
from kdgraph.data.files.paths import DECOMPRESSORS, files_below, path_argument
from kdgraph.data.source_columns import SourceTypes
from kdgraph.errors import DataError, KdgError
from kdgraph.wording import first_line

_BATCH_ROWS = 65_536
_PARQUET = (".parquet", ".pq")
FEATHER = ".feather"
"""Ending of a file in Arrow's own format."""


class ParquetNumbers:
    """Columns of numbers of a parquet file, and its other columns as a data frame.

    Columns of ``others`` are not streamed, and neither are those of a name that ``may_be_index``:
    whether they number the rows is seen in all of their cells. ``names`` are the streamed columns
    in the order of the file, ``types`` the types that pandas gives them where no cell is missing,
    and ``column_order`` all columns as in a data frame, named levels of an index first;
    :meth:`read_others` sets it.
    """

    def __init__(
        self, path: Path, others: Collection[str], may_be_index: Callable[[str], bool]
    ) -> None:
        from pyarrow import parquet

        self.path, self.column_order = path, list[str]()
        with errors_of_arrow(path), parquet.ParquetFile(path) as file:
            self._schema, metadata = file.schema_arrow, file.metadata
            self.n_rows = metadata.num_rows
            first = next(file.iter_batches(3), None)
            levels = (self._schema.pandas_metadata or {}).get("index_columns", [])
        ranges = _chunks_by_column(metadata)
        self._index = {level for level in levels if isinstance(level, str)}
        self.names = [
            name
            for name in self._schema.names
            if name not in others
            and name not in self._index
            and not may_be_index(name)
            and _needs_no_look(self._schema.field(name).type, ranges.get(name, []))
            and not _counts(first, name)
        ]
        kinds = self._schema.empty_table().to_pandas().dtypes
        self.types = {name: str(kinds[name]) for name in self.names if self.is_large}

    @property
    def is_large(self) -> bool:
        """True if the table is one to stream: its rows would be mapped to a file."""
        names = self._schema.names
        is_unique = len(set(names)) == len(names)  # else a data frame raises the error
        return is_unique and 8 * self.n_rows * len(names) > mapped_rows.MAPPED_BYTES

    def read_others(self) -> pd.DataFrame:
        """Return the columns that are not streamed."""
        others = [name for name in self._schema.names if name not in self.names]
        with self._open() as file:
            frame = frame_from_arrow(file.read(columns=others).select(others))
        frame = index_as_columns(path_argument(self.path), frame)
        stored = [name for name in self._schema.names if name not in self._index]
        self.column_order = [name for name in map(str, frame.columns) if name not in stored]
        self.column_order += stored
        return frame

    @contextmanager
    def _open(self) -> Iterator[Any]:
        from pyarrow import parquet

        # Not buffered ahead: a row group may be as large as the file.
        with errors_of_arrow(self.path), parquet.ParquetFile(self.path, pre_buffer=False) as file:
            yield file

    def blocks(self, names: list[str]) -> Iterator[np.ndarray]:
        """Yield the rows of some of the streamed columns, Float64[b, len(names)]."""
        with self._open() as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=names):
                block = np.empty((len(batch), len(names)))
                for j, name in enumerate(names):
                    block[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
                yield block


def _chunks_by_column(metadata: Any) -> dict[str, list[Any]]:
    """Return column → statistics of its chunk in each row group, None where there are none."""
    chunks: dict[str, list[Any]] = {}
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        for j in range(group.num_columns):
            chunk = group.column(j)
            chunks.setdefault(chunk.path_in_schema, []).append(chunk.statistics)
    return chunks


def _needs_no_look(kind: Any, statistics: list[Any]) -> bool:
    """Return whether a float64 holds every cell of a column exactly, by its type and extremes."""
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return True
    if pa.types.is_boolean(kind):
        # With missing cells, a data frame has objects in its place.
        return all(chunk is not None and chunk.null_count == 0 for chunk in statistics)
    if not pa.types.is_integer(kind):
        return False
    return kind.bit_width < 64 or all(
        chunk is not None
        and chunk.has_min_max
        and -FLOAT_INTEGER_LIMIT < chunk.min <= chunk.max < FLOAT_INTEGER_LIMIT
        for chunk in statistics
    )


def _counts(first: Any, name: str) -> bool:
    """Return whether the first cells of a column are those of one that numbers the rows."""
    cells = first.column(name).to_pylist() if first is not None else []
    return cells in ([0, 1, 2], [1, 2, 3])


def frame_from_arrow(table: Any) -> pd.DataFrame:
    """Return a pyarrow table or batch as a data frame.

    64-bit integers stay integers where cells are missing.
    """
    import pyarrow as pa

    frame = table.to_pandas()
    nullable = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    for j, name in enumerate(frame.columns):
        # The position is -1 if two columns have this name.
        position = table.schema.get_field_index(str(name))
        if (
            position >= 0
            and frame.iloc[:, j].dtype == np.float64
            and table.schema.field(position).type in nullable
        ):
            frame.isetitem(j, table.column(position).to_pandas(types_mapper=nullable.get).array)
    return frame


def is_partitioned(path: Path) -> bool:
    """Return whether a path is a folder with parquet files, such as a partitioned table."""
    return os.path.isdir(path) and any(
        file.suffix.lower() in _PARQUET for file in files_below(path)
    )


def read_parquet(path: Path) -> ParsedTable:
    """Return the table of a parquet or feather file, or of a folder of parquet files.

    A folder ``year=2024`` in a folder makes a category column ``year``, as in pandas.
    """
    from pyarrow import feather, parquet

    if path.suffix.lower() in DECOMPRESSORS:
        raise DataError(f"{path_argument(path)}: parquet files are compressed inside; unpack it")
    with errors_of_arrow(path):
        if path.suffix.lower() == FEATHER:
            table = feather.read_table(path)
        else:
            is_folder = path.is_dir()
            table = parquet.read_table(path) if is_folder else parquet.ParquetFile(path).read()
        frame = index_as_columns(path_argument(path), frame_from_arrow(table))
        declared = table.schema.empty_table().to_pandas().dtypes
    # Whole numbers with gaps, of which pandas makes fractions unless the file has their type.
    read_again = {
        str(name): "float64"
        for name, dtype in frame.dtypes.items()
        if str(dtype) in ("Int64", "UInt64") and declared.get(name) != dtype
    }
    return ParsedTable(frame, types=SourceTypes(read_again=read_again))


@contextmanager
def errors_of_arrow(path: Path, source: str | None = None) -> Iterator[None]:
    """Raise DataError in one line for a file that Arrow does not read, or pandas from it.

    Messages name it by ``source``, or by the key of a data set.
    """
    from pyarrow import ArrowException

    kind = "feather" if path.suffix.lower() == FEATHER else "parquet"
    try:
        yield
    except KdgError:
        raise
    # Changed bytes of the metadata, which are JSON of pandas, are errors of any of these types.
    except (ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"is not a {kind} file, or damaged: {first_line(error)}"
        raise DataError(f"{source or path_argument(path)} {problem}") from error


def index_as_columns(source: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with each named level of its index as a column, and rows numbered from 0.

    pandas writes a named index, such as one made by ``set_index``, into the file like any other
    column. An index without a name only numbers or names the rows and does not become a column.
    """
    levels = [name for name in frame.index.names if name is not None]
    if duplicates := [str(name) for name in levels if name in frame.columns]:
        raise DataError(
            f"{source}: the index and a column are both named '{duplicates[0]}'; give each its"
            " own name"
        )
    frame = frame.reset_index(level=levels) if levels else frame
    return frame.reset_index(drop=True)
