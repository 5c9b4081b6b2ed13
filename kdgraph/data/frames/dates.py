"""Dates and times as numbers: days since the first of January 1970, where the user asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_timedelta64_dtype

from kdgraph.data.frames.cells import MissingCells, format_cell
from kdgraph.data.frames.messages import ColumnReference, ColumnSettings
from kdgraph.errors import DataError
from kdgraph.overrides import override
from kdgraph.wording import some

ISO_FORMAT, DURATION_FORMAT = "ISO8601", "duration"
"""The formats of columns that need none: ISO 8601, which pandas reads as one, and lengths of
time.
"""
_DATE_FORMATS = (
    *(
        "%Y-%m-%d",
        "%Y/%m/%d",
        "%Y.%m.%d",
        "%d.%m.%Y",
        "%d.%m.%y",
        "%d/%m/%Y",
        "%m/%d/%Y",
        "%d/%m/%y",
        "%m/%d/%y",
    ),
    *(
        "%Y%m%d",
        "%d-%m-%Y",
        "%m-%d-%Y",
        "%d-%m-%y",
        "%m-%d-%y",
        "%d %b %Y",
        "%d %B %Y",
        "%d-%b-%Y",
        "%d-%b-%y",
        "%d. %B %Y",
    ),
    *("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
)
_TIME_FORMATS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
_ALL_FORMATS = (
    *_DATE_FORMATS,
    *(f"{day} {time}" for day, time in product(_DATE_FORMATS, _TIME_FORMATS)),
    *_TIME_FORMATS,
)
_NANOSECONDS_PER_DAY = 86_400 * 10**9


def is_date_type(column: pd.Series) -> bool:
    """Return whether the type of a column is one of dates, or of lengths of time."""
    dtype = column.dtype
    return (
        is_datetime64_any_dtype(dtype)
        or is_timedelta64_dtype(dtype)
        or isinstance(dtype, pd.PeriodDtype)
    )


def to_days(column: pd.Series, form: str) -> np.ndarray:
    """Return dates as days since 1970-01-01 in UTC, times of day as shares of a day, lengths of
    time as days.

    Parameters
    ----------
    column : [n] of dates, or of text in the format ``form``.
    form : :data:`ISO`, :data:`DURATION`, or a format of ``datetime.strptime``.

    Returns
    -------
    Float64[n]
        NaN where a cell is missing, or is no date in this format.

    Examples
    --------
    >>> to_days(pd.Series(["1970-01-02", "1970-01-01 06:00", "unknown"]), ISO_FORMAT).tolist()
    [1.0, 0.25, nan]
    """
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.start_time
    if is_timedelta64_dtype(column.dtype) or form == DURATION_FORMAT:
        cells = (
            column
            if is_timedelta64_dtype(column.dtype)
            else column.astype(object).where(column.notna(), None)
        )
        return _nanoseconds_to_days(
            pd.to_timedelta(cells, errors="coerce").to_numpy(dtype="timedelta64[ns]")
        )
    if not is_datetime64_any_dtype(column.dtype):
        column = column.map(format_cell, na_action="ignore").astype(object)
        if form == ISO_FORMAT:  # a year or another number alone is no date
            column = column.where(column.str.contains("-", na=False), None)
    times = pd.to_datetime(
        column,
        format=None if is_datetime64_any_dtype(column.dtype) else form,
        errors="coerce",
        utc=True,
    )
    if "%" in form and not any(sign in form for sign in ("%d", "%j")):
        times = times - times.dt.normalize()
        return _nanoseconds_to_days(times.to_numpy(dtype="timedelta64[ns]"))
    return _nanoseconds_to_days(times.dt.tz_localize(None).to_numpy(dtype="datetime64[ns]"))


def _nanoseconds_to_days(times: np.ndarray) -> np.ndarray:
    """Int64 nanoseconds to days; whole days are exact."""
    whole = times.astype(np.int64)
    days = whole // _NANOSECONDS_PER_DAY + (whole % _NANOSECONDS_PER_DAY) / _NANOSECONDS_PER_DAY
    return np.where(np.isnat(times), np.nan, days)


def matching_formats(column: pd.Series) -> list[str]:
    """Return the formats in which all cells of a column are dates; several where the order of day
    and month cannot be seen.
    """
    if is_timedelta64_dtype(column.dtype):
        return [DURATION_FORMAT]
    if is_date_type(column):
        return [ISO_FORMAT]
    values = pd.Series(column.dropna().unique(), dtype=object).map(format_cell)
    if not np.isnan(to_days(values, ISO_FORMAT)).any():
        return [ISO_FORMAT]
    if (
        values.str.contains("day").all() and not np.isnan(to_days(values, DURATION_FORMAT)).any()
    ):  # as pandas writes it
        return [DURATION_FORMAT]
    first = values.iloc[:20]
    fitting = [form for form in _ALL_FORMATS if not np.isnan(to_days(first, form)).any()]
    read = {form: days for form in fitting if not np.isnan(days := to_days(values, form)).any()}
    distinct = {days.tobytes(): form for form, days in reversed(read.items())}
    return [form for form in read if form in distinct.values()]


def convert_dates(
    table: str, frame: pd.DataFrame, given: ColumnSettings, form: str | None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a table with columns of dates as numbers, see :func:`to_days`, and the format of each
    of them.

    Parameters
    ----------
    table : name, for messages.
    frame : [n, columns].
    given : lists of the user: the columns that hold dates or times, and the cells to read as
    missing.
    form : their format as of ``datetime.strptime``; None: the one in which all cells are dates.

    Raises
    ------
    DataError
        If a cell is no date, or whether day or month comes first cannot be seen.
    """
    formats: dict[str, str] = {}
    missing = MissingCells.of(given.missing)
    for name in given.parse_dates:
        column = frame[name]
        if not is_date_type(column):
            column = column.where(~column.map(format_cell).isin(missing.words), None)
        if column.isna().all():
            raise DataError(
                f"{table}: column '{name}' has no date in any row; leave it out of"
                " dataset.parse_dates"
            )
        formats[name] = (
            form
            if form is not None and not is_date_type(column)
            else _unambiguous_format(table, column, given)
        )
        days = to_days(column, formats[name])
        if (bad := np.flatnonzero(np.isnan(days) & column.notna().to_numpy())).size:
            raise _invalid_date_error(table, column, int(bad[0]), formats[name], given)
        frame = frame.assign(**{name: days})
    return frame, formats


