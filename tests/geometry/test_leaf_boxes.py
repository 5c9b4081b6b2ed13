"""Boxes of leaves against scikit-learn's decision paths, tree by tree and row by row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph.geometry import LeafBoxes, Locations, leaf_boxes, partition_of

ROUNDING = 1e-12
"""Distances are added in another order."""


def outside_by_decision_paths(
    forest, train: np.ndarray, X: np.ndarray, min_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return fractions of trees and distances, Float[n, d] each.

    The box is that of the last node on a row's path with enough training rows.
    """
    train, X = train.astype(np.float32), X.astype(np.float32)
    unit = np.ptp(train.astype(float), axis=0)
    unit[unit == 0] = 1
    fraction, distance = np.zeros(X.shape), np.zeros(X.shape)
    trees = getattr(forest, "estimators_", [forest])
    for tree in trees:
        members = tree.decision_path(train).toarray().astype(bool)
        for i, path in enumerate(tree.decision_path(X)):
            nodes = [
                node
                for node in np.sort(path.indices)
                if members[:, node].sum() >= min_samples or node == 0
            ]
            inside = train[members[:, nodes[-1]]].astype(float)
            excess = np.maximum(np.maximum(inside.min(axis=0) - X[i], X[i] - inside.max(axis=0)), 0)
            fraction[i] += excess > 0
            distance[i] += excess / unit
    return fraction / len(trees), distance / len(trees)


FORESTS = [
    ExtraTreesClassifier(7),
    RandomForestClassifier(7, max_depth=4),
    ExtraTreesRegressor(5, max_leaf_nodes=12),  # best-first growth numbers nodes in another order
    DecisionTreeClassifier(),
]


@given(st.sampled_from(FORESTS), st.integers(1, 30), st.integers(0, 100))
@settings(max_examples=12, deadline=None)
def test_boxes_match_decision_paths(forest, min_samples, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(60, 3)), np.full(60, 0.1), rng.integers(3, size=60)])
    y, queries = rng.integers(3, size=60), X[:30] + rng.normal(size=(30, 5))
    forest = forest.set_params(random_state=seed).fit(X, y)
    partition = partition_of(forest)
    boxes = LeafBoxes(partition, partition.locate(X), min_samples)
    fraction, distance = outside_by_decision_paths(forest, X, queries, min_samples)
    np.testing.assert_allclose(
        boxes.outside_by_feature(partition.locate(queries)), fraction, rtol=0, atol=ROUNDING
    )
    np.testing.assert_allclose(
        boxes.outside_by_feature(partition.locate(queries), "distance"),
        distance,
        rtol=ROUNDING,
        atol=ROUNDING,
    )
    assert not boxes.outside_by_feature(partition.locate(X)).any()


def test_boxes_of_in_bag_rows_match_a_forest_of_these_rows(blobs, queries):
    X, y = blobs[:2]
    forest = RandomForestClassifier(1, bootstrap=False, max_depth=5, random_state=0).fit(X, y)
    partition = partition_of(forest)
    is_in_bag = np.arange(len(X)) % 3 > 0
    expected = LeafBoxes(partition, partition.locate(X[is_in_bag]), 4)
    boxes = LeafBoxes(partition, partition.locate(X), 4, is_in_bag[:, None])
    np.testing.assert_array_equal(boxes.boxes, expected.boxes)
    np.testing.assert_array_equal(boxes.node_box, expected.node_box)


@pytest.fixture(scope="module")
def partition(blob_forest):
    return partition_of(blob_forest, n_jobs=1)


@pytest.fixture(scope="module")
def queries(blobs):
    return blobs[0] * 1.5 + 0.1


