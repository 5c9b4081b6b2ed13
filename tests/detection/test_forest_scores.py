"""Tests of out-of-sample scores of forests against direct computations, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import xlogy
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from kdgraph.detection import forest_scores
from kdgraph.detection.conformal import UpperTails
from kdgraph.detection.forest_scores import SCORE_NAMES, ForestScores, in_bag_rows
from kdgraph.geometry.forest import ForestPartition
from kdgraph.metrics import auroc

ROUNDING = 1e-10
"""Relative tolerance of sums in another order."""


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of three classes, some of them twins, and their labels."""
    X, y = make_blobs(160, centers=3, n_features=3, cluster_std=3.0, random_state=0)
    return np.concatenate([X, X[:12]]), np.concatenate([y, y[:12]])


@pytest.fixture(scope="module")
def forest(rows):
    return RandomForestClassifier(30, max_depth=4, oob_score=True, random_state=0).fit(*rows)


@pytest.fixture(scope="module")
def parts(rows, forest):
    """Return the partition, the locations of the training rows and their in-bag trees."""
    partition = ForestPartition(forest)
    locations = partition.locate(rows[0])
    return partition, locations, in_bag_rows(partition, locations.codes)


@pytest.fixture(scope="module")
def scores(rows, parts):
    partition, locations, in_bag = parts
    return ForestScores(partition, locations, rows[1], in_bag)


@pytest.fixture(scope="module")
def out_of_bag(rows, parts, scores):
    """Return the out-of-bag scores of all training rows by name."""
    _, locations, in_bag = parts
    values = scores.score_training_rows(locations, rows[1], in_bag, np.arange(len(rows[0])))
    return dict(zip(SCORE_NAMES, values.T, strict=True))


def test_in_bag_rows_need_the_training_rows_in_their_order(rows, forest):
    partition = ForestPartition(forest)
    codes = partition.encode(rows[0])
    in_bag = in_bag_rows(partition, codes)
    assert in_bag is not None
    # Root nodes count the distinct rows of the sample.
    root_sizes = [tree.n_node_samples[0] for tree in partition.trees]
    np.testing.assert_array_equal(in_bag.sum(axis=0), root_sizes)
    assert in_bag_rows(partition, codes[:-1]) is None
    assert in_bag_rows(partition, np.roll(codes, 1, axis=0)) is None


def test_forests_without_bootstrap_have_no_out_of_bag_rows(rows):
    partition = ForestPartition(ExtraTreesClassifier(5, random_state=0).fit(*rows))
    assert in_bag_rows(partition, partition.encode(rows[0])) is None


def test_out_of_bag_entropy_matches_sklearn(forest, out_of_bag):
    proba = forest.oob_decision_function_
    np.testing.assert_allclose(
        out_of_bag["entropy"], -xlogy(proba, proba).sum(axis=1), rtol=ROUNDING, atol=ROUNDING
    )


def test_out_of_bag_boxes_contain_rows_of_the_sample_only(rows, forest, parts, out_of_bag):
    X = rows[0].astype(np.float32)
    in_bag = parts[2]
    for i in range(0, len(X), 8):
        outside = []
        for t in np.flatnonzero(~in_bag[i]):
            tree = forest.estimators_[t]
            path = np.sort(tree.decision_path(X[[i]]).indices)
            members = tree.decision_path(X[in_bag[:, t]]).toarray()[:, path].astype(bool)
            node = np.flatnonzero(members.sum(axis=0) >= 5)[-1]
            box = X[in_bag[:, t]][members[:, node]]
            outside.append(((X[i] < box.min(axis=0)) | (X[i] > box.max(axis=0))).mean())
        assert out_of_bag["box"][i] == pytest.approx(np.mean(outside), rel=ROUNDING, abs=ROUNDING)


def mean_square_neighbour_distance(scaled, others, k=5) -> float:
    return float(np.sort(((others - scaled) ** 2).sum(axis=1))[:k].mean())


def test_class_distance_is_to_other_rows_of_the_predicted_class(rows, forest, scores, out_of_bag):
    X, y = rows
    importance = forest.feature_importances_
    weight = np.sqrt(importance / importance.max()) / X.std(axis=0)
    queries = X[:20] + 0.5
    predicted = forest.predict(queries)
    expected = [
        mean_square_neighbour_distance(x * weight, X[y == k] * weight)
        for x, k in zip(queries, predicted, strict=True)
    ]
    column = SCORE_NAMES.index("class_distance")
    new = scores.score(ForestPartition(forest).locate(queries))[:, column]
    np.testing.assert_allclose(np.exp(2 * new) - 1e-6, expected, rtol=1e-8)

    predicted = forest.oob_decision_function_.argmax(axis=1)
    expected = [
        mean_square_neighbour_distance(
            X[i] * weight, X[(y == predicted[i]) & (np.arange(len(X)) != i)] * weight
        )
        for i in range(len(X))
    ]
    np.testing.assert_allclose(np.exp(2 * out_of_bag["class_distance"]) - 1e-6, expected, rtol=1e-8)


