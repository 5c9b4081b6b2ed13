"""Conversion of dates and times to numbers: days since 1970-01-01.

Columns are converted only where the user lists them in ``dataset.parse_dates``. The rules are
original to kdgraph.
"""

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
from kdgraph.quoting import override
from kdgraph.wording import some

ISO_FORMAT, DURATION_FORMAT = "ISO8601", "duration"
"""Formats of columns without a format string: ISO 8601 and durations."""
_DATE_FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%Y%m%d", "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y"),
    *("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%d. %B %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
)
_TIME_FORMATS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
_ALL_FORMATS = (
    *_DATE_FORMATS,
    *(f"{day} {time}" for day, time in product(_DATE_FORMATS, _TIME_FORMATS)),
    *_TIME_FORMATS,
)
DATE_KINDS = ("date", "datetime", "datetime64", "time", "timedelta", "period")
"""Results of ``infer_dtype`` for Python objects that are dates or times."""
_NANOSECONDS_PER_DAY = 86_400 * 10**9


def is_date_type(column: pd.Series) -> bool:
    """Return whether the type of a column is one of dates or durations."""
    dtype = column.dtype
    return (
        is_datetime64_any_dtype(dtype)
        or is_timedelta64_dtype(dtype)
        or isinstance(dtype, pd.PeriodDtype)
    )


def to_days(column: pd.Series, date_format: str) -> np.ndarray:
    """Return dates as days since 1970-01-01 in UTC, Float64[n]; NaN where a cell is none.

    Times of day become fractions of a day, and durations become days. The format is
    :data:`ISO_FORMAT`, :data:`DURATION_FORMAT`, or one of ``datetime.strptime``.

    Examples
    --------
    >>> to_days(pd.Series(["1970-01-02", "1970-01-01 06:00", "unknown"]), ISO_FORMAT).tolist()
    [1.0, 0.25, nan]
    """
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.start_time
    if is_timedelta64_dtype(column.dtype) or date_format == DURATION_FORMAT:
        if not is_timedelta64_dtype(column.dtype):
            column = column.astype(object).where(column.notna(), None)
        durations = pd.to_timedelta(column, errors="coerce")
        return _nanoseconds_to_days(durations.to_numpy(dtype="timedelta64[ns]"))
    if not is_datetime64_any_dtype(column.dtype):
        column = column.map(format_cell, na_action="ignore").astype(object)
        if date_format == ISO_FORMAT:
            # pandas would read a year or another number alone as a date.
            column = column.where(column.str.contains("-", na=False), None)
    known_format = None if is_datetime64_any_dtype(column.dtype) else date_format
    times = pd.to_datetime(column, format=known_format, errors="coerce", utc=True)
    if "%" in date_format and not any(sign in date_format for sign in ("%d", "%j")):
        times = times - times.dt.normalize()
        return _nanoseconds_to_days(times.to_numpy(dtype="timedelta64[ns]"))
    return _nanoseconds_to_days(times.dt.tz_localize(None).to_numpy(dtype="datetime64[ns]"))


def _nanoseconds_to_days(times: np.ndarray) -> np.ndarray:
    whole_days, rest = np.divmod(times.astype(np.int64), _NANOSECONDS_PER_DAY)
    return np.where(np.isnat(times), np.nan, whole_days + rest / _NANOSECONDS_PER_DAY)


def matching_formats(column: pd.Series) -> list[str]:
    """Return the formats in which all cells of a column are dates.

    There are several if the cells do not determine the order of day and month.
    """
    if is_timedelta64_dtype(column.dtype):
        return [DURATION_FORMAT]
    if is_date_type(column):
        return [ISO_FORMAT]
    values = pd.Series(column.dropna().unique(), dtype=object).map(format_cell)
    if not np.isnan(to_days(values, ISO_FORMAT)).any():
        return [ISO_FORMAT]
    # pandas writes durations with the word "days".
    if values.str.contains("day").all() and not np.isnan(to_days(values, DURATION_FORMAT)).any():
        return [DURATION_FORMAT]
    # The first 20 values rule out most of the formats cheaply. Of formats that give equal days for
    # all values, only the first one counts: these formats do not contradict each other.
    candidates = (
        date_format
        for date_format in _ALL_FORMATS
        if not np.isnan(to_days(values.iloc[:20], date_format)).any()
    )
    days_by_format = {
        date_format: days
        for date_format in candidates
        if not np.isnan(days := to_days(values, date_format)).any()
    }
    format_of_days = {
        days.tobytes(): date_format for date_format, days in reversed(days_by_format.items())
    }
    return [date_format for date_format in days_by_format if date_format in format_of_days.values()]


