"""Properties and small examples of mmc, mmc_wrong and oce."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.metrics import mmc, mmc_wrong, oce, oce_of_mean, score

ROUNDING = 1e-12  # means of at most 40 numbers of order 1


def test_mmc_of_uniform_and_certain_predictions() -> None:
    assert mmc(np.full((5, 4), 0.25)) == 0.25
    assert mmc(np.eye(4)) == 1


def test_mmc_wrong_averages_incorrect_predictions_only() -> None:
    proba = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    assert mmc_wrong([0, 1, 0], proba) == pytest.approx(0.75)
    entry_score = score("mmc_wrong", {"y": [0, 1, 0], "proba": proba})
    assert (entry_score.n, entry_score.stderr) == (2, pytest.approx(0.05))


def test_mmc_wrong_is_undefined_without_incorrect_predictions() -> None:
    assert np.isnan(mmc_wrong([0], [[0.9, 0.1]]))
    entry_score = score("mmc_wrong", {"y": [0], "proba": [[0.9, 0.1]]})
    assert (entry_score.value, entry_score.stderr, entry_score.n) == (None, None, 0)


def test_oce_takes_the_absolute_value_before_the_mean() -> None:
    proba = np.array([[0.7, 0.3], [0.5, 0.5]])
    prior = np.array([0.6, 0.4])
    assert oce(proba, prior) == pytest.approx(0.1)
    assert oce_of_mean(proba, prior) == pytest.approx(0)  # differences of both signs cancel


def test_oce_compares_the_largest_values_of_any_class() -> None:
    assert oce(np.array([[0.3, 0.7]]), np.array([0.7, 0.3])) == 0


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_oce_is_zero_only_if_all_confidences_equal_the_prior(
    n: int, n_classes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(n_classes))
    proba = np.stack([rng.permutation(prior) for _ in range(n)])
    assert oce(proba, prior) == 0
    with_certain_row = proba.copy()
    with_certain_row[0] = np.eye(n_classes)[0]
    assert oce(with_certain_row, prior) == pytest.approx((1 - prior.max()) / n, abs=ROUNDING)
    assert oce_of_mean(with_certain_row, prior) == pytest.approx(
        abs(sum(row.max() for row in with_certain_row) / n - prior.max()), abs=ROUNDING
    )
    assert oce_of_mean(with_certain_row, prior) <= oce(with_certain_row, prior) + ROUNDING
