"""Printed probabilities: tolerance of their sums, and advice for scores of other kinds."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from kdgraph.data.tables.score_file import (
    MIN_SUM_TOLERANCE,
    sum_tolerance,
    to_probabilities,
    warn_repeated_softmax,
)
from kdgraph.errors import DataError


@given(
    st.integers(2, 40),
    st.integers(2, 6),
    st.sampled_from([np.float64, np.float32]),
    st.integers(0, 2**32 - 1),
)
def test_rounded_probabilities_are_accepted(n_classes, decimals, dtype, seed):
    exact = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.5), size=30)
    printed = np.round(exact, decimals).astype(dtype)
    if not (np.abs(printed.astype(np.float64).sum(axis=1) - 1) < 0.5).all():
        return  # so many classes of so few decimals that the sum is no sign of a distribution
    proba = to_probabilities("my", printed, "probabilities")
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-14)
    # A sum that deviates by K half units changes a probability by at most this fraction.
    assert np.abs(proba - exact).max() <= (n_classes + 1) * 10.0**-decimals


def test_tolerance_is_half_a_unit_of_each_decimal():
    edge = np.array([[0.3335, 0.3335, 0.3335], [0.001, 0.0, 0.998]])[1:]
    assert to_probabilities("my", edge, "probabilities").shape == (1, 3)
    assert abs(edge.sum() - 1) > MIN_SUM_TOLERANCE  # in doubles
    off = np.array(
        [[0.334, 0.334, 0.334], [0.25, 0.25, 0.5]]
    )  # by 0.002, and 3 half units are 0.0015
    with pytest.raises(
        DataError,
        match=(
            r"^my: probabilities must be at least 0 and sum to 1 within 0\.0015, row 0 has sum"
            r" 1\.002 "
        ),
    ):
        to_probabilities("my", off, "probabilities")


def test_sums_of_full_precision_may_deviate_by_a_thousandth():
    third = np.full((2, 3), 1 / 3)
    assert sum_tolerance(third) == pytest.approx(MIN_SUM_TOLERANCE, rel=1e-9)
    to_probabilities("my", third * 1.0009, "probabilities")
    with pytest.raises(DataError):
        to_probabilities("my", third * 1.0011, "probabilities")


def test_rows_of_zeros_are_refused():
    scores = np.zeros((2, 5000))
    scores[0, 0] = 1.0
    with pytest.raises(
        DataError,
        match=(
            r"row 1 has sum 0 and least score 0 \(1 such\); divide each row by its sum, or save"
            r" more decimals$"
        ),
    ):
        to_probabilities("my", scores, "probabilities")


@pytest.mark.parametrize(
    ("scores", "way_out"),
    [
        ([[0.9, 0.9], [0.1, 0.2]], "divide each row by its sum, or save more decimals"),
        ([[-1.5, 2.0], [0.5, 0.5]], "if they are logits: dataset.kind=logits"),
        (
            [[7.0, 2.0], [1.0, 3.0]],
            "divide each row by its sum, or if they are logits: dataset.kind=logits",
        ),
        ([[70.0, 30.0], [12.5, 87.6]], "if they are percent, divide them by 100"),
    ],
    ids=["of several questions", "logits", "counts", "percent"],
)
def test_advice_depends_on_the_range_of_the_scores(scores, way_out):
    with pytest.raises(DataError, match=f"; {re.escape(way_out)}$"):
        to_probabilities("my", np.array(scores), "probabilities")


def test_softmax_of_probabilities_warns():
    proba = np.array([[0.9, 0.1], [0.25, 0.75]])
    message = (
        "my: each row of the scores is at least 0 and sums to 1, as probabilities do, and the"
        " softmax of them is taken; give dataset.kind=probabilities"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        warn_repeated_softmax("my", proba)
    np.testing.assert_array_equal(to_probabilities("my", proba, "logits"), softmax(proba, axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_repeated_softmax("my", np.log(proba))
    # The softmax inverts the logarithm of probabilities, except for rounding.
    np.testing.assert_allclose(to_probabilities("my", np.log(proba), "logits"), proba, rtol=1e-14)
