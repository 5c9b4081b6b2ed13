"""Columns of the report: what is shown first, and the rows in words."""

from __future__ import annotations

import pytest

from kdgraph.report.page.content import PageColumns
from tests.results.conftest import make_record


@pytest.mark.parametrize(
    ("protocol", "rows"),
    [("held_out", " (in sample: what was fitted on these rows is judged by them)"), ("paper", "")],
)
def test_calibration_rows_are_named_and_not_shown_first(protocol, rows):
    columns = PageColumns()
    numbers = dict.fromkeys(("error", "nll", "ece", "brier", "ece@calibration"), 0.1)
    columns.read(make_record(values=numbers, protocol=protocol))
    found = {
        column["id"]: (column["rows"], column["shown"], column["of"])
        for column in columns.as_json()
    }
    assert found["ece@calibration"] == (f"calibration rows{rows}", False, "rows")
    assert found["ece"] == ("test rows", True, "rows")
