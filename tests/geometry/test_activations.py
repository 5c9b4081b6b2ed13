"""Partitions of networks against manually computed activations."""

from __future__ import annotations

import itertools
import pickle
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from kdgraph import partition_of
from kdgraph.geometry.activations import ActivationPartition
from kdgraph.geometry.partition import pack_bits
from kdgraph.parents.networks import MultilayerPerceptron, TorchClassifier


def make_seeded(make, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().eval()


def make_dense_network(*widths):
    layers = [
        layer for a, b in itertools.pairwise(widths[:-1]) for layer in (nn.Linear(a, b), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


class FunctionalRelus(nn.Module):
    """Network with in-place, functional and clamped ReLUs, and with uninformative layer names."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (
            nn.Conv2d(1, 2, 3),
            nn.Linear(2 * 4 * 4, 7),
            nn.Linear(7, 6),
            nn.Linear(6, 3),
        )

    def forward(self, x):
        x = self.a(x).relu_().flatten(1)
        x = F.leaky_relu(self.b(x))
        return self.d(self.c(x).clamp(min=0))


class ConvolutionWithoutDenseRelus(nn.Module):
    """Network with one dense layer, the last: the ReLU before the pooling is recorded."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.last(torch.relu(self.second(x)).mean(dim=(2, 3)))


def hidden_bits(module: nn.Sequential, X: np.ndarray) -> list[np.ndarray]:
    """Return the bits of a Sequential of linear layers and ReLUs, layer by layer, in float64.

    The last ones are p > 1/K, of the probabilities.
    """
    bits, x = [], X
    for layer in module:
        if isinstance(layer, nn.Linear):
            x = x @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()
        else:
            bits.append(x > 0)
            x = np.maximum(x, 0)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return [*bits, p / p.sum(axis=1, keepdims=True) > 1 / x.shape[1]]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(2, 3), st.integers(0, 2**20)
)
def test_similarity_is_the_fraction_of_equal_activation_paths(hidden, n_classes, seed):
    module = make_seeded(lambda: make_dense_network(2, *hidden, n_classes), seed)
    X = np.random.default_rng(seed).normal(size=(6, 2))
    partition = ActivationPartition(module)
    codes = partition.encode(X)
    layers = hidden_bits(module, X)
    paths = list(itertools.product(*[range(bits.shape[1]) for bits in layers]))
    modes = np.array(
        [
            [[bits[i, unit] for bits, unit in zip(layers, path, strict=True)] for path in paths]
            for i in range(len(X))
        ]
    )
    expected = (modes[:, None] == modes[None]).all(axis=3).mean(axis=2)
    # A fraction of counts is compared with a product of fractions.
    np.testing.assert_allclose(partition.similarity(codes, codes), expected, atol=1e-12)


def test_similarity_is_the_product_of_hamming_similarities():
    module = make_seeded(lambda: make_dense_network(20, 1000, 1000, 1000, 1000, 5))
    X = np.random.default_rng(0).normal(size=(101, 20))
    partition = ActivationPartition(module)
    expected, layers = 1.0, hidden_bits(module, X.astype(np.float32).astype(np.float64))
    codes = partition.encode(X)
    # In float32 a few of the 406,000 bits, within 1e-6 of their kink, may differ from those in
    # float64.
    assert (
        np.bitwise_count(codes ^ np.asfortranarray(pack_bits(layers))).sum(axis=1) > 0
    ).mean() < 0.1
    starts = np.concatenate([[0], np.cumsum(-(-partition.widths // 64))])
    for layer, width in enumerate(partition.widths):
        bits = np.unpackbits(
            np.ascontiguousarray(codes[:, starts[layer] : starts[layer + 1]]).view(np.uint8),
            axis=1,
            bitorder="little",
        )
        expected = expected * (1.0 - cdist(bits[:, :width], bits[:, :width], "hamming"))
    np.testing.assert_allclose(partition.similarity(codes, codes), expected, atol=1e-12)
    np.testing.assert_allclose(
        partition.paired_similarity(codes[:50], codes[51:]), np.diag(expected[:50, 51:]), atol=1e-12
    )


@pytest.mark.parametrize(
    "gate",
    [
        nn.ReLU(),
        nn.ReLU(inplace=True),
        nn.LeakyReLU(),
        nn.PReLU(),
        nn.ReLU6(),
        nn.ELU(),
        nn.SELU(),
        nn.CELU(),
        nn.RReLU(),
        nn.Threshold(0.0, 0.0),
        nn.Hardtanh(0.0, 5.0),
    ],
    ids=str,
)
def test_relu_like_modules_have_the_bits_of_relu(gate):
    linear, last = make_seeded(lambda: nn.Linear(2, 40)), make_seeded(lambda: nn.Linear(40, 2), 1)
    X = np.random.default_rng(0).normal(size=(9, 2))
    expected = ActivationPartition(
        nn.Sequential(linear, nn.ReLU(), last), output_bits=False
    ).encode(X)
    assert np.array_equal(
        ActivationPartition(nn.Sequential(linear, gate, last), output_bits=False).encode(X),
        expected,
    )


def test_threshold_bits_use_its_kink():
    linear, last = make_seeded(lambda: nn.Linear(2, 40)), make_seeded(lambda: nn.Linear(40, 2), 1)
    X = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    codes = ActivationPartition(
        nn.Sequential(linear, nn.Threshold(0.5, 0.0), last), output_bits=False
    ).encode(X)
    with torch.no_grad():
        assert np.array_equal(codes, pack_bits([(linear(torch.from_numpy(X)) > 0.5).numpy()]))


def test_dropout_and_batch_norm_run_in_eval_mode():
    module = nn.Sequential(
        nn.BatchNorm1d(2),
        nn.Linear(2, 30),
        nn.BatchNorm1d(30),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(30, 3),
    )
    X = np.random.default_rng(0).normal(size=(200, 2))
    network = TorchClassifier(module=module, max_epochs=3, random_state=0).fit(
        X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    )
    partition = partition_of(network)
    locations = partition.locate(X)
    assert np.array_equal(locations.codes, partition.encode(X))
    assert partition.widths.tolist() == [30, 3]
    # All layers are dense, so the Gaussians are in the input space.
    assert np.array_equal(locations.points, X)
    assert np.array_equal(partition.parent_proba(locations), network.predict_proba(X))


def test_functional_and_in_place_relus_of_dense_head_are_recorded():
    module = make_seeded(FunctionalRelus)
    X = np.random.default_rng(0).random((5, 1, 6, 6)).astype(np.float32)
    partition = ActivationPartition(module, layers="head")
    locations = partition.locate(X)
    assert partition.widths.tolist() == [7, 6, 3]
    with torch.no_grad():
        head_input = torch.relu(module.a(torch.from_numpy(X))).flatten(1)
        first = module.b(head_input)
        second = module.c(F.leaky_relu(first))
        p = module.d(second.clamp(min=0)).softmax(1)
    # The batches of float32 have another size.
    np.testing.assert_allclose(locations.points, head_input, rtol=1e-5, atol=1e-6)
    assert np.array_equal(
        locations.codes, pack_bits([(first > 0).numpy(), (second > 0).numpy(), (p > 1 / 3).numpy()])
    )
    all_layers_partition = ActivationPartition(module)
    all_layers_partition.encode(X)
    assert all_layers_partition.widths.tolist() == [2 * 4 * 4, 7, 6, 3]


def test_embedding_option_selects_the_space_of_gaussians():
    module, X = (
        make_seeded(FunctionalRelus),
        np.random.default_rng(0).random((5, 1, 6, 6)).astype(np.float32),
    )
    dims = {
        name: ActivationPartition(module, embedding=name).embed(X).shape[1]
        for name in ("head", "last", "input")
    }
    assert dims == {"head": 32, "last": 6, "input": 36}
    flat = make_seeded(lambda: make_dense_network(36, 8, 4, 2))
    assert {
        name: ActivationPartition(flat, embedding=name).embed(X.reshape(5, -1)).shape[1]
        for name in ("head", "last", "input")
    } == {
        "head": 36,
        "last": 4,
        "input": 36,
    }


def test_auto_embedding_skips_feature_maps_wider_than_1024():
    def make_image_network(size):
        make_dense_network = nn.Sequential(
            nn.Flatten(), nn.Linear(2 * size * size, 5), nn.ReLU(), nn.Linear(5, 2)
        )
        return nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), *make_dense_network)

    for size, expected in ((22, 2 * 22 * 22), (23, 5)):  # 968 and 1,058 numbers
        X = np.random.default_rng(0).random((3, 1, size, size)).astype(np.float32)
        network = make_seeded(partial(make_image_network, size))
        assert ActivationPartition(network).embed(X).shape[1] == expected


def test_head_without_relus_uses_last_relus_before_it():
    partition = ActivationPartition(make_seeded(ConvolutionWithoutDenseRelus), layers="head")
    locations = partition.locate(np.random.default_rng(0).random((3, 1, 8, 8)).astype(np.float32))
    assert partition.widths.tolist() == [4 * 4 * 4, 3]
    assert locations.points.shape == (3, 4)


@pytest.mark.parametrize(
    ("end", "logits"),
    [(nn.Softmax(1), 3), (nn.LogSoftmax(1), 3), (nn.Sigmoid(), 1), (nn.Identity(), 1)],
    ids=str,
)
def test_probability_outputs_and_single_logits_become_probabilities(end, logits):
    body, X = (
        make_seeded(lambda: make_dense_network(2, 20, logits)),
        np.random.default_rng(0).normal(size=(50, 2)),
    )
    locations = ActivationPartition(nn.Sequential(*body, end)).locate(X)
    with torch.no_grad():
        out = body(torch.from_numpy(X.astype(np.float32))).double()
    expected = out.softmax(1) if logits == 3 else torch.cat([1 - out.sigmoid(), out.sigmoid()], 1)
    np.testing.assert_allclose(locations.proba, expected, atol=1e-6)  # float32
    assert np.array_equal(
        locations.codes[:, -1], pack_bits([locations.proba > 1 / locations.proba.shape[1]])[:, 0]
    )


@pytest.mark.parametrize(
    "module",
    [nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)), nn.Linear(2, 2)],
    ids=["tanh", "linear"],
)
def test_network_without_relus_raises_type_error(module):
    with pytest.raises(TypeError) as caught:
        ActivationPartition(module).encode(np.zeros((1, 2)))
    name = type(module).__name__
    assert (
        str(caught.value)
        == f"{name} has no ReLU-like unit to read (relu, leaky_relu, elu, clamp, …); its calls end"
        " in linear"
    )


def test_locations_do_not_depend_on_other_rows():
    module = make_seeded(lambda: make_dense_network(3, 300, 300, 4))
    X = np.random.default_rng(0).normal(size=(1300, 3))
    locations = ActivationPartition(module, n_jobs=2).locate(X)
    sample = np.random.default_rng(1).permutation(1300)[:77]
    for rows in ([700], sample):
        subset = ActivationPartition(module, n_jobs=1).locate(X[rows])
        assert np.array_equal(subset.codes, locations.codes[rows])
        assert np.array_equal(subset.proba, locations.proba[rows])


@pytest.fixture(scope="module")
def fitted_network():
    X = np.random.default_rng(0).normal(size=(120, 3))
    return X, MultilayerPerceptron(hidden=(16, 8), max_epochs=3, random_state=0).fit(X, X[:, 0] > 0)


def test_partition_of_unwraps_wrapped_networks(fitted_network):
    X, network = fitted_network
    codes = ActivationPartition(network).encode(X)
    wrapped_parents = (
        FrozenEstimator(network),
        CalibratedClassifierCV(FrozenEstimator(network)).fit(X, X[:, 0] > 0),
        network.module_,
    )
    for parent in wrapped_parents:
        assert np.array_equal(partition_of(parent).encode(X), codes)
    pipeline = make_pipeline(StandardScaler(), network).fit(X, X[:, 0] > 0)
    locations = partition_of(pipeline).locate(X)
    assert np.array_equal(locations.points, pipeline[0].transform(X))


def test_partition_survives_pickling(fitted_network):
    X, network = fitted_network
    partition = partition_of(network)
    restored = pickle.loads(pickle.dumps(partition))
    assert np.array_equal(restored.encode(X), partition.encode(X))
    index = restored.index(restored.encode(X), np.eye(2)[(X[:, 0] > 0).astype(int)])
    masses, nearest = index.query(partition.encode(X[5:6]), np.array([2.0]))
    assert nearest.tolist() == [5] and masses.sum() > 1


def test_widths_raise_before_rows_are_located(fitted_network):
    with pytest.raises(ValueError, match="are set when rows are first located"):
        _ = partition_of(fitted_network[1]).widths


def test_network_options_raise_for_forests(fitted_network):
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier().fit(fitted_network[0], fitted_network[0][:, 0] > 0)
    with pytest.raises(TypeError) as caught:
        partition_of(tree, layers="all")
    assert str(caught.value) == "layers can be set for networks only, got DecisionTreeClassifier"
