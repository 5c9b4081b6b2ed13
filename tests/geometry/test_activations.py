from __future__ import annotations

import itertools
import pickle

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
from kdgraph.geometry.activations import ActivationPartition, pack_bits
from kdgraph.parents.networks import ModuleClassifier, MultilayerPerceptron


def seeded(make, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().eval()


def dense(*widths):
    layers = [
        part for a, b in itertools.pairwise(widths[:-1]) for part in (nn.Linear(a, b), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


class Functional(nn.Module):
    """Convolution, in-place and functional ReLUs, a tensor's method, a clamp, and layers whose
    names say nothing.
    """

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


class Pictures(nn.Module):
    """No dense layer but the last: what is read is the ReLU before the pooling."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.last(torch.relu(self.second(x)).mean(dim=(2, 3)))


def hidden_bits(module: nn.Sequential, X: np.ndarray) -> list[np.ndarray]:
    """By hand, for a Sequential of linear layers and ReLUs, in float64: units on, layer by layer,
    and p > 1/K.
    """
    bits, x = [], X
    for part in module:
        if isinstance(part, nn.Linear):
            x = x @ part.weight.detach().double().numpy().T + part.bias.detach().double().numpy()
        else:
            bits.append(x > 0)
            x = np.maximum(x, 0)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return [*bits, p / p.sum(axis=1, keepdims=True) > 1 / x.shape[1]]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(2, 3), st.integers(0, 2**20)
)
def test_similarity_is_the_share_of_activation_paths_that_agree(hidden, n_classes, seed):
    module = seeded(lambda: dense(2, *hidden, n_classes), seed)
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
    np.testing.assert_allclose(
        partition.similarity(codes, codes), expected, atol=1e-12
    )  # a share of counts against a product of shares


def test_similarity_of_a_large_network_is_the_product_of_hamming_similarities():
    module = seeded(lambda: dense(20, 1000, 1000, 1000, 1000, 5))
    X = np.random.default_rng(0).normal(size=(101, 20))
    partition = ActivationPartition(module)
    expected, layers = 1.0, hidden_bits(module, X.astype(np.float32).astype(np.float64))
    codes = partition.encode(X)
    # Float32 rounds: of 406,000 bits a few that are within 1e-6 of their kink may fall on the other
    # side than in float64.
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
def test_every_relu_like_module_gives_the_bits_of_a_relu(gate):
    linear, last = seeded(lambda: nn.Linear(2, 40)), seeded(lambda: nn.Linear(40, 2), 1)
    X = np.random.default_rng(0).normal(size=(9, 2))
    expected = ActivationPartition(
        nn.Sequential(linear, nn.ReLU(), last), output_bits=False
    ).encode(X)
    assert np.array_equal(
        ActivationPartition(nn.Sequential(linear, gate, last), output_bits=False).encode(X),
        expected,
    )


def test_a_threshold_is_where_its_kink_is():
    linear, last = seeded(lambda: nn.Linear(2, 40)), seeded(lambda: nn.Linear(40, 2), 1)
    X = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    codes = ActivationPartition(
        nn.Sequential(linear, nn.Threshold(0.5, 0.0), last), output_bits=False
    ).encode(X)
    with torch.no_grad():
        assert np.array_equal(codes, pack_bits([(linear(torch.from_numpy(X)) > 0.5).numpy()]))


def test_dropout_and_batch_norm_are_read_in_eval_mode():
    module = nn.Sequential(
        nn.BatchNorm1d(2),
        nn.Linear(2, 30),
        nn.BatchNorm1d(30),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(30, 3),
    )
    X = np.random.default_rng(0).normal(size=(200, 2))
    network = ModuleClassifier(module=module, max_epochs=3, random_state=0).fit(
        X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    )
    partition = partition_of(network)
    place = partition.locate(X)
    assert np.array_equal(place.codes, partition.encode(X))
    assert partition.widths.tolist() == [30, 3]
    assert np.array_equal(
        place.points, X
    )  # all of it is dense, so the Gaussians live where the user measures
    assert np.array_equal(partition.vote(place), network.predict_proba(X))


def test_functional_and_in_place_relus_of_the_dense_head_are_read():
    module = seeded(Functional)
    X = np.random.default_rng(0).random((5, 1, 6, 6)).astype(np.float32)
    partition = ActivationPartition(module, layers="head")
    place = partition.locate(X)
    assert partition.widths.tolist() == [7, 6, 3]
    with torch.no_grad():
        enters = torch.relu(module.a(torch.from_numpy(X))).flatten(1)
        first = module.b(enters)
        second = module.c(F.leaky_relu(first))
        p = module.d(second.clamp(min=0)).softmax(1)
    np.testing.assert_allclose(
        place.points, enters, rtol=1e-5, atol=1e-6
    )  # float32 in batches of another size
    assert np.array_equal(
        place.codes, pack_bits([(first > 0).numpy(), (second > 0).numpy(), (p > 1 / 3).numpy()])
    )
    everything = ActivationPartition(module)
    everything.encode(X)
    assert everything.widths.tolist() == [2 * 4 * 4, 7, 6, 3]


def test_where_the_gaussians_live_can_be_chosen():
    module, X = seeded(Functional), np.random.default_rng(0).random((5, 1, 6, 6)).astype(np.float32)
    dims = {
        name: ActivationPartition(module, embedding=name).embed(X).shape[1]
        for name in ("head", "last", "input")
    }
    assert dims == {"head": 32, "last": 6, "input": 36}
    flat = seeded(lambda: dense(36, 8, 4, 2))
    assert {
        name: ActivationPartition(flat, embedding=name).embed(X.reshape(5, -1)).shape[1]
        for name in ("head", "last", "input")
    } == {
        "head": 36,
        "last": 4,
        "input": 36,
    }


def test_a_map_of_features_is_too_wide_to_be_an_embedding():
    def picture(size):
        dense = nn.Sequential(
            nn.Flatten(), nn.Linear(2 * size * size, 5), nn.ReLU(), nn.Linear(5, 2)
        )
        return nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), *dense)

    for size, expected in ((22, 2 * 22 * 22), (23, 5)):  # 968 and 1,058 numbers
        X = np.random.default_rng(0).random((3, 1, size, size)).astype(np.float32)
        assert ActivationPartition(seeded(lambda: picture(size))).embed(X).shape[1] == expected  # noqa: B023 - called at once


def test_a_network_without_dense_relus_gives_the_last_ones_before():
    partition = ActivationPartition(seeded(Pictures), layers="head")
    place = partition.locate(np.random.default_rng(0).random((3, 1, 8, 8)).astype(np.float32))
    assert partition.widths.tolist() == [4 * 4 * 4, 3]
    assert place.points.shape == (3, 4)


@pytest.mark.parametrize(
    ("end", "logits"),
    [(nn.Softmax(1), 3), (nn.LogSoftmax(1), 3), (nn.Sigmoid(), 1), (nn.Identity(), 1)],
    ids=str,
)
def test_what_puts_out_probabilities_or_one_logit_is_understood(end, logits):
    body, X = seeded(lambda: dense(2, 20, logits)), np.random.default_rng(0).normal(size=(50, 2))
    place = ActivationPartition(nn.Sequential(*body, end)).locate(X)
    with torch.no_grad():
        out = body(torch.from_numpy(X.astype(np.float32))).double()
    expected = out.softmax(1) if logits == 3 else torch.cat([1 - out.sigmoid(), out.sigmoid()], 1)
    np.testing.assert_allclose(place.proba, expected, atol=1e-6)  # float32
    assert np.array_equal(
        place.codes[:, -1], pack_bits([place.proba > 1 / place.proba.shape[1]])[:, 0]
    )


@pytest.mark.parametrize(
    "module",
    [nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)), nn.Linear(2, 2)],
    ids=["tanh", "linear"],
)
def test_a_network_without_relus_is_refused_in_one_line(module):
    with pytest.raises(TypeError) as caught:
        ActivationPartition(module).encode(np.zeros((1, 2)))
    name = type(module).__name__
    assert (
        str(caught.value)
        == f"{name} has no ReLU-like unit to read (relu, leaky_relu, elu, clamp, …); its calls end"
        " in linear"
    )


def test_no_row_depends_on_the_rows_beside_it():
    module = seeded(lambda: dense(3, 300, 300, 4))
    X = np.random.default_rng(0).normal(size=(1300, 3))
    place = ActivationPartition(module, n_jobs=2).locate(X)
    some = np.random.default_rng(1).permutation(1300)[:77]
    for rows in ([700], some):
        alone = ActivationPartition(module, n_jobs=1).locate(X[rows])
        assert np.array_equal(alone.codes, place.codes[rows])
        assert np.array_equal(alone.proba, place.proba[rows])


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).normal(size=(120, 3))
    return X, MultilayerPerceptron(hidden=(16, 8), max_epochs=3, random_state=0).fit(X, X[:, 0] > 0)


def test_partition_of_finds_the_network_in_what_is_around_it(fitted):
    X, network = fitted
    codes = ActivationPartition(network).encode(X)
    inside = (
        FrozenEstimator(network),
        CalibratedClassifierCV(FrozenEstimator(network)).fit(X, X[:, 0] > 0),
        network.module_,
    )
    for parent in inside:
        assert np.array_equal(partition_of(parent).encode(X), codes)
    pipeline = make_pipeline(StandardScaler(), network).fit(X, X[:, 0] > 0)
    place = partition_of(pipeline).locate(X)
    assert np.array_equal(place.points, pipeline[0].transform(X))


def test_a_partition_survives_pickling(fitted):
    X, network = fitted
    partition = partition_of(network)
    again = pickle.loads(pickle.dumps(partition))
    assert np.array_equal(again.encode(X), partition.encode(X))
    index = again.index(again.encode(X), np.eye(2)[(X[:, 0] > 0).astype(int)])
    masses, nearest = index.query(partition.encode(X[5:6]), np.array([2.0]))
    assert nearest.tolist() == [5] and masses.sum() > 1


def test_the_widths_are_not_known_before_rows_were_placed(fitted):
    with pytest.raises(ValueError, match="are known once rows were placed"):
        _ = partition_of(fitted[1]).widths


def test_how_a_network_is_read_cannot_be_asked_of_a_forest(fitted):
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier().fit(fitted[0], fitted[0][:, 0] > 0)
    with pytest.raises(TypeError) as caught:
        partition_of(tree, layers="all")
    assert str(caught.value) == "layers say how a network is read, got DecisionTreeClassifier"
