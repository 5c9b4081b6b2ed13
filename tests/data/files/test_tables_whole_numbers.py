"""Integers in files, which no reader may round."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data.files.arrow import frame_from_arrow
from kdgraph.data.files.numbers import parse_number_column
from kdgraph.data.files.tables import read_table
from kdgraph.data.tables import TableFile
from kdgraph.data.text_format import TextFormat

LARGE = 2**53


pytestmark = pytest.mark.usefixtures("in_tmp_path")


def read_id_column(path, text, **form) -> list:
    path.write_text(text)
    cells = read_table(path, TextFormat(**form)).frame["id"]
    return [None if pd.isna(cell) else cell for cell in cells.tolist()]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([f"{LARGE + 1}", "", f"{LARGE}"], [LARGE + 1, None, LARGE]),
        ([f"{2**64 - 1}", "NA", "7"], [2**64 - 1, None, 7]),
        ([f"-{LARGE + 1}", "", f"{LARGE}"], [-LARGE - 1, None, LARGE]),
        ([f"{10**30 + 1}", "", "1"], [f"{10**30 + 1}", None, "1"]),
        (["1e17", "", "0.5"], [1e17, None, 0.5]),
        (["1e300", "", "2"], [1e300, None, 2.0]),
    ],
)
def test_csv_column_with_missing_cells_keeps_its_integers(tmp_path, cells, expected):
    path = tmp_path / "t.csv"
    assert read_id_column(path, "a,id,b\n" + "".join(f"1,{cell},p\n" for cell in cells)) == expected


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_integers_survive_a_csv_round_trip(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    cells = "".join(f"{'' if value is None else value},1\n" for value in [*values, LARGE + 1])
    assert read_id_column(path, "id,a\n" + cells) == [*values, LARGE + 1]


def test_an_identifier_with_leading_zeros_stays_text(tmp_path):
    text = "id,zip\n01,01\n1,1\n,2\n"
    assert read_id_column(tmp_path / "t.csv", text, identifiers=["id"]) == ["01", "1", None]
    assert read_id_column(tmp_path / "t.csv", text) == [1, 1, None]
    assert read_id_column(tmp_path / "u.csv", "id,a\n0,1\n10,1\n", identifiers=["id"]) == [0, 10]


def test_large_integers_of_arff_and_parquet(tmp_path):
    head = "@RELATION t\n@ATTRIBUTE id INTEGER\n@ATTRIBUTE 'a real' NUMERIC\n@DATA\n"
    assert read_id_column(tmp_path / "t.arff", f"{head}{LARGE + 1},1\n?,0.5\n{LARGE},2\n") == [
        LARGE + 1,
        None,
        LARGE,
    ]
    assert read_id_column(tmp_path / "u.arff", f"{head}{2**63 + 1},1\n{2**63},2\n1,3\n") == [
        2**63 + 1,
        2**63,
        1,
    ]
    path = tmp_path / "t.parquet"
    pd.DataFrame(
        {"id": pd.array([LARGE + 1, None, LARGE], dtype="Int64"), "f": [0.5, None, 1]}
    ).to_parquet(path)
    assert [
        None if pd.isna(cell) else cell for cell in read_table(path, TextFormat()).frame["id"]
    ] == [
        LARGE + 1,
        None,
        LARGE,
    ]


def test_arrow_integers_are_nullable_only_if_cells_are_missing():
    table = pa.table(
        {
            "id": pa.array([LARGE + 1, None]),
            "u": pa.array([None, 2**64 - 1], pa.uint64()),
            "n": [1, 2],
            "f": [0.5, None],
        }
    )
    frame = frame_from_arrow(table)
    assert [str(dtype) for dtype in frame.dtypes] == ["Int64", "UInt64", "int64", "float64"]
    assert frame["id"][0] == LARGE + 1 and frame["u"][1] == 2**64 - 1
    repeated_names = pa.Table.from_arrays(
        [pa.array([1, None]), pa.array([2, None])], names=["id", "id"]
    )
    assert frame_from_arrow(repeated_names).shape == (2, 2), (
        "names that stand twice are refused elsewhere"
    )


def test_parse_number_column_returns_the_narrowest_type():
    assert parse_number_column(pd.Series(["a", "1"])).tolist() == ["a", "1"]
    assert parse_number_column(pd.Series([None, None], dtype=object)).isna().all()
    np.testing.assert_array_equal(parse_number_column(pd.Series(["0.5", None])), [0.5, np.nan])


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_table_file_keeps_large_groups_and_classes_distinct(ending):
    n = 12
    table = pd.DataFrame(
        {
            "x": np.linspace(0, 1, n),
            "patient": pd.array([LARGE + i % 6 for i in range(n)], dtype="Int64"),
            "site": pd.array([None if i == 5 else LARGE + i % 3 for i in range(n)], dtype="Int64"),
            "label": [LARGE + i % 3 for i in range(n)],
        }
    )
    path = f"t{ending}"
    table.to_csv(path, index=False) if ending == ".csv" else table.to_parquet(path)
    data = TableFile(path, "label", split_groups="patient", categorical=["site"]).load()
    assert data.split_groups is not None and data.split_groups.tolist() == [i % 6 for i in range(n)]
    assert data.classes.tolist() == [LARGE, LARGE + 1, LARGE + 2]
    assert data.categories[1] == tuple(str(LARGE + i) for i in range(3))


def test_labels_and_groups_with_leading_zeros_stay_text():
    table = pd.DataFrame(
        {
            "x": [0.1, 0.2, 0.3, 0.4],
            "site": ["01", "1", "01", "2"],
            "a": ["01", "0", "1", "0"],
            "z": [3.5, 1.5, 2.5, 0.5],
            "label": ["007", "7", "7", "8"],
        }
    )
    table.to_csv("t.csv", index=False)
    data = TableFile("t.csv", "label", group="site", split_groups="site").load()
    assert data.classes.tolist() == ["007", "7", "8"] and data.group_names == ("01", "1", "2")
    assert data.feature_names == ("x", "a", "z") and data.categories == (), (
        "a feature is a number, and so is one of several columns of a target"
    )
    assert TableFile("t.csv", ["a", "x"], drop=["label"]).load().classes.tolist() == ["a", "x"]
