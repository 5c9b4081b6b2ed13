"""The search on a device returns the distances of the search on the CPU to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import NearestNeighbors

from kdgraph.detection import KthNeighbourDistance
from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap
from kdgraph.parents.networks import MultilayerPerceptron
from kdgraph.parents.networks import device_search as device_search_module
from kdgraph.parents.networks.device_search import DeviceSearch
from kdgraph.smoothing.neighbours import distances_of
from tests.variations import others_slow

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ),
]
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(3000, 40))
ROWS = {
    "normal": NORMAL,
    "directions": NORMAL / np.linalg.norm(NORMAL, axis=1, keepdims=True),
    "far from the origin": NORMAL + 1e6,
    "equal distances": RNG.integers(0, 2, size=(3000, 6)).astype(float),
    "clusters closer than float32 resolves": np.round(NORMAL[:, :3]) + 1e-9 * NORMAL[:, 3:6],
    "one distant row": np.concatenate([1e-20 * NORMAL, np.full((1, 40), 1e20)]),
    "tiny": 1e-200 * NORMAL,
    "few": NORMAL[:7],
    "constant": np.ones((50, 3)),
}
"""Rows among which other rows are searched, by name."""


def queries_for(rows: np.ndarray) -> np.ndarray:
    """Return rows, points near to them, the centre, and points far outside."""
    d = rows.shape[1]
    scale = rows.std() or 1.0
    return np.concatenate(
        [
            rows[:100],
            rows[:100] + 0.1 * scale * RNG.normal(size=rows[:100].shape),
            rows.mean(axis=0, keepdims=True),
            rows[:1] + scale * 10.0 ** np.arange(0, 100, 7)[:, None] * np.ones(d),
        ]
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("k", others_slow([1, 5]))
def test_distances_are_those_of_the_cpu(name, k, device):
    rows = ROWS[name]
    index, queries = NearestNeighbors().fit(rows), queries_for(rows)
    distances = DeviceSearch(index, device).distances(queries, k)
    np.testing.assert_array_equal(distances, distances_of(index, queries, k))


@pytest.mark.parametrize("device", DEVICES)
def test_distances_do_not_depend_on_the_block_size(device, monkeypatch):
    index, queries = NearestNeighbors().fit(NORMAL), queries_for(NORMAL)
    expected = DeviceSearch(index, device).distances(queries, 4)
    monkeypatch.setattr(device_search_module, "_BLOCK_SIZE", 7 * len(NORMAL))
    np.testing.assert_array_equal(DeviceSearch(index, device).distances(queries, 4), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_the_device_decides_most_points_alone(device, monkeypatch):
    """The bound of the rounding error is narrow enough for features of a usual size."""
    rows = ROWS["directions"]
    queries = queries_for(rows)[100:200]
    n_on_cpu = []
    monkeypatch.setattr(
        device_search_module,
        "distances_of",
        lambda index, at, k: n_on_cpu.append(len(at)) or distances_of(index, at, k),
    )
    DeviceSearch(NearestNeighbors().fit(rows), device).distances(queries, 5)
    assert sum(n_on_cpu) <= 2


@pytest.fixture(scope="module")
def network():
    return MultilayerPerceptron(
        hidden=(16,), learning_rate=0.02, max_epochs=3, device="cpu", random_state=0
    ).fit(NORMAL, (NORMAL[:, 0] > 0).astype(int))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("features", [None, FeatureMap(source="logits", reduce="none")])
def test_scores_of_a_detector_do_not_depend_on_its_device(network, features, device, monkeypatch):
    detector = KthNeighbourDistance(FrozenEstimator(network), features=features, device="cpu")
    expected = detector.fit(NORMAL[:2000], X_calibration=NORMAL[2000:]).score_samples(NORMAL)
    search = DeviceSearch(detector.index_, device)
    monkeypatch.setattr(
        KthNeighbourDistance, "_distance_function", lambda detector: search.distances
    )
    np.testing.assert_array_equal(detector.score_samples(NORMAL), expected)


def test_auto_is_the_device_of_the_network(network):
    """The CPU searches for a network on the CPU, and for features of no network."""
    X = NORMAL[:500]
    for parent, features in ((FrozenEstimator(network), None), (None, None)):
        detector = KthNeighbourDistance(parent, features=features).fit(X, X_calibration=X)
        assert detector._distance_function().func is distances_of


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_needs_a_device():
    with pytest.raises(ParameterError, match=r"device=cuda needs a CUDA device, .* device=cpu$"):
        KthNeighbourDistance(device="cuda").fit(NORMAL, X_calibration=NORMAL)
