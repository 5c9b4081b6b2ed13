"""Base class of networks: a regression on it, and gradients against finite differences."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, fields, is_dataclass

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_iris
from sklearn.utils.validation import validate_data
from torch import nn

from kdgraph.docstrings import described_names
from kdgraph.parameters import check_parameters
from kdgraph.parents import networks
from kdgraph.parents.networks import ConvolutionalNetwork, MultilayerPerceptron, Network


def squared_error(outputs, targets, weights):
    return (weights * (outputs[:, 0] - targets) ** 2).mean()


@dataclass(eq=False, repr=False, kw_only=True)
class Line(RegressorMixin, Network):
    """Linear regression by gradient descent."""

    learning_rate: float = 0.1
    device: str = "cpu"

    def _make_module(self, input_shape, n_outputs):
        return nn.Sequential(nn.Linear(*input_shape, n_outputs))

    def _loss(self):
        return squared_error

    def fit(self, X, y):
        check_parameters(self)
        X, y = validate_data(self, X, y, dtype=np.float64)
        self._fit_arrays(X, np.asarray(y, dtype=np.float32), np.ones(len(y)), 1)
        return self

    def predict(self, X):
        return self._module_outputs(X)[:, 0]


@pytest.fixture(scope="module")
def make_linear_rows():
    X = np.random.default_rng(0).normal(size=(200, 3))
    return X, X @ [1.0, -2.0, 0.5] + 3


def test_regression_on_the_base_class_trains_stops_and_predicts(make_linear_rows):
    """Fit a line without noise, for which the held-out loss converges to 0.

    Seeds, early stopping and layers are those of the base class.
    """
    X, y = make_linear_rows
    model = Line(max_epochs=60, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)
    assert model.history_[-1]["validation_loss"] < 1e-5 and not hasattr(model, "classes_")
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))
    np.testing.assert_array_equal(model.transform(X), X.astype(np.float32))
    with pytest.raises(
        ValueError, match="X has 2 features, but Line is expecting 3 features as input"
    ):
        model.predict(X[:, :2])


def test_held_out_rows_are_random_without_strata(make_linear_rows):
    _, y = make_linear_rows
    training_rows, held_out, _ = Line(random_state=0)._split_rows(y, np.ones(200))
    assert len(held_out) == 20 and sorted([*training_rows, *held_out]) == list(range(200))


@pytest.fixture(scope="module")
def mlp():
    X, y = load_iris(return_X_y=True)
    return (
        MultilayerPerceptron(
            hidden=(8, 8), max_epochs=20, learning_rate=0.01, device="cpu", random_state=0
        ).fit(X, y),
        X,
    )


def test_input_gradient_matches_finite_differences(mlp):
    """Test the gradient of the largest log probability, which ODIN uses.

    The network is float32: steps are 1/64, and the tolerance of 1e-3 covers rounding.
    """
    model, X = mlp
    sample = X[::10].astype(np.float32).astype(np.float64)
    gradient = model.input_gradient(sample, lambda logits: logits.log_softmax(dim=1).amax(dim=1))
    assert gradient.shape == sample.shape and gradient.dtype == np.float32

    def value(make_linear_rows):
        return log_softmax(model.logits(make_linear_rows), axis=1).max(axis=1)

    step = 2.0**-6
    for j in range(4):
        up, down = sample.copy(), sample.copy()
        up[:, j] += step
        down[:, j] -= step
        difference = (value(up) - value(down)) / (2 * step)
        kinked = ((model.transform(up, "1") > 0) != (model.transform(down, "1") > 0)).any(axis=1)
        kinked |= ((model.transform(up, "3") > 0) != (model.transform(down, "3") > 0)).any(axis=1)
        smooth = ~kinked
        assert smooth.sum() >= 8
        np.testing.assert_allclose(gradient[smooth, j], difference[smooth], rtol=2e-2, atol=2e-3)


def test_gradient_does_not_modify_the_network(mlp):
    model, X = mlp
    before = [parameter.detach().clone() for parameter in model.module_.parameters()]
    gradient_alone = model.input_gradient(X[3:4], lambda logits: logits.logsumexp(dim=1))
    np.testing.assert_allclose(
        gradient_alone,
        model.input_gradient(X, lambda logits: logits.logsumexp(dim=1))[3:4],
        rtol=1e-5,
        atol=1e-7,
    )
    for parameter, old in zip(model.module_.parameters(), before, strict=True):
        assert parameter.grad is None and torch.equal(parameter, old)


@pytest.fixture(scope="module")
def cnn():
    images = np.random.default_rng(0).random((20, 2, 8, 8), dtype=np.float32)
    return ConvolutionalNetwork(max_epochs=1, device="cpu", random_state=0).fit(
        images, np.arange(20) % 2
    ), images


def test_pooled_features_are_means_over_pixels(cnn):
    """Compare with the outputs of each layer, which ``transform`` flattens."""
    model, images = cnn
    convolution, dense = model.activation_names_
    pooled = model.pooled_features(images, [dense, convolution])
    assert [each.shape for each in pooled] == [(20, 10), (20, 3)]
    np.testing.assert_array_equal(pooled[0], model.transform(images, dense))
    flat = model.transform(images, convolution).astype(np.float64)
    # The network adds 36 pixels in float32.
    np.testing.assert_allclose(pooled[1], flat.reshape(20, 3, 36).mean(axis=2), rtol=1e-5)
    tokens = torch.tensor([[[1.0, 2.0], [3.0, 6.0]]])
    assert Network.pool(tokens).tolist() == [[2.0, 4.0]]


def test_gradient_of_a_layer_is_that_of_the_modules_before_it(cnn):
    model, images = cnn
    gradient = model.input_gradient(
        images, lambda outputs: outputs.square().sum(dim=(1, 2, 3)), model.activation_names_[0]
    )
    inputs = torch.from_numpy(images).requires_grad_()
    first = list(model.module_.children())[:2]
    nn.Sequential(*first)(inputs).square().sum().backward()
    # Another order of sums in float32.
    np.testing.assert_allclose(gradient, inputs.grad.numpy(), rtol=1e-4, atol=1e-7)
    assert np.abs(gradient).max() > 0


def test_unknown_layers_are_rejected(cnn):
    model, images = cnn
    for call in (
        lambda: model.pooled_features(images, ["convolution"]),
        lambda: model.input_gradient(images, lambda features: features.sum(dim=1), "convolution"),
    ):
        with pytest.raises(ValueError, match="no layer named 'convolution'; layer_names_ lists"):
            call()


@pytest.mark.parametrize(
    "component",
    [
        each
        for each in map(vars(networks).get, networks.__all__)
        if issubclass(each, BaseEstimator) and is_dataclass(each)
    ],
)
def test_help_describes_every_parameter(component):
    described = described_names(inspect.getdoc(component))
    assert {field.name for field in fields(component)} <= set(described)
    # A default that a base class describes may have been replaced.
    for field in fields(component):
        _, has_default, text = described[field.name].partition("\n")[0].partition("default=")
        if has_default and field.name != "levels":
            assert ast.literal_eval(text) == field.default
