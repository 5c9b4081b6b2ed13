"""Confidence class by class: a panel each, with the rows' own numbers."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import OfClass, confidence_by_class
from kdgraph.metrics import reliability_bins

RNG = np.random.default_rng(0)


def of_class(n: int = 40) -> OfClass:
    score = RNG.uniform(0.4, 1, n)
    return OfClass(score, {"histogram": score**2}, reliability_bins(score, RNG.random(n) < score, bins=10))


@pytest.mark.parametrize(("n", "width"), [(1, 3.5), (2, 3.5), (7, 7.0)])
def test_a_panel_for_each_class(n, width, texts_of):
    given = {f"{k}: 40 rows": of_class() for k in range(n)}
    figure = confidence_by_class(given, "lenet")
    assert len(figure.axes) == n and figure.get_size_inches()[0] == width
    for axes, (title, found) in zip(figure.axes, given.items(), strict=True):
        assert axes.get_title() == title
        dots = next(line for line in axes.lines if line.get_gid() == "confidence histogram")
        np.testing.assert_array_equal(dots.get_xydata(), np.column_stack([found.score, found.confidence["histogram"]]))
        shares = next(line for line in axes.lines if line.get_gid() == "shares")
        np.testing.assert_array_equal(shares.get_ydata(), found.bins.accuracy[found.bins.count > 0])
    assert {"lenet (the score)", "histogram", "share right, 95 %"} <= set(texts_of(figure))


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match=r"^confidence_by_class needs at least one class$"):
        confidence_by_class({}, "lenet")
    other = of_class()
    with pytest.raises(ValueError, match=r"'b' does not have these$"):
        confidence_by_class({"a": of_class(), "b": OfClass(other.score[1:], other.confidence, other.bins)}, "lenet")
