"""Invalid inputs are reported in one line with the array, the value and the rule."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.distributions import Normal
from kdgraph.metrics import coverage, crps, ece, error, hellinger, oce

GOOD = [[0.5, 0.5], [0.25, 0.75]]
NORMAL = Normal(np.zeros(2), np.ones(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: error([0, 1], [0.5, 0.5]),
            "proba must have shape (rows, classes) with at least one of each, got shape (2,)",
        ),
        (
            lambda: error([], np.empty((0, 2))),
            "proba must have shape (rows, classes) with at least one of each, got shape (0, 2)",
        ),
        (
            lambda: error([0, 1], [[0.5, 0.5], [0.3, 0.3]]),
            "proba must sum to 1 within 1e-06 in every row, got 0.6 in row 1 (1 such)",
        ),
        (lambda: error([0], [[np.nan, 1.0]]), "proba must be finite, got nan in row 0 (1 such)"),
        (lambda: ece([0], [[1.5, -0.5]]), "proba must not be negative, got -0.5 in row 0 (1 such)"),
        (lambda: error([0], GOOD), "y must have shape (2,) to fit proba, got (1,)"),
        (lambda: error([0, 2], GOOD), "y must lie in 0 to 1, got 2 in row 1 (1 such)"),
        (lambda: error([-1, 0], GOOD), "y must lie in 0 to 1, got -1 in row 0 (1 such)"),
        (
            lambda: error([0.0, 1.0], GOOD),
            "y must be positions in the classes (integers), got float64; encode the labels first",
        ),
        (
            lambda: error(["a", "b"], GOOD),
            "y must be positions in the classes (integers), got <U1; encode the labels first",
        ),
        (lambda: oce(GOOD, [1.0]), "prior must have shape (2,) to fit proba, got (1,)"),
        (
            lambda: oce(GOOD, [0.5, 0.6]),
            "prior must sum to 1 within 1e-06 in every row, got 1.1 in row 0 (1 such)",
        ),
        (
            lambda: hellinger(GOOD, [[0.5, 0.5]]),
            "truth must have shape (2, 2) to fit proba, got (1, 2)",
        ),
        (lambda: coverage([0.0, np.nan], NORMAL), "y must be finite, got nan in row 1 (1 such)"),
        (lambda: crps([np.inf, 0.0], NORMAL), "y must be finite, got inf in row 0 (1 such)"),
        (lambda: coverage([0.0], NORMAL), "y must have shape (2,) to fit distribution, got (1,)"),
    ],
)
def test_invalid_inputs_raise_one_line(call, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011  # the whole message is compared below
        call()
    assert str(raised.value) == message


def test_rounding_of_float32_is_accepted() -> None:
    proba = np.random.default_rng(0).dirichlet(np.ones(100), size=50).astype(np.float32)
    assert 0 <= error(np.zeros(50, dtype=np.int8), proba) <= 1


def test_inputs_are_not_changed() -> None:
    proba = np.array(GOOD)
    error([0, 1], proba)
    np.testing.assert_array_equal(proba, GOOD)
