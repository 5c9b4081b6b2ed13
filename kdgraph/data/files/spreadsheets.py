"""Tables in spreadsheets of Excel (.xlsx), as pandas reads them."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kdgraph.data.files.parsed_table import ParsedTable
from kdgraph.data.files.paths import path_argument
from kdgraph.data.files.untyped_tables import untyped_table
from kdgraph.data.text_format import TextFormat
from kdgraph.errors import DataError, DataNotAvailable
from kdgraph.extras import needs_library
from kdgraph.wording import first_line, some

SPREADSHEET = ".xlsx"
"""Ending of a spreadsheet."""


def read_spreadsheet(path: Path, text_format: TextFormat) -> ParsedTable:
    """Return the table of the first sheet of a file; further sheets cause a warning."""
    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise DataNotAvailable(needs_library(path_argument(path), "openpyxl")) from error
    missing = {"na_values": text_format.missing_cells, "keep_default_na": False}
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            sheet, *others = book.sheet_names
            frame = book.parse(sheet, **missing)

            def cells_as_text(positions: list[int], **options: Any) -> pd.DataFrame:
                chosen = {**missing, **options}
                if not chosen.get("na_filter", True):
                    chosen = {"na_filter": False, "keep_default_na": False}
                return book.parse(sheet, usecols=positions, dtype=str, **chosen)

            nothing = np.zeros(frame.shape[1], dtype=bool)
            table = untyped_table(frame, cells_as_text, text_format, leaving_out=nothing)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        problem = f"is not a spreadsheet, or damaged: {first_line(error)}"
        raise DataError(f"{path_argument(path)} {problem}") from error
    if others:
        warnings.warn(
            f"{path_argument(path)}: {sheet!r} is read, the first sheet; the others are left out:"
            f" {some([str(name) for name in others])}",
            stacklevel=2,
        )
    return table
