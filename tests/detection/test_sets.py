"""Tests of the contract of set detectors: drawn sets, units, and scores by set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.detection import SetDetector, draw_sets


class Spread(SetDetector):
    """Detector by the distance of each row to the mean of its set."""

    def __init__(
        self,
        *,
        level="instance",
        set_size=20,
        repeats=5,
        target_fpr=0.05,
        calibration_size=0.3,
        random_state=None,
    ):
        self.level = level
        self.set_size = set_size
        self.repeats = repeats
        self.target_fpr = target_fpr
        self.calibration_size = calibration_size
        self.random_state = random_state

    estimator = None

    def _default_estimator(self):
        return None

    def _needs_labels(self):
        return False

    def _represent(self, X):
        self.represented = X
        return X

    def _score_set(self, representation):
        return np.linalg.norm(representation - representation.mean(axis=0), axis=1)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(400, 2))


@given(st.integers(1, 40), st.integers(2, 30), st.integers(1, 6))
def test_sets_are_drawn_without_replacement(n, size, repeats):
    sets = draw_sets(n, size, repeats, np.random.default_rng(0))
    if n <= size:
        np.testing.assert_array_equal(sets, [np.arange(n)])
    else:
        assert sets.shape == (repeats, size) and sets.min() >= 0 and sets.max() < n
        assert all(len(set(row_ids)) == size for row_ids in sets.tolist())


def test_rows_are_equally_probable():
    """Each of 10 rows is in 6,000 of 20,000 sets of 3 rows, with a standard deviation of 65."""
    counts = np.bincount(draw_sets(10, 3, 20_000, np.random.default_rng(0)).ravel())
    assert np.abs(counts - 6000).max() < 4 * 65


def test_units_are_rows_of_sets_or_sets(rows):
    fitted = Spread(random_state=0).fit(rows)
    scores = fitted.ood_score_of_sets(rows[:100], np.random.default_rng(1))
    sets = draw_sets(100, 20, 5, np.random.default_rng(1))
    expected = np.concatenate([fitted.ood_score(rows[row_ids]) for row_ids in sets])
    assert scores.shape == (100,)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-14)
    set_level = Spread(level="set", random_state=0).fit(rows)
    set_scores = set_level.ood_score_of_sets(rows[:100], np.random.default_rng(1))
    assert set_scores.shape == (5,)
    np.testing.assert_allclose(
        set_level.offset_ - set_scores,
        fitted.offset_ - scores.reshape(5, 20).mean(axis=1),
        rtol=0,
        atol=1e-14,
    )


def test_set_level_score_is_repeated_for_all_rows(rows):
    fitted = Spread(level="set", random_state=0).fit(rows)
    score = fitted.score_samples(rows[:30])
    assert score.shape == (30,) and len(set(score)) == 1
    assert score[0] == pytest.approx(
        Spread(random_state=0).fit(rows).score_samples(rows[:30]).mean(), abs=1e-14
    )
    assert set(fitted.predict(np.zeros((30, 2)))) == {-1}


def test_few_rows_are_one_set(rows):
    fitted = Spread(random_state=0).fit(rows)
    np.testing.assert_array_equal(
        fitted.ood_score_of_sets(rows[:20], np.random.default_rng(0)), fitted.ood_score(rows[:20])
    )
    np.testing.assert_array_equal(
        fitted.ood_score_of_sets(rows[:7], np.random.default_rng(0)), fitted.ood_score(rows[:7])
    )
    with pytest.raises(
        ValueError,
        match="Spread compares the rows of a set and needs at least two, got n_samples = 1",
    ):
        fitted.ood_score_of_sets(rows[:1], np.random.default_rng(0))


def test_only_drawn_rows_are_represented(rows):
    fitted = Spread(repeats=2, set_size=5, random_state=0).fit(rows)
    fitted.ood_score_of_sets(rows, np.random.default_rng(0))
    assert len(fitted.represented) <= 10


def test_few_held_out_rows_reduce_the_set_size_with_a_warning(rows):
    with pytest.warns(
        UserWarning, match="12 held-out rows are fewer than set_size=20: Spread scores sets of 12"
    ):
        fitted = Spread(random_state=0).fit(rows, X_calibration=rows[:12])
    assert fitted.set_size_ == 12 == fitted.describe()["set_size"]
    assert fitted.ood_score_of_sets(rows, np.random.default_rng(0)).shape == (5 * 12,)
    with (
        pytest.raises(ValueError, match="needs at least two, got n_samples = 1"),
        pytest.warns(UserWarning, match="1 held-out rows"),
    ):
        Spread().fit(rows, X_calibration=rows[:1])


@pytest.mark.parametrize("level", ["instance", "set"])
def test_threshold_has_the_target_rate_for_sets_of_equal_size(level):
    """Compare the rate on new rows with the target, on average over fits.

    The rates of single fits vary, since sets share their held-out rows.
    """
    rng = np.random.default_rng(0)
    rates = []
    for seed in range(20):
        fitted = Spread(level=level, target_fpr=0.2, repeats=200, random_state=seed).fit(
            rng.normal(size=(2000, 2))
        )
        rates.append((fitted.ood_score_of_sets(rng.normal(size=(20_000, 2)), rng) > 0).mean())
    assert abs(np.mean(rates) - 0.2) < 0.03
    assert 0.05 < min(rates) < max(rates) < 0.4


def test_number_of_sets_allows_the_quantile_of_the_threshold(rows, monkeypatch):
    requested_repeats = []
    score_drawn_sets = Spread._score_drawn_sets
    monkeypatch.setattr(
        Spread,
        "_score_drawn_sets",
        lambda self, X, repeats, rng: (
            requested_repeats.append(repeats) or score_drawn_sets(self, X, repeats, rng)
        ),
    )
    Spread(level="set", target_fpr=0.01).fit(rows)
    Spread(level="set", target_fpr=0.5, repeats=7).fit(rows)
    assert requested_repeats == [100, 7]
