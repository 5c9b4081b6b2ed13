"""Whole numbers that a reader would round: from 2^53 on, a float is no longer one integer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

import numpy as np
import pandas as pd

ROUNDED_FROM = 2**53
"""From here on neighbouring integers become the same float64."""
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
LEADING_ZERO = re.compile(r"[+-]?0\d+", re.ASCII)
_ATTRIBUTE = re.compile(r"^(\s*@attribute\s.*\s)(numeric|integer|real)(\s*)$", re.IGNORECASE)


def numbers_of_text(cells: pd.Series) -> pd.Series:
    """Return a column of text as integers where all of its cells are some, else as floats, or as text if a cell is no number.

    Parameters
    ----------
    cells : text [n], with NaN or None where a cell is missing.

    Returns
    -------
    Series
        Of type Int64 or UInt64; text where there are whole numbers of more than 64 bits, or no numbers at all; else Float64[n].

    Examples
    --------
    >>> numbers_of_text(pd.Series(["9007199254740993", None, "12"])).tolist()
    [9007199254740993, <NA>, 12]
    """
    words = cells.dropna().unique()
    stripped = [str(word).strip() for word in words]
    if all(WHOLE.fullmatch(word) for word in stripped):
        values = [int(word) for word in stripped]
        by_word = dict(zip(words, values, strict=True))
        whole = integer_array([by_word[cell] if isinstance(cell, str) else None for cell in cells])
        return cells.astype(object) if whole is None else pd.Series(whole, index=cells.index, name=cells.name)
    numbers = pd.to_numeric(cells, errors="coerce")
    return cells.astype(object) if (numbers.isna() & cells.notna()).any() else numbers.astype(np.float64)


def integer_array(values: Sequence[int | None]) -> pd.arrays.IntegerArray | None:
    """Return integers of which some may be missing as an Int64 or UInt64 array [n]; None where one needs more bits.

    ``pandas.array`` goes through floats where some integers need the 64th bit.
    """
    known = [value for value in values if value is not None]
    low, high = min(known, default=0), max(known, default=0)
    if high >= 2**64 or low < -(2**63) or (low < 0 and high >= 2**63):
        return None
    mask = np.array([value is None for value in values], dtype=bool)
    kind = np.uint64 if high >= 2**63 else np.int64
    return pd.arrays.IntegerArray(np.array([0 if value is None else value for value in values], dtype=kind), mask)


def with_whole_numbers(
    frame: pd.DataFrame,
    reread: Callable[[list[int]], pd.DataFrame],
    missing: Iterable[str],
    identifiers: Iterable[str] = (),
) -> pd.DataFrame:
    """Return the table with the columns that pandas rounded read again, integer by integer.

    pandas reads a column of whole numbers as floats where a cell is missing or one has a decimal point, and those of
    unsigned 64 bits with a missing cell as text in which that cell is no longer missing.

    Parameters
    ----------
    frame : [n, columns], as pandas read it.
    reread : returns the columns at these positions as text, in the order of their positions.
    missing : cells that pandas was to read as missing.
    identifiers : columns of names that may look like numbers; one with leading zeros stays text.

    Returns
    -------
    DataFrame
        [n, columns]; columns with missing cells are of the nullable types Int64 and UInt64.
    """
    named = set(identifiers)
    rounded = [j for j in range(frame.shape[1]) if _may_be_rounded(frame.iloc[:, j], missing)]
    codes = [j for j, name in enumerate(frame.columns) if name in named and frame.iloc[:, j].dtype.kind in "iuf"]
    if not (positions := sorted({*rounded, *codes})):
        return frame
    columns: dict[int, Any] = {j: frame.iloc[:, j] for j in range(frame.shape[1])}
    for j, (_, text) in zip(positions, reread(positions).items(), strict=True):
        cells = text.set_axis(frame.index)
        if j in codes and any(LEADING_ZERO.fullmatch(str(word).strip()) for word in cells.dropna().unique()):
            columns[j] = cells.astype(object)
        elif j in rounded:
            columns[j] = numbers_of_text(cells)
    return pd.concat([column.rename(j) for j, column in columns.items()], axis=1).set_axis(frame.columns, axis=1)


def _may_be_rounded(column: pd.Series, missing: Iterable[str]) -> bool:
    if column.dtype.kind == "f":
        return bool((column.abs() >= ROUNDED_FROM).any())
    return column.dtype == object and bool(column.isin(list(missing)).any())


def frame_of_arrow(table: Any) -> pd.DataFrame:
    """Return a table or batch of pyarrow as a data frame whose 64-bit integers stay integers where cells are missing."""
    import pyarrow as pa

    frame = table.to_pandas()
    nullable = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    for j, name in enumerate(frame.columns):
        place = table.schema.get_field_index(str(name))  # -1 where the name stands twice
        if place >= 0 and frame.iloc[:, j].dtype == np.float64 and table.schema.field(place).type in nullable:
            frame.isetitem(j, table.column(place).to_pandas(types_mapper=nullable.get).array)
    return frame


def numbers_as_text(lines: IO[str]) -> Iterator[str]:
    """Yield the lines of an ARFF file with its numeric attributes declared as text, since liac-arff reads numbers as floats."""
    for line in lines:
        match = _ATTRIBUTE.match(line.rstrip("\r\n"))
        yield f"{match[1]}STRING{match[3]}\n" if match else line
        if line.strip().lower().startswith("@data"):
            break
    yield from lines
