"""Whole numbers that a reader would round: from 2^53 on, a float is no longer one integer.

ARFF files as data frames.

Tables in files as data frames: csv, tsv, parquet and ARFF, each refused in one line where it is
none.
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
"""From here on neighbouring integers become the same float64."""
INTEGER_PATTERN = re.compile(r"[+-]?\d+", re.ASCII)
_LEADING_ZERO_PATTERN = re.compile(r"[+-]?0\d+", re.ASCII)
_NUMERIC_ATTRIBUTE_PATTERN = re.compile(
    r"^(\s*@attribute\s.*\s)(numeric|integer|real)(\s*)$", re.IGNORECASE
)


def parse_number_column(cells: pd.Series) -> pd.Series:
    """Return a column of text as integers where all of its cells are some, else as floats, or as
    text if a cell is no number.

    Parameters
    ----------
    cells : text [n], with NaN or None where a cell is missing.

    Returns
    -------
    Series
        Of type Int64 or UInt64; text where there are whole numbers of more than 64 bits, or no
        numbers at all; else Float64[n].

    Examples
    --------
    >>> parse_number_column(pd.Series(["9007199254740993", None, "12"])).tolist()
    [9007199254740993, <NA>, 12]
    """
    words = cells.dropna().unique()
    stripped = [str(word).strip() for word in words]
    if all(INTEGER_PATTERN.fullmatch(word) for word in stripped):
        values = [int(word) for word in stripped]
        by_word = dict(zip(words, values, strict=True))
        whole = integer_array([by_word[cell] if isinstance(cell, str) else None for cell in cells])
        return (
            cells.astype(object)
            if whole is None
            else pd.Series(whole, index=cells.index, name=cells.name)
        )
    numbers = pd.to_numeric(cells, errors="coerce")
    return (
        cells.astype(object)
        if (numbers.isna() & cells.notna()).any()
        else numbers.astype(np.float64)
    )


def integer_array(values: Sequence[int | None]) -> pd.arrays.IntegerArray | None:
    """Return integers of which some may be missing as an Int64 or UInt64 array [n]; None where one
    needs more bits.

    ``pandas.array`` goes through floats where some integers need the 64th bit.
    """
    known = [value for value in values if value is not None]
    low, high = min(known, default=0), max(known, default=0)
    if high >= 2**64 or low < -(2**63) or (low < 0 and high >= 2**63):
        return None
    mask = np.array([value is None for value in values], dtype=bool)
    kind = np.uint64 if high >= 2**63 else np.int64
    return pd.arrays.IntegerArray(
        np.array([0 if value is None else value for value in values], dtype=kind), mask
    )


def restore_integers(
    frame: pd.DataFrame,
    reread: Callable[[list[int]], pd.DataFrame],
    missing: Iterable[str],
    identifiers: Iterable[str] = (),
) -> pd.DataFrame:
    """Return the table with the columns that pandas rounded read again, integer by integer.

    pandas reads a column of whole numbers as floats where a cell is missing or one has a decimal
    point, and those of unsigned 64 bits with a missing cell as text in which that cell is no longer
    missing.

    Parameters
    ----------
    frame : [n, columns], as pandas read it.
    reread : returns the columns at these positions as text, in the order of their positions.
    missing : cells that pandas was to read as missing.
    identifiers : columns of names that may look like numbers; one with leading zeros stays text.

    Returns
    -------
    DataFrame
        [n, columns]; columns with missing cells are of the nullable types Int64 and UInt64.
    """
    named = set(identifiers)
    rounded = [j for j in range(frame.shape[1]) if _may_be_rounded(frame.iloc[:, j], missing)]
    codes = [
        j
        for j, name in enumerate(frame.columns)
        if name in named and frame.iloc[:, j].dtype.kind in "iuf"
    ]
    if not (positions := sorted({*rounded, *codes})):
        return frame
    columns: dict[int, Any] = {j: frame.iloc[:, j] for j in range(frame.shape[1])}
    for j, (_, text) in zip(positions, reread(positions).items(), strict=True):
        cells = text.set_axis(frame.index)
        if j in codes and any(
            _LEADING_ZERO_PATTERN.fullmatch(str(word).strip()) for word in cells.dropna().unique()
        ):
            columns[j] = cells.astype(object)
        elif j in rounded:
            columns[j] = parse_number_column(cells)
    return pd.concat([column.rename(j) for j, column in columns.items()], axis=1).set_axis(
        frame.columns, axis=1
    )


def _may_be_rounded(column: pd.Series, missing: Iterable[str]) -> bool:
    if column.dtype.kind == "f":
        return bool((column.abs() >= FLOAT_INTEGER_LIMIT).any())
    return column.dtype == object and bool(column.isin(list(missing)).any())


def frame_from_arrow(table: Any) -> pd.DataFrame:
    """Return a table or batch of pyarrow as a data frame whose 64-bit integers stay integers where
    cells are missing.
    """
    import pyarrow as pa

    frame = table.to_pandas()
    nullable = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    for j, name in enumerate(frame.columns):
        place = table.schema.get_field_index(str(name))  # -1 where the name stands twice
        if (
            place >= 0
            and frame.iloc[:, j].dtype == np.float64
            and table.schema.field(place).type in nullable
        ):
            frame.isetitem(j, table.column(place).to_pandas(types_mapper=nullable.get).array)
    return frame


def declare_numbers_as_text(lines: IO[str]) -> Iterator[str]:
    """Yield the lines of an ARFF file with its numeric attributes declared as text, since liac-arff
    reads numbers as floats.
    """
    for line in lines:
        match = _NUMERIC_ATTRIBUTE_PATTERN.match(line.rstrip("\r\n"))
        yield f"{match[1]}STRING{match[3]}\n" if match else line
        if line.strip().lower().startswith("@data"):
            break
    yield from lines


def frame_from_arff(text: IO[str]) -> tuple[pd.DataFrame, list[str]]:
    """All columns [n, columns], a nominal attribute as text and a number as a number; and the names
    of the nominal ones.

    Raises
    ------
    arff.ArffException, ValueError
        If it is none.
    """
    import arff

    found = arff.load(text, return_type=arff.DENSE_GEN)
    names, kinds = zip(*found["attributes"], strict=True)
    frame = pd.DataFrame.from_records(list(found["data"]), columns=list(names))
    numeric = [
        name
        for name, kind in zip(names, kinds, strict=True)
        if not isinstance(kind, list) and kind != "STRING"
    ]
    for name in numeric:
        frame[name] = pd.to_numeric(frame[name])
    if rounded := [name for name in numeric if (frame[name].abs() >= FLOAT_INTEGER_LIMIT).any()]:
        text.seek(0)
        found = arff.load(declare_numbers_as_text(text), return_type=arff.DENSE_GEN)
        cells = pd.DataFrame.from_records(list(found["data"]), columns=list(names))
        for name in rounded:
            frame[name] = parse_number_column(cells[name])
    return frame, [
        str(name) for name, kind in zip(names, kinds, strict=True) if isinstance(kind, list)
    ]


TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arff")


@dataclass(frozen=True)
class ParsedTable:
    """A table as it was read, and the kinds that its file declares for columns."""

    frame: pd.DataFrame
    kinds: dict[str, ColumnKind] = field(default_factory=dict)


def read_table(path: Path, form: TextFormat) -> ParsedTable:
    """Read a file by its ending, which may be followed by .gz, .bz2 or .xz for text.

    Raises
    ------
    DataError
        If it is none of these, or not what its ending says.
    """
    suffix = checked_suffix(path, TABLE_SUFFIXES)
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path)
    codec = check_text(path, form.encoding)
    return (
        _read_arff(path, codec)
        if suffix == ".arff"
        else ParsedTable(_read_csv(path, form, codec, default_separator(suffix)))
    )


def default_separator(suffix: str) -> str:
    """Return what is between cells of a file where nothing says it."""
    return "\t" if suffix == ".tsv" else ","


def _read_parquet(path: Path) -> ParsedTable:
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
        raise DataError(
            f"{path_argument(path)} is no parquet file, or damaged: {_first_error_line(error)}"
        ) from error


def index_as_columns(where: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with each level of its index that has a name as a column, and rows numbered
    from 0.

    pandas writes a named index, such as one made by ``set_index``, into the file as a column like
    any other; one without a name numbers or names rows and is no column. ``where`` is how messages
    name the file.
    """
    levels = [name for name in frame.index.names if name is not None]
    if twice := [str(name) for name in levels if name in frame.columns]:
        raise DataError(
            f"{where}: the index and a column are both named '{twice[0]}'; give each its own name"
        )
    return (
        frame.reset_index(level=levels).reset_index(drop=True)
        if levels
        else frame.reset_index(drop=True)
    )


