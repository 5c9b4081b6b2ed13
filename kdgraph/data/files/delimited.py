"""Text with a separator between cells (csv, tsv): how it is decoded and divided, for a run and for
``kdg predict`` alike.
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
from kdgraph.overrides import override

MISSING_CELLS = ["", "NA", "NaN", "nan", "null", "NULL", "<NA>"]
"""What pandas, R, numpy and databases write for a missing cell. No more: ``None`` and ``n/a`` may
be answers.
"""
WHITESPACE_SEPARATOR = r"\s+"
"""pandas' word for any run of white space between cells."""
_TAB_NAMES = {r"\t": "\t", "tab": "\t"}
# The line that tells Excel the separator; it stands before the header and is no row.
_EXCEL_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?[;,\t]*', re.IGNORECASE)


@dataclass(frozen=True)
class TextFormat:
    """How a user describes the text of a file.

    Attributes
    ----------
    encoding : of its characters, by any of its names.
    separator : between the cells of a row; None: what Excel's first line ``sep=;`` names, else a
        comma, in tsv a tab.
    identifiers : columns of names that may look like numbers: one with leading zeros, such as 007,
        stays text.

    Raises
    ------
    DataError
        If Python has no such encoding, or the separator cannot stand between cells.
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
    """How one file of cells is read.

    Attributes
    ----------
    codec : Python's name of its encoding, without a byte-order mark.
    separator : between cells, one character or :data:`WHITESPACE_SEPARATOR`.
    names : cells of the header, stripped; a column without a name is called as pandas calls it.
    nameless : positions of the columns without a name.
    lines_before : lines in front of the header that are no part of the table.
    """

    codec: str
    separator: str
    names: list[str] = field(default_factory=list)
    nameless: frozenset[int] = frozenset()
    lines_before: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """Options of ``pandas.read_csv``."""
        return {
            "sep": self.separator,
            "encoding": self.codec,
            "skiprows": self.lines_before,
            "na_values": MISSING_CELLS,
            "keep_default_na": False,
            "index_col": False,
            "skipinitialspace": True,
        }

    def refuse_other_separator(self, where: str, *, is_input: bool = False) -> None:
        """Raise DataError if the only column has another separator in its name, which was divided
        at the wrong one.

        Parameters
        ----------
        where : how the message names the file.
        is_input : whether it is a file of new rows, for which no key of a data set can be given.
        """
        if len(self.names) != 1:
            return
        for other, word in {";": ";", "\t": "tab", "|": "|", ",": ","}.items():
            if other in self.names[0] and other != self.separator:
                expected = "a tab" if self.separator == "\t" else f"'{self.separator}'"
                way_out = (
                    f"; write {expected} between them"
                    if is_input
                    else f": {override('dataset.separator', word)}"
                )
                found = f"{where} has one column, {self.names[0][:40]!r}"
                raise DataError(f"{found}; its cells seem to be separated otherwise{way_out}")


def resolve_separator(given: str) -> str:
    r"""Return the separator that a user names: one character, ``tab`` or ``\t``, or ``\s+`` for
    white space.

    Raises
    ------
    DataError
        If it is none of these, or a character that cannot stand between cells.
    """
    separator = _TAB_NAMES.get(given, given)
    is_character = len(separator) == 1 and separator.isascii() and separator not in '"\r\n\0'
    if not is_character and separator != WHITESPACE_SEPARATOR:
        rule = r"one ASCII character such as ; or |, tab for a tab or \s+ for white space"
        raise DataError(f"dataset.separator must be {rule}, got '{given}'")
    return separator


def read_layout(
    file: IO[bytes], codec: str, separator: str | None, default: str, where: str
) -> DelimitedLayout:
    """Return how a file is read, by its first lines.

    Parameters
    ----------
    file : open at its beginning; it is read on from there.
    codec : Python's name of its encoding.
    separator : as the user names it; None: what Excel's line ``sep=;`` names, else ``default``.
    where : how messages name the file.

    Raises
    ------
    DataError
        If there is no line with anything in it.
    """
    text = io.TextIOWrapper(file, codec, newline="")
    try:
        first = text.readline()
        excel = _EXCEL_SEPARATOR_LINE.fullmatch(first.rstrip("\r\n"))
        between = (
            resolve_separator(separator)
            if separator is not None
            else excel[1]
            if excel
            else default
        )
        names = _read_header(text if excel else chain([first], text), between)
    finally:
        text.detach()  # the file stays open
    if names is None:
        raise DataError(f"{where} is empty")
    nameless = frozenset(j for j, name in enumerate(names) if not name)
    return DelimitedLayout(codec, between, _fill_missing_names(names), nameless, 1 if excel else 0)


def _fill_missing_names(names: list[str]) -> list[str]:
    """Return the names; a column at position j without one is "Unnamed: j", or "Unnamed: j.1" where
    that is taken.
    """
    called = []
    for j, name in enumerate(names):
        candidates = chain([f"Unnamed: {j}"], (f"Unnamed: {j}.{k}" for k in count(1)))
        called.append(name or next(candidate for candidate in candidates if candidate not in names))
    return called


def _read_header(lines: Iterable[str], separator: str) -> list[str] | None:
    """Return the stripped cells of the first line that is not empty, [] if they cannot be read,
    None if there is none.
    """
    if separator == WHITESPACE_SEPARATOR:
        return next((line.split() for line in lines if line.strip()), None)
    try:
        for cells in csv.reader(lines, delimiter=separator, skipinitialspace=True):
            if len(cells) > 1 or (cells and cells[0].strip()):
                return [cell.strip() for cell in cells]
    except csv.Error:  # a quote that never ends; pandas names the line
        return []
    return None
