from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn import datasets

from kdgraph.data.dataset import PosteriorSimulation, Simulation, Table
from kdgraph.data.simulations.clouds import Blobs, Circles, Moons
from kdgraph.data.tables.scikit_learn import (
    FriedmanTable,
    GaussianShells,
    SwissRoll,
    SyntheticClassification,
    SyntheticRegression,
)

SIMULATIONS = [Moons(), Circles(), Blobs(), Blobs(n_blobs=5, n_features=7)]
CLASSES = [
    SyntheticClassification(n_rows=300),
    GaussianShells(n_rows=300),
    SwissRoll(n_rows=300, n_noise=2),
]
TABLES = [
    *CLASSES,
    SyntheticRegression(n_rows=300),
    FriedmanTable(1, 300),
    FriedmanTable(2, 300),
    FriedmanTable(3, 300),
]


@pytest.mark.parametrize("source", SIMULATIONS, ids=lambda s: s.name)
def test_samples_have_n_rows_and_depend_on_the_generator_only(source):
    assert isinstance(source, Simulation) and not isinstance(source, Table)
    X, y = source.sample(101, np.random.default_rng(3))
    assert X.shape == (101, len(source.feature_names))
    assert set(y) == set(source.classes)
    assert np.ptp(np.bincount(y)) <= 1, "as many of each class as can be"
    repeated, other_seed = (
        source.sample(101, np.random.default_rng(3)),
        source.sample(101, np.random.default_rng(4)),
    )
    np.testing.assert_array_equal(repeated[0], X)
    assert not np.array_equal(other_seed[0], X)


def test_moons_and_circles_have_the_radii_of_scikit_learn():
    X, y = Moons(noise_std=0.0).sample(50, np.random.default_rng(0))
    outer = X[y == 0]
    np.testing.assert_allclose(np.linalg.norm(outer, axis=1), 1)
    X, y = Circles(noise_std=0.0, factor=0.3).sample(50, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), np.where(y == 0, 1, 0.3))


def test_blobs_lie_around_the_centres_of_their_draw():
    source = Blobs(n_blobs=3, n_features=2, noise_std=0.01, draw=5)
    X, y = source.sample(300, np.random.default_rng(0))
    assert np.abs(X - source.centres[y]).max() < 0.06
    assert not np.array_equal(source.centres, Blobs(draw=6).centres)
    assert np.abs(source.centres).max() <= 10


def test_posterior_of_blobs_is_bayes_rule():
    source = Blobs(n_blobs=4, n_features=3, noise_std=4.0)
    assert isinstance(source, PosteriorSimulation)
    X, y = source.sample(2000, np.random.default_rng(1))
    densities = np.column_stack(
        [multivariate_normal(centre, 16.0).pdf(X) for centre in source.centres]
    )
    proba = source.posterior(X)
    np.testing.assert_allclose(proba, densities / densities.sum(axis=1, keepdims=True), atol=1e-12)
    assert abs((proba.argmax(axis=1) == y).mean() - proba.max(axis=1).mean()) < 0.02, (
        "as often right as it says"
    )
    assert np.isfinite(source.posterior(np.full((1, 3), 1e8))).all()


@pytest.mark.parametrize("source", TABLES, ids=lambda s: s.name)
def test_tables_depend_on_their_draw_only(source):
    assert isinstance(source, Table) and not isinstance(source, Simulation)
    data = source.load()
    assert data.name == source.name
    assert len(data.X) == 300
    assert data.fingerprint == source.load().fingerprint
    changed = type(source)(**{**parameters_of(source), "draw": 1}).load()
    assert changed.fingerprint != data.fingerprint
    assert data.task == ("classification" if source in CLASSES else "regression")


def parameters_of(source) -> dict:
    return {key: value for key, value in vars(source).items() if key != "name"}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_friedman_tables_agree_with_scikit_learn(number):
    X, y = getattr(datasets, f"make_friedman{number}")(50, noise=0.5, random_state=7)
    data = FriedmanTable(number, n_rows=50, noise_std=0.5, draw=7).load()
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)


def test_synthetic_classification_has_balanced_classes():
    data = SyntheticClassification(
        n_rows=600, n_informative=4, n_classes=5, n_clusters=2, flip=0.0
    ).load()
    assert data.classes.tolist() == list(range(5))
    assert np.ptp(np.bincount(data.y)) <= 2


def test_gaussian_shells_are_nested():
    data = GaussianShells(n_rows=400, n_features=3, n_classes=4).load()
    radius = np.linalg.norm(data.X, axis=1)
    assert np.bincount(data.y).tolist() == [100] * 4
    assert all(radius[data.y == k].max() < radius[data.y == k + 1].min() for k in range(3))


def test_swiss_roll_has_ordered_pieces_and_noise_features():
    """Check that the radius in the two rolled features increases from piece to piece.

    Without noise, pieces do not overlap, because the angle along the roll grows with the radius.
    """
    data = SwissRoll(n_rows=1000, n_classes=5, noise_std=0.0, n_noise=2).load()
    assert data.X.shape == (1000, 5)
    radius = np.linalg.norm(data.X[:, [0, 2]], axis=1)
    assert np.bincount(data.y).tolist() == [200] * 5
    assert all(radius[data.y == k].max() < radius[data.y == k + 1].min() for k in range(4))
    assert (
        np.abs(np.corrcoef(data.X.T)[3:, :3]).max() < 0.15
    )  # four standard errors of a correlation of 1,000 rows
