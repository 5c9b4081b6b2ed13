from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kdgraph.data.dataset import TEST, TRAIN, FetchableTable
from kdgraph.data.tables.table_files import ArrayFile
from kdgraph.errors import DataError

X = np.arange(12.0).reshape(4, 3)
Y = np.array([0, 1, 0, 1])


pytestmark = pytest.mark.usefixtures("in_tmp_path")


def load(task="auto", **arrays):
    np.savez("my.npz", **arrays)
    return ArrayFile("my.npz", task).load()


def assert_refused(message: str, **arrays) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        load(**arrays)


def test_vectors_are_loaded():
    data = load(X=X, y=Y)
    assert (
        data.name == "my"
        and data.feature_names == ("x1", "x2", "x3")
        and data.roles is None
        and data.groups is None
    )
    np.testing.assert_array_equal(data.X, X)
    assert data.facts["path"] == "my.npz" and data.facts["shape"] == [4, 3]
    assert isinstance(ArrayFile("my.npz"), FetchableTable)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.float64])
def test_vectors_of_any_type_become_float64(dtype):
    data = load(X=X.astype(dtype), y=Y)
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X, X)


def test_missing_values_are_kept():
    missing = X.copy()
    missing[1, 2] = np.nan
    assert load(X=missing, y=Y).has_missing


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([3, 1, 3, 1], [1, 3]),
        (["b", "a", "b", "a"], ["a", "b"]),
        ([True, False, True, False], [False, True]),
        ([2.0, 1.0, 2.0, 1.0], [1, 2]),
    ],
)
def test_labels_of_all_types(y, classes):
    data = load(X=X, y=np.array(y))
    assert data.task == "classification"
    assert data.classes.tolist() == classes
    assert data.classes[data.y].tolist() == y


def test_regression():
    assert load(X=X, y=np.array([0.5, 1, 2, 3])).task == "regression"
    data = load("regression", X=X, y=Y)
    assert data.task == "regression" and data.y.dtype == np.float64


def test_rows_of_X_test_test():
    data = load(X=X, y=Y, X_test=X[:2] + 100, y_test=Y[:2])
    assert data.roles is not None and data.roles.tolist() == [TRAIN] * 4 + [TEST] * 2
    np.testing.assert_array_equal(data.X[4:], X[:2] + 100)
    assert data.y.tolist() == [0, 1, 0, 1, 0, 1]


def test_groups_and_feature_names_are_loaded():
    cases, towns = np.array([7, 5, 7, 9]), np.array(["q", "p", "q", "r"])
    data = load(X=X, y=Y, split_groups=cases, groups=towns, feature_names=np.array(["a", "b", "c"]))
    assert data.split_groups is not None and data.split_groups.tolist() == [1, 0, 1, 2]
    assert (
        data.groups is not None
        and data.groups.tolist() == [1, 0, 1, 2]
        and data.group_names == ("p", "q", "r")
    )
    assert data.feature_names == ("a", "b", "c")


def test_only_images_of_bytes_are_divided_by_255():
    images = np.arange(4 * 3 * 2 * 2, dtype=np.uint8).reshape(4, 3, 2, 2)
    data = load(X=images, y=Y)
    assert data.are_images and data.X.dtype == np.float32 and data.feature_names == ()
    np.testing.assert_array_equal(data.X, images / np.float32(255))
    np.testing.assert_array_equal(load(X=images / 50, y=Y).X, (images / 50).astype(np.float32))


def test_images_outside_the_unit_interval_are_refused():
    assert_refused(
        "my: images must lie in [0, 1], got 0 to 200; divide by the largest intensity",
        X=np.array([0.0, 200] * 8).reshape(4, 1, 2, 2),
        y=Y,
    )


SOURCE = "dataset.path=my.npz"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y}, f"{SOURCE} has no array 'X'; it has y"),
        ({"X": X}, f"{SOURCE} has no array 'y'; it has X"),
        ({}, f"{SOURCE} has no array 'X'; it has none"),
        (
            {"x": X, "y": Y},
            (
                f"{SOURCE} has an array 'x' with an unknown name; known: X, y, X_test, y_test,"
                " groups, split_groups, feature_names"
            ),
        ),
        (
            {"X": X, "y": Y, "X_tset": X},
            f"{SOURCE} has an array 'X_tset' with an unknown name; did you mean 'X_test'?",
        ),
        (
            {"X": X, "y": Y, "X_test": X},
            f"{SOURCE} has only one of X_test and y_test; give both or neither",
        ),
        (
            {"X": X, "y": Y, "X_test": X[:, :2], "y_test": Y},
            f"{SOURCE}: a row of X has shape (3,), one of X_test (2,); make them equal",
        ),
        (
            {"X": X, "y": Y[:3]},
            f"{SOURCE}: y must have one label for each of 4 rows of X, got shape (3,)",
        ),
        (
            {"X": X, "y": Y[:, None]},
            f"{SOURCE}: y must have one label for each of 4 rows of X, got shape (4, 1)",
        ),
        ({"X": X[0], "y": Y}, f"{SOURCE}: X must be [n, d] or images [n, c, h, w], got shape (3,)"),
        (
            {"X": X[:0], "y": Y[:0]},
            f"{SOURCE}: X must be [n, d] or images [n, c, h, w], got shape (0, 3)",
        ),
        (
            {"X": np.zeros((4, 2, 2)), "y": Y},
            (
                f"{SOURCE}: X must be [n, d] or images [n, c, h, w], got shape (4, 2, 2); X[:,"
                " None] makes images of one channel"
            ),
        ),
        (
            {"X": X.astype(str), "y": Y},
            f"{SOURCE}: X must hold numbers, got <U32; a table with text is for dataset=table",
        ),
        (
            {"X": X.astype(complex), "y": Y},
            f"{SOURCE}: X must hold numbers, got complex128; a table with text is for dataset=table",
        ),
        (
            {"X": X, "y": np.array([b"a", b"b"] * 2)},
            f"{SOURCE}: y must hold numbers or text, got |S1",
        ),
        (
            {"X": X, "y": Y, "groups": Y[:3]},
            f"{SOURCE}: groups must have one entry for each of 4 rows, got shape (3,)",
        ),
        (
            {"X": X, "y": Y, "feature_names": np.array(["a"])},
            f"{SOURCE}: feature_names must be 3 names, got shape (1,)",
        ),
        (
            {"X": X, "y": np.zeros(4, dtype=int)},
            "my: a classifier needs two classes, the target 'y' has only [0]",
        ),
        (
            {"X": X, "y": np.array([1, np.nan, 2, 1])},
            "my: 1 of 4 rows have no label in 'y' (first: row 1); remove them",
        ),
        (
            {"X": X, "y": np.array(["a", 1, "b", None], dtype=object)},
            (
                f"{SOURCE} holds Python objects, which are not read because they can run code; "
                "save numbers, or text as numpy strings (np.asarray(labels, dtype=str))"
            ),
        ),
    ],
    ids=lambda value: str(list(value)) if isinstance(value, dict) else "",
)
def test_arrays_that_do_not_fit_are_refused(arrays, message):
    assert_refused(message, **arrays)


