"""Rows and forests of the geometry tests.

Spirals give leaves with few rows, blobs give leaves with hundreds.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier


@pytest.fixture(scope="session")
def spiral():
    """Return two noisy spirals, X Float[600, 2] and y Int[600]."""
    rng = np.random.default_rng(1)
    y = np.arange(600) % 2
    radius = rng.random(600)
    angle = 4 * np.pi * radius + np.pi * y + rng.normal(0, 0.8, 600)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


@pytest.fixture(scope="session")
def blobs():
    """Return three well-separated classes, X Float[600, 3] and y Int[600]."""
    rng = np.random.default_rng(2)
    y = rng.integers(3, size=600)
    return rng.normal(0, 0.5, (600, 3)) + 4 * np.eye(3)[y], y


@pytest.fixture(scope="session")
def spiral_forest(spiral):
    return RandomForestClassifier(30, random_state=0, n_jobs=1).fit(*spiral)


@pytest.fixture(scope="session")
def blob_forest(blobs):
    return RandomForestClassifier(30, random_state=0, n_jobs=1).fit(*blobs)
