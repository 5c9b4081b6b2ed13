"""Mahalanobis distances against scipy's, with the covariance that scikit-learn gives, and rows of
every kind.
"""

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
"""Of distances up to some thousands, by another way to invert a covariance of which no direction
has much less than others.
"""


RAW = FeatureMap(source="rows", reduce="none", scale="none")
"""Rows in their own units."""


def squared(rows: np.ndarray, train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Float[n, c], pair by pair."""
    means = {c: train[y == c].mean(axis=0) for c in np.unique(y)}
    left = train - np.array([means[c] for c in y])
    inverse = LedoitWolf(assume_centered=True).fit(left).precision_
    return np.array(
        [[mahalanobis(row, mean, inverse) ** 2 for mean in means.values()] for row in rows]
    )


@pytest.mark.parametrize("names", [[0, 1, 2], ["u", "v", "w"]], ids=str)
def test_score_matches_scipys_distance_to_the_nearest_class(blobs, names):
    X, y, distant = blobs
    detector = Mahalanobis(features=RAW).fit(
        X[:400], np.array(names)[y[:400]], X_calibration=X[400:]
    )
    for rows in (X[400:], distant[:50]):
        np.testing.assert_allclose(
            detector.score_samples(rows), -squared(rows, X[:400], y[:400]).min(axis=1), **ROUNDING
        )
    assert detector.feature_classes_.tolist() == names and detector.describe()["means"] == 3
    assert auroc(detector.ood_score(distant), detector.ood_score(X[400:])) == 1 and set(
        detector.predict(distant)
    ) == {-1}


def test_relative_to_all_rows(blobs):
    X, y, distant = blobs
    detector = Mahalanobis(relative=True, features=RAW).fit(X[:400], y[:400], X_calibration=X[400:])
    for rows in (X[400:], distant[:50]):
        overall = squared(rows, X[:400], np.zeros(400))[:, 0]
        np.testing.assert_allclose(
            detector.score_samples(rows),
            overall - squared(rows, X[:400], y[:400]).min(axis=1),
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


def test_regression_or_missing_labels_use_one_mean(blobs):
    X, _, distant = blobs
    expected = -squared(distant, X[:400], np.zeros(400))[:, 0]
    target = X @ [1.0, 2.0, 3.0, 4.0]
    for parent, y in (
        (None, None),
        (None, target[:400]),
        (FrozenEstimator(GaussianLinear().fit(X, target)), target[:400]),
    ):
        detector = Mahalanobis(parent, features=RAW).fit(X[:400], y, X_calibration=X[400:])
        np.testing.assert_allclose(detector.score_samples(distant), expected, **ROUNDING)
        assert detector.feature_classes_ is None


def test_units_change_nothing(blobs):
    """Of all columns together by the definition, of each by the ranges."""
    X, y, distant = blobs
    scores = [
        Mahalanobis(random_state=0).fit(units * X, y).score_samples(units * distant)
        for units in (1.0, 1e6, np.array([1, 1e3, 1e-6, 7]))
    ]
    np.testing.assert_allclose(scores[1:], [scores[0]] * 2, rtol=1e-9)


def test_features_are_hidden_units_or_transformed_rows(blobs):
    X, y, distant = blobs
    network = MultilayerPerceptron(
        hidden=(8,), learning_rate=0.02, max_epochs=4, device="cpu", random_state=0
    ).fit(X, y)
    detector = Mahalanobis(FrozenEstimator(network)).fit(X[:400], y[:400], X_calibration=X[400:])
    layer = network.transform(X[:400]).astype(np.float64)
    expected = -squared(network.transform(distant).astype(np.float64), layer, y[:400]).min(axis=1)
    np.testing.assert_allclose(
        detector.score_samples(distant), expected, rtol=1e-5
    )  # units that are always 0 have no spread but shrinkage
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(
        X[:400], y[:400]
    )
    detector = Mahalanobis(FrozenEstimator(pipeline), features=RAW).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    expected = -squared(
        pipeline[0].transform(distant), pipeline[0].transform(X[:400]), y[:400]
    ).min(axis=1)
    np.testing.assert_allclose(detector.score_samples(distant), expected, **ROUNDING)
    reduced = Mahalanobis(features=FeatureMap(source="rows", dimensions=2, random_state=0)).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    assert (
        reduced.class_means_.means.shape == (3, 2)
        and auroc(reduced.ood_score(distant), reduced.ood_score(X[400:])) == 1
    )


def test_features_stored_with_scores_are_used(blobs):
    X, y, distant = blobs
    proba = np.full((600, 3), 1 / 3)
    parent = FrozenEstimator(PrecomputedScores([("hidden", 4)]).fit(np.hstack([proba, X])))
    detector = Mahalanobis(parent).fit(
        np.hstack([proba, X])[:400], y[:400], X_calibration=np.hstack([proba, X])[400:]
    )
    bare = Mahalanobis(features=RAW).fit(X[:400], y[:400], X_calibration=X[400:])
    assert_rows_agree(
        detector.score_samples(np.hstack([proba[:200], distant])), bare.score_samples(distant)
    )
    alone = Mahalanobis(FrozenEstimator(PrecomputedScores().fit(proba))).fit(
        proba[:400], y[:400], X_calibration=proba[400:]
    )
    assert alone.feature_map_.source == "rows"


def test_frames_and_missing_values_behind_an_imputer(blobs):
    X, y, _ = blobs
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    parent = make_pipeline(SimpleImputer(), RandomForestClassifier(5, random_state=0))
    scores = [
        Mahalanobis(parent, random_state=0).fit(rows, y).ood_score(rows)
        for rows in (holes, pd.DataFrame(holes, columns=list("abcd")))
    ]
    assert_rows_agree(*scores)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        Mahalanobis(random_state=0).fit(holes, y)


@pytest.mark.parametrize(
    "rows",
    [
        np.ones((30, 3)),
        np.eye(30)[:, :25],
        np.column_stack([np.arange(30.0), np.zeros(30)]),
        np.arange(30.0)[:, None] * [1e-9, 1, 1e9],
    ],
    ids=["all alike", "more columns than rows", "a column that says nothing", "units far apart"],
)
def test_rows_without_spread_in_some_direction(rows):
    detector = Mahalanobis().fit(rows[:20], np.arange(20) % 2, X_calibration=rows)
    assert np.isfinite(detector.ood_score(rows)).all()
    assert (
        detector.ood_score(rows[:1] + 1e12)
        > detector.ood_score(rows[:1] + 1e11)
        > detector.ood_score(rows).max()
    )


@pytest.mark.parametrize("relative", [False, True])
def test_rows_are_independent_and_distant_scores_are_ordered(blobs, relative):
    X, y, distant = blobs
    detector = Mahalanobis(relative=relative).fit(X[:400], y[:400], X_calibration=X[400:])
    rows = np.concatenate(
        [X[:20], *(distant[:1] * scale for scale in (1e3, 1e9, 1e60, 1e100, 1e150, 1e306))]
    )
    together = detector.ood_score(rows)
    assert np.isfinite(together).all() and (np.diff(together[20:]) > 0).all()
    assert_rows_agree(
        together, np.concatenate([detector.ood_score(rows[i : i + 1]) for i in range(len(rows))])
    )
