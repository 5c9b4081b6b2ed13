"""The user's torch settings change no fit and no prediction, and are restored."""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_moons
from torch import nn

from experiments.p3.autoencoder import ConvolutionalAutoencoder
from kdgraph import DensityGate, KernelDensityNetwork
from kdgraph.calibration import OdinCalibration
from kdgraph.detection import Odin, VirtualLogit
from kdgraph.parents.networks import (
    MonteCarloDropout,
    MultilayerPerceptron,
    MultilayerPerceptronEnsemble,
    QuantileNetwork,
    TorchClassifier,
)
from kdgraph.parents.networks.torch_state import default_torch_state
from kdgraph.persistence.model_file import from_bytes, to_bytes
from tests.variations import others_slow

QUICK = {"max_epochs": 2, "device": "cpu", "random_state": 0}
X, Y = make_moons(80, noise=0.2, random_state=0)
IMAGES = np.random.default_rng(0).random((20, 1, 8, 8), dtype=np.float32)
NETWORK = MultilayerPerceptron(hidden=(8, 8), dropout=0.2, **QUICK)
ESTIMATORS = {
    "network": NETWORK,
    "module": TorchClassifier(nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 2)), **QUICK),
    "ensemble": MultilayerPerceptronEnsemble(hidden=(8,), **QUICK),
    "quantiles": QuantileNetwork(hidden=(8,), **QUICK),
    "dropout": MonteCarloDropout(hidden=(8,), masks=5, **QUICK),
    "autoencoder": ConvolutionalAutoencoder(**QUICK),
    "KDN": KernelDensityNetwork(NETWORK, random_state=0),
    "gate": DensityGate(NETWORK, random_state=0),
    "ODIN": OdinCalibration(NETWORK, random_state=0),
    "ODIN as a detector": Odin(NETWORK, random_state=0),
    "virtual logit": VirtualLogit(NETWORK, dimensions=4, random_state=0),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*learnt nothing"),
    pytest.mark.filterwarnings("ignore:training stopped"),
]


