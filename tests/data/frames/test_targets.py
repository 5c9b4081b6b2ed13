"""Targets computed from columns: the largest of several, or a number above a threshold."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN
from kdgraph.data.frames.columns import ColumnOptions, from_frame
from kdgraph.errors import DataError


def load(target, columns, **options):
    table = pd.DataFrame(columns)
    table.insert(0, "x", np.arange(len(table), dtype=float))
    return from_frame("t", table, target, options=ColumnOptions(**options))


def assert_refused(message: str, target, columns, **options) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load(target, columns, **options)


HAIR = {"gray": [0, 0, 1, 1, 0], "black": [1, 0, 1, 0, 0], "red": [0, 0, 0, 0, 1]}


def test_largest_of_several_columns_is_the_class():
    data = load(["gray", "black", "red"], HAIR)
    assert data.classes.tolist() == ["black", "gray", "other", "red"]
    assert data.classes[data.y].tolist() == [
        "black",
        "other",
        "gray",
        "gray",
        "red",
    ]  # of a row with two the first that is named
    assert data.feature_names == ("x",) and data.task == "classification"


@pytest.mark.parametrize(("threshold", "cut"), [("median", 2.0), (2, 2.0), (1.5, 1.5)])
def test_threshold_makes_two_classes_lower_first(threshold, cut):
    values = [1, 2, 5, 2, 0.5]
    data = load("v", {"v": values}, threshold=threshold)
    assert data.classes.tolist() == [f"<= {cut:g}", f"> {cut:g}"]
    assert data.y.tolist() == [int(value > cut) for value in values]
    assert data.facts == {"threshold": cut} and data.feature_names == ("x",)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=30))
def test_median_threshold_agrees_with_numpy(values):
    assume(sum(value > np.median(values) for value in values))
    above = load("v", {"v": values}, threshold="median").y.sum()
    assert above <= len(values) / 2
    assert above == sum(1 for value in values if value > np.median(values))


def test_threshold_applies_to_integers_and_numeric_text():
    assert load("v", {"v": [1, 2, 3, 4]}, threshold=2).y.tolist() == [0, 0, 1, 1]
    assert load("v", {"v": ["1", "2", "3", "4"]}, threshold=2, categorical=["v"]).y.tolist() == [
        0,
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("target", "columns", "options", "message"),
    [
        (
            "v",
            {"v": [1, None, 2]},
            {"threshold": 1},
            "t: 1 of 3 rows have no label in 'v' (first: row 1); remove them",
        ),
        (
            "v",
            {"v": ["a", "b", "a"]},
            {"threshold": "median"},
            (
                "t: the target 'v' has 'a' in row 0, and dataset.threshold cuts finite numbers;"
                " leave it null, and each value is a class"
            ),
        ),
        (
            "v",
            {"v": [1, 2, 3]},
            {"threshold": 3},
            "t: a classifier needs two classes, the target 'v' has only ['<= 3']",
        ),
        (
            "v",
            {"v": [1, 2, 3]},
            {"threshold": 2, "task": "regression"},
            (
                "t: dataset.threshold=2 makes classes, and dataset.task=regression needs numbers;"
                " give one of them"
            ),
        ),
        (
            ["gray", "red"],
            HAIR,
            {"threshold": 2},
            (
                "t: dataset.threshold cuts one column of numbers, and dataset.target names 2"
                " columns; give one of them"
            ),
        ),
        ([], HAIR, {}, "t: dataset.target must name a column, or several, got []"),
        (
            ["gray", "rot"],
            HAIR,
            {},
            "t has no column 'rot' (dataset.target); it has x, gray, black, red",
        ),
        (
            ["gray", "red"],
            HAIR,
            {"drop": ["red"]},
            "t: 'red' is the target, and dataset.drop names it too; it can be one of both",
        ),
        (
            ["gray", "w"],
            {**HAIR, "w": list("abcde")},
            {},
            (
                "t: dataset.target names 'w', which has 'a'; of several columns the largest counts,"
                " so each must hold numbers or truth values"
            ),
        ),
    ],
)
def test_invalid_targets_are_refused(target, columns, options, message):
    assert_refused(message, target, columns, **options)


def test_split_at_divides_by_number():
    data = load(
        "y",
        {"y": list("ababab"), "number": [4, 1, 2, 3, 6, 5]},
        split_column="number",
        split_at=[3, 4],
    )
    assert data.roles is not None and data.roles.dtype == np.int8
    assert data.roles.tolist() == [CALIBRATION, TRAIN, TRAIN, TRAIN, TEST, TEST]
    assert data.feature_names == ("x",)
    without_calibration = load(
        "y",
        {"y": list("ababab"), "number": [4, 1, 2, 3, 6, 5]},
        split_column="number",
        split_at=[3],
    )
    assert without_calibration.roles is not None and without_calibration.roles.tolist() == [
        TEST,
        TRAIN,
        TRAIN,
        TRAIN,
        TEST,
        TEST,
    ]


SOURCE = "t: dataset.split_column='number'"


@pytest.mark.parametrize(
    ("number", "split_at", "message"),
    [
        (
            [1, 2, 3],
            [2, 1],
            (
                f"{SOURCE}: split_at must be the last number that trains and the last that"
                " calibrates, got [2, 1]"
            ),
        ),
        (
            [1, 2, 3],
            [1, 2, 3],
            (
                f"{SOURCE}: split_at must be the last number that trains and the last that"
                " calibrates, got [1, 2, 3]"
            ),
        ),
        (
            ["1", "two", "3"],
            [1],
            f"{SOURCE} has 'two' in row 1, and split_at needs a number in each row",
        ),
        (
            [1, 2, 3],
            [3],
            f"{SOURCE} names no row for test; a split needs rows that train and rows that test",
        ),
    ],
)
def test_invalid_split_at_is_refused(number, split_at, message):
    assert_refused(
        message, "y", {"y": list("aba"), "number": number}, split_column="number", split_at=split_at
    )


def test_split_at_without_split_column_is_refused():
    message = (
        "dataset.split_at defines where roles end in the numbers of dataset.split_column, and that"
        " names no column"
    )
    assert_refused(message, "y", {"y": list("aba")}, split_at=[1])
