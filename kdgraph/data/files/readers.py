"""Tables in files as data frames: csv, tsv, parquet and ARFF, each refused in one line where it is none."""

from __future__ import annotations

import csv
import io
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kdgraph.data.dataset import Kind
from kdgraph.data.files.arff import frame_of_arff
from kdgraph.data.files.paths import BROKEN, OPENERS, check_text, open_bytes, said, suffix_of, unreadable
from kdgraph.errors import DataError

MISSING_CELLS = ["", "NA", "NaN", "nan", "null", "NULL", "<NA>"]
"""What pandas, R, numpy and databases write for a missing cell. No more: ``None`` and ``n/a`` may be answers."""
SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arff")


@dataclass(frozen=True)
class Format:
    """How the text of a file is read.

    Attributes
    ----------
    encoding : of its characters.
    separator : between the cells of a row; None: a comma, in tsv a tab.
    """

    encoding: str = "utf-8"
    separator: str | None = None


@dataclass(frozen=True)
class Read:
    """A table as it was read, and the kinds that its file declares for columns."""

    frame: pd.DataFrame
    kinds: dict[str, Kind] = field(default_factory=dict)


def read_table(path: Path, form: Format) -> Read:
    """Read a file by its ending, which may be followed by .gz, .bz2 or .xz for text.

    Raises
    ------
    DataError
        If it is none of these, or not what its ending says.
    """
    suffix = suffix_of(path, SUFFIXES)
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path)
    check_text(path, form.encoding)
    return _read_arff(path, form.encoding) if suffix == ".arff" else Read(_read_csv(path, form, "\t" if suffix == ".tsv" else ","))


def _read_parquet(path: Path) -> Read:
    from pyarrow import ArrowException, parquet

    if path.suffix.lower() in OPENERS:
        raise DataError(f"{said(path)}: parquet files are compressed inside; unpack it")
    try:
        return Read(parquet.ParquetFile(path).read().to_pandas())
    except (ArrowException, OSError) as error:
        raise DataError(f"{said(path)} is no parquet file, or damaged: {_first_line(error)}") from error


def _read_csv(path: Path, form: Format, default: str) -> pd.DataFrame:
    separator = _separator(form.separator or default)
    names = _header(path, form.encoding, separator)
    options: dict[str, Any] = {"sep": separator, "encoding": form.encoding, "na_values": MISSING_CELLS, "keep_default_na": False}
    options |= {"index_col": False, "low_memory": False, "skipinitialspace": True}
    try:
        with warnings.catch_warnings(), open_bytes(path) as file:
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
            frame = pd.read_csv(file, **options)
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error) as error:
        raise _not_a_table(path, error, separator, len(names)) from error
    if len(names) == frame.shape[1]:
        frame.columns = names  # pandas would rename a name that stands twice
    if frame.shape[1] == 1:
        _refuse_other_separator(path, names[0], separator)
    return _without_row_numbers(path, frame.loc[:, ~_is_left_open(frame)])


def _separator(given: str) -> str:
    """One character, or pandas' word for any white space; a backslash and a t are a tab."""
    separator = {r"\t": "\t", "tab": "\t"}.get(given, given)
    if len(separator) != 1 and separator != r"\s+":
        raise DataError(rf"dataset.separator must be one character, \t for a tab or \s+ for white space, got '{given}'")
    return separator


def _header(path: Path, encoding: str, separator: str) -> list[str]:
    """Cells of the first line that is not empty."""
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding.replace("utf-8", "utf-8-sig"), newline="") as text:
        line = next(line for line in text if line.strip())
    if separator == r"\s+":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


def _not_a_table(path: Path, error: BaseException, separator: str, n_names: int) -> DataError:
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
        cells = f"line {found[2]} has {found[3]} cells, and those before it {found[1]}"
    elif "does not match" in str(error):
        cells = f"some rows have more cells than the header, which has {n_names}"
    else:
        cells = _first_line(error).removeprefix("Error tokenizing data. C error: ")
    shown = "tab" if separator == "\t" else f"'{separator}'"
    return DataError(
        f"{said(path)} is no table with {shown} between cells: {cells}; see dataset.separator, and quote cells that contain it"
    )


def _refuse_other_separator(path: Path, header: str, separator: str) -> None:
    """One column whose name has a separator in it was cut at the wrong one."""
    for other, shown in {";": "';'", "\t": r"'\t'", "|": "'|'", ",": "','"}.items():
        if other in header and other != separator:
            remedy = f"its cells seem to be separated otherwise: dataset.separator={shown}"
            raise DataError(f"{said(path)} has one column, {header[:40]!r}; {remedy}")


def _is_left_open(frame: pd.DataFrame) -> np.ndarray:
    """Bool[columns]: columns without a name and without a cell, which come of separators at the ends of lines."""
    return (frame.columns == "") & frame.isna().all().to_numpy()


def _without_row_numbers(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """Without a first column that has no name and numbers the rows, as pandas and R write it: it would tell the order of the rows."""
    if frame.shape[1] > 1 and str(frame.columns[0]) == "" and len(frame) and frame.iloc[:, 0].dtype.kind == "i":
        first = frame.iloc[:, 0]
        if first.iloc[0] in (0, 1) and (first.diff().iloc[1:] == 1).all():
            warnings.warn(f"{said(path)}: the first column has no name and numbers the rows; it is left out", stacklevel=2)
            return frame.iloc[:, 1:]
    return frame


def _read_arff(path: Path, encoding: str) -> Read:
    import arff

    try:
        with open_bytes(path) as file, io.TextIOWrapper(file, encoding) as text:
            frame, nominal = frame_of_arff(text)
    except arff.ArffException as error:
        raise DataError(f"{said(path)} is not ARFF: {_first_line(error).removesuffix(', at line -1.')}") from error
    except (ValueError, *BROKEN) as error:
        raise unreadable(path, error) from error
    return Read(frame, dict.fromkeys(nominal, "categorical"))


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:160]