@contextmanager
def default_dtype(dtype: torch.dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        assert torch.get_default_dtype() == dtype
        torch.set_default_dtype(before)


@contextmanager
def default_device(device: str):
    torch.set_default_device(device)
    try:
        yield
        assert torch.zeros(1).device.type == device
    finally:
        torch.set_default_device(None)


@contextmanager
def precision(name: str):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
        assert torch.get_float32_matmul_precision() == name
    finally:
        torch.set_float32_matmul_precision(before)


SWITCHES = {
    "GPU": lambda: [torch.backends.cuda.matmul],
    "CPU": lambda: [torch.backends.mkldnn.matmul, torch.backends.mkldnn.conv],
    "all": lambda: [torch.backends],
}
"""Objects of torch whose ``fp32_precision`` is the precision of some operations, from 2.9 on."""


@contextmanager
def fp32_precision(of: str, value: str):
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has no precision by operation")
    switches = SWITCHES[of]()
    before = [switch.fp32_precision for switch in switches]
    for switch in switches:
        switch.fp32_precision = value
    try:
        yield
        assert [switch.fp32_precision for switch in switches] == [value] * len(switches)
    finally:
        for switch, old_value in zip(switches, before, strict=True):
            switch.fp32_precision = old_value


@contextmanager
def cudnn_settings():
    cudnn = torch.backends.cudnn
    cudnn.benchmark, cudnn.enabled = True, False
    try:
        yield
        assert (cudnn.benchmark, cudnn.enabled, cudnn.deterministic) == (True, False, False)
    finally:
        cudnn.benchmark, cudnn.enabled = False, True


@contextmanager
def without_gradients():
    with torch.no_grad():
        yield
        assert not torch.is_grad_enabled()


@contextmanager
def in_inference_mode():
    with torch.inference_mode():
        yield
        assert torch.is_inference_mode_enabled()


@contextmanager
def autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield
        assert torch.is_autocast_enabled("cpu")


@contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


STATES = {
    "float64": lambda: default_dtype(torch.float64),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "meta": lambda: default_device("meta"),
    "with meta": lambda: torch.device("meta"),
    "no_grad": without_gradients,
    "inference_mode": in_inference_mode,
    "autocast": autocast,
    "precision": lambda: precision("medium"),
    "precision of products on GPUs": lambda: fp32_precision("GPU", "tf32"),
    "precision of oneDNN": lambda: fp32_precision("CPU", "bf16"),
    "precision of everything": lambda: fp32_precision("all", "tf32"),
    "cuDNN": cudnn_settings,
    "deterministic": deterministic,
}


def fit(name: str):
    estimator = clone(ESTIMATORS[name])
    if name == "autoencoder":
        return estimator.fit(IMAGES)
    return estimator.fit(X, X[:, 0] if name in ("quantiles", "dropout") else Y)


def predictions(name: str, fitted) -> np.ndarray:
    if name == "autoencoder":
        return fitted.transform(IMAGES)
    if hasattr(fitted, "predict_dist"):
        return fitted.predict_dist(X).ppf(0.3)
    return fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.ood_score(X)


@pytest.fixture(scope="module")
def reference():
    """Return networks by name, fitted with default settings, and their predictions."""
    fitted = {name: fit(name) for name in ESTIMATORS}
    return {name: (estimator, predictions(name, estimator)) for name, estimator in fitted.items()}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", others_slow(ESTIMATORS))
def test_results_do_not_depend_on_torchs_global_state(reference, name, state):
    fitted, expected = reference[name]
    with STATES[state]():
        of_fitted = predictions(name, fitted)
        refitted = fit(name)
        of_refitted = predictions(name, refitted)
    np.testing.assert_array_equal(of_fitted, expected)
    np.testing.assert_array_equal(of_refitted, expected)
    np.testing.assert_array_equal(predictions(name, refitted), expected)


@pytest.mark.parametrize("state", STATES)
def test_loaded_network_has_gradients(reference, state):
    fitted = reference["network"][0]
    file = to_bytes(fitted)
    with STATES[state]():
        loaded = from_bytes(file, "it").value
        result = loaded.input_gradient(X, lambda logits: logits[:, 0])
    expected = fitted.input_gradient(X, lambda logits: logits[:, 0])
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(loaded.input_gradient(X, lambda logits: logits[:, 0]), expected)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_global_generator_is_seeded_or_drawn_from(name):
    def states():
        of_numpy = repr(np.random.get_state())  # noqa: NPY002 - the global one is what must not move
        return torch.get_rng_state().tolist(), of_numpy, random.getstate()

    before = states()
    predictions(name, fit(name))
    assert states() == before


def test_last_of_several_threads_restores_the_user_settings():
    inside, leave = threading.Event(), threading.Event()

    def hold_default_state() -> None:
        with default_torch_state():
            inside.set()
            leave.wait(10)

    with default_dtype(torch.float64):
        thread = threading.Thread(target=hold_default_state)
        with default_torch_state():
            thread.start()
            assert inside.wait(10)
        assert torch.get_default_dtype() == torch.float32  # the other thread still uses it
        leave.set()
        thread.join()
        assert torch.get_default_dtype() == torch.float64


def precision_switches() -> list:
    """Return the switches of products, convolutions and recurrent layers on GPUs and CPUs."""
    backends = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has no precision by operation")
    switches = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    return switches + [getattr(backends.mkldnn, name) for name in ("matmul", "conv", "rnn")]


def precisions() -> list[str]:
    return [switch.fp32_precision for switch in precision_switches()]


@pytest.fixture
def default_precisions() -> list[str]:
    """Set the precisions that torch has when it is imported: TF32 for cuDNN, else float32."""
    torch.set_float32_matmul_precision("highest")
    values = ["none", "tf32", "tf32", "none", "none", "none"]
    for switch, value in zip(precision_switches(), values, strict=True):
        switch.fp32_precision = value
    return values


def test_inside_no_operation_is_less_precise_than_float32(default_precisions):
    with default_torch_state():
        assert set(precisions()) <= {"ieee", "none"}
    assert precisions() == default_precisions


def test_inside_cudnn_is_deterministic_and_times_nothing():
    cudnn = torch.backends.cudnn
    with cudnn_settings(), default_torch_state():
        assert (cudnn.benchmark, cudnn.enabled, cudnn.deterministic) == (False, True, True)


@pytest.mark.parametrize("value", ["tf32", "ieee"])
def test_inherited_precisions_are_restored(default_precisions, value):
    with fp32_precision("all", value):
        inside = precisions()
        assert inside[0] == value
        with default_torch_state():
            assert set(precisions()) <= {"ieee", "none"}
        assert precisions() == inside
    assert precisions() == default_precisions
    assert torch.get_float32_matmul_precision() == "highest"


def test_error_inside_restores_the_global_state():
    with default_dtype(torch.float64), torch.no_grad():
        with pytest.raises(RuntimeError, match="of its own"), default_torch_state():  # noqa: PT012
            assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
            raise RuntimeError("of its own")
        assert not torch.is_grad_enabled() and torch.get_default_dtype() == torch.float64
