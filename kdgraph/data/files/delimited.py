"""Text files with a separator between cells (csv, tsv), as pandas reads them.

Cells have the types that pandas infers, and those cells are missing that pandas takes for missing,
with three differences: every number is the double nearest to its text, whole numbers from 2^53 on
keep their digits, and white space around the names of columns is removed. A run and ``kdg predict``
read such files with the same rules.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from kdgraph.data.files.parsed_table import ParsedTable
from kdgraph.data.files.paths import check_text, open_bytes, path_argument
from kdgraph.data.files.untyped_tables import untyped_table
from kdgraph.data.text_format import WHITESPACE_SEPARATOR, TextFormat, resolve_separator
from kdgraph.errors import DataError
from kdgraph.quoting import override
from kdgraph.wording import first_line, some

# The line from which Excel reads the separator; it precedes the header and is not a row.
_EXCEL_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?[;,\t]*', re.IGNORECASE)
_LOOKED_AT_ROWS = 1000
"""Rows whose cells decide whether a warning is due."""


@dataclass(frozen=True)
class DelimitedLayout:
    """Layout of one delimited file.

    ``names`` are the stripped cells of the header; a column without a name has the one that pandas
    gives it, and its position is in ``nameless``. ``lines_before`` the header are not part of the
    table.
    """

    codec: str
    separator: str
    text_format: TextFormat
    names: list[str] = field(default_factory=list)
    nameless: frozenset[int] = frozenset()
    lines_before: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """Options for ``pandas.read_csv``."""
        return {
            **self.text_format.options,
            "sep": self.separator,
            "encoding": self.codec,
            "skiprows": self.lines_before,
        }

    def refuse_other_separator(self, source: str, *, is_input: bool = False) -> None:
        """Raise DataError if the file has one column and its name contains another separator.

        Such a file was divided at the wrong separator. No key of a data set can be given for
        ``is_input``, new rows for a prediction.
        """
        if len(self.names) != 1:
            return
        for character, override_value in {";": ";", "\t": "tab", "|": "|", ",": ","}.items():
            if character in self.names[0] and character != self.separator:
                expected = "a tab" if self.separator == "\t" else f"'{self.separator}'"
                way_out = f": {override('dataset.separator', override_value)}"
                way_out = f"; write {expected} between them" if is_input else way_out
                problem = f"{source} has one column, {self.names[0][:40]!r}"
                raise DataError(f"{problem}; its cells seem to be separated otherwise{way_out}")


def read_layout(
    file: IO[bytes], codec: str, text_format: TextFormat, default: str, source: str
) -> DelimitedLayout:
    """Return the layout of a file, which its first lines determine; reading advances the file.

    ``default`` is the separator if neither the user nor the file names one.
    """
    text = io.TextIOWrapper(file, codec, newline="")
    try:
        first_line = text.readline()
        excel_match = _EXCEL_SEPARATOR_LINE.fullmatch(first_line.rstrip("\r\n"))
        resolved = excel_match[1] if excel_match else default
        if text_format.separator is not None:
            resolved = resolve_separator(text_format.separator)
        names = _read_header(text if excel_match else chain([first_line], text), resolved)
    finally:
        # The wrapper would otherwise close the file, which belongs to the caller.
        text.detach()
    if names is None:
        raise DataError(f"{source} is empty")
    nameless = frozenset(j for j, name in enumerate(names) if not name)
    filled = _fill_missing_names(names)
    return DelimitedLayout(codec, resolved, text_format, filled, nameless, int(bool(excel_match)))


def _fill_missing_names(names: list[str]) -> list[str]:
    """Return the names, with those of pandas for missing ones: "Unnamed: j", "Unnamed: j.1", …."""
    filled = []
    for j, name in enumerate(names):
        candidates = chain([f"Unnamed: {j}"], (f"Unnamed: {j}.{k}" for k in count(1)))
        filled.append(name or next(candidate for candidate in candidates if candidate not in names))
    return filled


def _read_header(lines: Iterable[str], separator: str) -> list[str] | None:
    """Return the stripped cells of the first line that is not empty.

    [] if the line cannot be read, and None if all lines are empty.
    """
    if separator == WHITESPACE_SEPARATOR:
        return next((line.split() for line in lines if line.strip()), None)
    try:
        for cells in csv.reader(lines, delimiter=separator, skipinitialspace=True):
            if len(cells) > 1 or (cells and cells[0].strip()):
                return [cell.strip() for cell in cells]
    except csv.Error:
        # A quote that never ends. pandas raises an error with the number of the line later.
        return []
    return None


def default_separator(suffix: str) -> str:
    """Return the separator of a file if neither the user nor the file names one."""
    return "\t" if suffix == ".tsv" else ","


def read_delimited(path: Path, text_format: TextFormat, default: str) -> ParsedTable:
    """Return the table of a csv or tsv file; cells that all begin with a space cause a warning."""
    codec = check_text(path, text_format.encoding)
    with open_bytes(path) as file:
        layout = read_layout(file, codec, text_format, default, path_argument(path))
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

    def cells_as_text(positions: list[int], **options: Any) -> pd.DataFrame:
        with open_bytes(path) as file:
            chosen = {**layout.options, **options, "usecols": positions, "dtype": str}
            return pd.read_csv(file, **chosen)

    _warn_of_spaces(path, frame.select_dtypes(exclude="number"))
    # Separators at the ends of lines make an empty column without a name.
    trailing = nameless & frame.isna().all().to_numpy()
    return untyped_table(frame, cells_as_text, text_format, leaving_out=trailing)


def _warn_of_spaces(path: Path, columns: pd.DataFrame) -> None:
    indented = [
        repr(name)
        for name, column in columns.head(_LOOKED_AT_ROWS).items()
        if len(cells := column.dropna().astype(str)) and cells.str.startswith(" ").all()
    ]
    if indented:
        warnings.warn(
            f"{path_argument(path)}: the cells of {some(indented)} begin with a space,"
            f" which is part of their text; {override('dataset.skip_spaces', True)} leaves it out",
            stacklevel=2,
        )


def read_text_column(path: Path, text_format: TextFormat, default: str, name: str) -> pd.Series:
    """Return the cells of one column of a csv or tsv file as text, without white space around them.

    No cell is converted to a number, a truth value or a missing value.
    """
    codec = check_text(path, text_format.encoding)
    with open_bytes(path) as file:
        layout = read_layout(file, codec, text_format, default, path_argument(path))
    # Names may look like anything, such as NA, true or 01; no cell may be converted.
    options = {**layout.options, "dtype": str, "na_filter": False}
    with open_bytes(path) as file:
        cells = pd.read_csv(file, usecols=[layout.names.index(name)], **options)
    return cells.iloc[:, 0].str.strip()


def _table_format_error(
    path: Path, error: BaseException, separator: str, n_names: int
) -> DataError:
    if field_counts := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
        expected, line, observed = field_counts.groups()
        cells = f"line {line} has {observed} cells, and those before it {expected}"
    elif "does not match" in str(error):
        cells = f"some rows have more cells than the header, which has {n_names}"
    else:
        cells = first_line(error).removeprefix("Error tokenizing data. C error: ")
    separator_name = "tab" if separator == "\t" else f"'{separator}'"
    return DataError(
        f"{path_argument(path)} is not a table with {separator_name} between cells: {cells}; see"
        " dataset.separator, and quote cells that contain it"
    )
