"""Scores of the correctness of predictions, against scikit-learn's scores of two classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from kdgraph.errors import ParameterError
from kdgraph.metrics import TopLabel, brier_top, mmc, nll, nll_top, nll_top_clipped

RNG = np.random.default_rng(0)
PROBA, Y = RNG.dirichlet(np.ones(4), size=200), RNG.integers(4, size=200)


def test_top_label_scores_are_binary_scores_of_correctness():
    correct, confidence = PROBA.argmax(axis=1) == Y, PROBA.max(axis=1)
    assert nll_top(Y, PROBA) == pytest.approx(log_loss(correct, confidence), rel=1e-12)
    assert brier_top(Y, PROBA) == pytest.approx(brier_score_loss(correct, confidence), rel=1e-12)


def test_binary_top_label_nll_equals_nll():
    proba, y = PROBA[:, :2] / PROBA[:, :2].sum(axis=1, keepdims=True), Y % 2
    assert nll_top(y, proba) == pytest.approx(nll(y, proba, clip=1e-12), rel=1e-12)


def test_certain_incorrect_row_costs_the_clip():
    assert nll_top([1], [[1.0, 0.0]], clip=1e-3) == pytest.approx(-np.log(1e-3))
    with pytest.raises(ParameterError, match=r"^clip must be in \(0, 0.5\), got 0.5$"):
        nll_top([1], [[1.0, 0.0]], clip=0.5)


@pytest.mark.parametrize(("clip", "rows"), [(1e-12, 4), (0.3, 24)])
def test_clipped_rows_are_those_below_the_clip(clip, rows):
    confidence = PROBA.max(axis=1).copy()
    confidence[:6] = [0, 0, 1, 1, 1, 0]
    predicted = PROBA.argmax(axis=1)
    predicted[:6] = (
        Y[:6] + np.array([0, 1, 0, 1, 1, 0])
    ) % 4  # correct at 0, wrong at 0, correct at 1, wrong at 1 twice, correct at 0
    top_label = TopLabel(predicted, confidence, 4)
    costs_most = np.isclose(
        nll_top.by_row(Y, top_label, clip=clip), -np.log(clip), rtol=1e-6
    )  # 1 - (1 - clip) differs from clip by rounding
    assert nll_top_clipped(Y, top_label, clip=clip) == costs_most.sum() == rows


def test_clipped_rows_validate_the_clip():
    with pytest.raises(ParameterError, match=r"^clip must be in \(0, 0.5\), got 0$"):
        nll_top_clipped([1], [[1.0, 0.0]], clip=0)


def test_confidence_may_differ_from_all_probabilities_of_the_row():
    top_label = TopLabel(np.array([0, 1]), np.array([0.125, 0.25]), 2)
    assert mmc(top_label) == 0.1875 and brier_top([1, 1], top_label) == (0.125**2 + 0.75**2) / 2
    with pytest.raises(
        ValueError, match=r"^confidence must lie in \[0, 1\], got 1.5 in row 0 \(1 such\)$"
    ):
        mmc(TopLabel(np.array([0]), np.array([1.5])))