def test_class_distance_is_to_a_sample_of_a_large_class(rows, forest, parts, monkeypatch):
    monkeypatch.setattr(forest_scores, "_MAX_CLASS_ROWS", 20)
    (X, y), (partition, locations, in_bag) = rows, parts
    scores = ForestScores(partition, locations, y, in_bag, 0)
    is_reference = scores._is_reference
    np.testing.assert_array_equal(np.bincount(y[is_reference]), [20, 20, 20])
    importance = forest.feature_importances_
    weighted = X * np.sqrt(importance / importance.max()) / X.std(axis=0)
    predicted = forest.oob_decision_function_.argmax(axis=1)
    # A row outside of the sample is not left out of it. 5 of more than 50 rows are 4 of 20.
    expected = [
        mean_square_neighbour_distance(
            weighted[i],
            weighted[(y == predicted[i]) & is_reference & (np.arange(len(X)) != i)],
            k=4,
        )
        for i in range(len(X))
    ]
    values = scores.score_training_rows(locations, y, in_bag, np.arange(len(X)))
    column = values[:, SCORE_NAMES.index("class_distance")]
    np.testing.assert_allclose(np.exp(2 * column) - 1e-6, expected, rtol=1e-8)


def test_class_with_few_rows_has_finite_distances():
    """A class may have fewer rows than neighbours, or a single row."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.repeat([0, 1, 2], [56, 3, 1])
    X[y == 1] += 9
    X[y == 2] -= 9
    partition = ForestPartition(RandomForestClassifier(80, random_state=0).fit(X, y))
    locations = partition.locate(X)
    in_bag = in_bag_rows(partition, locations.codes)
    assert in_bag is not None
    scores = ForestScores(partition, locations, y, in_bag)
    assert np.isfinite(scores.score(locations)).all()
    assert np.isfinite(scores.score_training_rows(locations, y, in_bag, np.arange(60))).all()


def test_out_of_bag_scores_are_like_those_of_new_rows():
    """In sample, density and entropy rate training rows as more normal than new rows."""
    X, y = make_blobs(1200, centers=4, n_features=4, cluster_std=2.5, random_state=1)
    train, test = slice(0, 600), slice(600, None)
    partition = ForestPartition(RandomForestClassifier(100, random_state=0).fit(X[train], y[train]))
    locations, new = partition.locate(X[train]), partition.locate(X[test])
    in_bag = in_bag_rows(partition, locations.codes)
    assert in_bag is not None
    scores = ForestScores(partition, locations, y[train], in_bag)
    new_scores = scores.score(new)
    out_of_bag = scores.score_training_rows(locations, y[train], in_bag, np.arange(600))
    in_sample = scores.score(locations)
    for j, name in enumerate(SCORE_NAMES):
        # The standard error of the AUROC of 600 against 600 rows of one distribution is .017.
        assert abs(auroc(new_scores[:, j], out_of_bag[:, j]) - 0.5) < 0.06, name
        if name in ("density", "entropy"):
            assert auroc(new_scores[:, j], in_sample[:, j]) > 0.55, name


def test_row_in_bag_everywhere_is_refused(rows, parts, scores):
    _, locations, in_bag = parts
    in_bag = in_bag.copy()
    in_bag[3] = True
    with pytest.raises(
        ValueError,
        match=r"^1 of 2 rows are in bag in every tree; score rows that are out of bag in one$",
    ):
        scores.score_training_rows(locations, rows[1], in_bag, np.array([3, 4]))


def test_tails_of_exponential_scores_are_the_scores():
    """-log of the survival function of the exponential distribution is the score itself."""
    sample = np.random.default_rng(0).exponential(size=(20_000, 1))
    values = np.array([[0.1], [0.5], [1.0], [2.0], [4.0], [20.0]])
    # The mean excess of 2,000 rows has a relative standard error of 2 %.
    np.testing.assert_allclose(UpperTails(sample)(values), values, rtol=0.08)


def test_tails_are_monotone_and_unbounded():
    sample = np.random.default_rng(0).normal(size=(300, 2)).round(1)
    values = np.linspace(-5, 50, 500)[:, None] * np.ones(2)
    tails = UpperTails(sample)(values)
    assert (np.diff(tails, axis=0) >= 0).all() and (tails >= 0).all()
    assert (np.diff(tails[-100:], axis=0) > 0).all()


def test_tails_of_constant_scores_are_finite():
    tails = UpperTails(np.zeros((50, 1)))
    assert np.isfinite(tails(np.array([[-1.0], [0.0], [1.0]]))).all()
