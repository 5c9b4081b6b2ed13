"""Tables in csv, tsv, parquet and ARFF files as data frames.

A float64 represents all integers only up to 2^53. Readers of tables convert integers to floats,
for example where a cell is missing, and thus round larger ones. The functions here read such
columns again as integers. A file that is not a table raises an error of one line.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from kdgraph.data.dataset import ColumnKind
from kdgraph.data.files.delimited import MISSING_CELLS, TextFormat, read_layout
from kdgraph.data.files.paths import (
    DECOMPRESSORS,
    READ_ERRORS,
    check_text,
    checked_suffix,
    open_bytes,
    path_argument,
    unreadable_file_error,
)
from kdgraph.errors import DataError

FLOAT_INTEGER_LIMIT = 2**53
"""Smallest integer whose float64 is also that of its neighbour."""
INTEGER_PATTERN = re.compile(r"[+-]?\d+", re.ASCII)
_LEADING_ZERO_PATTERN = re.compile(r"[+-]?0\d+", re.ASCII)
_NUMERIC_ATTRIBUTE_PATTERN = re.compile(
    r"^(\s*@attribute\s.*\s)(numeric|integer|real)(\s*)$", re.IGNORECASE
)


def parse_number_column(cells: pd.Series) -> pd.Series:
    """Return a column of text as integers, floats or text.

    Parameters
    ----------
    cells : Series of str, shape (n,)
        Cells, with NaN or None where one is missing.

    Returns
    -------
    Series
        Int64[n] or UInt64[n] if all cells are integers. Text if an integer needs more than 64 bits
        or a cell is not a number. Otherwise Float64[n].

    Examples
    --------
    >>> parse_number_column(pd.Series(["9007199254740993", None, "12"])).tolist()
    [9007199254740993, <NA>, 12]
    """
    # Integers are parsed from text, because pandas goes through float64 where a cell is missing.
    # Each distinct text is parsed once; columns of codes repeat few of them.
    texts = cells.dropna().unique()
    stripped = [str(word).strip() for word in texts]
    if all(INTEGER_PATTERN.fullmatch(word) for word in stripped):
        values = [int(word) for word in stripped]
        value_of = dict(zip(texts, values, strict=True))
        integers = integer_array(
            [value_of[cell] if isinstance(cell, str) else None for cell in cells]
        )
        return (
            cells.astype(object)
            if integers is None
            else pd.Series(integers, index=cells.index, name=cells.name)
        )
    numbers = pd.to_numeric(cells, errors="coerce")
    return (
        cells.astype(object)
        if (numbers.isna() & cells.notna()).any()
        else numbers.astype(np.float64)
    )


def integer_array(values: Sequence[int | None]) -> pd.arrays.IntegerArray | None:
    """Return integers, of which some may be missing, as an array of type Int64 or UInt64.

    Parameters
    ----------
    values : sequence of int or None, length n
        The integers; None where one is missing.

    Returns
    -------
    IntegerArray or None
        Array [n], or None if an integer needs more than 64 bits.
    """
    present = [value for value in values if value is not None]
    low, high = min(present, default=0), max(present, default=0)
    if high >= 2**64 or low < -(2**63) or (low < 0 and high >= 2**63):
        return None
    # ``pandas.array`` would convert to floats first if some integers need the 64th bit.
    mask = np.array([value is None for value in values], dtype=bool)
    dtype = np.uint64 if high >= 2**63 else np.int64
    return pd.arrays.IntegerArray(
        np.array([0 if value is None else value for value in values], dtype=dtype), mask
    )


def restore_integers(
    frame: pd.DataFrame,
    reread: Callable[[list[int]], pd.DataFrame],
    missing: Iterable[str],
    identifiers: Iterable[str] = (),
) -> pd.DataFrame:
    """Return the table with the columns that pandas rounded read again as integers.

    Parameters
    ----------
    frame : DataFrame, [n, columns]
        The table as pandas read it.
    reread : callable
        Function that returns the columns at the given positions as text, ordered by position.
    missing : iterable of str
        Cells that pandas reads as missing.
    identifiers : iterable of str, default=()
        Columns of names that may look like numbers. A column with leading zeros stays text.

    Returns
    -------
    DataFrame
        [n, columns]. Columns with missing cells have the nullable types Int64 and UInt64.
    """
    # Only the columns in question are read a second time. Most tables have none, and reading all
    # cells as text would cost them time and memory.
    identifier_names = set(identifiers)
    rounded_positions = [
        j for j in range(frame.shape[1]) if _may_be_rounded(frame.iloc[:, j], missing)
    ]
    identifier_positions = [
        j
        for j, name in enumerate(frame.columns)
        if name in identifier_names and frame.iloc[:, j].dtype.kind in "iuf"
    ]
    if not (positions := sorted({*rounded_positions, *identifier_positions})):
        return frame
    columns: dict[int, Any] = {j: frame.iloc[:, j] for j in range(frame.shape[1])}
    for j, (_, text) in zip(positions, reread(positions).items(), strict=True):
        cells = text.set_axis(frame.index)
        if j in identifier_positions and any(
            _LEADING_ZERO_PATTERN.fullmatch(str(word).strip()) for word in cells.dropna().unique()
        ):
            columns[j] = cells.astype(object)
        elif j in rounded_positions:
            columns[j] = parse_number_column(cells)
    # The columns are joined by position, because names in ``frame`` may repeat.
    return pd.concat([column.rename(j) for j, column in columns.items()], axis=1).set_axis(
        frame.columns, axis=1
    )


def _may_be_rounded(column: pd.Series, missing: Iterable[str]) -> bool:
    """Return whether pandas may have rounded the integers of a column."""
    # pandas reads integers as floats if a cell is missing or has a decimal point. It reads
    # unsigned integers of 64 bits with a missing cell as text, in which this cell is not missing.
    if column.dtype.kind == "f":
        return bool((column.abs() >= FLOAT_INTEGER_LIMIT).any())
    return column.dtype == object and bool(column.isin(list(missing)).any())


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


def declare_numbers_as_text(lines: IO[str]) -> Iterator[str]:
    """Yield the lines of an ARFF file with its numeric attributes declared as text.

    The reason is that liac-arff reads numbers as floats.
    """
    for line in lines:
        match = _NUMERIC_ATTRIBUTE_PATTERN.match(line.rstrip("\r\n"))
        yield f"{match[1]}STRING{match[3]}\n" if match else line
        if line.strip().lower().startswith("@data"):
            break
    yield from lines


def frame_from_arff(text: IO[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the table of an ARFF file and the names of its nominal attributes.

    Parameters
    ----------
    text : text file
        The open file.

    Returns
    -------
    frame : DataFrame, [n, columns]
        All columns, a nominal attribute as text and a numeric one as numbers.
    nominal : list of str
        Names of the nominal attributes.

    Raises
    ------
    arff.ArffException, ValueError
        If the text is not ARFF.
    """
    import arff

    document = arff.load(text, return_type=arff.DENSE_GEN)
    names, kinds = zip(*document["attributes"], strict=True)
    frame = pd.DataFrame.from_records(list(document["data"]), columns=list(names))
    numeric = [
        name
        for name, kind in zip(names, kinds, strict=True)
        if not isinstance(kind, list) and kind != "STRING"
    ]
    for name in numeric:
        frame[name] = pd.to_numeric(frame[name])
    # liac-arff has parsed all numbers as floats. A column that may have lost digits is read again
    # as text; this needs a second pass over the file, which is rare.
    if rounded := [name for name in numeric if (frame[name].abs() >= FLOAT_INTEGER_LIMIT).any()]:
        text.seek(0)
        document = arff.load(declare_numbers_as_text(text), return_type=arff.DENSE_GEN)
        cells = pd.DataFrame.from_records(list(document["data"]), columns=list(names))
        for name in rounded:
            frame[name] = parse_number_column(cells[name])
    return frame, [
        str(name) for name, kind in zip(names, kinds, strict=True) if isinstance(kind, list)
    ]


TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arff")


@dataclass(frozen=True)
class ParsedTable:
    """Table as it was read, and the kinds that its file declares for columns."""

    frame: pd.DataFrame
    kinds: dict[str, ColumnKind] = field(default_factory=dict)


def read_table(path: Path, text_format: TextFormat) -> ParsedTable:
    """Read a table by the ending of its file.

    Parameters
    ----------
    path : Path
        The file. The ending of a text file may be followed by .gz, .bz2 or .xz.
    text_format : TextFormat
        Encoding and separator of a text file.

    Raises
    ------
    DataError
        If the file has another ending, or is not what its ending declares.
    """
    suffix = checked_suffix(path, TABLE_SUFFIXES)
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path)
    codec = check_text(path, text_format.encoding)
    return (
        _read_arff(path, codec)
        if suffix == ".arff"
        else ParsedTable(_read_csv(path, text_format, codec, default_separator(suffix)))
    )


def default_separator(suffix: str) -> str:
    """Return the separator of a file if neither the user nor the file names one."""
    return "\t" if suffix == ".tsv" else ","


def _read_parquet(path: Path) -> ParsedTable:
    """Return the table of a parquet file."""
    from pyarrow import ArrowException, parquet

    if path.suffix.lower() in DECOMPRESSORS:
        raise DataError(f"{path_argument(path)}: parquet files are compressed inside; unpack it")
    try:
        return ParsedTable(
            index_as_columns(
                path_argument(path), frame_from_arrow(parquet.ParquetFile(path).read())
            )
        )
    except (ArrowException, OSError) as error:
        raise unreadable_parquet_error(path, error) from error


def unreadable_parquet_error(path: Path, error: BaseException) -> DataError:
    """Return the error for a file that pyarrow does not read."""
    return DataError(
        f"{path_argument(path)} is not a parquet file, or damaged: {_first_error_line(error)}"
    )


