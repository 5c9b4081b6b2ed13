"""error, nll and brier against scikit-learn, and on small examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss, zero_one_loss

from kdgraph.errors import ParameterError
from kdgraph.metrics import brier, error, nll, nll_clipped

ROUNDING = 1e-12  # sums of at most 10,000 terms of order 1 in float64, added in another order


def random_predictions(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(n_classes, size=n), rng.dirichlet(np.full(n_classes, 0.7), size=n)


@pytest.mark.parametrize("n_classes", [2, 3, 100])
def test_proper_scores_match_scikit_learn(n_classes: int) -> None:
    y, proba = random_predictions(300, n_classes)
    labels = np.arange(n_classes)
    assert error(y, proba) == pytest.approx(zero_one_loss(y, proba.argmax(axis=1)), abs=ROUNDING)
    assert nll(y, proba, clip=1e-300) == pytest.approx(
        log_loss(y, np.clip(proba, 1e-300, None), labels=labels), abs=1e-9
    )
    # scikit-learn halves the score of two classes by default
    assert brier(y, proba) == pytest.approx(
        brier_score_loss(y, proba, labels=labels, scale_by_half=False), abs=ROUNDING
    )


def test_brier_is_twice_the_binary_score_of_one_class() -> None:
    y, proba = random_predictions(200, 2)
    assert brier(y, proba) == pytest.approx(2 * np.mean((proba[:, 1] - y) ** 2), abs=ROUNDING)


def test_perfect_and_worst_predictions() -> None:
    y, correct = np.array([0, 1, 2]), np.eye(3)
    wrong = correct[[1, 2, 0]]
    assert (error(y, correct), nll(y, correct), brier(y, correct)) == (0, 0, 0)
    assert (error(y, wrong), brier(y, wrong)) == (1, 2)
    assert nll(y, wrong) == pytest.approx(-np.log(1e-6))


def test_uniform_prediction_of_a_hundred_classes() -> None:
    y, proba = np.arange(100), np.full((100, 100), 0.01)
    assert error(y, proba) == 0.99  # ties predict the first class
    assert nll(y, proba) == pytest.approx(np.log(100))
    assert brier(y, proba) == pytest.approx(0.99)


def test_single_class_is_always_correct() -> None:
    y, proba = np.zeros(4, dtype=int), np.ones((4, 1))
    assert (error(y, proba), nll(y, proba), brier(y, proba)) == (0, 0, 0)


def test_nll_is_not_negative_if_a_row_sums_to_slightly_more_than_one() -> None:
    assert nll([0], [[1 + 5e-7, 0.0]]) == 0


@pytest.mark.parametrize("clip", [0, 1, -1e-6, float("nan")])
@pytest.mark.parametrize("metric", [nll, nll_clipped])
def test_nll_refuses_a_clip_outside_its_range(metric, clip: float) -> None:
    with pytest.raises(ParameterError, match=r"clip must be in \(0, 1\), got"):
        metric([0], [[1.0]], clip=clip)


@pytest.mark.parametrize("clip", [1e-6, 0.05])
def test_clipped_rows_are_those_below_the_clip(clip: float) -> None:
    y, proba = random_predictions(300, 4)
    proba[:7] = np.eye(4)[(y[:7] + 1) % 4]  # certain and incorrect
    decided = nll.by_row(y, proba, clip=clip) != nll.by_row(y, proba, clip=clip / 1e6)
    assert nll_clipped(y, proba, clip=clip) == decided.sum() >= 7
    assert (nll_clipped(y, proba, clip=1e-300), nll_clipped([0], [[0.25, 0.75]], clip=0.25)) == (
        7,
        0,
    )  # a probability equal to the clip is not counted


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_value_is_the_mean_over_rows_in_any_order(n: int, n_classes: int, seed: int) -> None:
    y, proba = random_predictions(n, n_classes, seed)
    order = np.random.default_rng(seed).permutation(n)
    for metric in (error, nll, brier):
        assert metric.by_row is not None
        assert metric(y, proba) == pytest.approx(np.mean(metric.by_row(y, proba)), abs=ROUNDING)
        assert metric(y[order], proba[order]) == pytest.approx(metric(y, proba), abs=ROUNDING)
