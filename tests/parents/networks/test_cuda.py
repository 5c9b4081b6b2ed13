"""On a CUDA device every network trains to the same bits twice, and predicts as on the CPU.

So do what reads networks: the kernel density network, detectors and files.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from torch import nn

from experiments.p3.autoencoder import ConvolutionalAutoencoder
from kdgraph import DensityGate, KernelDensityNetwork
from kdgraph.detection import KthNeighbourDistance, Mahalanobis, Odin, VirtualLogit
from kdgraph.geometry.activations import ActivationPartition, DeviceCodeIndex
from kdgraph.geometry.code_index import CodeIndex
from kdgraph.parents.networks import (
    Acet,
    ConvolutionalNetwork,
    EncoderNetwork,
    EnergyMargin,
    MonteCarloDropout,
    MultilayerPerceptron,
    MultilayerPerceptronEnsemble,
    MultilayerPerceptronRegressor,
    OutlierExposure,
    QuantileNetwork,
    ResidualNetwork,
    TorchClassifier,
)
from kdgraph.parents.networks.quantile_networks import SimultaneousQuantileNetwork
from kdgraph.persistence import from_bytes, to_bytes

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:training stopped"),
]

QUICK = {
    "max_epochs": 3,
    "batch_size": 32,
    "learning_rate": 0.01,
    "device": "cuda",
    "random_state": 0,
}
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(200, 5))
LABELS = (ROWS[:, 0] + 0.3 * RNG.normal(size=200) > 0).astype(int)
IMAGES = RNG.random((120, 1, 16, 16), dtype=np.float32)
IMAGES[1::2, :, :, 8:] += 0.5
IMAGES /= IMAGES.max()
SIDES = np.arange(120) % 2
MODULE = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 2))

VECTOR_CLASSIFIERS = {
    "perceptron": MultilayerPerceptron(hidden=(16, 12), dropout=0.2, batch_norm=True, **QUICK),
    "mmce": MultilayerPerceptron(hidden=(16,), loss="mmce", mmce_weight=(0.0, 2.0), **QUICK),
    "exposed": MultilayerPerceptron(hidden=(16,), exposure=OutlierExposure(), **QUICK),
    "energy": MultilayerPerceptron(hidden=(16,), exposure=EnergyMargin(epochs=2), **QUICK),
    "acet": MultilayerPerceptron(hidden=(16,), exposure=Acet(steps=2), **QUICK),
    "ensemble": MultilayerPerceptronEnsemble(hidden=(16,), members=3, **QUICK),
    "module": TorchClassifier(MODULE, **QUICK),
}
IMAGE_CLASSIFIERS = {
    "simple": ConvolutionalNetwork(**QUICK),
    "lenet": ConvolutionalNetwork(architecture="lenet", **QUICK),
    "resnet": ResidualNetwork(depth=8, width=4, augment=True, **QUICK),
    "encoder": EncoderNetwork(
        model_options={"depth": 8, "width": 4},
        embedding_size=8,
        **QUICK,
    ),
}
REGRESSORS = {
    "normal": MultilayerPerceptronRegressor(hidden=(16,), **QUICK),
    "dropout": MonteCarloDropout(hidden=(16,), masks=5, **QUICK),
    "quantiles": QuantileNetwork(hidden=(16,), **QUICK),
    "simultaneous quantiles": SimultaneousQuantileNetwork(**QUICK),
}
AUTOENCODERS = {
    "pooling": ConvolutionalAutoencoder(channels=(4, 2), **QUICK),
    "strides": ConvolutionalAutoencoder(channels=(4, 2), downsampling="stride", **QUICK),
}
NETWORKS = VECTOR_CLASSIFIERS | IMAGE_CLASSIFIERS | REGRESSORS | AUTOENCODERS


def data_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name in IMAGE_CLASSIFIERS or name in AUTOENCODERS:
        return IMAGES, SIDES
    return ROWS, (ROWS[:, 0] if name in REGRESSORS else LABELS)


def outputs(network, X: np.ndarray) -> np.ndarray:
    if isinstance(network, ConvolutionalAutoencoder):
        return network.transform(X)
    if hasattr(network, "predict_dist"):
        return network.predict_dist(X).ppf(0.3)
    return network.logits(X)


def assert_close(a: np.ndarray, b: np.ndarray) -> None:
    """Compare float32 computations that add in another order.

    A sum of some hundred terms is off by 1e-6 of their size. TF32 would be off by 1e-3.
    """
    np.testing.assert_allclose(a, b, rtol=0, atol=3e-5 * np.abs(b).max())


def weights_of(network) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in network.module_.parameters()])


@pytest.fixture(scope="module")
def fitted():
    """Return every network by name, trained on the CUDA device."""
    return {name: clone(network).fit(*data_of(name)) for name, network in NETWORKS.items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_training_gives_the_same_bits_twice_and_frees_the_memory(fitted, name):
    X, y = data_of(name)
    expected = fitted[name]
    expected_outputs = outputs(expected, X)
    used = torch.cuda.memory_allocated()
    again = clone(NETWORKS[name]).fit(X, y)
    for a, b in zip(expected.module_.parameters(), again.module_.parameters(), strict=True):
        assert a.device.type == "cpu" and torch.equal(a, b)
    np.testing.assert_array_equal(outputs(again, X), expected_outputs)
    assert torch.cuda.memory_allocated() == used


@pytest.mark.parametrize("name", NETWORKS)
def test_the_trained_network_predicts_the_same_on_the_cpu(fitted, name):
    network, X = fitted[name], data_of(name)[0]
    on_cpu = from_bytes(to_bytes(network), "it").value.set_params(device="cpu")
    assert_close(outputs(on_cpu, X), outputs(network, X))


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_of_a_row_do_not_depend_on_the_other_rows(fitted, name):
    network, X = fitted[name], data_of(name)[0]
    np.testing.assert_array_equal(outputs(network, X[70:71]), outputs(network, X)[70:71])


@pytest.mark.parametrize("name", ["perceptron", "ensemble", "lenet", "normal", "strides"])
def test_training_in_full_precision_follows_that_on_the_cpu(name):
    """Steps of the optimizer amplify rounding, so few are compared."""
    X, y = data_of(name)
    options = {"amp": False, "max_epochs": 1}
    if name == "perceptron":
        # Each device has its own random numbers. Before batch normalisation a bias has no gradient
        # but rounding, which Adam turns into whole steps.
        options |= {"dropout": 0.0, "batch_norm": False}
    on_gpu = clone(NETWORKS[name]).set_params(**options).fit(X, y)
    on_cpu = clone(NETWORKS[name]).set_params(**options, device="cpu").fit(X, y)
    a, b = on_gpu.history_[0], on_cpu.history_[0]
    assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)
    # The last step was made, too.
    start = clone(on_cpu).set_params(max_epochs=0).fit(X, y)
    difference = weights_of(on_gpu) - weights_of(on_cpu)
    assert difference.norm() < 0.01 * (weights_of(on_cpu) - weights_of(start)).norm()


@pytest.mark.parametrize("name", ["perceptron", "resnet"])
def test_gradients_and_layers_are_those_of_the_cpu(fitted, name):
    network, X = fitted[name], data_of(name)[0]
    on_cpu = clone(network)
    vars(on_cpu).update(vars(network))
    on_cpu.set_params(device="cpu")
    assert_close(
        on_cpu.input_gradient(X, lambda logits: logits.logsumexp(1)),
        network.input_gradient(X, lambda logits: logits.logsumexp(1)),
    )
    for layer in network.layer_names_[-3:]:
        assert_close(on_cpu.transform(X, layer), network.transform(X, layer))


@pytest.mark.parametrize("name", ["perceptron", "lenet", "resnet"])
def test_codes_and_counts_are_those_of_the_cpu(fitted, name):
    network, X = fitted[name], data_of(name)[0]
    on_gpu = ActivationPartition(network)
    on_cpu = ActivationPartition(network.module_)
    assert (on_gpu.device, on_cpu.device) == ("cuda", "cpu")
    codes, cpu_codes = on_gpu.encode(X), on_cpu.encode(X)
    # Rounding moves an input of a unit by 1e-7 of its size, and so few of them across 0. TF32 moves
    # them by 1e-3.
    n_flipped = np.bitwise_count(codes ^ cpu_codes).sum()
    assert n_flipped <= 1e-5 * len(X) * on_gpu.widths.sum() + 1
    weights = np.eye(2)[data_of(name)[1]]
    index, cpu_index = on_gpu.index(codes, weights), on_cpu.index(codes, weights)
    assert isinstance(index, DeviceCodeIndex) and isinstance(cpu_index, CodeIndex)
    np.testing.assert_array_equal(index.similarity(codes), on_cpu.similarity(codes, codes))
    exponents = np.array([0.5, 3.0, 40.0])
    (masses, nearest), (cpu_masses, cpu_nearest) = (
        part.query(codes, exponents) for part in (index, cpu_index)
    )
    np.testing.assert_array_equal(nearest, cpu_nearest)
    # As for CodeIndex: powers have a relative error of 1e-14.
    np.testing.assert_allclose(masses, cpu_masses, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["perceptron", "lenet"])
@pytest.mark.parametrize(
    "component",
    [
        KernelDensityNetwork,
        DensityGate,
        Odin,
        VirtualLogit,
        KthNeighbourDistance,
        Mahalanobis,
    ],
)
def test_what_reads_a_network_is_that_of_the_cpu(fitted, name, component):
    (X, y), network = data_of(name), fitted[name]
    half = len(X) // 2
    networks = {"cuda": network, "cpu": clone(network)}
    vars(networks["cpu"]).update(vars(network))
    networks["cpu"].set_params(device="cpu")
    results = {}
    for device, parent in networks.items():
        model = component(FrozenEstimator(parent), random_state=0).fit(
            X[:half], y[:half], X_calibration=X[half:], y_calibration=y[half:]
        )
        assert_loads_equal(model, X)
        score = model.predict_proba if hasattr(model, "predict_proba") else model.ood_score
        results[device] = score(X)
    assert_close(results["cuda"], results["cpu"])


def assert_loads_equal(model, X: np.ndarray) -> None:
    loaded = from_bytes(to_bytes(model), "it").value
    score = "predict_proba" if hasattr(model, "predict_proba") else "ood_score"
    np.testing.assert_array_equal(getattr(loaded, score)(X), getattr(model, score)(X))


def test_a_module_on_the_device_stays_and_is_read_there():
    module = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2)).to("cuda")
    partition = ActivationPartition(module)
    locations = partition.locate(ROWS)
    assert partition.device == "cuda:0" and partition._module_on_device() is module
    assert isinstance(partition.index(locations.codes, np.eye(2)[LABELS]), DeviceCodeIndex)
    on_cpu = ActivationPartition(from_bytes(to_bytes(module), "it").value)
    assert on_cpu.device == "cpu"
    assert_close(on_cpu.locate(ROWS).proba, locations.proba)
    network = TorchClassifier(module, **QUICK).fit(ROWS, LABELS)
    assert next(network.module_.parameters()).device.type == "cpu"
    assert next(module.parameters()).device.type == "cuda"
