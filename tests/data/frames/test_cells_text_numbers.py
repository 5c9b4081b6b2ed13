"""Numbers and dates in formats that pandas reads as text."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.data.frames import ColumnOptions, from_frame
from kdgraph.data.frames.cells import classify_text, dominant_form
from kdgraph.errors import DataError


def exact_pattern(message: str) -> str:
    """Return a pattern that matches the whole message."""
    return f"^{re.escape(message)}$"


def load_column(values, **options):
    n = len(values)
    table = pd.DataFrame(
        {"x": np.arange(n) / 2, "z": np.arange(n) % 3, "c": values, "y": np.arange(n) % 2}
    )
    return from_frame("t", table, "y", options=ColumnOptions(**options))


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *((word, "percent sign") for word in ("7%", "7 %", "-0,5 %", "99.9%", "3‰", "+1.000%")),
        *(
            (word, "currency sign")
            for word in ("£3", "€ 5,50", "-$5", "$-5", "5 €", "5EUR", "USD 1 000", "CHF 5.-")
        ),
        *((word, "currency sign") for word in ("R$ 5", "¥1,000", "₹ 10")),
        *(
            (word, "comma")
            for word in (
                "0,25",
                "-1,5",
                "1.234,5",
                "1,234.5",
                "(1,200)",
                "1,234,567",
                "1,5E+03",
                "2 500,00",
            )
        ),
        *(
            (word, "thousands separator")
            for word in ("12 000", "1'200", "1’200", "1.234.567", "1\u202f200", "1 234.5")
        ),
        *((word, "sign") for word in ("−5", "5-", "–3.5", "１２")),
        *(
            (word, "unit")
            for word in ("70 kg", "70kg", "37.5 °C", "5 km/h", "12 m²", "10 m2", "3,5 mg/dl", "12K")
        ),
        *(
            (word, "date")
            for word in (
                "2021-03-04",
                "4.3.21",
                "3/4/2021 10:00",
                "04-Mar-2021",
                "Mar 4, 2021",
                "4 March 2021",
                "2021-03",
            )
        ),
        *(
            (word, "date")
            for word in ("10:30", "10:30:05.5", "9:05 PM", "2021-03-04T10:00Z", "2021.03.04")
        ),
        *(
            (word, None)
            for word in ("n.b.", "1.2.3", "192.168.0.1", "A12", "5-10", "<5", "18+", "3rd", "1/2")
        ),
        *((word, None) for word in ("12 34 56", "555-1234", "1,2,3")),
        *(
            (word, None)
            for word in ("", "-", "%", "$", "kg", "$5 or €6", "Level 3", "no 5", "1990-13")
        ),
    ],
)
def test_classify_text(word, kind):
    assert classify_text(word).kind == kind


@given(st.text(max_size=12))
def test_classify_text_accepts_any_text(word):
    classify_text(word)


@given(st.floats(allow_nan=False, allow_infinity=False).map(str) | st.integers().map(str))
def test_plain_numbers_are_classified_as_numbers(word):
    assert classify_text(word).kind == "number"


NUMBER_ADVICE = (
    "which are read as text; write plain numbers such as 1234.5, or 'dataset.categorical=[c]' takes"
    " them as names"
)


@pytest.mark.parametrize(
    ("cells", "description"),
    [
        (["8%", "9.5%", "unknown", "10%", "11%"], "numbers with percent signs, such as '8%'"),
        (["£12.50", "13", "£1,250", "14", "-"], "numbers with currency signs, such as '£12.50'"),
        (["0,5", "0,75", "k.A.", "1", "2"], "numbers with commas, such as '0,5'"),
        (
            ["1 250", "990", "1 300", "?", "870"],
            "numbers with thousands separators, such as '1 250'",
        ),
        (["−5", "3", "4", "−1", "x"], "numbers with signs, such as '−5'"),
        ([f"{i} mmHg" for i in range(100, 130)], "numbers with a unit (mmHg), such as '100 mmHg'"),
    ],
)
def test_formatted_numbers_are_refused_with_a_way_out(cells, description):
    with pytest.raises(
        DataError, match=exact_pattern(f"t: column 'c' has {description}, {NUMBER_ADVICE}")
    ):
        load_column(cells)
    assert load_column(cells, categorical=["c"]).categories[2] == tuple(sorted(set(cells)))


def test_few_numbers_with_a_unit_become_categories_with_a_warning():
    cells = ["10 mg", "20 mg", "10 mg", "20 mg", "none"]
    advice = (
        "which are used as names; if they are numbers, write them without it, else"
        " 'dataset.categorical=[c]' confirms it"
    )
    with pytest.warns(
        UserWarning,
        match=(
            f"^{re.escape(f't: column {chr(39)}c{chr(39)} has numbers with a unit (mg), such as {chr(39)}10 mg{chr(39)}, {advice}')}$"
        ),
    ):
        assert load_column(cells).categories[2] == ("10 mg", "20 mg", "none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_column(cells, categorical=["c"])


@pytest.mark.parametrize(
    "cells",
    [
        ["low", "10%", "high", "low"],
        ["12B", "13C", "A", "B"],
        ["5-10", "11-20", "5-10", "x"],
        ["3rd", "4th"] * 2,
    ],
)
def test_names_with_digits_become_categories(cells):
    assert load_column(cells).categories[2] == tuple(sorted(set(cells)))


def test_dates_with_another_cell_are_refused_with_overrides():
    cells = ["2021-03-04", "2021-03-05", "soon", "2021-03-04"]
    way_out = (
        "'dataset.parse_dates=[c]' 'dataset.missing=[soon]' turns it into days since 1970-01-01,"
        " 'dataset.drop=[c]' leaves it out"
    )
    message = f"t: column 'c' holds dates or times (2021-03-04), and 'soon', which is not a date; {way_out}"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load_column(cells)
    np.testing.assert_array_equal(
        load_column(cells, parse_dates=["c"], missing=["soon"]).X[:, 2],
        [18690, 18691, np.nan, 18690],
    )


def test_advice_keeps_the_current_missing_cells():
    with pytest.raises(
        DataError, match=re.escape("'dataset.missing=[\"?\",n/a]' reads it as missing")
    ):
        load_column(["12", "?", "n/a", "14", "15"], missing=["?"])


@pytest.mark.parametrize(
    ("words", "rows", "kind"),
    [
        (["1", "2%"], [5, 1], "percent sign"),
        (["1", "x"], [5, 5], None),
        (["1", "x"], [6, 5], "number"),
        (["1%", "x"], [5, 6], None),
        (["2021-01-01", "1"], [6, 5], "date"),
        (["5 kg", "6 lb"], [3, 2], "unit"),
        (["5 Main St", "6 Elm St", "7 Oak Rd"], [1, 1, 1], None),
    ],
)
def test_dominant_form_counts_rows_not_distinct_texts(words, rows, kind):
    assert dominant_form(np.array(words, dtype=object), np.array(rows)).kind == kind


# Targets.


def load_target(cells, **options):
    table = pd.DataFrame(
        {"x": np.arange(len(cells)) % 5, "z": np.arange(len(cells)) / 2, "y": cells}
    )
    return from_frame("t", table, "y", options=ColumnOptions(**options))


CLASS_ADVICE = "'dataset.task=classification' takes its values as classes"


@pytest.mark.parametrize("task", ["auto", "regression"])
@pytest.mark.parametrize(
    ("cells", "description"),
    [
        ([f"{i},5" for i in range(30)], "commas, such as '0,5'"),
        ([f"€{i}" for i in range(30)], "currency signs, such as '€0'"),
        ([f"{i % 3}%" for i in range(30)], "percent signs, such as '0%'"),
        ([f"{i} kg" for i in range(30)], "a unit (kg), such as '0 kg'"),
    ],
)
def test_target_of_formatted_numbers_is_refused(cells, description, task):
    way_out = f"which are read as text; write plain numbers such as 1234.5 for a regression, or {CLASS_ADVICE}"
    with pytest.raises(
        DataError,
        match=exact_pattern(f"t: the target 'y' has numbers with {description}, {way_out}"),
    ):
        load_target(cells, task=task)
    assert load_target(cells, task="classification").classes.tolist() == sorted(set(cells))


def test_target_of_dates_needs_parse_dates():
    cells = [f"2021-03-{day:02}" for day in range(1, 29)]
    way_out = f"'dataset.parse_dates=[y]' turns it into days since 1970-01-01, {CLASS_ADVICE}"
    for values, first_date in (
        (cells, "2021-03-01"),
        (pd.to_datetime(pd.Series(cells)), "2021-03-01 00:00:00"),
    ):
        with pytest.raises(
            DataError,
            match=exact_pattern(
                f"t: the target 'y' holds dates or times ({first_date}); {way_out}"
            ),
        ):
            load_target(values)
        data = load_target(values, parse_dates=["y"])
        assert data.task == "regression" and data.y.tolist() == list(range(18687, 18715))
        assert load_target(values, task="classification").task == "classification"


def test_target_of_numbers_with_one_text_is_refused():
    cells = [*(f"{i}.5" for i in range(25)), "n/a"]
    way_out = (
        f"and most of its cells are numbers; remove the row for a regression, or {CLASS_ADVICE}"
    )
    with pytest.raises(
        DataError, match=exact_pattern(f"t: the target 'y' has 'n/a' in row 25, {way_out}")
    ):
        load_target(cells)
    assert load_target([*("12345" * 5), "other"]).classes.tolist() == [
        "1",
        "2",
        "3",
        "4",
        "5",
        "other",
    ], "few whole numbers are classes"


def test_target_of_fractions_as_text_is_a_regression():
    assert load_target([f"{i}.5" for i in range(25)]).y.tolist() == [i + 0.5 for i in range(25)]
    assert load_target(list("01201")).classes.tolist() == ["0", "1", "2"]


@pytest.mark.parametrize("value", [1e300, -1e18])
def test_target_from_1e18_on_is_refused(value):
    reason = (
        "values from 1e18 on are usually codes for missing, and their squares lose all others:"
        " remove the row, or rescale the target"
    )
    with pytest.raises(
        DataError, match=exact_pattern(f"t: the target 'y' has {value:g} in row 1; {reason}")
    ):
        load_target([0.5, value, 1.5])