def _read_csv(path: Path, form: TextFormat, codec: str, default: str) -> pd.DataFrame:
    with open_bytes(path) as file:
        layout = read_layout(file, codec, form.separator, default, path_argument(path))
    layout.refuse_other_separator(path_argument(path))
    names = layout.names
    try:
        with warnings.catch_warnings(), open_bytes(path) as file:
            warnings.simplefilter(
                "error", pd.errors.ParserWarning
            )  # rows that are longer than the header
            frame = pd.read_csv(file, low_memory=False, **layout.options)
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error) as error:
        raise _table_format_error(path, error, layout.separator, len(names)) from error
    nameless = frame.columns.str.fullmatch(r"Unnamed: [\d.]+")
    if len(names) == frame.shape[1]:
        nameless = np.isin(np.arange(len(names)), list(layout.nameless))
        frame.columns = names  # pandas would rename a name that stands twice

    def cells_as_text(positions: list[int]) -> pd.DataFrame:
        with open_bytes(path) as file:
            return pd.read_csv(file, **layout.options, usecols=positions, dtype=str)

    frame = restore_integers(frame, cells_as_text, MISSING_CELLS, form.identifiers)
    left_open = (
        nameless & frame.isna().all().to_numpy()
    )  # which come of separators at the ends of lines
    return frame.loc[:, ~left_open]


