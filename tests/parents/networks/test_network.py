"""What all networks share says nothing of classes: a regression on the same base; gradients by the
input, against differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.base import RegressorMixin, clone
from sklearn.datasets import load_iris
from sklearn.utils.validation import validate_data
from torch import nn

from kdgraph.parameters import check_parameters
from kdgraph.parents.networks import MultilayerPerceptron, Network


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
def rows():
    X = np.random.default_rng(0).normal(size=(200, 3))
    return X, X @ [1.0, -2.0, 0.5] + 3


def test_a_regression_trains_stops_and_predicts_as_a_classifier_does(rows):
    """On a line without noise the held-out loss goes to 0; seeds, early stopping and layers are the
    base's.
    """
    X, y = rows
    model = Line(max_epochs=60, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)
    assert model.history_[-1]["validation_loss"] < 1e-5 and not hasattr(model, "classes_")
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))
    np.testing.assert_array_equal(model.transform(X), X.astype(np.float32))
    with pytest.raises(
        ValueError, match="X has 2 features, but Line is expecting 3 features as input"
    ):
        model.predict(X[:, :2])


def test_held_out_rows_are_drawn_from_all_alike_where_there_are_no_strata(rows):
    _, y = rows
    kept, held, _ = Line(random_state=0)._split_rows(y, np.ones(200))
    assert len(held) == 20 and sorted([*kept, *held]) == list(range(200))


@pytest.fixture(scope="module")
def mlp():
    X, y = load_iris(return_X_y=True)
    return (
        MultilayerPerceptron(
            hidden=(8, 8), max_epochs=20, learning_rate=0.01, device="cpu", random_state=0
        ).fit(X, y),
        X,
    )


def test_the_gradient_by_the_input_is_that_of_differences(mlp):
    """Of the largest log probability, which ODIN climbs. The network is float32: steps of 1/64, and
    1e-3 of what rounding leaves.
    """
    model, X = mlp
    some = X[::10].astype(np.float32).astype(np.float64)
    found = model.input_gradient(some, lambda logits: logits.log_softmax(dim=1).amax(dim=1))
    assert found.shape == some.shape and found.dtype == np.float32

    def value(rows):
        return log_softmax(model.logits(rows), axis=1).max(axis=1)

    step = 2.0**-6
    for j in range(4):
        up, down = some.copy(), some.copy()
        up[:, j] += step
        down[:, j] -= step
        difference = (value(up) - value(down)) / (2 * step)
        kinked = ((model.transform(up, "1") > 0) != (model.transform(down, "1") > 0)).any(axis=1)
        kinked |= ((model.transform(up, "3") > 0) != (model.transform(down, "3") > 0)).any(axis=1)
        smooth = ~kinked
        assert smooth.sum() >= 8
        np.testing.assert_allclose(found[smooth, j], difference[smooth], rtol=2e-2, atol=2e-3)


def test_a_gradient_leaves_the_network_as_it_was(mlp):
    model, X = mlp
    before = [parameter.detach().clone() for parameter in model.module_.parameters()]
    alone = model.input_gradient(X[3:4], lambda logits: logits.logsumexp(dim=1))
    np.testing.assert_allclose(
        alone,
        model.input_gradient(X, lambda logits: logits.logsumexp(dim=1))[3:4],
        rtol=1e-5,
        atol=1e-7,
    )
    for parameter, old in zip(model.module_.parameters(), before, strict=True):
        assert parameter.grad is None and torch.equal(parameter, old)