def convert_dates(
    table: str, frame: pd.DataFrame, settings: ColumnSettings, date_format: str | None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a table with its columns of dates as numbers, and the format of each of them.

    Without ``date_format`` it is the one in which all cells of a column are dates; DataError is
    raised if day and month are ambiguous.
    """
    # All cells of a column must have one format. Guessing it cell by cell would read 03/04 and
    # 13/04 in one column with different orders of day and month.
    formats: dict[str, str] = {}
    missing = MissingCells.from_cells(settings.missing)
    for name in settings.parse_dates:
        column = frame[name]
        if not is_date_type(column):
            column = column.where(~column.map(format_cell).isin(missing.words), None)
        if column.isna().all():
            raise DataError(
                f"{table}: column '{name}' has no date in any row; leave it out of"
                " dataset.parse_dates"
            )
        if date_format is None or is_date_type(column):
            formats[name] = _unambiguous_format(table, column, settings)
        else:
            formats[name] = date_format
        days = to_days(column, formats[name])
        if (invalid_rows := np.flatnonzero(np.isnan(days) & column.notna().to_numpy())).size:
            raise _invalid_date_error(table, column, int(invalid_rows[0]), formats[name], settings)
        frame = frame.assign(**{name: days})
    return frame, formats


def _unambiguous_format(table: str, column: pd.Series, settings: ColumnSettings) -> str:
    formats = matching_formats(column)
    if len(formats) == 1:
        return formats[0]
    if formats:
        overrides = " or ".join(
            override("dataset.date_format", date_format) for date_format in formats[:2]
        )
        example = column.dropna().iloc[0]
        raise DataError(
            f"{table}: column '{column.name}' has dates such as {example}, and day or month may"
            f" come first; give {overrides}"
        )
    # The first row whose cell does not have the format that most cells have.
    first_cells = column.dropna().iloc[:200]
    best_format = min(
        (ISO_FORMAT, *_ALL_FORMATS),
        key=lambda date_format: int(np.isnan(to_days(first_cells, date_format)).sum()),
    )
    is_other = np.isnan(to_days(column, best_format)) & column.notna().to_numpy()
    raise _invalid_date_error(table, column, int(np.flatnonzero(is_other)[0]), None, settings)


def _invalid_date_error(
    table: str, column: pd.Series, row: int, date_format: str | None, settings: ColumnSettings
) -> DataError:
    cell = str(column.iloc[row])
    is_named = date_format not in (None, ISO_FORMAT, DURATION_FORMAT)
    comparison = f" in the format {date_format}" if is_named else " like the others"
    return DataError(
        f"{table}: dataset.parse_dates: column '{column.name}' has {cell!r} in row {row}, which is"
        f" not a date between 1678 and 2261{comparison};"
        f" {settings.adding('missing', [cell])} reads it as missing"
    )


@cache
def _example_date(date_format: str) -> str:
    return pd.Timestamp("2020-01-31 13:45").strftime(
        "%Y-%m-%d" if date_format == ISO_FORMAT else date_format
    )


def date_rule(date_format: str) -> str:
    """Return a description of a date in this format, with an example, for messages."""
    if date_format == DURATION_FORMAT:
        return "a length of time such as 1 days 06:00:00"
    return f"a date or time such as {_example_date(date_format)}"


def date_overrides(
    reference: ColumnReference,
    column: pd.Series,
    missing: MissingCells,
    other_texts: Sequence[str] = (),
) -> str | None:
    """Return the overrides that turn a column of dates into numbers.

    None if no known format matches, or there are more than 5 ``other_texts``, which are not dates.
    """
    if not is_date_type(column):
        column = column.where(~column.map(format_cell).isin([*missing.words, *other_texts]), None)
    formats = matching_formats(column) if column.notna().any() else []
    if not formats or len(other_texts) > 5:
        return None
    overrides = reference.as_dates()
    if other_texts:
        overrides += f" {reference.as_missing(other_texts)}"
    if len(formats) > 1:
        choices = some(
            [override("dataset.date_format", date_format) for date_format in formats[:2]]
        )
        overrides += f" with {choices.replace(', ', ' or ')}"
    return overrides
