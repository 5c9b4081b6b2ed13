"""Improvement over the parent: its definition, and undefined values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.errors import ParameterError
from kdgraph.metrics import absolute_improvement, relative_improvement

ERRORS = st.lists(st.floats(0.01, 1), min_size=1, max_size=20)


@given(ERRORS)
def test_improvement_of_the_parent_is_zero(parent) -> None:
    assert (relative_improvement(parent, parent).values == 0).all()
    assert (absolute_improvement(parent, parent) == 0).all()


@given(ERRORS, st.floats(0.5, 2), st.integers(0, 100))
def test_relative_improvement_does_not_depend_on_the_unit(parent, unit, seed) -> None:
    p = np.array(parent)
    m = np.random.default_rng(seed).random(len(p))
    scaled = relative_improvement(unit * p, unit * m).values
    np.testing.assert_allclose(
        scaled, relative_improvement(p, m).values, atol=1e-12 * float((m / p).max())
    )
    np.testing.assert_allclose(
        absolute_improvement(unit * p, unit * m), unit * absolute_improvement(p, m), atol=1e-12
    )


@given(ERRORS, st.integers(0, 100))
def test_exchanging_parent_and_method_inverts_the_improvement(parent, seed) -> None:
    p = np.array(parent)
    m = np.random.default_rng(seed).uniform(0.01, 1, len(p))
    forward, backward = relative_improvement(p, m).values, relative_improvement(m, p).values
    np.testing.assert_allclose(backward, -forward / (1 - forward), rtol=1e-9, atol=1e-12)


def test_relative_improvement_of_known_ratios() -> None:
    result = relative_improvement(np.full(4, 0.5), np.array([0.0, 0.25, 0.5, 1.0]))
    assert result.values.tolist() == [1.0, 0.5, 0.0, -1.0]
    assert result.left_out == 0


def test_small_values_of_the_parent_are_left_out_and_counted() -> None:
    parent = np.array([0.0, 0.0009, 0.001, 0.5, 0.0, np.nan, 0.5])
    method = np.array([0.0, 0.1, 0.1, 0.1, np.nan, 0.1, np.nan])
    result = relative_improvement(parent, method)
    assert np.isnan(result.values).tolist() == [True, True, False, False, True, True, True]
    assert result.left_out == 2  # missing values are not counted
    assert (
        relative_improvement(parent, method, threshold=0).left_out == 1
    )  # values of 0 stay undefined
    assert relative_improvement(parent, method, threshold=1).left_out == 4


def test_shapes_broadcast() -> None:
    values = relative_improvement(np.array([[0.2], [0.4]]), np.full((2, 3), 0.1)).values
    np.testing.assert_allclose(values, [[0.5] * 3, [0.75] * 3])


def test_invalid_inputs_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"threshold must be at least 0, got -1"):
        relative_improvement([1.0], [1.0], threshold=-1)
    with pytest.raises(ValueError, match=r"method must not be negative, got -2 \(1 such\)"):
        relative_improvement([1.0, 1.0], [1.0, -2.0])
    with pytest.raises(ValueError, match=r"parent must not be negative, got -0.5 \(2 such\)"):
        absolute_improvement([-0.5, -1.0], [1.0, 2.0])
