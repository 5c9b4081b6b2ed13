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

    ``reread`` returns the columns at the given positions as text, ordered by position; with
    ``na_filter=False``, without a missing cell. Columns of ``leaving_out`` (Bool[columns]) are left
    out.
    """
    with_gaps = [
        j
        for j, (_, column) in enumerate(frame.items())
        if getattr(column.dtype, "kind", "O") not in "biuf" and column.isna().any()
    ]
    missing_words: dict[str, tuple[str, ...]] = {}
    cells_as_text = reread(with_gaps, na_filter=False) if with_gaps else pd.DataFrame()
    for j, (_, texts) in zip(with_gaps, cells_as_text.items(), strict=True):
        words = texts[frame.iloc[:, j].isna().to_numpy()].unique()
        if found := tuple(sorted(word for word in words if word)):
            missing_words[str(frame.columns[j])] = found

    def with_decimal_points(positions: list[int]) -> pd.DataFrame:
        cells = reread(positions)
        return cells if text_format.decimal == "." else cells.replace(",", ".", regex=True)

    exact = restore_integers(
        frame, with_decimal_points, text_format.missing_cells, text_format.identifiers
    )
    read_again = {
        str(name): str(before)
        for name, before, after in zip(frame.columns, frame.dtypes, exact.dtypes, strict=True)
        if before != after
    }
    types = SourceTypes(False, read_again, missing_words, text_format.not_missing)
    return ParsedTable(exact.loc[:, ~leaving_out], types=types)


def restore_integers(
    frame: pd.DataFrame,
    reread: Callable[[list[int]], pd.DataFrame],
    missing: Iterable[str],
    identifiers: Iterable[str] = (),
) -> pd.DataFrame:
    """Return the table with the columns that pandas rounded read again as integers.

    ``reread`` returns the columns at the given positions as text, ordered by position. Columns with
    missing cells have the nullable types Int64 and UInt64. A column of ``identifiers`` with leading
    zeros stays text.
    """
    # Only the columns in question are read a second time. Most tables have none, and reading all
    # cells as text would cost them time and memory.
    identifier_names = set(identifiers)
    rounded_positions, identifier_positions = [], []
    for j, (name, column) in enumerate(frame.items()):
        if _may_be_rounded(column, missing):
            rounded_positions.append(j)
        if name in identifier_names and column.dtype.kind in "iuf":
            identifier_positions.append(j)
    if not (positions := sorted({*rounded_positions, *identifier_positions})):
        return frame
    columns: dict[int, Any] = {j: frame.iloc[:, j] for j in range(frame.shape[1])}
    for j, (_, text) in zip(positions, reread(positions).items(), strict=True):
        cells = text.set_axis(frame.index)
        if j in identifier_positions and any(
            _LEADING_ZERO_PATTERN.fullmatch(str(word).strip()) for word in cells.dropna().unique()
        ):
            columns[j] = cells.astype(object)
        elif j in rounded_positions:
            columns[j] = parse_number_column(cells)
    # The columns are joined by position, because names in ``frame`` may repeat.
    return pd.concat([column.rename(j) for j, column in columns.items()], axis=1).set_axis(
        frame.columns, axis=1
    )


def _may_be_rounded(column: pd.Series, missing: Iterable[str]) -> bool:
    # pandas reads integers as floats if a cell is missing or has a decimal point. It reads
    # unsigned integers of 64 bits with a missing cell as text, in which this cell is not missing.
    if column.dtype.kind == "f":
        return bool((column.abs() >= FLOAT_INTEGER_LIMIT).any())
    return column.dtype == object and bool(column.isin(list(missing)).any())
