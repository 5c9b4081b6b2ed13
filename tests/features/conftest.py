"""Parents of each kind and the rows that they were fitted on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from kdgraph.parents.networks import ConvolutionalNetwork, MultilayerPerceptron


@pytest.fixture(scope="session")
def table():
    """Return rows of two classes, X Float[300, 6] and y Int[300]."""
    return make_classification(300, 6, n_informative=4, flip_y=0.1, random_state=0)


@pytest.fixture(scope="session")
def forest(table):
    return RandomForestClassifier(20, random_state=0, n_jobs=1).fit(*table)


@pytest.fixture(scope="session")
def mlp(table):
    return MultilayerPerceptron(
        hidden=(8, 5), max_epochs=3, batch_size=64, patience=None, device="cpu", random_state=0
    ).fit(*table)


@pytest.fixture(scope="session")
def images():
    """Return images X Float32[40, 1, 12, 12], of which the second class is brighter, and y Int[40]."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    return (rng.random((40, 1, 12, 12)) * (0.5 + y[:, None, None, None] / 2)).astype(np.float32), y


@pytest.fixture(scope="session")
def cnn(images):
    return ConvolutionalNetwork(max_epochs=1, device="cpu", random_state=0).fit(*images)
