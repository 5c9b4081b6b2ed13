"""Integers that float64 would merge, as features, classes, groups and categories."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.data.frames import ColumnOptions, from_frame
from kdgraph.data.frames.cells import (
    infer_numeric_type,
    label_array,
    parse_integers,
    to_exact_numbers,
)
from kdgraph.data.frames.targets import encode_group_column
from kdgraph.errors import DataError

LARGE = 2**53
IDS = [LARGE + 1, LARGE, LARGE + 2, LARGE + 1]


def load(table: pd.DataFrame, target="y", **options):
    return from_frame("t", table, target, options=ColumnOptions(**options))


def frame(**columns) -> pd.DataFrame:
    return pd.DataFrame({"x": [0.1, 0.7, 0.2, 0.4], **columns, "y": columns.get("y", list("abab"))})


@pytest.mark.parametrize(
    "dtype", ["int64", "uint64", "Int64", "UInt64", "int64[pyarrow]", "object"]
)
def test_large_integers_stay_distinct(dtype):
    values = pd.Series(IDS, dtype=dtype)
    classes = load(frame(y=values))
    assert classes.classes.tolist() == [LARGE, LARGE + 1, LARGE + 2] and classes.y.tolist() == [
        1,
        0,
        2,
        1,
    ]
    categories = load(frame(c=values), categorical=["c"])
    assert categories.categories[1] == tuple(str(LARGE + i) for i in range(3)) and categories.X[
        :, 1
    ].tolist() == [1, 0, 2, 1]
    groups = load(frame(g=values), split_groups="g", group="g", drop=["g"])
    assert groups.split_groups is not None and groups.split_groups.tolist() == [1, 0, 2, 1]
    assert groups.group_names == tuple(str(LARGE + i) for i in range(3))


def test_large_integers_stay_distinct_with_missing_cells():
    values = pd.Series([*IDS[:3], None], dtype="Int64")
    data = load(frame(c=values), categorical=["c"])
    np.testing.assert_array_equal(data.X[:, 1], [1, 0, 2, np.nan])
    with_missing_code = load(frame(c=values), categorical=["c"], missing=[LARGE + 1])
    np.testing.assert_array_equal(with_missing_code.X[:, 1], [np.nan, 0, 1, np.nan])
    assert with_missing_code.categories[1] == (str(LARGE), str(LARGE + 2)), (
        "the number beside it is another"
    )


def test_labels_of_64_bits_are_classes():
    assert load(
        frame(y=np.array([2**64 - 1, 2**64 - 2, 0, 2**64 - 1], dtype=np.uint64))
    ).classes.tolist() == [0, 2**64 - 2, 2**64 - 1]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_group_codes_reproduce_the_integers(values):
    codes, names = encode_group_column("t", "g", pd.Series(values, dtype="int64"))
    assert [int(names[code]) for code in codes] == values
    assert [int(name) for name in names] == sorted(set(values))


WAYS_OUT = (
    "if they are names, 'dataset.categorical=[c]' takes them as such, and 'dataset.drop=[c]' leaves"
    " them out"
)


@pytest.mark.parametrize(
    "values",
    [
        IDS,
        pd.Series([*IDS[:3], None], dtype="Int64"),
        [str(value) for value in IDS],
        pd.Series(IDS, dtype=object),
    ],
    ids=["int64", "Int64", "text", "object"],
)
def test_feature_that_float64_merges_is_refused(values):
    message = (
        f"t: column 'c' has whole numbers from 2^53 on ({LARGE}), and 1 different value of 3 would"
        f" be lost in double precision; {WAYS_OUT}"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load(frame(c=values))


def test_integers_beyond_64_bits_are_refused_as_numbers():
    values = [str(10**24 + i) for i in range(4)]
    message = (
        f"t: column 'c' has whole numbers of more digits than double precision has ({values[0]});"
        f" {WAYS_OUT}"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load(frame(c=values))
    assert load(frame(c=values), categorical=["c"]).categories[1] == tuple(values)
    with pytest.raises(DataError, match=r"values from 1e18 on are usually codes for missing"):
        load(frame(c=["1", "2", "3", values[0]]))


def test_large_feature_that_float64_keeps_distinct_is_numeric():
    assert load(frame(c=[LARGE, LARGE + 2, LARGE + 4, 1])).X[:, 1].tolist() == [
        LARGE,
        LARGE + 2,
        LARGE + 4,
        1,
    ]


def test_regression_target_that_float64_merges_is_refused():
    message = (
        f"t: the target 'y' has whole numbers from 2^53 on ({LARGE}), and 1 different value of 3"
        " would be lost in double precision"
    )
    with pytest.raises(
        DataError,
        match=f"^{re.escape(message)}; 'dataset.task=classification' takes them as classes$",
    ):
        load(frame(y=IDS), task="regression")
    assert load(frame(y=IDS), task="classification").y.tolist() == [1, 0, 2, 1]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([Decimal("0.25"), None], [0.25, None]),
        ([Decimal("3.00"), Decimal(2**53 + 1)], [3, 2**53 + 1]),
        ([2**63, 1], [2**63, 1]),
        ([1, 0.5], [1.0, 0.5]),
        ([2**64, 1], [2**64, 1]),
        (["1", "2"], ["1", "2"]),
        ([True, None], [True, None]),
    ],
)
def test_infer_numeric_type_of_object_columns(cells, expected):
    column = infer_numeric_type(pd.Series(cells, dtype=object))
    assert [None if pd.isna(cell) else cell for cell in column.tolist()] == expected


def test_exact_numbers_and_labels_keep_their_type():
    assert to_exact_numbers(pd.Series([1, 2], dtype="uint64")).dtype == np.int64
    assert to_exact_numbers(pd.Series([1, 2**63], dtype="uint64")).dtype == np.uint64
    assert to_exact_numbers(pd.Series([1.5, None])).dtype == np.float64
    assert parse_integers([" 7", "0.5", str(2**63)]).tolist() == [7, 2**63]
    assert parse_integers(["7", str(2**64)]).tolist() == []
    assert label_array([-1, 2**63]).tolist() == ["-1", str(2**63)]
    assert label_array([True, False]).dtype == bool


def test_many_large_numbers_are_names_and_few_are_missing():
    names = [2 * 10**18 + i * 10**15 for i in range(4)]
    with pytest.raises(DataError) as caught:
        load(frame(c=names))
    assert str(caught.value) == (
        f"t: column 'c' has {float(names[0])!r} in row 0, one of many different numbers from 1e18"
        f" on, whose squares lose all others: {WAYS_OUT}, else rescale the column"
    )
    assert load(frame(c=names), categorical=["c"]).categories[1] == tuple(map(str, names))
    with pytest.raises(
        DataError, match=r"usually codes for missing.*'dataset\.missing=\[1e\+30\]'"
    ):
        load(frame(c=[1.0, 1e30, 2.0, 1e30]))
