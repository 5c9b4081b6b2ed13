"""Tables in files as data frames: csv, tsv, parquet and ARFF, each refused in one line where it is none."""

from __future__ import annotations

import csv
import io
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from kdgraph.data.dataset import Kind
from kdgraph.data.files.arff import frame_of_arff
from kdgraph.data.files.delimited import MISSING_CELLS, Format, delimited_layout
from kdgraph.data.files.paths import BROKEN, OPENERS, check_text, open_bytes, said, suffix_of, unreadable
from kdgraph.data.files.whole_numbers import frame_of_arrow, with_whole_numbers
from kdgraph.errors import DataError

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arff")


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
    codec = check_text(path, form.encoding)
    return _read_arff(path, codec) if suffix == ".arff" else Read(_read_csv(path, form, codec, default_separator(suffix)))


def default_separator(suffix: str) -> str:
    """Return what is between cells of a file where nothing says it."""
    return "\t" if suffix == ".tsv" else ","


def _read_parquet(path: Path) -> Read:
    from pyarrow import ArrowException, parquet

    if path.suffix.lower() in OPENERS:
        raise DataError(f"{said(path)}: parquet files are compressed inside; unpack it")
    try:
        return Read(index_as_columns(said(path), frame_of_arrow(parquet.ParquetFile(path).read())))
    except (ArrowException, OSError) as error:
        raise DataError(f"{said(path)} is no parquet file, or damaged: {_first_line(error)}") from error


def index_as_columns(where: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with each level of its index that has a name as a column, and rows numbered from 0.

    pandas writes a named index, such as one made by ``set_index``, into the file as a column like any other;
    one without a name numbers or names rows and is no column. ``where`` is how messages name the file.
    """
    levels = [name for name in frame.index.names if name is not None]
    if twice := [str(name) for name in levels if name in frame.columns]:
        raise DataError(f"{where}: the index and a column are both named '{twice[0]}'; give each its own name")
    return frame.reset_index(level=levels).reset_index(drop=True) if levels else frame.reset_index(drop=True)


def _read_csv(path: Path, form: Format, codec: str, default: str) -> pd.DataFrame:
    with open_bytes(path) as file:
        layout = delimited_layout(file, codec, form.separator, default, said(path))
    layout.refuse_other_separator(said(path))
    names = layout.names
    try:
        with warnings.catch_warnings(), open_bytes(path) as file:
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
            frame = pd.read_csv(file, low_memory=False, **layout.options)
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error) as error:
        raise _not_a_table(path, error, layout.separator, len(names)) from error
    nameless = frame.columns.str.fullmatch(r"Unnamed: [\d.]+")
    if len(names) == frame.shape[1]:
        nameless = np.isin(np.arange(len(names)), list(layout.nameless))
        frame.columns = names  # pandas would rename a name that stands twice

    def cells_as_text(positions: list[int]) -> pd.DataFrame:
        with open_bytes(path) as file:
            return pd.read_csv(file, **layout.options, usecols=positions, dtype=str)

    frame = with_whole_numbers(frame, cells_as_text, MISSING_CELLS, form.identifiers)
    left_open = nameless & frame.isna().all().to_numpy()  # which come of separators at the ends of lines
    return frame.loc[:, ~left_open]


def text_of_column(path: Path, form: Format, name: str) -> pd.Series | None:
    """Return the cells of one column of csv or tsv as they stand there, without white space around them.

    Nothing is read as a number, a truth value or missing. Of other files, whose columns have types, return None.

    Parameters
    ----------
    path : of a file that :func:`read_table` reads.
    form : its encoding and separator.
    name : of a column that it has.

    Returns
    -------
    Series of str, [n], or None
    """
    suffix = suffix_of(path, SUFFIXES)
    if suffix not in (".csv", ".tsv"):
        return None
    with open_bytes(path) as file:
        layout = delimited_layout(file, check_text(path, form.encoding), form.separator, default_separator(suffix), said(path))
    options = {**layout.options, "dtype": str, "na_filter": False}
    with open_bytes(path) as file:
        return pd.read_csv(file, usecols=[layout.names.index(name)], **options).iloc[:, 0].str.strip()


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


def _read_arff(path: Path, codec: str) -> Read:
    import arff

    try:
        with open_bytes(path) as file, io.TextIOWrapper(file, codec) as text:
            frame, nominal = frame_of_arff(text)
    except arff.ArffException as error:
        raise DataError(f"{said(path)} is not ARFF: {_first_line(error).removesuffix(', at line -1.')}") from error
    except (ValueError, *BROKEN) as error:
        raise unreadable(path, error) from error
    return Read(frame, dict.fromkeys(nominal, "categorical"))


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:160]