def test_infinite_and_empty_features_are_refused():
    infinite, empty = X.copy(), X.copy()
    infinite[2, 1], empty[:, 1] = np.inf, np.nan
    way_out = "and features must be finite: write NaN where it is missing, else write a number"
    assert_refused(f"my: column 'x2' has inf in row 2, {way_out}", X=infinite, y=Y)
    assert_refused("my: column 'x2' has no value in any row; leave it out of X", X=empty, y=Y)


def test_missing_and_invalid_files_are_refused(tmp_path):
    with pytest.raises(
        DataError, match=f"^{re.escape(f'dataset.path=my.npz: no such file in {tmp_path}')}$"
    ):
        ArrayFile("my.npz").prefetch()
    np.save("my.npy", X)
    with pytest.raises(
        DataError,
        match=(
            r"^dataset\.path=my\.npy: the ending of a file determines its kind, and must be one of"
            r" \.npz$"
        ),
    ):
        ArrayFile("my.npy").load()
    for content in (b"", b"not a zip", b"PK\x03\x04 cut off", Path("my.npy").read_bytes()):
        with open("my.npz", "wb") as file:
            file.write(content)
        with pytest.raises(
            DataError,
            match=(
                r"^dataset\.path=my\.npz is not a \.npz file, or damaged: [^\n]*;"
                r" numpy\.savez\('my\.npz', X=X, y=y\) writes one$"
            ),
        ):
            ArrayFile("my.npz").load()


def test_constant_columns_and_duplicate_rows_warn():
    with pytest.warns(
        UserWarning, match=r"^my: columns that never change carry no information: x1$"
    ):
        load(X=np.column_stack([np.ones(4), np.arange(4)]), y=Y)
    reason = "copies that fall into train and test make the test easy"
    with pytest.warns(
        UserWarning, match=f"^my: 4 of 4 rows have the features of another row; {reason}$"
    ):
        load(X=np.column_stack([Y, Y]), y=Y)


def test_large_labels_and_groups_stay_distinct(tmp_path):
    large = 2**53
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.normal(size=(6, 2)),
        "y": np.array([large, large + 1, large + 2] * 2),
        "X_test": rng.normal(size=(2, 2)),
        "y_test": np.array([large + 1, 2**64 - 1], dtype=np.uint64),
        "groups": np.array([large, large + 1] * 4),
        "split_groups": np.array([large + i // 2 for i in range(8)], dtype=np.uint64),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    data = ArrayFile(str(tmp_path / "a.npz")).load()
    assert data.classes.tolist() == [
        large,
        large + 1,
        large + 2,
        2**64 - 1,
    ] and data.y.tolist() == [0, 1, 2, 0, 1, 2, 1, 3]
    assert data.groups is not None and data.groups.tolist() == [0, 1] * 4
    assert data.split_groups is not None and data.split_groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_column_that_float64_merges_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array([[1, 2**53], [2, 2**53 + 1], [3, 5]]), y=[0, 1, 0])
    message = (
        f"a: column 'x2' of X has whole numbers from 2^53 on ({2**53}), and 1 different value of 2"
        " would be lost in double precision"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}; leave it out of X$"):
        ArrayFile(str(tmp_path / "a.npz")).load()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            [1, 2, 1e20, 3],
            (
                "a: column 'x2' has 1e+20 in row 2; values from 1e18 on are usually codes for"
                " missing, and their squares lose all others: write NaN where it is missing, else"
                " rescale the column"
            ),
        ),
    ],
)
def test_message_about_a_large_number_advises_no_keys(tmp_path, column, message):
    np.savez(tmp_path / "a.npz", X=np.column_stack([X[:, 0], column]), y=Y)
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        ArrayFile(str(tmp_path / "a.npz")).load()


def test_message_on_target_of_dates_has_no_table_keys(tmp_path):
    np.savez(tmp_path / "a.npz", X=X, y=np.array([f"2020-01-0{i}" for i in range(1, 5)]))
    way_out = (
        "write numbers such as days for a regression, 'dataset.task=classification' takes its"
        " values as classes"
    )
    with pytest.raises(
        DataError,
        match=(
            f"^{re.escape(f'a: the target {chr(39)}y{chr(39)} holds dates or times (2020-01-01); {way_out}')}$"
        ),
    ):
        ArrayFile(str(tmp_path / "a.npz")).load()
