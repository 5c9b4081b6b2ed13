"""Conversion of dates to days since 1970-01-01."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data.frames import ColumnOptions, from_frame
from kdgraph.data.frames.dates import (
    DURATION_FORMAT,
    ISO_FORMAT,
    date_rule,
    matching_formats,
    to_days,
)
from kdgraph.errors import DataError


def load_dates(cells, **options):
    table = pd.DataFrame(
        {"x": np.arange(len(cells)) / 2, "when": cells, "y": np.arange(len(cells)) % 2}
    )
    return from_frame("t", table, "y", options=ColumnOptions(**options))


DAYS = st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 12, 31))


@settings(max_examples=30)
@given(
    st.lists(DAYS, min_size=1, max_size=5),
    st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%d %B %Y", "%Y/%m/%d", "%b %d, %Y"]),
)
def test_days_agree_with_the_calendar(dates, form):
    column = pd.Series(
        [date.strftime(form).replace(f"{date.year}", f"{date.year:04}") for date in dates]
    )
    expected = [(date - datetime.date(1970, 1, 1)).days for date in dates]
    assert any(
        to_days(column, date_format).tolist() == expected
        for date_format in matching_formats(column)
    )


@given(
    st.lists(
        st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
        min_size=1,
        max_size=5,
    )
)
def test_days_of_text_and_of_datetimes_are_equal(times):
    typed = pd.Series(times).astype("datetime64[ns]")
    np.testing.assert_array_equal(
        to_days(typed.map(str).astype(object), ISO_FORMAT), to_days(typed, ISO_FORMAT)
    )


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (["2000-01-01", "2000-01-02 12:00"], [10957, 10958.5]),
        (["2000-01-01T00:00+01:00", "2000-01-01T00:00Z"], [10957 - 1 / 24, 10957]),
        (
            pd.date_range("2000-01-01", periods=2, tz="Europe/Berlin"),
            [10957 - 1 / 24, 10958 - 1 / 24],
        ),
        (pd.period_range("2000-01", periods=2, freq="M"), [10957, 10988]),
        (pd.to_timedelta(["36h", "12h"]), [1.5, 0.5]),
        ([datetime.date(2000, 1, 1), datetime.date(2000, 1, 2)], [10957, 10958]),
        ([datetime.time(6), datetime.time(18)], [0.25, 0.75]),
        (["6:00 AM", "6:00 PM"], [0.25, 0.75]),
        (["31/01/2000", "01/02/2000"], [10987, 10988]),
        (["01/31/2000", "02/01/2000"], [10987, 10988]),
        (["1-Jan-2000", "2-Jan-2000"], [10957, 10958]),
        ([20000101, 20000102], [10957, 10958]),
    ],
    ids=repr,
)
def test_parse_dates_converts_columns_to_days(cells, days):
    data = load_dates(cells, parse_dates=["when"])
    np.testing.assert_allclose(
        data.X[:, 1], days, rtol=0, atol=1e-9
    )  # 1e-9 days are 0.1 ms, and float64 has 4e-12 there
    assert data.categories == () and list(data.facts["date_formats"]) == ["when"]


def test_missing_dates_stay_missing():
    data = load_dates(["2000-01-01", None, "?", "2000-01-02"], parse_dates=["when"], missing=["?"])
    np.testing.assert_array_equal(data.X[:, 1], [10957, np.nan, np.nan, 10958])


def test_ambiguous_order_of_day_and_month_is_refused():
    overrides = """'dataset.date_format="%d/%m/%Y"' or 'dataset.date_format="%m/%d/%Y"'"""
    message = f"t: column 'when' has dates such as 1/2/2000, and day or month may come first; give {overrides}"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load_dates(["1/2/2000", "3/4/2000"], parse_dates=["when"])
    assert (
        load_dates(["1/2/2000", "3/4/2000"], parse_dates=["when"], date_format="%d/%m/%Y").X[0, 1]
        == 10988
    )
    assert (
        load_dates(["1/2/2000", "3/4/2000"], parse_dates=["when"], date_format="%m/%d/%Y").X[0, 1]
        == 10958
    )


SOURCE = "t: dataset.parse_dates: column 'when' has"


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (
            ["2000-01-01", "soon"],
            {},
            f"{SOURCE} 'soon' in row 1, which is not a date between 1678 and 2261 like the others; "
            "'dataset.missing=[soon]' reads it as missing",
        ),
        (
            ["2000-01-01", "9999-12-31"],
            {"missing": ["?"]},
            f"{SOURCE} '9999-12-31' in row 1, which is not a date between 1678 and 2261 like the others; "
            '\'dataset.missing=["?","9999-12-31"]\' reads it as missing',
        ),
        (
            ["13/1/2000", "1/13/2000"],
            {"date_format": "%d/%m/%Y"},
            f"{SOURCE} '1/13/2000' in row 1, which is not a date between 1678 and 2261 in the format %d/%m/%Y; "
            "'dataset.missing=[\"1/13/2000\"]' reads it as missing",
        ),
        (
            [None, None],
            {},
            "t: column 'when' has no date in any row; leave it out of dataset.parse_dates",
        ),
        (
            ["2000-01-01"] * 2,
            {"group": "when"},
            "t: 'when' is in dataset.parse_dates, and dataset.group names it too; it can be one of"
            " both",
        ),
        (
            ["2000-01-01"] * 2,
            {"categorical": ["when"]},
            "t: 'when' is in dataset.parse_dates, and dataset.categorical names it too; it can be"
            " one of both",
        ),
    ],
)
def test_invalid_dates_are_refused(cells, options, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load_dates(cells, parse_dates=["when"], **options)


def test_date_options_without_columns_are_refused():
    with pytest.raises(
        DataError, match=r"^t has no column 'wen' \(dataset\.parse_dates\); did you mean 'when'\?$"
    ):
        load_dates(["2000-01-01"] * 2, parse_dates=["wen"])
    with pytest.raises(
        DataError,
        match=(
            r"^dataset\.date_format is the format of the columns of dataset\.parse_dates, and that"
            r" names no column$"
        ),
    ):
        load_dates(["2000-01-01"] * 2, date_format="%Y")


def test_date_rule_gives_an_example():
    assert date_rule(ISO_FORMAT) == "a date or time such as 2020-01-31"
    assert date_rule("%d/%m/%Y") == "a date or time such as 31/01/2020"
    assert date_rule(DURATION_FORMAT) == "a length of time such as 1 days 06:00:00"


def test_split_at_divides_by_date():
    cells = ["2000-01-03", "2000-01-01", "2000-01-02"]
    data = load_dates(cells, parse_dates=["when"], split_column="when", split_at=[10957, 10958])
    assert data.roles is not None and data.roles.tolist() == [2, 0, 1]
