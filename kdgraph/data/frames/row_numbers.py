"""Columns that number the rows: their order is often that of the labels, and of new rows they tell nothing."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

from kdgraph.data.frames.numbers import exact_numbers, is_number
from kdgraph.data.frames.wording import NO_LISTS, ColumnLists
from kdgraph.wording import some

FEWEST_ROWS = 20
"""In a table of at most so many rows a column may count from 1 by chance or by design."""
NAMELESS = re.compile(r"(Unnamed: \d+(\.\d+)*|__index_level_\d+__|level_\d+)?")
"""The names that pandas gives to an index without one, once or several times."""
_INDEX = re.compile(
    r"(index|idx|id|no|nr|number|row|rows|rownames?|record|obs|observation|sample|case|instance|entry|serial|key)"
    r"([ _.-]?(id|idx|index|no|nr|num|number|name|key))?|(s|sl|sr)[ _.]*(no|nr|id)\.?|(?-i:X(\.\d+)?)",
    re.IGNORECASE,
)


def are_row_numbers(name: str, column: pd.Series) -> bool:
    """Return whether a column is the index of a table under the name of one.

    It is if it has no name and holds whole numbers, or is named like an index and holds each of 0 to n - 1, or of 1 to n,
    once, in any order.

    >>> are_row_numbers("Unnamed: 0", pd.Series([7, 3])), are_row_numbers("row_id", pd.Series(range(30, 0, -1)))
    (True, True)
    """
    if NAMELESS.fullmatch(name):
        return is_number(column.dtype) and bool(column.notna().all()) and _all_whole(exact_numbers(column))
    return bool(_INDEX.fullmatch(name)) and len(column) > FEWEST_ROWS and counts_rows(column, in_order=False)


def counts_rows(column: pd.Series | np.ndarray, *, in_order: bool = True) -> bool:
    """Return whether a column [n] is 0 to n - 1, or 1 to n, in this order or, without ``in_order``, in any."""
    n = len(column)
    if not is_number(column.dtype) or not n:
        return False
    first = column[0] if isinstance(column, np.ndarray) else column.iloc[0]
    if pd.isna(first) or (in_order and first not in (0, 1)):  # soon decided, of most columns
        return False
    values = pd.Series(column)
    if values.isna().any():
        return False
    numbers = exact_numbers(values)
    if not in_order:
        numbers = np.sort(numbers)
    return bool(numbers[0] in (0, 1) and (numbers == np.arange(n) + numbers[0]).all())


def _all_whole(values: np.ndarray) -> bool:
    return values.dtype.kind in "iu" or bool((values == np.round(values)).all())


def without_row_numbers(table: str, features: pd.DataFrame, given: ColumnLists = NO_LISTS) -> pd.DataFrame:
    """Return the features without the index of the table, with a warning; warn of other features that count the rows.

    Parameters
    ----------
    table : name, for messages.
    features : [n, d].
    given : lists of the user, to which advice adds; a column that they name for another use is meant.
    """
    meant = {*given.parse_dates, *given.categorical}
    index = [j for j, name in enumerate(features.columns) if name not in meant and are_row_numbers(str(name), features.iloc[:, j])]
    if index:
        names = some([f"'{features.columns[j]}'" for j in index])
        warnings.warn(f"{table}: columns that number the rows are left out: {names}; rename one to use it", stacklevel=3)
        features = features.iloc[:, [j for j in range(features.shape[1]) if j not in index]]
    warn_of_counting(table, features, [str(name) for name in features.columns], given)
    return features


def warn_of_counting(table: str, X: pd.DataFrame | np.ndarray, names: Sequence[str], given: ColumnLists = NO_LISTS) -> None:
    """Warn of features of X [n, d] that count the rows in their order; where there is only one, it is meant."""
    if len(X) <= FEWEST_ROWS or X.shape[1] == 1:
        return
    rows: pd.DataFrame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, copy=False)
    if counting := [name for j, name in enumerate(names) if counts_rows(rows.iloc[:, j])]:
        drop = f"leave it out: {given.adding('drop', counting)}" if isinstance(X, pd.DataFrame) else "leave it out of X"
        found = f"{table}: the feature {some([repr(name) for name in counting])} counts the rows in their order"
        warnings.warn(f"{found}, which may be that of the labels; if it is their number, {drop}", stacklevel=4)
