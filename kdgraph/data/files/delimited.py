"""Text files with a separator between cells (csv, tsv): encoding, separator and header.

A run and ``kdg predict`` read such files with the same rules, which are defined here.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import IO, Any

from kdgraph.data.files.paths import codec_name
from kdgraph.errors import DataError
from kdgraph.quoting import override

MISSING_CELLS = ["", "NA", "NaN", "nan", "null", "NULL", "<NA>"]
"""Texts that pandas, R, numpy and databases write for a missing cell.

``None`` and ``n/a`` are not among them, because they may be valid values.
"""
WHITESPACE_SEPARATOR = r"\s+"
"""The separator with which pandas splits at any run of white space."""
_TAB_NAMES = {r"\t": "\t", "tab": "\t"}
# The line from which Excel reads the separator; it precedes the header and is not a row.
_EXCEL_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?[;,\t]*', re.IGNORECASE)


@dataclass(frozen=True)
class TextFormat:
    """Encoding and separator of a text file, as the user describes them.

    Attributes
    ----------
    encoding : str, default="utf-8"
        Encoding of the characters, by any of its names.
    separator : str or None, default=None
        Separator between the cells of a row. With None it is the one that Excel's first line
        ``sep=;`` names, else a comma, or a tab in tsv files.
    identifiers : sequence of str, default=()
        Columns of names that may look like numbers. A column with leading zeros, such as 007, stays
        text.

    Raises
    ------
    DataError
        If Python has no such encoding, or the separator cannot separate cells.
    """

    encoding: str = "utf-8"
    separator: str | None = None
    identifiers: Sequence[str] = ()

    def __post_init__(self) -> None:
        codec_name(self.encoding)
        if self.separator is not None:
            resolve_separator(self.separator)


@dataclass(frozen=True)
class DelimitedLayout:
    """Layout of one delimited file.

    Attributes
    ----------
    codec : str
        Python's name of the encoding, without a byte-order mark.
    separator : str
        One character, or :data:`WHITESPACE_SEPARATOR`.
    names : list of str
        Cells of the header, stripped. A column without a name has the name that pandas gives it.
    nameless : frozenset of int
        Positions of the columns without a name.
    lines_before : int, default=0
        Number of lines before the header that are not part of the table.
    """

    codec: str
    separator: str
    names: list[str] = field(default_factory=list)
    nameless: frozenset[int] = frozenset()
    lines_before: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """Options for ``pandas.read_csv``."""
        return {
            "sep": self.separator,
            "encoding": self.codec,
            "skiprows": self.lines_before,
            "na_values": MISSING_CELLS,
            "keep_default_na": False,
            "index_col": False,
            "skipinitialspace": True,
        }

    def refuse_other_separator(self, source: str, *, is_input: bool = False) -> None:
        """Raise DataError if the file has one column and its name contains another separator.

        Such a file was divided at the wrong separator.

        Parameters
        ----------
        source : str
            How the message names the file.
        is_input : bool, default=False
            Whether the file contains new rows for a prediction. No key of a data set can be given
            for it.
        """
        if len(self.names) != 1:
            return
        for character, override_value in {";": ";", "\t": "tab", "|": "|", ",": ","}.items():
            if character in self.names[0] and character != self.separator:
                expected = "a tab" if self.separator == "\t" else f"'{self.separator}'"
                way_out = (
                    f"; write {expected} between them"
                    if is_input
                    else f": {override('dataset.separator', override_value)}"
                )
                problem = f"{source} has one column, {self.names[0][:40]!r}"
                raise DataError(f"{problem}; its cells seem to be separated otherwise{way_out}")


def resolve_separator(name: str) -> str:
    r"""Return the separator that a user names.

    Parameters
    ----------
    name : str
        One character, ``tab`` or ``\t``, or ``\s+`` for white space.

    Raises
    ------
    DataError
        If it is none of these, or a character that cannot separate cells.
    """
    separator = _TAB_NAMES.get(name, name)
    is_character = len(separator) == 1 and separator.isascii() and separator not in '"\r\n\0'
    if not is_character and separator != WHITESPACE_SEPARATOR:
        rule = r"one ASCII character such as ; or |, tab for a tab or \s+ for white space"
        raise DataError(f"dataset.separator must be {rule}, got '{name}'")
    return separator


def read_layout(
    file: IO[bytes], codec: str, separator: str | None, default: str, source: str
) -> DelimitedLayout:
    """Return the layout of a file, which its first lines determine.

    Parameters
    ----------
    file : binary file
        File at its beginning. Reading advances it.
    codec : str
        Python's name of the encoding.
    separator : str or None
        Separator as the user names it. With None it is the one of Excel's line ``sep=;``, else
        ``default``.
    default : str
        Separator if neither the user nor the file names one.
    source : str
        How messages name the file.

    Raises
    ------
    DataError
        If all lines are empty.
    """
    text = io.TextIOWrapper(file, codec, newline="")
    try:
        first_line = text.readline()
        excel_match = _EXCEL_SEPARATOR_LINE.fullmatch(first_line.rstrip("\r\n"))
        resolved = (
            resolve_separator(separator)
            if separator is not None
            else excel_match[1]
            if excel_match
            else default
        )
        names = _read_header(text if excel_match else chain([first_line], text), resolved)
    finally:
        # The wrapper would otherwise close the file, which belongs to the caller.
        text.detach()
    if names is None:
        raise DataError(f"{source} is empty")
    nameless = frozenset(j for j, name in enumerate(names) if not name)
    return DelimitedLayout(
        codec, resolved, _fill_missing_names(names), nameless, 1 if excel_match else 0
    )


def _fill_missing_names(names: list[str]) -> list[str]:
    """Return the names, with "Unnamed: j" for a missing name at position j.

    If this name is taken, it is "Unnamed: j.1", and so on, as in pandas.
    """
    filled = []
    for j, name in enumerate(names):
        candidates = chain([f"Unnamed: {j}"], (f"Unnamed: {j}.{k}" for k in count(1)))
        filled.append(name or next(candidate for candidate in candidates if candidate not in names))
    return filled


def _read_header(lines: Iterable[str], separator: str) -> list[str] | None:
    """Return the stripped cells of the first line that is not empty.

    The result is [] if the line cannot be read, and None if all lines are empty.
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
