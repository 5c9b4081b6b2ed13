"""Numbers as text: never a zero for what is none, in any unit; and which two are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.results.names import format_distinct, format_mean, format_value, is_tie
from kdgraph.wording import significant, with_spread

FINITE = st.floats(-1e307, 1e307)  # rounding the largest of all up leaves what a float holds


def read(text: str) -> float:
    return float(text.replace(",", ""))


@given(FINITE, st.integers(2, 12))
def test_a_number_is_read_back_to_its_digits(value, digits):
    text = significant(value, digits)
    least = (
        max(digits - 1, 1) if abs(value) < 1e4 else min(digits - 1, 4) or 1
    )  # significant digits; of five before the point, all
    assert read(text) == pytest.approx(value, rel=10.0 ** (1 - least), abs=0)
    assert (read(text) == 0) == (value == 0)
    assert len(text) <= digits + 20


@given(st.floats(1e-3, 1e3), st.sampled_from([1e-9, 1e-6, 1e5, 1e12]))
def test_no_unit_hides_a_number(value, unit):
    assert format_value(value * unit, "units of y") not in ("0.000", "-0.000")
    assert read(format_value(value * unit, "units of y")) == pytest.approx(value * unit, rel=0.06)


@pytest.mark.parametrize(
    ("mean", "spread", "text"),
    [
        (0.5, 0.0, "0.500 ± 0.000"),
        (0.0, 0.1, "0.000 ± 0.100"),
        (0.00523, 0.00012, "0.00523 ± 0.00012"),
        (9.78e-7, 1.012e-7, "9.78e-07 ± 1.01e-07"),
        (9.78e-7, 1.012e-9, "9.78e-07 ± 1e-09"),
        (9.78e-7, 0.0, "9.78e-07 ± 0.000"),
        (-3.2e-8, 5e-6, "-3.20e-08 ± 5.00e-06"),
        (123456.0, 789.0, "123,456 ± 789"),
        (0.5, 12345.0, "0.500 ± 12,345"),
        (0.3341, 0.00048, "0.334 ± 0.0005"),
        (0.3341, 0.00012, "0.334 ± 0.0001"),
        (0.3341, 0.00004, "0.334 ± 4.0e-05"),
        (0.3341, 0.0, "0.334 ± 0.000"),
    ],
)
def test_a_standard_deviation_has_the_decimals_of_its_mean(mean, spread, text):
    assert with_spread(mean, spread) == text


def test_only_rounding_errors_of_fractions_are_zero():
    assert [
        format_value(5e-17),
        format_value(-5e-17, "nats"),
        format_value(5e-17, "units of y"),
    ] == [
        "0.000",
        "0.000",
        "5.00e-17",
    ]
    assert (
        format_mean(0.3, 5e-17) == "0.300 ± 0.000"
        and format_mean(3e-16, 5e-17, "units of y") == "3.00e-16 ± 5.0e-17"
    )
    assert (
        is_tie(5e-17, 0.0, None)
        and not is_tie(5e-17, 0.0, "units of y")
        and not is_tie(0.1, 0.1001, None)
    )


def test_two_numbers_of_which_one_is_marked_show_why():
    assert format_distinct({"parent": 0.31801, "calibrated": 0.31804}) == {
        "parent": "0.31801",
        "calibrated": "0.31804",
    }
    assert format_distinct({"parent": 0.3, "calibrated": 0.2}) == {
        "parent": "0.300",
        "calibrated": "0.200",
    }
    assert format_distinct({"parent": None, "calibrated": 0.2}) == {
        "parent": "–",
        "calibrated": "0.200",
    }
