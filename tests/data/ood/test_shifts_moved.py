"""Test rows with permuted columns, and shifted ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data import Dataset
from kdgraph.data.dataset import Splits
from kdgraph.data.ood import PermutedColumns, ShiftedRows
from kdgraph.errors import DataError, ParameterError

COLOURS = (None, ("blue", "red"), None)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def rows(n: int, seed: int, *, images: bool = False) -> Dataset:
    """Three columns that say the same, the second of them as a category; the third has a missing
    value.
    """
    if images:
        return Dataset.from_labels("toy", rng(seed).random((n, 3, 4, 5)), np.arange(n) % 2)
    x = rng(seed).normal(3, 2, n)
    X = np.column_stack([x, x > 3, 10 * x])
    X[0, 2] = np.nan
    return Dataset.from_labels("toy", X, np.arange(n) % 2, categories=COLOURS)


def splits(n_test: int = 40, **more) -> Splits:
    train = rows(200, 1, **more)
    return Splits(train, train, rows(n_test, 2, **more))


@pytest.mark.parametrize("images", [False, True], ids=["rows", "images"])
def test_every_column_keeps_its_values_and_loses_its_rows(images):
    given = splits(images=images)
    (drawn,) = PermutedColumns().sets(given, rng())
    X = given.test.X
    assert drawn.name == "permuted" and drawn.X.shape == X.shape and drawn.X.dtype == X.dtype
    np.testing.assert_array_equal(np.sort(drawn.X, axis=0), np.sort(X, axis=0))
    flat = drawn.X.reshape(len(X), -1)
    known = ~np.isnan(flat).any(axis=1)
    assert (
        abs(np.corrcoef(flat[known, 0], flat[known, 2])[0, 1]) < 0.5
    )  # 3 standard errors of 40 rows; in distribution it is 1 of rows
    assert drawn.facts == {"rows": "made of 40 of 40 test rows"}


def test_fewer_rows_than_there_are():
    given = splits()
    (drawn,) = PermutedColumns(n=7).sets(given, rng())
    assert len(drawn.X) == 7 and drawn.facts == {"rows": "made of 7 of 40 test rows"}
    assert set(drawn.X[~np.isnan(drawn.X).any(axis=1), 0]) <= set(given.test.X[:, 0])
    assert len(ShiftedRows(n=7).sets(given, rng())[0].X) == 7


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(0.5, 3), shift=st.floats(0.1, 4), seed=st.integers(0, 99))
def test_rows_move_by_so_many_standard_deviations_of_the_training_rows(scale, shift, seed):
    given = splits()
    (drawn,) = ShiftedRows(scale, shift).sets(given, rng(seed))
    train, start = given.train.X, given.test.X[np.argsort(given.test.X[:, 0])]
    mean, std = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    moved = drawn.X[np.lexsort((drawn.X[:, 0],))]
    for feature in (0, 2):
        z = (moved[:, feature] - mean[feature] - scale * (start[:, feature] - mean[feature])) / std[
            feature
        ]
        known = ~np.isnan(start[:, feature])
        np.testing.assert_array_equal(np.isnan(z), ~known)
        np.testing.assert_allclose(np.abs(z[known]), shift, rtol=1e-9)
        assert len(set(np.sign(z[known]))) == 1  # all rows the same way
    np.testing.assert_array_equal(moved[:, 1], start[:, 1])
    assert drawn.params == {"scale": scale, "shift": shift}


def test_the_sign_is_chance_for_each_feature():
    train = Dataset.from_labels("toy", rng().normal(size=(50, 400)), np.arange(50) % 2)
    (drawn,) = ShiftedRows(1.0, 1.0, n=1).sets(
        Splits(train, train, train.rows(np.arange(1))), rng(3)
    )
    up = (drawn.X[0] > train.X[0]).mean()
    assert 0.4 < up < 0.6  # 4 standard errors of 400 coins


def test_images_keep_their_type_and_a_constant_pixel_stays():
    train = rows(30, 1, images=True)
    train.X[:, 0, 0, 0] = 0.25
    (drawn,) = ShiftedRows().sets(Splits(train, train, train), rng())
    assert drawn.X.shape == train.X.shape and drawn.X.dtype == np.float32
    assert (drawn.X[:, 0, 0, 0] == 0.25).all() and drawn.X.max() > 1


def test_what_cannot_be_shifted():
    with pytest.raises(ParameterError, match=r"^scale 1 and shift 0 leave test rows as they are"):
        ShiftedRows(1.0, 0.0)
    only = Dataset.from_labels("toy", np.zeros((4, 1)), [0, 1] * 2, categories=(("x",),))
    with pytest.raises(
        DataError,
        match=r"^toy has no numeric feature, and nothing else can be shifted; choose another ood$",
    ):
        ShiftedRows().sets(Splits(only, only, only), rng())
