"""Tests of polytopes against NumPy's grouping of equal rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from kdgraph.geometry import polytopes_of

CODES = arrays(
    np.int32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9),
    elements=st.integers(0, 2),
)


def assert_groups(polytopes, codes):
    """Assert that equal rows are grouped, and numbered in order of first appearance."""
    distinct_rows: list[tuple] = []
    for row in map(tuple, codes.tolist()):
        if row not in distinct_rows:
            distinct_rows.append(row)
    number = {row: r for r, row in enumerate(distinct_rows)}
    rows = list(map(tuple, codes.tolist()))
    assert polytopes.polytope_of_row.tolist() == [number[row] for row in rows]
    assert polytopes.representatives.tolist() == [rows.index(row) for row in distinct_rows]
    assert polytopes.sizes.tolist() == [rows.count(row) for row in distinct_rows]


@settings(deadline=None, max_examples=60)
@given(CODES)
def test_equal_codes_share_a_polytope_numbered_by_first_appearance(codes):
    polytopes = polytopes_of(codes)
    assert_groups(polytopes, codes)
    assert len(polytopes) == len(np.unique(codes, axis=0))


@settings(deadline=None, max_examples=60)
@given(CODES, st.data())
def test_head_equals_polytopes_of_first_rows(codes, data):
    n = data.draw(st.integers(1, len(codes)))
    assert_groups(polytopes_of(codes).head(n), codes[:n])


def test_polytopes_of_forest_codes(spiral, spiral_forest):
    codes = spiral_forest.apply(np.vstack([spiral[0], spiral[0][::-1], spiral[0] * 1.001]))
    polytopes = polytopes_of(codes)
    _, inverse, size = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    assert len(polytopes) == len(size)
    assert np.array_equal(codes[polytopes.representatives][polytopes.polytope_of_row], codes)
    assert np.array_equal(polytopes.sizes[polytopes.polytope_of_row], size[inverse.ravel()])


def test_hash_collisions_do_not_merge_polytopes(monkeypatch):
    class UnitMultipliers:
        def integers(self, low, high, size, dtype):
            return np.ones(size, dtype)

    # With multipliers of 1 the hash of a code is its sum.
    monkeypatch.setattr(np.random, "default_rng", lambda seed: UnitMultipliers())
    codes = np.array([[1, 2], [2, 1], [0, 3], [1, 2], [0, 0]])
    assert_groups(polytopes_of(codes), codes)


def test_sum_by_polytope_and_fraction_of_singletons():
    polytopes = polytopes_of(np.array([[0], [1], [0], [2]]))
    assert np.array_equal(polytopes.sum_by_polytope(np.array([1.0, 2.0, 4.0, 8.0])), [5, 2, 8])
    assert np.array_equal(
        polytopes.sum_by_polytope(np.arange(8.0).reshape(4, 2)), [[4, 6], [2, 3], [6, 7]]
    )
    assert polytopes.singleton_fraction == pytest.approx(2 / 3, abs=1e-15)
