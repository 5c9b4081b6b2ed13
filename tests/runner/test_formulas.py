"""Text that a spreadsheet would evaluate has a quote in front on request."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.errors import UsageError
from kdgraph.results.export import write_columns
from kdgraph.runner.formulas import escape_formula, escape_frame


@pytest.mark.parametrize(
    "text",
    [
        "=cmd|' /C calc'!A0",
        "=1+1",
        "+1+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1+1",
        "-",
        "+a",
        "-inf",
        "-1_000",
        "=",
    ],
)
def test_formulas_have_a_quote_in_front(text):
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "1", "-1", "+1.5e-3", "-.5", "a=1", " =1", "'=1", "é"])
def test_other_text_and_numbers_stay(text):
    assert escape_formula(text) == text


@given(st.text(max_size=5))
def test_no_escaped_text_begins_with_a_sign_unless_it_is_a_number(text):
    escaped = escape_formula(text)
    assert escaped in (text, f"'{text}")
    if escaped[:1] in ("=", "@", "\t", "\r", "\n"):
        pytest.fail(escaped)
    if escaped[:1] in ("+", "-"):
        float(escaped)


def test_columns_of_numbers_and_flags_stay_as_they_are():
    frame = pd.DataFrame(
        {
            "=a": [-1.5, np.nan],
            "flag": [True, False],
            "text": ["=1", None],
            "kind": pd.Categorical(["-x", "-1"]),
        }
    )
    escaped = escape_frame(frame)
    assert list(escaped.columns) == ["'=a", "flag", "text", "kind"]
    assert escaped.to_csv(index=False) == "'=a,flag,text,kind\n-1.5,True,'=1,'-x\n,False,,-1\n"
    assert next(iter(frame.columns)) == "=a" and frame["text"][0] == "=1"


def test_a_table_of_columns_is_escaped_in_a_csv_alone(tmp_path):
    columns = {"=name": ["=1", "-2", None], "value": [-1.0, 2.0, None]}
    write_columns(columns, tmp_path / "t.csv", escapes_formulas=True)
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["'=name", "value"],
            ["'=1", "-1"],
            ["-2", "2"],
            ["", ""],
        ]
    with pytest.raises(UsageError, match=r"--safe-csv is for a \.csv, got --output .*t\.md, which"):
        write_columns(columns, tmp_path / "t.md", escapes_formulas=True)
