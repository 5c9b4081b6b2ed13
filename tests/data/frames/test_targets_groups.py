"""Groups of rows: values of a column, or the largest of several columns, against a loop."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.data.frames.columns import ColumnOptions, from_frame
from kdgraph.data.frames.targets import largest_column_index
from kdgraph.errors import DataError


def frame(**columns) -> pd.DataFrame:
    """Return four rows with the feature ``x``, further columns, and the target ``y``."""
    return pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], **columns, "y": ["a", "b", "a", "b"]})


def load(table: pd.DataFrame, **options):
    return from_frame("t", table, "y", options=ColumnOptions(**options))


def assert_refused(table: pd.DataFrame, message: str, **options) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load(table, **options)


def largest_name(row: dict[str, float]) -> str:
    best_name, largest_value = "other", 0.0
    for name, value in row.items():
        if value > largest_value:
            best_name, largest_value = name, value
    return best_name


fractions = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@given(
    st.lists(
        st.tuples(fractions, fractions, fractions).map(
            lambda row: dict(zip("bac", row, strict=True))
        ),
        min_size=1,
        max_size=12,
    )
)
def test_group_is_the_first_of_the_largest_columns(rows):
    largest, names = largest_column_index("t", "group", pd.DataFrame(rows))
    assert [names[i] for i in largest] == [largest_name(row) for row in rows]
    assert names == ("b", "a", "c", *(["other"] if "other" in map(largest_name, rows) else []))


def test_group_columns_may_be_booleans_or_nullable_integers():
    table = frame(p=[True, False, True, False], q=pd.array([0, 2, 1, 0], dtype="Int64"))
    data = load(table, group=["p", "q"])
    assert data.group_names == ("p", "q", "other")
    assert data.groups is not None and data.groups.tolist() == [0, 1, 0, 2]


def test_rows_without_a_largest_column_join_a_column_named_other():
    largest, names = largest_column_index(
        "t", "group", pd.DataFrame({"other": [0, 1, 0], "p": [0, 0, 1]})
    )
    assert names == ("other", "p") and largest.tolist() == [0, 0, 1]


def test_values_of_a_single_column_are_the_groups():
    data = load(frame(town=["Ulm", "Bonn", "Ulm", "Ulm"], age=[10, 9, 10, 10]), group="town")
    assert (
        data.group_names == ("Bonn", "Ulm")
        and data.groups is not None
        and data.groups.tolist() == [1, 0, 1, 1]
    )
    assert load(frame(age=[10, 9, 10, 10]), group="age").group_names == (
        "9",
        "10",
    )  # numbers are sorted as numbers


def test_group_columns_are_features_unless_dropped():
    table = frame(p=[0.1, 0.2, 0.3, 0.4], q=[0.2, 0.1, 0.4, 0.3])
    with_columns, without_columns = (
        load(table, group=["p", "q"]),
        load(table, group=["p", "q"], drop=["p", "q"]),
    )
    assert with_columns.feature_names == ("x", "p", "q") and without_columns.feature_names == ("x",)
    assert with_columns.groups is not None and without_columns.groups is not None
    np.testing.assert_array_equal(with_columns.groups, without_columns.groups)
    assert with_columns.split_groups is None


def test_the_target_may_be_the_group():
    data = load(frame(), group="y")
    assert (
        data.group_names == ("a", "b")
        and data.groups is not None
        and data.groups.tolist() == data.y.tolist()
    )
    assert data.groups_are_target and data.facts == {"target_and_group": "y"}


def test_facts_list_columns_shared_by_target_and_group():
    table = frame(p=[1, 0, 1, 0], q=[0, 1, 0, 1], r=[0, 1, 1, 0])
    shared = from_frame("t", table, ["p", "q"], options=ColumnOptions(group=["p", "r"]))
    assert not shared.groups_are_target and shared.facts == {"target_and_group": "p"}
    assert from_frame(
        "t", table, ["p", "q"], options=ColumnOptions(group=["q", "p"])
    ).groups_are_target
    assert load(table, group="p").facts == {}


def test_subsets_keep_group_names_and_select_groups():
    data = load(frame(g=["p", "q", "r", "q"]), group="g")
    subset = data.rows(np.array([3, 0]))
    assert (
        subset.groups is not None
        and subset.groups.tolist() == [1, 0]
        and subset.group_names == ("p", "q", "r")
    )
    single_class = data.with_classes(np.array([1]))
    assert single_class.groups is not None and single_class.groups.tolist() == [1, 1]


def test_groups_are_part_of_the_fingerprint():
    table = frame(g=["p", "q", "r", "q"])
    plain, by_name = load(table, drop=["g"]), load(table, drop=["g"], group="g")
    renamed_group = load(frame(g=["p", "q", "s", "q"]), drop=["g"], group="g")
    assert len({plain.fingerprint, by_name.fingerprint, renamed_group.fingerprint}) == 3


@pytest.mark.parametrize(
    ("columns", "group", "message"),
    [
        (
            {"g": ["p", None, "q", "r"]},
            "g",
            "t: dataset.group='g' is empty in row 1; name the group of each row",
        ),
        (
            {"p": [1, 0, 1, 0], "q": [0, 1, np.nan, 1]},
            ["p", "q"],
            "t: dataset.group: column 'q' is empty in row 2; fill the cell, or remove the row",
        ),
        (
            {"p": ["u", "v", "u", "v"]},
            ["x", "p"],
            (
                "t: dataset.group names 'p', which has 'u'; of several columns the largest counts,"
                " so each must hold numbers or truth values"
            ),
        ),
        (
            {},
            [],
            "t: dataset.group must name a column, or several, got []; without groups it is null",
        ),
        ({"p": [1, 0, 1, 0]}, ["p", "qq"], "t has no column 'qq' (dataset.group); it has x, p, y"),
    ],
)
def test_invalid_groups_are_refused(columns, group, message):
    assert_refused(frame(**columns), message, group=group)
