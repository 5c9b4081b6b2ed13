"""Targets that are made of columns: the largest of several, or a number above a threshold."""

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


def refused(message: str, target, columns, **options) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load(target, columns, **options)


HAIR = {"gray": [0, 0, 1, 1, 0], "black": [1, 0, 1, 0, 0], "red": [0, 0, 0, 0, 1]}


def test_columns_that_exclude_each_other_become_classes_by_sorted_name():
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


@pytest.mark.parametrize(("threshold", "at"), [("median", 2.0), (2, 2.0), (1.5, 1.5)])
def test_a_number_becomes_two_classes_the_lower_one_first(threshold, at):
    values = [1, 2, 5, 2, 0.5]
    data = load("v", {"v": values}, threshold=threshold)
    assert data.classes.tolist() == [f"<= {at:g}", f"> {at:g}"]
    assert data.y.tolist() == [int(value > at) for value in values]
    assert data.facts == {"threshold": at} and data.feature_names == ("x",)


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=30))
def test_at_most_half_of_the_rows_are_above_the_median(values):
    assume(sum(value > np.median(values) for value in values))
    above = load("v", {"v": values}, threshold="median").y.sum()
    assert above <= len(values) / 2
    assert above == sum(1 for value in values if value > np.median(values))


def test_whole_numbers_and_text_that_is_numbers_are_cut_too():
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
def test_targets_that_are_none(target, columns, options, message):
    refused(message, target, columns, **options)


def test_a_split_by_numbers():
    data = load(
        "y",
        {"y": list("ababab"), "number": [4, 1, 2, 3, 6, 5]},
        split_column="number",
        split_at=[3, 4],
    )
    assert data.roles is not None and data.roles.dtype == np.int8
    assert data.roles.tolist() == [CALIBRATION, TRAIN, TRAIN, TRAIN, TEST, TEST]
    assert data.feature_names == ("x",)
    none = load(
        "y",
        {"y": list("ababab"), "number": [4, 1, 2, 3, 6, 5]},
        split_column="number",
        split_at=[3],
    )
    assert none.roles is not None and none.roles.tolist() == [TEST, TRAIN, TRAIN, TRAIN, TEST, TEST]


WHERE = "t: dataset.split_column='number'"


@pytest.mark.parametrize(
    ("number", "split_at", "message"),
    [
        (
            [1, 2, 3],
            [2, 1],
            (
                f"{WHERE}: split_at must be the last number that trains and the last that"
                " calibrates, got [2, 1]"
            ),
        ),
        (
            [1, 2, 3],
            [1, 2, 3],
            (
                f"{WHERE}: split_at must be the last number that trains and the last that"
                " calibrates, got [1, 2, 3]"
            ),
        ),
        (
            ["1", "two", "3"],
            [1],
            f"{WHERE} has 'two' in row 1, and split_at needs a number in each row",
        ),
        (
            [1, 2, 3],
            [3],
            f"{WHERE} names no row for test; a split needs rows that train and rows that test",
        ),
    ],
)
def test_a_split_by_numbers_that_is_none(number, split_at, message):
    refused(
        message, "y", {"y": list("aba"), "number": number}, split_column="number", split_at=split_at
    )


def test_an_end_without_a_column():
    message = (
        "dataset.split_at defines where roles end in the numbers of dataset.split_column, and that"
        " names no column"
    )
    refused(message, "y", {"y": list("aba")}, split_at=[1])
