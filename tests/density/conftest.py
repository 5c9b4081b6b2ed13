"""Small problems with forests that are fitted once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from kdgraph.base import Rows
from kdgraph.geometry import partition_of


def draw_spiral(n: int, seed: int, turns: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Two arms with radius up to 1; a third of the rows is class 1."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    radius = rng.random(n)
    angle = 2 * np.pi * turns * radius + np.pi * y + rng.normal(0, 0.6, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def draw_blobs(n: int, seed: int, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping classes of different sizes."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    return rng.normal(0, 1, (n, d)) + 1.5 * np.eye(3, d)[y], y


def make_problem(
    draw, n: int, n_held_out: int, n_test: int, n_trees: int, seed: int
) -> SimpleNamespace:
    """Rows by role, the fitted forest, its partition; weights are not all equal."""
    X, y = draw(n + n_held_out + n_test, seed)
    weight = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
    train, held_out, test = (slice(0, n), slice(n, n + n_held_out), slice(n + n_held_out, None))
    forest = RandomForestClassifier(n_trees, random_state=seed, n_jobs=1, min_samples_leaf=2).fit(
        X[train], y[train]
    )
    return SimpleNamespace(
        forest=forest,
        partition=partition_of(forest),
        train=Rows(X[train], y[train], np.ones(n)),
        held_out=Rows(X[held_out], y[held_out], np.ones(n_held_out)),
        weighted=Rows(X[held_out], y[held_out], weight[held_out]),
        test=Rows(X[test], y[test], np.ones(n_test)),
        prior=np.bincount(y[train]) / n,
    )


@pytest.fixture(scope="session", params=["spiral", "blobs"])
def problem(request):
    """A problem with polytopes that hold several rows, once with two and once with three
    classes.
    """
    return PROBLEMS[request.param]


PROBLEMS = {
    "spiral": make_problem(draw_spiral, 160, 60, 60, 20, 1),
    "blobs": make_problem(draw_blobs, 150, 70, 60, 15, 2),
}


@pytest.fixture(scope="session")
def spirals():
    """The draw of spirals, (n, seed) → (X, y)."""
    return draw_spiral


@pytest.fixture(scope="session")
def three_blobs():
    """The draw of blobs, (n, seed, d) → (X, y)."""
    return draw_blobs
