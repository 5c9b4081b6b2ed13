"""Boxes of leaves: those that scikit-learn's own decision paths give, tree by tree and row by
row.
"""

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


def by_decision_paths(
    forest, train: np.ndarray, X: np.ndarray, min_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Float[n, d] twice, shares and distances: of each row's path the last node that enough
    training rows pass has the box.
    """
    train, X = train.astype(np.float32), X.astype(np.float32)
    unit = np.ptp(train.astype(float), axis=0)
    unit[unit == 0] = 1
    share, distance = np.zeros(X.shape), np.zeros(X.shape)
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
            beyond = np.maximum(np.maximum(inside.min(axis=0) - X[i], X[i] - inside.max(axis=0)), 0)
            share[i] += beyond > 0
            distance[i] += beyond / unit
    return share / len(trees), distance / len(trees)


FORESTS = [
    ExtraTreesClassifier(7),
    RandomForestClassifier(7, max_depth=4),
    ExtraTreesRegressor(
        5, max_leaf_nodes=12
    ),  # grown best first: nodes are numbered in another order
    DecisionTreeClassifier(),
]


@given(st.sampled_from(FORESTS), st.integers(1, 30), st.integers(0, 100))
@settings(max_examples=12, deadline=None)
def test_they_are_those_of_the_decision_paths(forest, min_samples, seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(60, 3)), np.full(60, 0.1), rng.integers(3, size=60)])
    y, queries = rng.integers(3, size=60), X[:30] + rng.normal(size=(30, 5))
    forest = forest.set_params(random_state=seed).fit(X, y)
    partition = partition_of(forest)
    boxes = LeafBoxes(partition, partition.locate(X), min_samples)
    share, distance = by_decision_paths(forest, X, queries, min_samples)
    np.testing.assert_allclose(
        boxes.outside_by_feature(partition.locate(queries)), share, rtol=0, atol=ROUNDING
    )
    np.testing.assert_allclose(
        boxes.outside_by_feature(partition.locate(queries), "distance"),
        distance,
        rtol=ROUNDING,
        atol=ROUNDING,
    )
    assert not boxes.outside_by_feature(partition.locate(X)).any()


@pytest.fixture(scope="module")
def partition(blob_forest):
    return partition_of(blob_forest, n_jobs=1)


@pytest.fixture(scope="module")
def queries(blobs):
    return blobs[0] * 1.5 + 0.1


@pytest.mark.parametrize("scale", [1e-42, 1e-3, 1.0, 1e30, 1e60])
def test_no_training_row_is_outside_however_its_numbers_are_rounded(scale):
    """Numbers below and beyond what float32 can hold among them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    partition = partition_of(
        ExtraTreesClassifier(10, random_state=0).fit(X, rng.integers(2, size=300))
    )
    place = partition.locate(X * scale)
    boxes = LeafBoxes(partition, place)
    assert (
        not boxes.outside_by_feature(place).any()
        and not boxes.outside_by_feature(place, "distance").any()
    )


def test_boxes_of_more_rows_are_wider(partition, blobs, queries):
    place, there = partition.locate(blobs[0]), partition.locate(queries)
    found = [
        LeafBoxes(partition, place, m).outside_by_feature(there, "distance")
        for m in (1, 3, 20, 600, 10_000)
    ]
    assert all(
        (narrow >= wide).all() and (narrow > wide).any() for narrow, wide in pairwise(found[:4])
    )
    low, high = blobs[0].min(axis=0).astype(np.float32), blobs[0].max(axis=0).astype(np.float32)
    beyond = np.maximum(np.maximum(low - queries, queries - high), 0) / (high - low)
    np.testing.assert_allclose(
        found[3], beyond, rtol=0, atol=1e-6
    )  # queries are rounded to float32
    np.testing.assert_array_equal(found[4], found[3])


@pytest.mark.parametrize("outside", ["share", "distance"])
def test_neither_threads_nor_blocks_nor_other_rows_change_a_bit(
    blob_forest, partition, blobs, queries, outside, monkeypatch
):
    train, there = partition.locate(blobs[0]), partition.locate(queries)
    usual = LeafBoxes(partition, train, 3).outside_by_feature(there, outside)
    alone = [
        LeafBoxes(partition, train, 3).outside_by_feature(there[i : i + 1], outside)
        for i in range(40)
    ]
    np.testing.assert_array_equal(np.concatenate(alone), usual[:40])
    monkeypatch.setattr(leaf_boxes, "_QUERY_BLOCK", 7)
    threaded = partition_of(blob_forest, n_jobs=2)
    np.testing.assert_array_equal(
        LeafBoxes(threaded, train, 3).outside_by_feature(there, outside), usual
    )


def test_a_missing_value_is_outside_of_nothing_and_bounds_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(2, size=200)
    X[:, 0][rng.random(200) < 0.5] = np.nan
    X[X[:, 1] > 0, 2] = np.nan
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    partition = partition_of(forest)
    place = partition.locate(X)
    boxes = LeafBoxes(partition, place, 1)
    for outside in ("share", "distance"):
        assert not boxes.outside_by_feature(place, outside).any()
        found = boxes.outside_by_feature(
            partition.locate(np.array([[np.nan, np.nan, np.nan], [90.0, 90.0, 90.0]])), outside
        )
        assert np.isfinite(found).all() and not found[0].any() and found[1, 1] > 0
    assert np.isinf(boxes.boxes).any() and not np.isnan(boxes.boxes).any()
    np.testing.assert_allclose(
        boxes.feature_range, np.nanmax(X, axis=0) - np.nanmin(X, axis=0), rtol=1e-7
    )  # of rounded values


def test_rows_that_the_forest_was_not_fitted_on_leave_no_leaf_without_a_box(
    partition, blobs, queries
):
    """Of four rows, in most leaves there is none."""
    boxes = LeafBoxes(partition, partition.locate(blobs[0][:4]))
    assert (boxes.node_box >= 0).sum() == sum(
        (tree.children_left < 0).sum() for tree in partition.trees
    )
    assert np.isfinite(boxes.outside_by_feature(partition.locate(queries), "distance")).all()


def test_behind_a_pipeline_they_are_in_the_transformed_space(blobs, queries):
    X, y = blobs
    scaled = StandardScaler().fit(X)
    forest = ExtraTreesClassifier(5, random_state=0)
    piped = partition_of(
        make_pipeline(make_pipeline(StandardScaler()), make_pipeline(forest)).fit(X, y)
    )
    bare = partition_of(forest.fit(scaled.transform(X), y))
    found = LeafBoxes(piped, piped.locate(X), 2).outside_by_feature(
        piped.locate(queries), "distance"
    )
    expected = LeafBoxes(bare, bare.locate(scaled.transform(X)), 2).outside_by_feature(
        bare.locate(scaled.transform(queries)), "distance"
    )
    np.testing.assert_array_equal(found, expected)


def test_what_is_not_of_that_forest_is_refused(partition, blobs):
    place = partition.locate(blobs[0])
    boxes = LeafBoxes(partition, place)
    with pytest.raises(
        ValueError, match="codes and points are not of the forest whose boxes these are"
    ):
        boxes.outside_by_feature(
            Locations(place.points, np.zeros_like(place.codes))
        )  # roots, which are no leaves
    with pytest.raises(
        ValueError, match="codes and points are not of the forest whose boxes these are"
    ):
        boxes.outside_by_feature(Locations(place.points[:, :2], place.codes))
    boxes.node_box += len(boxes.boxes)
    with pytest.raises(
        ValueError, match="codes and points are not of the forest whose boxes these are"
    ):
        boxes.outside_by_feature(place)


def test_a_network_has_none(blobs):
    from kdgraph.parents.networks import MultilayerPerceptron

    network = MultilayerPerceptron(
        hidden=(4,), max_epochs=1, patience=None, device="cpu", random_state=0
    ).fit(*blobs)
    partition = partition_of(network)
    with pytest.raises(
        TypeError,
        match="boxes are those of the leaves of a forest or tree, got a partition without leaves",
    ):
        LeafBoxes(partition, partition.locate(blobs[0]))
