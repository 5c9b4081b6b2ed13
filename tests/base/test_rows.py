"""Rows of one role, in arrays and data frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kdgraph.base import Rows, select_rows
from kdgraph.base.validation import check_per_row, has_missing, is_dataframe

Y, WEIGHT = np.array([1, 0, 1]), np.array([0.5, 2, 3])


def test_one_hot_selection_and_concatenation():
    rows = Rows(np.arange(6.0).reshape(3, 2), Y, WEIGHT)
    assert rows.one_hot(3).tolist() == [[0, 0.5, 0], [2, 0, 0], [0, 3, 0]]
    concatenated = rows[[2, 0]] + rows[:1]
    assert concatenated.X.tolist() == [[4, 5], [0, 1], [0, 1]]
    assert concatenated.y.tolist() == [1, 1, 1]
    assert concatenated.weight.tolist() == [3, 0.5, 0.5]
    assert len(concatenated) == 3


def test_groups_follow_their_rows():
    rows = Rows(np.arange(6.0).reshape(3, 2), Y, WEIGHT, np.array(["u", "v", "w"]))
    assert rows[[2, 0]].group.tolist() == ["w", "u"] and rows[rows.y == 1].group.tolist() == [
        "u",
        "w",
    ]
    assert (rows[:1] + rows[1:]).group.tolist() == ["u", "v", "w"]
    ungrouped = Rows.unweighted(rows.X, Y)
    assert ungrouped.group is None and ungrouped[:2].group is None
    assert (rows + ungrouped).group is None and (ungrouped + rows).group is None


def test_check_per_row_requires_one_value_per_row():
    assert check_per_row("groups", ["u", "v"], 2).tolist() == ["u", "v"]
    for values, shape in ((["u"], "(1,)"), ([["u"], ["v"]], "(2, 1)"), ("u", "()")):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
            check_per_row("groups", values, 2)
        assert str(caught.value) == f"groups must have one for each of 2 rows, got shape {shape}"


@pytest.fixture
def repeated_index_frame():
    """Data frame whose index has repeated integers that are not positions."""
    colour = pd.Categorical(["red", None, "blue"], categories=["blue", "red", "green"])
    return pd.DataFrame({"size": [0.0, 2.0, 4.0], "colour": colour}, index=[2, 0, 0])


def test_rows_of_a_frame_are_selected_by_position(repeated_index_frame):
    rows = Rows(repeated_index_frame, Y, WEIGHT)
    concatenated = rows[[2, 0]] + rows[:1]
    assert concatenated.X["size"].tolist() == [4, 0, 0]
    assert concatenated.X["colour"].tolist() == ["blue", "red", "red"]
    assert concatenated.X["colour"].dtype == repeated_index_frame["colour"].dtype
    assert concatenated.y.tolist() == [1, 1, 1]
    assert select_rows(repeated_index_frame, np.array([False, True, True]))["size"].tolist() == [
        2,
        4,
    ]


def test_data_frames_and_missing_values_are_recognised(repeated_index_frame):
    assert (
        is_dataframe(repeated_index_frame)
        and not is_dataframe(repeated_index_frame["size"])
        and not is_dataframe(repeated_index_frame.to_numpy())
    )
    assert has_missing(repeated_index_frame) and not has_missing(repeated_index_frame[["size"]])
    for X in (np.array([[1.0, np.nan]]), np.full((1, 1, 2, 2), np.nan, dtype=np.float32)):
        assert has_missing(X)
    for X in (np.array([[1.0, np.inf]]), np.array([[1, 2]]), np.array([[True]]), np.empty((0, 2))):
        assert not has_missing(X)