def _unambiguous_format(table: str, column: pd.Series, given: ColumnSettings) -> str:
    found = matching_formats(column)
    if len(found) == 1:
        return found[0]
    if found:
        ways = " or ".join(override("dataset.date_format", form) for form in found[:2])
        example = column.dropna().iloc[0]
        raise DataError(
            f"{table}: column '{column.name}' has dates such as {example}, and day or month may"
            f" come first; give {ways}"
        )
    row = _first_unparsable_row(column)
    raise _invalid_date_error(table, column, row, None, given)


def _first_unparsable_row(column: pd.Series) -> int:
    """The first row whose cell does not fit the format that fits most cells."""
    first = column.dropna().iloc[:200]
    best = min(
        (ISO_FORMAT, *_ALL_FORMATS), key=lambda form: int(np.isnan(to_days(first, form)).sum())
    )
    return int(np.flatnonzero(np.isnan(to_days(column, best)) & column.notna().to_numpy())[0])


def _invalid_date_error(
    table: str, column: pd.Series, row: int, form: str | None, given: ColumnSettings
) -> DataError:
    cell = str(column.iloc[row])
    others = (
        " like the others"
        if form in (None, ISO_FORMAT, DURATION_FORMAT)
        else f" in the format {form}"
    )
    remedy = f"{given.adding('missing', [cell])} reads it as missing"
    rule = f"which is no date between 1678 and 2261{others}"
    return DataError(
        f"{table}: dataset.parse_dates: column '{column.name}' has {cell!r} in row {row}, {rule};"
        f" {remedy}"
    )


@cache
def _example_date(form: str) -> str:
    return pd.Timestamp("2020-01-31 13:45").strftime("%Y-%m-%d" if form == ISO_FORMAT else form)


def date_rule(form: str) -> str:
    """Return what a cell must be, for messages: a date in this format, with an example."""
    return (
        "a length of time such as 1 days 06:00:00"
        if form == DURATION_FORMAT
        else f"a date or time such as {_example_date(form)}"
    )


def date_overrides(
    where: ColumnReference, column: pd.Series, missing: MissingCells, strays: Sequence[str] = ()
) -> str | None:
    """Return the overrides that turn a column of dates into numbers, None where it has no format
    that is known.

    Parameters
    ----------
    where : the column in messages.
    column : [n] of dates, of text that is dates, or of a few ``strays`` among them.
    missing : cells that are missing already.
    strays : texts that are no dates.
    """
    if not is_date_type(column):
        column = column.where(~column.map(format_cell).isin([*missing.words, *strays]), None)
    found = matching_formats(column) if column.notna().any() else []
    if not found or len(strays) > 5:
        return None
    parts = [where.as_dates(), *([where.without(strays)] if strays else [])]
    ambiguous = (
        some([override("dataset.date_format", form) for form in found[:2]])
        if len(found) > 1
        else ""
    )
    return " ".join(parts) + (f" with {ambiguous.replace(', ', ' or ')}" if ambiguous else "")