@pytest.mark.parametrize("scale", [1e-42, 1e-3, 1.0, 1e30, 1e60])
def test_no_training_row_is_outside_after_rounding_to_float32(scale):
    """Some numbers are below or beyond the range of float32."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    partition = partition_of(
        ExtraTreesClassifier(10, random_state=0).fit(X, rng.integers(2, size=300))
    )
    locations = partition.locate(X * scale)
    boxes = LeafBoxes(partition, locations)
    assert (
        not boxes.outside_by_feature(locations).any()
        and not boxes.outside_by_feature(locations, "distance").any()
    )


def test_larger_min_samples_widens_boxes(partition, blobs, queries):
    locations, query_locations = partition.locate(blobs[0]), partition.locate(queries)
    distances = [
        LeafBoxes(partition, locations, m).outside_by_feature(query_locations, "distance")
        for m in (1, 3, 20, 600, 10_000)
    ]
    assert all(
        (narrow >= wide).all() and (narrow > wide).any() for narrow, wide in pairwise(distances[:4])
    )
    low, high = blobs[0].min(axis=0).astype(np.float32), blobs[0].max(axis=0).astype(np.float32)
    excess = np.maximum(np.maximum(low - queries, queries - high), 0) / (high - low)
    # Queries are rounded to float32.
    np.testing.assert_allclose(distances[3], excess, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(distances[4], distances[3])


@pytest.mark.parametrize("measure", ["fraction", "distance"])
def test_outside_measure_is_independent_of_threads_and_blocks(
    blob_forest, partition, blobs, queries, measure, monkeypatch
):
    train, query_locations = partition.locate(blobs[0]), partition.locate(queries)
    expected = LeafBoxes(partition, train, 3).outside_by_feature(query_locations, measure)
    outside_alone = [
        LeafBoxes(partition, train, 3).outside_by_feature(query_locations[i : i + 1], measure)
        for i in range(40)
    ]
    np.testing.assert_array_equal(np.concatenate(outside_alone), expected[:40])
    monkeypatch.setattr(leaf_boxes, "_QUERY_BLOCK", 7)
    threaded = partition_of(blob_forest, n_jobs=2)
    np.testing.assert_array_equal(
        LeafBoxes(threaded, train, 3).outside_by_feature(query_locations, measure), expected
    )


def test_missing_values_are_never_outside_and_bound_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(2, size=200)
    X[:, 0][rng.random(200) < 0.5] = np.nan
    X[X[:, 1] > 0, 2] = np.nan
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    partition = partition_of(forest)
    locations = partition.locate(X)
    boxes = LeafBoxes(partition, locations, 1)
    for measure in ("fraction", "distance"):
        assert not boxes.outside_by_feature(locations, measure).any()
        query_outside = boxes.outside_by_feature(
            partition.locate(np.array([[np.nan, np.nan, np.nan], [90.0, 90.0, 90.0]])), measure
        )
        assert (
            np.isfinite(query_outside).all()
            and not query_outside[0].any()
            and query_outside[1, 1] > 0
        )
    assert np.isinf(boxes.boxes).any() and not np.isnan(boxes.boxes).any()
    # The boxes have the values rounded to float32.
    expected_range = np.nanmax(X, axis=0) - np.nanmin(X, axis=0)
    np.testing.assert_allclose(boxes.feature_range, expected_range, rtol=1e-7)


def test_boxes_of_other_rows_leave_no_leaf_without_box(partition, blobs, queries):
    """Most leaves contain none of the four rows."""
    boxes = LeafBoxes(partition, partition.locate(blobs[0][:4]))
    assert (boxes.node_box >= 0).sum() == sum(
        (tree.children_left < 0).sum() for tree in partition.trees
    )
    assert np.isfinite(boxes.outside_by_feature(partition.locate(queries), "distance")).all()


def test_boxes_behind_a_pipeline_are_in_transformed_space(blobs, queries):
    X, y = blobs
    scaler = StandardScaler().fit(X)
    forest = ExtraTreesClassifier(5, random_state=0)
    pipeline_partition = partition_of(
        make_pipeline(make_pipeline(StandardScaler()), make_pipeline(forest)).fit(X, y)
    )
    forest_partition = partition_of(forest.fit(scaler.transform(X), y))
    result = LeafBoxes(pipeline_partition, pipeline_partition.locate(X), 2).outside_by_feature(
        pipeline_partition.locate(queries), "distance"
    )
    expected = LeafBoxes(
        forest_partition, forest_partition.locate(scaler.transform(X)), 2
    ).outside_by_feature(forest_partition.locate(scaler.transform(queries)), "distance")
    np.testing.assert_array_equal(result, expected)


def test_locations_of_another_forest_raise(partition, blobs):
    locations = partition.locate(blobs[0])
    boxes = LeafBoxes(partition, locations)
    with pytest.raises(
        ValueError, match="codes and points do not come from the trees of these boxes"
    ):
        # These are the codes of roots, which are not leaves.
        boxes.outside_by_feature(Locations(locations.points, np.zeros_like(locations.codes)))
    with pytest.raises(
        ValueError, match="codes and points do not come from the trees of these boxes"
    ):
        boxes.outside_by_feature(Locations(locations.points[:, :2], locations.codes))
    boxes.node_box += len(boxes.boxes)
    with pytest.raises(
        ValueError, match="codes and points do not come from the trees of these boxes"
    ):
        boxes.outside_by_feature(locations)


def test_network_partition_raises(blobs):
    from kdgraph.parents.networks import MultilayerPerceptron

    network = MultilayerPerceptron(
        hidden=(4,), max_epochs=1, patience=None, device="cpu", random_state=0
    ).fit(*blobs)
    partition = partition_of(network)
    with pytest.raises(
        TypeError,
        match="boxes need the leaves of trees, got a partition without leaves",
    ):
        LeafBoxes(partition, partition.locate(blobs[0]))
