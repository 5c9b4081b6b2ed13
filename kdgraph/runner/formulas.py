"""Text in CSV files that a spreadsheet would take for a formula.

A spreadsheet that opens a CSV file evaluates a cell that begins with ``=``, ``+``, ``-`` or ``@``,
quoted or not, so that a label of somebody else can run a program of the reader (CSV injection, CWE
1236). A single quote in front makes the cell text; it also changes the label, so that a user has to
ask for it. Numbers stay numbers, and parquet files need nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kdgraph.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

SAFE_CSV = "--safe-csv"
SAFE_CSV_HELP = (
    "in a .csv, put a single quote before labels and names that a spreadsheet would take for a"
    " formula, which begin with = + - @, a tab or a line break; numbers stay"
)
# Those of the OWASP Foundation's page on CSV injection; the wide forms are signs of Excel, too.
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def escape_formula(text: str) -> str:
    """Return text with a single quote in front, if a spreadsheet would evaluate it.

    >>> [escape_formula(text) for text in ("=1+1", "@SUM(A1)", "-1.5", "a=b")]
    ["'=1+1", "'@SUM(A1)", '-1.5', 'a=b']
    """
    is_formula = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def escape_cells(values: Iterable[Any]) -> list[Any]:
    """Return values, of which text has its formulas escaped."""
    return [escape_formula(value) if isinstance(value, str) else value for value in values]


def escape_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a data frame whose names of columns and cells of text have their formulas escaped."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    escaped = {
        name: escape_cells(column)
        for name, column in frame.items()
        if not (is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype))
    }
    return frame.assign(**escaped).set_axis(escape_cells(frame.columns), axis=1)


def refuse_safe_csv(output: str, *, is_csv: bool) -> None:
    """Raise UsageError if cells are to be escaped in a file that is no CSV."""
    if not is_csv:
        raise UsageError(
            f"{SAFE_CSV} is for a .csv, got --output {output}, which no spreadsheet evaluates;"
            f" leave {SAFE_CSV} out"
        )
