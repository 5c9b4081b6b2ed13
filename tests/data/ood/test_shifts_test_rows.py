"""Test rows with permuted columns, and shifted test rows."""

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


def dependent_columns(n: int, seed: int, *, images: bool = False) -> Dataset:
    """Return three dependent columns: a number, a category, and a number with a missing value."""
    if images:
        return Dataset.from_labels("toy", rng(seed).random((n, 3, 4, 5)), np.arange(n) % 2)
    x = rng(seed).normal(3, 2, n)
    X = np.column_stack([x, x > 3, 10 * x])
    X[0, 2] = np.nan
    return Dataset.from_labels("toy", X, np.arange(n) % 2, categories=COLOURS)


def make_test_splits(n_test: int = 40, **more) -> Splits:
    train = dependent_columns(200, 1, **more)
    return Splits(train, train, dependent_columns(n_test, 2, **more))


@pytest.mark.parametrize("images", [False, True], ids=["rows", "images"])
def test_permuted_columns_keep_values_and_lose_dependence(images):
    splits = make_test_splits(images=images)
    (ood_set,) = PermutedColumns().sets(splits, rng())
    X = splits.test.X
    assert ood_set.name == "permuted" and ood_set.X.shape == X.shape and ood_set.X.dtype == X.dtype
    np.testing.assert_array_equal(np.sort(ood_set.X, axis=0), np.sort(X, axis=0))
    flat = ood_set.X.reshape(len(X), -1)
    is_complete = ~np.isnan(flat).any(axis=1)
    assert (
        abs(np.corrcoef(flat[is_complete, 0], flat[is_complete, 2])[0, 1]) < 0.5
    )  # 3 standard errors of 40 rows; in distribution it is 1 of rows
    assert ood_set.facts == {"rows": "made of 40 of 40 test rows"}


def test_n_limits_the_number_of_rows():
    splits = make_test_splits()
    (ood_set,) = PermutedColumns(n=7).sets(splits, rng())
    assert len(ood_set.X) == 7 and ood_set.facts == {"rows": "made of 7 of 40 test rows"}
    assert set(ood_set.X[~np.isnan(ood_set.X).any(axis=1), 0]) <= set(splits.test.X[:, 0])
    assert len(ShiftedRows(n=7).sets(splits, rng())[0].X) == 7


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(0.5, 3), shift=st.floats(0.1, 4), seed=st.integers(0, 99))
def test_shift_is_in_standard_deviations_of_training_rows(scale, shift, seed):
    splits = make_test_splits()
    (ood_set,) = ShiftedRows(scale, shift).sets(splits, rng(seed))
    train, test_rows = splits.train.X, splits.test.X[np.argsort(splits.test.X[:, 0])]
    mean, std = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    shifted = ood_set.X[np.lexsort((ood_set.X[:, 0],))]
    for feature in (0, 2):
        z = (
            shifted[:, feature] - mean[feature] - scale * (test_rows[:, feature] - mean[feature])
        ) / std[feature]
        is_present = ~np.isnan(test_rows[:, feature])
        np.testing.assert_array_equal(np.isnan(z), ~is_present)
        np.testing.assert_allclose(np.abs(z[is_present]), shift, rtol=1e-9)
        assert len(set(np.sign(z[is_present]))) == 1  # all rows the same way
    np.testing.assert_array_equal(shifted[:, 1], test_rows[:, 1])
    assert ood_set.params == {"scale": scale, "shift": shift}


def test_sign_of_the_shift_is_random_for_each_feature():
    train = Dataset.from_labels("toy", rng().normal(size=(50, 400)), np.arange(50) % 2)
    (ood_set,) = ShiftedRows(1.0, 1.0, n=1).sets(
        Splits(train, train, train.rows(np.arange(1))), rng(3)
    )
    up = (ood_set.X[0] > train.X[0]).mean()
    assert 0.4 < up < 0.6  # 4 standard errors of 400 coins


def test_shifted_images_keep_their_type_and_constant_pixels():
    train = dependent_columns(30, 1, images=True)
    train.X[:, 0, 0, 0] = 0.25
    (ood_set,) = ShiftedRows().sets(Splits(train, train, train), rng())
    assert ood_set.X.shape == train.X.shape and ood_set.X.dtype == np.float32
    assert (ood_set.X[:, 0, 0, 0] == 0.25).all() and ood_set.X.max() > 1


def test_invalid_shifts_are_refused():
    with pytest.raises(ParameterError, match=r"^scale 1 and shift 0 leave test rows as they are"):
        ShiftedRows(1.0, 0.0)
    categories_only = Dataset.from_labels("toy", np.zeros((4, 1)), [0, 1] * 2, categories=(("x",),))
    with pytest.raises(
        DataError,
        match=r"^toy has no numeric feature, and nothing else can be shifted; choose another ood$",
    ):
        ShiftedRows().sets(Splits(categories_only, categories_only, categories_only), rng())