def index_as_columns(source: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with each named level of its index as a column, and rows numbered from 0.

    pandas writes a named index, such as one made by ``set_index``, into the file like any other
    column. An index without a name only numbers or names the rows and does not become a column.

    Parameters
    ----------
    source : str
        How messages name the file.
    frame : DataFrame, [n, columns]
        The table.

    Raises
    ------
    DataError
        If a level and a column have the same name.
    """
    levels = [name for name in frame.index.names if name is not None]
    if duplicates := [str(name) for name in levels if name in frame.columns]:
        raise DataError(
            f"{source}: the index and a column are both named '{duplicates[0]}'; give each its"
            " own name"
        )
    return (
        frame.reset_index(level=levels).reset_index(drop=True)
        if levels
        else frame.reset_index(drop=True)
    )


def _read_csv(path: Path, text_format: TextFormat, codec: str, default: str) -> pd.DataFrame:
    """Return the table of a csv or tsv file."""
    with open_bytes(path) as file:
        layout = read_layout(file, codec, text_format.separator, default, path_argument(path))
    layout.refuse_other_separator(path_argument(path))
    names = layout.names
    try:
        with warnings.catch_warnings(), open_bytes(path) as file:
            # pandas only warns about rows that are longer than the header.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(file, low_memory=False, **layout.options)
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error) as error:
        raise _table_format_error(path, error, layout.separator, len(names)) from error
    nameless = frame.columns.str.fullmatch(r"Unnamed: [\d.]+")
    if len(names) == frame.shape[1]:
        nameless = np.isin(np.arange(len(names)), list(layout.nameless))
        # pandas renames the second of two columns with the same name; this restores the names.
        frame.columns = names

    def cells_as_text(positions: list[int]) -> pd.DataFrame:
        with open_bytes(path) as file:
            return pd.read_csv(file, **layout.options, usecols=positions, dtype=str)

    frame = restore_integers(frame, cells_as_text, MISSING_CELLS, text_format.identifiers)
    # Separators at the ends of lines make an empty column without a name.
    trailing = nameless & frame.isna().all().to_numpy()
    return frame.loc[:, ~trailing]


def read_text_column(path: Path, text_format: TextFormat, name: str) -> pd.Series | None:
    """Return the cells of one column of a csv or tsv file as text.

    No cell is converted to a number, a truth value or a missing value. White space around a cell is
    removed.

    Parameters
    ----------
    path : Path
        A file that :func:`read_table` reads.
    text_format : TextFormat
        Encoding and separator of the file.
    name : str
        A column of the file.

    Returns
    -------
    Series of str, shape (n,), or None
        None for other files, whose columns have types.
    """
    suffix = checked_suffix(path, TABLE_SUFFIXES)
    if suffix not in (".csv", ".tsv"):
        return None
    with open_bytes(path) as file:
        layout = read_layout(
            file,
            check_text(path, text_format.encoding),
            text_format.separator,
            default_separator(suffix),
            path_argument(path),
        )
    # Names may look like anything, such as NA, true or 01; no cell may be converted.
    options = {**layout.options, "dtype": str, "na_filter": False}
    with open_bytes(path) as file:
        return (
            pd.read_csv(file, usecols=[layout.names.index(name)], **options).iloc[:, 0].str.strip()
        )


def _table_format_error(
    path: Path, error: BaseException, separator: str, n_names: int
) -> DataError:
    """Return the error for a file whose rows do not all fit the header."""
    if field_counts := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
        expected, line, observed = field_counts.groups()
        cells = f"line {line} has {observed} cells, and those before it {expected}"
    elif "does not match" in str(error):
        cells = f"some rows have more cells than the header, which has {n_names}"
    else:
        cells = _first_error_line(error).removeprefix("Error tokenizing data. C error: ")
    separator_name = "tab" if separator == "\t" else f"'{separator}'"
    return DataError(
        f"{path_argument(path)} is not a table with {separator_name} between cells: {cells}; see"
        " dataset.separator, and quote cells that contain it"
    )


def _read_arff(path: Path, codec: str) -> ParsedTable:
    """Return the table of an ARFF file and its nominal attributes."""
    import arff

    try:
        with open_bytes(path) as file, io.TextIOWrapper(file, codec) as text:
            frame, nominal = frame_from_arff(text)
    except arff.ArffException as error:
        raise DataError(
            f"{path_argument(path)} is not ARFF:"
            f" {_first_error_line(error).removesuffix(', at line -1.')}"
        ) from error
    except (ValueError, *READ_ERRORS) as error:
        raise unreadable_file_error(path, error) from error
    return ParsedTable(frame, dict.fromkeys(nominal, "categorical"))


def _first_error_line(error: BaseException) -> str:
    """Return the first line of an error message that is not empty, at most 160 characters of it."""
    return next(
        (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
    )[:160]