def read_text_column(path: Path, form: TextFormat, name: str) -> pd.Series | None:
    """Return the cells of one column of csv or tsv as they stand there, without white space around
    them.

    Nothing is read as a number, a truth value or missing. Of other files, whose columns have types,
    return None.

    Parameters
    ----------
    path : of a file that :func:`read_table` reads.
    form : its encoding and separator.
    name : of a column that it has.

    Returns
    -------
    Series of str, [n], or None
    """
    suffix = checked_suffix(path, TABLE_SUFFIXES)
    if suffix not in (".csv", ".tsv"):
        return None
    with open_bytes(path) as file:
        layout = read_layout(
            file,
            check_text(path, form.encoding),
            form.separator,
            default_separator(suffix),
            path_argument(path),
        )
    options = {**layout.options, "dtype": str, "na_filter": False}
    with open_bytes(path) as file:
        return (
            pd.read_csv(file, usecols=[layout.names.index(name)], **options).iloc[:, 0].str.strip()
        )


def _table_format_error(
    path: Path, error: BaseException, separator: str, n_names: int
) -> DataError:
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
        cells = f"line {found[2]} has {found[3]} cells, and those before it {found[1]}"
    elif "does not match" in str(error):
        cells = f"some rows have more cells than the header, which has {n_names}"
    else:
        cells = _first_error_line(error).removeprefix("Error tokenizing data. C error: ")
    shown = "tab" if separator == "\t" else f"'{separator}'"
    return DataError(
        f"{path_argument(path)} is no table with {shown} between cells: {cells}; see dataset.separator, and"
        " quote cells that contain it"
    )


def _read_arff(path: Path, codec: str) -> ParsedTable:
    import arff

    try:
        with open_bytes(path) as file, io.TextIOWrapper(file, codec) as text:
            frame, nominal = frame_from_arff(text)
    except arff.ArffException as error:
        raise DataError(
            f"{path_argument(path)} is not ARFF: {_first_error_line(error).removesuffix(', at line -1.')}"
        ) from error
    except (ValueError, *READ_ERRORS) as error:
        raise unreadable_file_error(path, error) from error
    return ParsedTable(frame, dict.fromkeys(nominal, "categorical"))


def _first_error_line(error: BaseException) -> str:
    return next(
        (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
    )[:160]
