"""Tests of Mahalanobis distances against scipy's, with the covariance of scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.detection import Mahalanobis
from kdgraph.features import FeatureMap
from kdgraph.metrics import auroc
from kdgraph.parents import GaussianLinear, PrecomputedScores
from kdgraph.parents.networks import MultilayerPerceptron
from tests.companions import assert_rows_agree

ROUNDING = {"rtol": 1e-9, "atol": 1e-9}
"""Tolerance of distances up to some thousands, by another inverse of a regular covariance."""
RAW = FeatureMap(source="rows", reduce="none", scale="none")
"""Features that are the rows in their original units."""


def squared_distances(rows: np.ndarray, train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Float[n, c], the squared distances of all pairs of a row and a class mean."""
    means = {c: train[y == c].mean(axis=0) for c in np.unique(y)}
    residuals = train - np.array([means[c] for c in y])
    inverse = LedoitWolf(assume_centered=True).fit(residuals).precision_
    return np.array(
        [[mahalanobis(row, mean, inverse) ** 2 for mean in means.values()] for row in rows]
    )


@pytest.mark.parametrize("class_names", [[0, 1, 2], ["u", "v", "w"]], ids=str)
def test_score_is_scipys_distance_to_the_nearest_class(blobs, class_names):
    X, y, distant_rows = blobs
    detector = Mahalanobis(features=RAW).fit(
        X[:400], np.array(class_names)[y[:400]], X_calibration=X[400:]
    )
    for rows in (X[400:], distant_rows[:50]):
        np.testing.assert_allclose(
            detector.score_samples(rows),
            -squared_distances(rows, X[:400], y[:400]).min(axis=1),
            **ROUNDING,
        )
    assert detector.feature_classes_.tolist() == class_names and detector.describe()["means"] == 3
    assert auroc(detector.ood_score(distant_rows), detector.ood_score(X[400:])) == 1 and set(
        detector.predict(distant_rows)
    ) == {-1}


def test_relative_distance_subtracts_that_to_all_rows(blobs):
    X, y, distant_rows = blobs
    detector = Mahalanobis(relative=True, features=RAW).fit(X[:400], y[:400], X_calibration=X[400:])
    for rows in (X[400:], distant_rows[:50]):
        overall = squared_distances(rows, X[:400], np.zeros(400))[:, 0]
        np.testing.assert_allclose(
            detector.score_samples(rows),
            overall - squared_distances(rows, X[:400], y[:400]).min(axis=1),
            **ROUNDING,
        )
    for labels in (None, np.zeros(400)):
        with pytest.raises(
            ValueError,
            match=(
                "relative=true compares classes with all rows, and needs labels of at least two"
                " classes"
            ),
        ):
            Mahalanobis(relative=True).fit(X[:400], labels, X_calibration=X[400:])


def test_missing_or_continuous_labels_give_one_mean(blobs):
    X, _, distant_rows = blobs
    expected = -squared_distances(distant_rows, X[:400], np.zeros(400))[:, 0]
    target = X @ [1.0, 2.0, 3.0, 4.0]
    for parent, y in (
        (None, None),
        (None, target[:400]),
        (FrozenEstimator(GaussianLinear().fit(X, target)), target[:400]),
    ):
        detector = Mahalanobis(parent, features=RAW).fit(X[:400], y, X_calibration=X[400:])
        np.testing.assert_allclose(detector.score_samples(distant_rows), expected, **ROUNDING)
        assert detector.feature_classes_ is None


def test_scores_are_independent_of_units(blobs):
    """Rescale all columns together, and each column by its own factor."""
    X, y, distant_rows = blobs
    scores = [
        Mahalanobis(random_state=0).fit(factors * X, y).score_samples(factors * distant_rows)
        for factors in (1.0, 1e6, np.array([1, 1e3, 1e-6, 7]))
    ]
    np.testing.assert_allclose(scores[1:], [scores[0]] * 2, rtol=1e-9)


