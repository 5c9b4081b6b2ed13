"""Tests of the ratio scale of improvements and its ticks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.p1.figures.improvement import format_signed, from_ratio, set_ratio_scale, to_ratio
from kdgraph.figures.style import add_axes, new_figure
from kdgraph.metrics import relative_improvement


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_reciprocal_factors_are_equally_far_from_zero(parent, factor) -> None:
    better, worse = (
        relative_improvement([parent], [m]).values for m in (parent / factor, parent * factor)
    )
    np.testing.assert_allclose(to_ratio(better), -to_ratio(worse), rtol=1e-9, atol=1e-12)


@given(st.floats(-900, 1))
def test_ratio_scale_has_an_inverse(value) -> None:
    np.testing.assert_allclose(from_ratio(to_ratio(value)), value, rtol=1e-9)


def test_ratio_scale_increases_within_plus_minus_one() -> None:
    values = np.linspace(-50, 1, 1001)
    assert (np.diff(to_ratio(values)) > 0).all()
    assert np.abs(to_ratio(values)).max() <= 1
    assert np.isfinite(from_ratio(np.array([-5.0, -1.0]))).all()


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (-5, 1, ["−4", "−1", "0", "+.5", "+1"]),
        (-0.13, 0.12, ["−.1", "−.05", "0", "+.05", "+.1"]),
        (-0.8, 0.45, ["−.5", "−.2", "0", "+.2"]),
    ],
)
def test_ticks_are_round_and_separate_and_include_zero(low, high, ticks) -> None:
    figure = new_figure(2, 2)
    axes = add_axes(figure, 0.4, 0.4, 1.35, 1.35)
    set_ratio_scale(axes, "y", low, high)
    figure.canvas.draw()
    assert [text.get_text() for text in axes.get_yticklabels()] == ticks
    assert axes.get_ylim()[0] < low and axes.get_ylim()[1] > high


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.5, None, "+.5"),
        (-1, None, "−1"),
        (0, None, "0"),
        (-4.0, None, "−4"),
        (0.0504, 3, "+.050"),
        (-0.0001, 3, ".000"),
        (-1.5, 3, "−1.500"),
    ],
)
def test_improvements_are_formatted_with_signs(value, digits, text) -> None:
    assert format_signed(value, digits) == text
