"""Tests of the distance to the k-th nearest training row against all pairwise distances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.detection import KthNeighbourDistance
from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap
from kdgraph.metrics import auroc
from kdgraph.parents.networks import MultilayerPerceptron
from tests.companions import assert_rows_agree

RAW = FeatureMap(source="rows", reduce="none", scale="none")
"""Features that are the rows in their original units."""


def sorted_distance_scores(rows: np.ndarray, train: np.ndarray, k: int) -> np.ndarray:
    return -np.sort(cdist(rows, train), axis=1)[:, k - 1]


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 60), st.integers(1, 20), st.integers(1, 8), st.integers(0, 2**31))
def test_score_is_the_kth_of_all_distances(n, d, k, seed):
    """Test more and fewer than 15 columns, since scikit-learn then uses different algorithms.

    One of them adds squares, which has half of the digits near 0.
    """
    rng = np.random.default_rng(seed)
    train, rows = rng.normal(size=(n, d)), rng.normal(size=(9, d))
    detector = KthNeighbourDistance(k=k, features=RAW).fit(train, X_calibration=rows)
    assert detector.k_ == min(k, n)
    np.testing.assert_allclose(
        detector.score_samples(rows),
        sorted_distance_scores(rows, train, min(k, n)),
        rtol=1e-7,
        atol=1e-7,
    )


def test_distant_rows_have_higher_scores(blobs):
    X, y, distant_rows = blobs
    detector = KthNeighbourDistance(RandomForestClassifier(5, random_state=0), random_state=0).fit(
        X, y
    )
    assert auroc(detector.ood_score(distant_rows), detector.ood_score(X)) == 1 and set(
        detector.predict(distant_rows)
    ) == {-1}
    assert detector.describe() == {"offset": detector.offset_, "k": 5, "normalized": False}


def test_only_default_layers_are_normalized_by_default(blobs):
    X, y, distant_rows = blobs
    network = MultilayerPerceptron(
        hidden=(8,), learning_rate=0.02, max_epochs=4, device="cpu", random_state=0
    ).fit(X, y)
    train, rows = (
        network.transform(values).astype(np.float64) for values in (X[:400], distant_rows)
    )
    directions = [
        values / np.linalg.norm(values, axis=1, keepdims=True) for values in (rows, train)
    ]
    layer = FeatureMap(source="layer", reduce="none", scale="none")
    for options, expected in (
        ({}, sorted_distance_scores(*directions, 5)),
        ({"normalize": False}, sorted_distance_scores(rows, train, 5)),
        ({"features": layer}, sorted_distance_scores(rows, train, 5)),
        ({"features": layer, "normalize": True, "k": 3}, sorted_distance_scores(*directions, 3)),
    ):
        detector = KthNeighbourDistance(FrozenEstimator(network), **options).fit(
            X[:400], X_calibration=X[400:]
        )
        np.testing.assert_allclose(
            detector.score_samples(distant_rows), expected, rtol=1e-6, atol=1e-7
        )
    pipeline = FrozenEstimator(
        make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, y)
    )
    detector = KthNeighbourDistance(pipeline, features=RAW).fit(X[:400], X_calibration=X[400:])
    scale = pipeline.estimator[0].transform
    np.testing.assert_allclose(
        detector.score_samples(distant_rows),
        sorted_distance_scores(scale(distant_rows), scale(X[:400]), 5),
        rtol=1e-7,
    )


def test_row_of_zeros_has_a_score_if_normalized():
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    detector = KthNeighbourDistance(k=1, normalize=True, features=RAW).fit(
        rows[1:], X_calibration=rows
    )
    np.testing.assert_allclose(detector.score_samples(rows), [-1, 0, 0], atol=1e-12)


@pytest.mark.parametrize("columns", [4, 40])
@pytest.mark.parametrize("normalize", [False, True])
def test_rows_are_independent_and_distant_scores_are_ordered(columns, normalize):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, columns))
    detector = KthNeighbourDistance(normalize=normalize, random_state=0).fit(X)
    rows = np.concatenate(
        [X[:20], *(X[:1] * scale for scale in (1e3, 1e9, 1e99, 1e101, 1e200, 1e307))]
    )
    scores = detector.ood_score(rows)
    assert np.isfinite(scores).all() and (normalize or (np.diff(scores[20:]) > 0).all())
    assert_rows_agree(
        scores, np.concatenate([detector.ood_score(rows[i : i + 1]) for i in range(len(rows))])
    )
    order = rng.permutation(len(rows))
    assert_rows_agree(detector.ood_score(rows[order]), scores[order])


def test_k_must_be_positive():
    with pytest.raises(ParameterError, match=r"k must be in \[1, inf\), got 0"):
        KthNeighbourDistance(k=0).fit(np.eye(3))


def test_rows_are_compared_with_a_sample_of_the_training_rows():
    rng = np.random.default_rng(0)
    train, rows = rng.normal(size=(400, 3)), rng.normal(size=(30, 3))
    detector = KthNeighbourDistance(k=100, max_reference_rows=80, features=RAW, random_state=0).fit(
        train, X_calibration=rows
    )
    reference = detector.index_._fit_X
    assert len(reference) == 80 == len({tuple(row) for row in reference})
    assert {tuple(row) for row in reference} < {tuple(row) for row in train}
    # 100 of 400 rows are 20 of 80.
    np.testing.assert_allclose(
        detector.score_samples(rows), sorted_distance_scores(rows, reference, 20), rtol=1e-7
    )
    assert detector.describe() == {
        "offset": detector.offset_,
        "k": 20,
        "normalized": False,
        "n_reference": 80,
    }


@pytest.mark.parametrize("max_reference_rows", [400, None])
def test_all_training_rows_are_compared_up_to_the_maximum(max_reference_rows):
    rng = np.random.default_rng(0)
    train, rows = rng.normal(size=(400, 3)), rng.normal(size=(30, 3))
    detector = KthNeighbourDistance(features=RAW, max_reference_rows=max_reference_rows)
    scores = detector.fit(train, X_calibration=rows).score_samples(rows)
    np.testing.assert_allclose(scores, sorted_distance_scores(rows, train, 5), rtol=1e-7)
    assert detector.describe()["k"] == 5 and "n_reference" not in detector.describe()
