"""Rows that are held out of a fit, and folds, by class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from kdgraph import DensityGate
from kdgraph.base.held_out import hold_rows_out
from kdgraph.base.rows import draw_folds_of_rows
from kdgraph.calibration import ScoreMap
from kdgraph.errors import DataError


@pytest.mark.parametrize("strata", [None, np.arange(50) % 3])
def test_rows_match_sklearn_if_every_class_has_rows(strata):
    expected = train_test_split(np.arange(50), test_size=0.3, stratify=strata, random_state=4)
    for own, other in zip(hold_rows_out(50, strata, 0.3, 4), expected, strict=True):
        np.testing.assert_array_equal(own, other)


@given(
    st.lists(st.integers(1, 5), min_size=2, max_size=12),
    st.sampled_from([0.1, 0.3, 0.5, 0.9]),
    st.integers(0, 100),
)
def test_every_class_keeps_a_row_and_none_is_lost(counts, size, seed):
    strata = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    if max(counts) == 1:
        with pytest.raises(DataError, match="no row can be held out"):
            hold_rows_out(len(strata), strata, size, seed)
        return
    train, held_out = hold_rows_out(len(strata), strata, size, seed)
    np.testing.assert_array_equal(np.sort(np.append(train, held_out)), np.arange(len(strata)))
    assert set(strata[train]) == set(range(len(counts)))
    n_divisible = sum(count for count in counts if count > 1)
    surplus = sum(count - 1 for count in counts)
    assert len(held_out) == min(np.ceil(size * n_divisible), surplus)


def test_more_classes_than_held_out_rows_give_them_in_turn():
    strata = np.repeat(np.arange(100), 3)
    train, held_out = hold_rows_out(300, strata, 0.3, 0)
    assert len(held_out) == 90 and np.bincount(strata[held_out]).max() == 1
    assert np.bincount(strata[train]).min() == 2
    assert not np.array_equal(held_out, hold_rows_out(300, strata, 0.3, 1)[1])


def many_small_classes(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return 40 classes of three rows, and new rows."""
    rng = np.random.default_rng(seed)
    centre = 3 * rng.normal(size=(40, 6))
    y, labels = np.repeat(np.arange(40), 3), rng.integers(40, size=500)
    X, new = (centre[k] + rng.normal(size=(len(k), 6)) for k in (y, labels))
    return X, y, new, labels


def test_gate_of_many_classes_keeps_predictions():
    """A floor of memorised rows would replace the predictions of all new rows by the prior."""
    X, y, new, labels = many_small_classes(0)
    gate = DensityGate(RandomForestClassifier(30, random_state=0), random_state=0).fit(X, y)
    assert gate.classes_.tolist() == list(range(40))
    assert (gate.ood_score(new) > 0).mean() < 0.1
    own, parent = (
        -np.log(np.maximum(model.predict_proba(new)[np.arange(500), labels], 1e-9)).mean()
        for model in (gate, gate.estimator_)
    )
    assert own < parent + 0.1 and own < np.log(40) - 1


def test_folds_of_small_classes_have_one_row_each():
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 3))
    fold = draw_folds_of_rows(30, 5, y, 0)
    assert np.bincount(fold).tolist() == [6] * 5
    assert all(len(set(fold[y == k])) == 3 for k in range(10))


def test_single_fold_keeps_a_row_of_each_class():
    y = np.repeat(np.arange(20), 2)
    fold = draw_folds_of_rows(40, 1, y, 0)
    assert (fold == 0).sum() == 12 and set(y[fold < 0]) == set(range(20))


def test_cross_fitting_takes_classes_with_fewer_rows_than_folds():
    X, y, new, _ = many_small_classes(1)
    model = ScoreMap(GaussianNB(), method="temperature", calibration="cross_fit").fit(X, y)
    assert model.predict_proba(new).shape == (500, 40)


@pytest.mark.parametrize("y", [None, np.arange(3)])
def test_more_folds_than_rows_are_refused(y):
    with pytest.raises(DataError, match="cv=5 folds of n_samples=3") as caught:
        draw_folds_of_rows(3, 5, y, 0)
    assert str(caught.value) == (
        "cv=5 folds of n_samples=3 cannot be drawn, each needs a row; pass more rows, or cv from 1"
        " to 3"
    )
