"""How cells are written in a text file: encoding, separator, decimals, and what is missing.

This module imports no pandas, so that configs are checked without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kdgraph.data.files.paths import codec_name
from kdgraph.errors import DataError

MISSING_CELLS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Cells that ``pandas.read_csv`` takes for missing."""
WHITESPACE_SEPARATOR = r"\s+"
"""The separator with which pandas splits at any run of white space."""
_TAB_NAMES = {r"\t": "\t", "tab": "\t"}


@dataclass(frozen=True)
class TextFormat:
    """How cells are written in a text file, as :class:`kdgraph.data.tables.TableFile` describes it.

    ``identifiers`` are columns of names that may look like numbers. A column with leading zeros,
    such as 007, stays text.
    """

    encoding: str = "utf-8"
    separator: str | None = None
    decimal: Literal[".", ","] = "."
    skip_spaces: bool = False
    not_missing: Sequence[str] = ()
    identifiers: Sequence[str] = ()

    def __post_init__(self) -> None:
        codec_name(self.encoding)
        if self.separator is not None:
            resolve_separator(self.separator)

    @property
    def missing_cells(self) -> list[str]:
        """Cells that are missing."""
        return [cell for cell in MISSING_CELLS if cell not in self.not_missing]

    @property
    def options(self) -> dict[str, Any]:
        """Options for ``pandas.read_csv`` that do not depend on the file."""
        return {
            "na_values": self.missing_cells,
            "keep_default_na": False,
            "index_col": False,
            "skipinitialspace": self.skip_spaces,
            "decimal": self.decimal,
            **exact_floats(),
        }


def exact_floats() -> dict[str, Any]:
    """Return the options with which ``pandas.read_csv`` reads the float nearest to each decimal.

    That is the default of pandas from 3.1 on, which warns of the option.
    """
    from pandas import __version__

    major, minor = map(int, __version__.split(".")[:2])
    return {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}


def resolve_separator(name: str) -> str:
    r"""Return the separator that a user names: a character, ``tab``, ``\t`` or ``\s+``."""
    separator = _TAB_NAMES.get(name, name)
    is_character = len(separator) == 1 and separator.isascii() and separator not in '"\r\n\0'
    if not is_character and separator != WHITESPACE_SEPARATOR:
        rule = r"one ASCII character such as ; or |, tab for a tab or \s+ for white space"
        raise DataError(f"dataset.separator must be {rule}, got '{name}'")
    return separator
