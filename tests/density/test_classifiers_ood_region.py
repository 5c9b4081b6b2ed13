"""Proposition 2 of Dey et al.: along any ray the probabilities tend to the class fractions of the
training rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.density.published import Figure1Forest, PaperForest, ReferenceForest
from tests.variations import others_slow

FORESTS = {
    "kdgraph": KernelDensityForest,
    "paper": PaperForest,
    "reference": ReferenceForest,
    "figure1": Figure1Forest,
}

RADII = [100.0, 1e3, 1e6, 1e30]  # the rows reach 1 (spiral) and about 6 (blobs)
OUTERMOST = [
    1e38,
    1e39,
    1e150,
    1e300,
]  # float32, in which trees compare, ends at 3e38; scikit-learn's own checks warn before


@pytest.fixture(scope="module", params=["spiral", "blobs"])
def rows_and_directions(request, spirals, three_blobs):
    """(X, y, Float[100, d] of length 1): classes are not equally frequent."""
    X, y = spirals(300, 5) if request.param == "spiral" else three_blobs(300, 5)
    directions = np.random.default_rng(6).normal(size=(100, X.shape[1]))
    return X, y, directions / np.linalg.norm(directions, axis=1, keepdims=True)


def max_distance_to_prior(model, directions, radii):
    """Float[radii]: the largest |g_y - P_y| over rays and classes; every probability is checked on
    the way.
    """
    largest = []
    for radius in radii:
        proba = model.predict_proba(radius * directions)
        assert np.isfinite(proba).all()
        assert (proba >= 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
        largest.append(np.abs(proba - model.prior_).max())
    return np.array(largest)


@pytest.mark.parametrize("distance", ["geodesic", "euclidean"])
@pytest.mark.parametrize(
    ("variant", "remaining_weight"), others_slow([("kdgraph", 1e-9), ("paper", 0), ("figure1", 0)])
)
def test_variants_with_an_effective_floor_tend_to_the_prior(
    rows_and_directions, variant, remaining_weight, distance
):
    X, y, directions = rows_and_directions
    kdf = FORESTS[variant](
        RandomForestClassifier(20, random_state=0),
        distance=distance,
        random_state=0,
    ).fit(X, y)
    radii = (
        RADII + OUTERMOST if distance == "geodesic" else RADII
    )  # scikit-learn's neighbours overflow where squares do
    distance_to_prior = max_distance_to_prior(kdf, directions, radii)
    assert (
        distance_to_prior.max() <= remaining_weight + 1e-12
    )  # min_weight is the remaining weight of the posterior, in "kdgraph" only


def test_confidence_decreases_with_distance(rows_and_directions):
    X, y, directions = rows_and_directions
    kdf = KernelDensityForest(ExtraTreesClassifier(20, random_state=0), random_state=0).fit(X, y)
    mean = [
        np.abs(kdf.predict_proba(radius * directions) - kdf.prior_).max(axis=1).mean()
        for radius in np.linspace(3, 15, 7) * X.std()
    ]
    assert mean[0] > 0.05
    assert (np.diff(mean) <= 1e-3).all()
    assert mean[-1] <= 1e-6


def test_reference_floor_has_no_effect(rows_and_directions):
    X, y, directions = rows_and_directions
    forest = RandomForestClassifier(20, random_state=0)
    reference = ReferenceForest(forest, random_state=0).fit(X, y)
    outer_proba = [reference.predict_proba(radius * directions) for radius in RADII]
    assert np.array_equal(
        outer_proba[-2], outer_proba[-1]
    )  # the nearest polytope is the same from 1e6 to 1e30
    assert outer_proba[-1].max(axis=1).mean() > reference.prior_.max() + 0.2
    with_floor = ReferenceForest(forest, floor="auto", random_state=0).fit(X, y)
    assert (
        max_distance_to_prior(with_floor, directions, RADII[2:]).max() <= 1e-12
    )  # widths differ by 10^4, so that smaller radii are not enough


GATED = {
    "forest": RandomForestClassifier(20, random_state=0),
    "isotonic": CalibratedClassifierCV(
        RandomForestClassifier(20, random_state=0), method="isotonic", cv=2
    ),
    "linear": LogisticRegression(),
}


@pytest.mark.parametrize("name", GATED)
def test_gate_tends_to_the_prior_for_any_classifier(rows_and_directions, name):
    X, y, directions = rows_and_directions
    partition = RandomForestClassifier(20, random_state=0) if name == "linear" else None
    gate = DensityGate(GATED[name], partition=partition, random_state=0).fit(X, y)
    assert (
        np.abs(gate.estimator_.predict_proba(1e6 * directions) - gate.prior_).max(axis=1).mean()
        > 0.15
    )  # without the gate the predictions differ from the prior
    assert max_distance_to_prior(gate, directions, RADII).max() <= 1e-9 + 1e-12


@pytest.mark.filterwarnings(
    "ignore:.*X_calibration="
)  # the parent is fitted on the calibration rows
def test_gate_without_min_weight_reaches_the_prior(rows_and_directions):
    X, y, directions = rows_and_directions
    gate = DensityGate(
        FrozenEstimator(RandomForestClassifier(20, random_state=0).fit(X, y)),
        min_weight=0,
        random_state=0,
    ).fit(X, y)
    assert max_distance_to_prior(gate, directions, RADII).max() <= 1e-15


def test_argmax_survives_at_any_distance_with_equal_priors(spirals):
    X, y = spirals(300, 5)
    rows = np.concatenate([np.flatnonzero(y == 1), np.flatnonzero(y == 0)[: (y == 1).sum()]])
    forest = RandomForestClassifier(20, random_state=0).fit(X[rows], y[rows])
    kdf = KernelDensityForest(FrozenEstimator(forest)).fit(
        X[rows], y[rows], X_calibration=X, y_calibration=y
    )
    outer_proba = 1e6 * np.random.default_rng(0).normal(size=(100, 2))
    posterior = kdf.posterior_(
        kdf.graph_.query(kdf.graph_.partition.locate(outer_proba), kdf.posterior_.exponents),
        kdf.graph_,
    )[0]
    assert np.array_equal(kdf.predict(outer_proba), kdf.classes_[posterior.argmax(axis=1)])
    assert len(set(kdf.predict(outer_proba))) == 2