def test_features_are_network_layers_or_transformed_rows(blobs):
    X, y, distant_rows = blobs
    network = MultilayerPerceptron(
        hidden=(8,), learning_rate=0.02, max_epochs=4, device="cpu", random_state=0
    ).fit(X, y)
    detector = Mahalanobis(FrozenEstimator(network)).fit(X[:400], y[:400], X_calibration=X[400:])
    layer = network.transform(X[:400]).astype(np.float64)
    expected = -squared_distances(
        network.transform(distant_rows).astype(np.float64), layer, y[:400]
    ).min(axis=1)
    # Units that are always 0 have a variance by shrinkage only, so the tolerance is larger.
    np.testing.assert_allclose(detector.score_samples(distant_rows), expected, rtol=1e-5)
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(
        X[:400], y[:400]
    )
    detector = Mahalanobis(FrozenEstimator(pipeline), features=RAW).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    expected = -squared_distances(
        pipeline[0].transform(distant_rows), pipeline[0].transform(X[:400]), y[:400]
    ).min(axis=1)
    np.testing.assert_allclose(detector.score_samples(distant_rows), expected, **ROUNDING)
    reduced = Mahalanobis(features=FeatureMap(source="rows", dimensions=2, random_state=0)).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    assert (
        reduced.class_means_.means.shape == (3, 2)
        and auroc(reduced.ood_score(distant_rows), reduced.ood_score(X[400:])) == 1
    )


def test_features_of_precomputed_scores(blobs):
    X, y, distant_rows = blobs
    proba = np.full((600, 3), 1 / 3)
    parent = FrozenEstimator(PrecomputedScores([("hidden", 4)]).fit(np.hstack([proba, X])))
    detector = Mahalanobis(parent).fit(
        np.hstack([proba, X])[:400], y[:400], X_calibration=np.hstack([proba, X])[400:]
    )
    without_parent = Mahalanobis(features=RAW).fit(X[:400], y[:400], X_calibration=X[400:])
    assert_rows_agree(
        detector.score_samples(np.hstack([proba[:200], distant_rows])),
        without_parent.score_samples(distant_rows),
    )
    without_features = Mahalanobis(FrozenEstimator(PrecomputedScores().fit(proba))).fit(
        proba[:400], y[:400], X_calibration=proba[400:]
    )
    assert without_features.feature_map_.source == "rows"


def test_frames_and_missing_values_with_an_imputer(blobs):
    X, y, _ = blobs
    X_missing = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    parent = make_pipeline(SimpleImputer(), RandomForestClassifier(5, random_state=0))
    scores = [
        Mahalanobis(parent, random_state=0).fit(rows, y).ood_score(rows)
        for rows in (X_missing, pd.DataFrame(X_missing, columns=list("abcd")))
    ]
    assert_rows_agree(*scores)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        Mahalanobis(random_state=0).fit(X_missing, y)


@pytest.mark.parametrize(
    "rows",
    [
        np.ones((30, 3)),
        np.eye(30)[:, :25],
        np.column_stack([np.arange(30.0), np.zeros(30)]),
        np.arange(30.0)[:, None] * [1e-9, 1, 1e9],
    ],
    ids=["constant rows", "more columns than rows", "constant column", "different units"],
)
def test_degenerate_covariances_give_finite_increasing_scores(rows):
    detector = Mahalanobis().fit(rows[:20], np.arange(20) % 2, X_calibration=rows)
    assert np.isfinite(detector.ood_score(rows)).all()
    assert (
        detector.ood_score(rows[:1] + 1e12)
        > detector.ood_score(rows[:1] + 1e11)
        > detector.ood_score(rows).max()
    )


@pytest.mark.parametrize("relative", [False, True])
def test_rows_are_independent_and_distant_scores_are_ordered(blobs, relative):
    X, y, distant_rows = blobs
    detector = Mahalanobis(relative=relative).fit(X[:400], y[:400], X_calibration=X[400:])
    rows = np.concatenate(
        [X[:20], *(distant_rows[:1] * factor for factor in (1e3, 1e9, 1e60, 1e100, 1e150, 1e306))]
    )
    scores = detector.ood_score(rows)
    assert np.isfinite(scores).all() and (np.diff(scores[20:]) > 0).all()
    assert_rows_agree(
        scores, np.concatenate([detector.ood_score(rows[i : i + 1]) for i in range(len(rows))])
    )
