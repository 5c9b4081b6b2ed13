"""Classifiers around modules of the user."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from kdgraph.errors import ParameterError
from kdgraph.parents.networks import TorchClassifier


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    return rng.normal(size=(90, 4)) + 2 * np.eye(3, 4)[y], np.array(["a", "b", "c"])[y]


def module(**options) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(**options)


def test_module_is_used_unchanged_without_epochs(data):
    own = module()
    frozen = TorchClassifier(own, max_epochs=0, device="cpu").fit(*data)
    with torch.no_grad():
        expected = own(torch.tensor(data[0], dtype=torch.float32)).softmax(dim=1).numpy()
    np.testing.assert_allclose(frozen.predict_proba(data[0]), expected, atol=1e-6)  # float32
    assert frozen.n_epochs_ == 0 and frozen.history_ == [] and frozen.module_ is not own


def test_training_starts_from_the_module_and_does_not_modify_it(data):
    own = module().train()
    before = [p.clone() for p in own.parameters()]
    trained = TorchClassifier(
        own, max_epochs=20, learning_rate=0.02, batch_size=16, device="cpu", random_state=0
    ).fit(*data)
    assert trained.score(*data) > 0.8
    assert (
        all(torch.equal(p, q) for p, q in zip(own.parameters(), before, strict=True))
        and own.training
    )
    # A step of 1e-30 changes no float32: training starts from these weights.
    still = TorchClassifier(own, max_epochs=1, learning_rate=1e-30, device="cpu").fit(*data)
    assert all(torch.equal(p, q) for p, q in zip(still.module_.parameters(), before, strict=True))


def test_clone_and_double_precision(data):
    single, double = (
        TorchClassifier(module(dtype=kind), max_epochs=2, device="cpu", random_state=0)
        for kind in (torch.float32, torch.float64)
    )
    expected = single.fit(*data).predict_proba(data[0])
    assert np.array_equal(clone(single).fit(*data).predict_proba(data[0]), expected)
    assert np.array_equal(double.fit(*data).predict_proba(data[0]), expected)


def test_lazy_layers_are_seeded(data):
    lazy = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3))
    first, second, other_seed = (
        TorchClassifier(lazy, max_epochs=1, device="cpu", random_state=seed).fit(*data)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first.logits(data[0]), second.logits(data[0])) and not np.array_equal(
        first.logits(data[0]), other_seed.logits(data[0])
    )


class Pair(nn.Module):
    def forward(self, x):
        return x, x


@pytest.mark.parametrize(
    ("own", "kind", "message"),
    [
        (None, ParameterError, "module must be a torch.nn.Module, got None"),
        (
            nn.Linear(4, 2),
            ValueError,
            (
                "module must map one row to logits of shape (1, 3), one for each class of y, got"
                " (1, 2)"
            ),
        ),
        (
            Pair(),
            ValueError,
            "module must map one row to logits of shape (1, 3), one for each class of y, got tuple",
        ),
        (
            nn.Linear(5, 3),
            ValueError,
            (
                "module cannot take rows of shape (4,): mat1 and mat2 shapes cannot be multiplied"
                " (1x4 and 5x3)"
            ),
        ),
    ],
    ids=["none", "two columns", "pair", "five features"],
)
def test_rejects_unsuitable_modules(data, own, kind, message):
    with pytest.raises(kind) as caught:
        TorchClassifier(own, device="cpu").fit(*data)
    assert str(caught.value) == message
