"""The Hellinger distance against its definition and its properties as a metric."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.metrics import hellinger


def hellinger_by_loop(p, q) -> float:
    """Return the distance by the Bhattacharyya coefficient, row by row."""
    rows = [
        math.sqrt(max(0.0, 1 - sum(math.sqrt(a * b) for a, b in zip(r, s, strict=True))))
        for r, s in zip(p, q, strict=True)
    ]
    return sum(rows) / len(rows)


@given(st.integers(1, 20), st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_hellinger_is_symmetric_bounded_and_matches_a_loop(
    n: int, n_classes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(n_classes, 0.5), (2, n))
    assert hellinger(p, q) == hellinger(q, p)
    assert 0 <= hellinger(p, q) <= 1
    assert hellinger(p, p) == 0
    # 1 - coefficient loses half of the digits where p and q nearly agree: √1e-16
    assert hellinger(p, q) == pytest.approx(hellinger_by_loop(p, q), abs=1e-7)


def test_disjoint_distributions_are_at_distance_one() -> None:
    assert hellinger(np.eye(3), np.eye(3)[[1, 2, 0]]) == pytest.approx(1)


def test_hellinger_of_uniform_and_certain_predictions() -> None:
    assert hellinger([[0.5, 0.5]], [[1.0, 0.0]]) == pytest.approx(math.sqrt(1 - math.sqrt(0.5)))
