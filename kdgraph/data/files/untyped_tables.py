"""Tables whose types pandas infers, with the cells that this loses.

A float64 represents all integers only up to 2^53. Readers of tables convert integers to floats,
for example where a cell is missing, and thus round larger ones; they make 7 of 007, and a missing
cell of the text NA. The functions here read such columns again as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from kdgraph.data.files.numbers import FLOAT_INTEGER_LIMIT, parse_number_column
from kdgraph.data.files.parsed_table import ParsedTable
from kdgraph.data.source_columns import SourceTypes
from kdgraph.data.text_format import TextFormat

_LEADING_ZERO_PATTERN = re.compile(r"[+-]?0\d+", re.ASCII)


def untyped_table(
    frame: pd.DataFrame,
    reread: Callable[..., pd.DataFrame],
    text_format: TextFormat,
    leaving_out: np.ndarray,
) -> ParsedTable:
    """Return a table whose types pandas inferred, without what this loses.

    Columns that pandas rounded become integers, with the nullable types Int64 and UInt64 where
    cells are missing. Identifiers with leading zeros stay text.

    ``reread`` returns the columns at the given positions as text, ordered by position; with
    ``na_filter=False``, without a missing cell. Columns of ``leaving_out`` (Bool[columns]) are left
    out.
    """

    # Only the columns in question are read a second time. Most tables have none, and reading all
    # cells as text would cost them time and memory.
    def texts_of(positions: list[int], **options: Any) -> list[tuple[int, pd.Series]]:
        cells = reread(positions, **options) if positions else pd.DataFrame()
        return list(zip(positions, (column for _, column in cells.items()), strict=True))

    columns = [column for _, column in frame.items()]
    with_gaps = [
        j
        for j, column in enumerate(columns)
        if getattr(column.dtype, "kind", "O") not in "biuf" and column.isna().any()
    ]
    missing_words: dict[str, tuple[str, ...]] = {}
    for j, texts in texts_of(with_gaps, na_filter=False):
        words = texts[columns[j].isna().to_numpy()].unique()
        if found := tuple(sorted(word for word in words if word)):
            missing_words[str(columns[j].name)] = found

    missing, names = text_format.missing_cells, set(text_format.identifiers)
    rounded = {j for j, column in enumerate(columns) if _may_be_rounded(column, missing)}
    identifiers = {
        j for j, column in enumerate(columns) if column.name in names and column.dtype.kind in "iuf"
    }
    exact, read_again = frame.copy(deep=False), dict[str, str]()
    for j, texts in texts_of(sorted(rounded | identifiers)):
        cells = texts.set_axis(frame.index)
        if text_format.decimal == ",":
            cells = cells.replace(",", ".", regex=True)
        has_leading_zeros = j in identifiers and any(
            _LEADING_ZERO_PATTERN.fullmatch(str(word).strip()) for word in cells.dropna().unique()
        )
        if has_leading_zeros:
            exact.isetitem(j, cells.astype(object))
        elif j in rounded:
            exact.isetitem(j, parse_number_column(cells))
        if exact.dtypes.iloc[j] != columns[j].dtype:
            read_again[str(columns[j].name)] = str(columns[j].dtype)
    types = SourceTypes(False, read_again, missing_words, text_format.not_missing)
    return ParsedTable(exact.loc[:, ~leaving_out], types=types)


def _may_be_rounded(column: pd.Series, missing: Iterable[str]) -> bool:
    # pandas reads integers as floats if a cell is missing or has a decimal point. It reads
    # unsigned integers of 64 bits with a missing cell as text, in which this cell is not missing.
    if column.dtype.kind == "f":
        return bool((column.abs() >= FLOAT_INTEGER_LIMIT).any())
    return column.dtype == object and bool(column.isin(list(missing)).any())
