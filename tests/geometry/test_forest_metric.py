"""Tests of Proposition 1 of Dey et al.: the geodesic distance 1 - K is a metric."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from kdgraph.geometry import LeafIndex, partition_of, polytopes_of

CODES = arrays(
    np.int32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12),
    elements=st.integers(0, 3),
)


def geodesic_distance(codes, leaf_starts):
    """Return the distances of all pairs of codes by the index, Float[n, n].

    With one class for each polytope, masses at exponent 1 are similarities.
    """
    groups = polytopes_of(codes)
    index = LeafIndex(codes[groups.representatives], np.eye(len(groups)), leaf_starts)
    return 1 - index.query(codes, np.array([1.0]))[0][:, groups.polytope_of_row, 0]


def assert_is_a_metric(distance, codes):
    is_equal = (codes[:, None] == codes[None]).all(axis=2)
    assert np.array_equal(distance == 0, is_equal)  # t/T is 1 in float64 only for t = T
    assert np.array_equal(distance, distance.T)
    assert (distance >= 0).all()
    assert (distance <= 1).all()
    detour = (distance[:, :, None] + distance[None, :, :]).min(axis=1)
    assert (distance <= detour + 1e-15).all()  # each distance is a multiple of 1/T, rounded once


@settings(deadline=None, max_examples=150)
@given(CODES)
def test_geodesic_distance_of_any_codes_is_a_metric(codes):
    assert_is_a_metric(geodesic_distance(codes, np.arange(codes.shape[1] + 1) * 4), codes)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([0.1, 1.0, 10.0, 1e6]))
def test_geodesic_distance_on_fitted_forests_is_a_metric(spiral_forest, blob_forest, seed, scale):
    for forest in (spiral_forest, blob_forest):
        X = np.random.default_rng(seed).normal(0, scale, (40, forest.n_features_in_))
        X[20:] = X[:20] * 1.01  # some fall into the same polytope
        partition = partition_of(forest)
        codes = partition.encode(X)
        assert_is_a_metric(1 - partition.similarity(codes, codes), codes)
        assert np.array_equal(
            geodesic_distance(codes, partition.leaf_starts), 1 - partition.similarity(codes, codes)
        )
