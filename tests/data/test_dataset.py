from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kdgraph.data import Dataset
from kdgraph.errors import DataError


def test_labels_of_any_type_are_encoded_by_sorted_value():
    data = Dataset.from_labels("toy", np.zeros((4, 1)), np.array(["b", "a", "c", "a"]))
    assert data.classes.tolist() == ["a", "b", "c"]
    assert data.y.tolist() == [1, 0, 2, 0]
    assert data.feature_names == ("x1",)


def test_rows_select_rows_and_keep_other_attributes():
    data = Dataset.from_labels(
        "toy",
        np.arange(8.0).reshape(4, 2),
        np.array([5, 6, 5, 6]),
        split_groups=np.arange(4),
        posterior=len,
    )
    subset = data.rows(np.array([3, 0]))
    assert subset.X.tolist() == [[6, 7], [0, 1]]
    assert subset.y.tolist() == [1, 0]
    assert subset.split_groups.tolist() == [3, 0]
    assert subset.posterior is len
    assert subset.fingerprint != data.fingerprint


def test_fingerprint_does_not_change_between_versions():
    """Check that runs of earlier versions are found: the digest of plain tables must not change."""
    rows = np.arange(8.0).reshape(4, 2), np.array([5, 6, 5, 6])
    assert Dataset.from_labels("toy", *rows).fingerprint == "f58ef875167a9c29"
    assert (
        Dataset.from_labels("toy", *rows, split_groups=np.arange(4)).fingerprint
        == "d61d0e458a0385c6"
    )


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0], [2.0]], [3, 3], r"toy: a classifier needs two classes, the target has only \[3\]"),
        (
            [[1.0], [-np.inf]],
            [0, 1],
            (
                r"toy: x1 has -inf in row 1 \(1 such cells\); write what is unknown as an empty"
                r" cell, which is read as missing"
            ),
        ),
        (
            [[1.0], [2.0], [3.0]],
            [0, 1],
            r"toy: X must have one row for each of 2 labels, got shape \(3, 1\)",
        ),
    ],
)
def test_invalid_vectors_are_refused(X, y, message):
    with pytest.raises(DataError, match=f"^{message}$"):
        Dataset.from_labels("toy", np.array(X), np.array(y))


def random_images(n: int = 4) -> np.ndarray:
    return np.random.default_rng(0).random((n, 3, 5, 6), dtype=np.float32)


def test_float32_images_are_not_copied():
    X = random_images()
    data = Dataset.from_labels("toy", X, np.array([0, 1, 0, 1]))
    assert data.X is X
    assert data.are_images
    assert data.feature_names == ()
    subset = data.rows(np.array([2, 0]))
    np.testing.assert_array_equal(subset.X, X[[2, 0]])
    assert subset.X.dtype == np.float32
    assert not Dataset.from_labels("toy", np.zeros((2, 3)), np.array([0, 1])).are_images


def test_images_of_any_type_become_float32():
    data = Dataset.from_labels("toy", np.ones((2, 1, 3, 3), dtype=np.uint8), np.array([0, 1]))
    assert data.X.dtype == np.float32


def test_fingerprint_depends_on_pixels_and_shape():
    y = np.array([0, 1, 0, 1])
    changed = random_images()
    changed[3, 2, 4, 5] += 1e-6
    transposed = random_images().reshape(4, 3, 6, 5)
    fingerprints = [
        Dataset.from_labels("toy", X, y).fingerprint
        for X in (random_images(), changed, transposed, random_images())
    ]
    assert len(set(fingerprints)) == 3
    assert fingerprints[0] == fingerprints[3]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"toy: pixel \(1, 2, 3\) has nan in row 1 \(1 such cells\); drop the image"),
        (np.inf, r"toy: pixel \(1, 2, 3\) has inf in row 1 \(1 such cells\); drop the image"),
        (
            255,
            (
                r"toy: images must lie in \[0, 1\], got [\d.e-]+ to 255; divide by the largest"
                r" intensity"
            ),
        ),
    ],
)
def test_invalid_images_are_refused(value, message):
    X = random_images()
    X[1, 1, 2, 3] = value
    with pytest.raises(DataError, match=f"^{message}$"):
        Dataset.from_labels("toy", X, np.array([0, 1, 0, 1]))


def test_arrays_of_three_axes_are_refused():
    with pytest.raises(
        DataError, match=r"^toy: X must have one row for each of 2 labels, got shape \(2, 5, 5\)$"
    ):
        Dataset("toy", np.zeros((2, 5, 5)), np.array([0, 1]), np.arange(2), ())


def mixed_table() -> Dataset:
    X = np.array([[0.5, 0, 1], [np.nan, 1, 2], [0.25, np.nan, 3], [1, 1, 4]])
    more = {
        "categories": (None, ("blue", "red"), None),
        "roles": np.array([0, 0, 1, 2]),
        "split_groups": np.array([7, 7, 8, 9]),
    }
    return Dataset.from_labels(
        "toy",
        X,
        np.array(["a", "b", "c", "b"]),
        ("size", "colour", "age"),
        facts={"source": "test"},
        **more,
    )


def test_missing_values_and_categories_are_detected():
    data = mixed_table()
    assert data.is_categorical.tolist() == [False, True, False]
    assert data.has_missing and data.needs_encoding
    complete = data.rows(np.array([0, 3]))
    assert not complete.has_missing and complete.needs_encoding
    plain = Dataset.from_labels("toy", np.ones((2, 2)), np.array([0, 1]))
    assert plain.is_categorical.tolist() == [False, False]
    assert not plain.needs_encoding


def test_rows_select_roles_and_groups_and_keep_facts():
    subset = mixed_table().rows(np.array([3, 1]))
    assert subset.roles.tolist() == [2, 0]
    assert subset.split_groups.tolist() == [9, 7]
    assert subset.categories == mixed_table().categories
    assert subset.facts == {"source": "test"}


def test_with_classes_renumbers_the_labels():
    subset = mixed_table().with_classes(np.array([1, 2]))
    assert subset.classes.tolist() == ["b", "c"]
    assert subset.y.tolist() == [0, 1, 0]
    assert subset.X[:, 2].tolist() == [2, 3, 4]


def test_fingerprint_depends_on_category_names():
    renamed = replace(mixed_table(), categories=(None, ("green", "red"), None))
    assert renamed.fingerprint != mixed_table().fingerprint == mixed_table().fingerprint
