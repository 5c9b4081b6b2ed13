"""Multilayer perceptron: layers, initial weights, and training."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from torch import nn

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.errors import ParameterError
from kdgraph.parents.networks import MultilayerPerceptron


def layers(**options) -> list[str]:
    module = MultilayerPerceptron(**options)._make_module((3, 2, 2), 4)
    return [
        f"{type(part).__name__} {getattr(part, 'in_features', '')}"
        f" {getattr(part, 'out_features', '')}".strip()
        for part in module
    ]


def test_network_of_table_3():
    between = ["ReLU", "Linear 1000 1000"] * 3
    assert layers() == ["Flatten", "Linear 12 1000", *between, "ReLU", "Linear 1000 4"]
    mlp = MultilayerPerceptron()
    assert (mlp.optimizer, mlp.learning_rate, mlp.loss) == ("adam", 3e-4, "cross_entropy")


def test_layers_follow_the_parameters():
    assert layers(hidden=()) == ["Flatten", "Linear 12 4"]
    assert layers(hidden=[5], activation="leaky_relu", batch_norm=True, dropout=0.5) == [
        "Flatten",
        "Linear 12 5",
        "BatchNorm1d",
        "LeakyReLU",
        "Dropout",
        "Linear 5 4",
    ]


def test_list_of_dropouts_applies_to_the_last_layers():
    between = ["Linear 12 5", "ReLU", "Linear 5 5", "ReLU"]
    assert layers(hidden=[5, 5], dropout=[0.4]) == ["Flatten", *between, "Dropout", "Linear 5 4"]
    assert layers(hidden=[5, 5], dropout=[0.4, 0]) == [
        "Flatten",
        *between[:2],
        "Dropout",
        *between[2:],
        "Linear 5 4",
    ]
    assert layers(hidden=[5, 5], dropout=[]) == layers(hidden=[5, 5])
    module = MultilayerPerceptron(hidden=[5, 5], dropout=[0.1, 0.4])._make_module((12,), 4)
    assert [part.p for part in module if isinstance(part, nn.Dropout)] == [0.1, 0.4]


def test_initial_weights_have_the_given_standard_deviation():
    module = MultilayerPerceptron(hidden=[400, 400], initial_std=0.05)._make_module((300,), 4)
    for linear in (part for part in module if isinstance(part, nn.Linear)):
        # 6 standard errors of the deviation of so many draws, 1 / sqrt(2 n) of it each
        assert (
            abs(linear.weight.std().item() / 0.05 - 1) < 6 / np.sqrt(2 * linear.weight.numel())
            and not linear.bias.any()
        )
    X, y = load_digits(return_X_y=True)
    first = [
        MultilayerPerceptron(hidden=(8,), max_epochs=0, initial_std=std, random_state=0)
        .fit(X, y)
        .predict_proba(X)
        for std in (2, 2, 3)
    ]
    assert np.array_equal(first[0], first[1]) and not np.array_equal(first[0], first[2])


def test_network_of_communities_and_crime():
    """Build the network of Luo et al., Appendix A.2."""
    mlp = build(compose(["parent=paper/p4/crime"]).parent)
    assert (mlp.optimizer, mlp.learning_rate, mlp.batch_size, mlp.stop_on) == (
        "adam",
        3e-4,
        64,
        "validation_accuracy",
    )
    names = [type(part).__name__ for part in mlp._make_module((122,), 2)]
    assert names == [
        "Flatten",
        *["Linear", "LeakyReLU"] * 3,
        "Dropout",
        "Linear",
    ] and mlp.hidden == [100, 100, 100]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": (10, 0)}, "hidden must be a list of which each is in [1, inf), got (10, 0)"),
        ({"hidden": 10}, "hidden must be a list, got 10"),
        ({"initial_std": 0}, "initial_std must be in (0, inf) or null, got 0"),
        ({"dropout": 1.0}, "dropout must be in [0, 1) or a list, got 1.0"),
        (
            {"dropout": [0.1, 1.0]},
            (
                "dropout must be a number in [0, 1) or a list of which each is in [0, 1), got [0.1,"
                " 1.0]"
            ),
        ),
        (
            {"hidden": (5,), "dropout": [0, 0.4]},
            (
                "dropout must be one fraction, or a list of at most one for each of 1 hidden layers,"
                " got [0.0, 0.4]"
            ),
        ),
        ({"activation": "tanh"}, "activation must be one of relu, leaky_relu, got 'tanh'"),
        ({"max_epochs": -1}, "max_epochs must be in [0, inf), got -1"),
        ({"patience": 0}, "patience must be in [1, inf) or null, got 0"),
    ],
)
def test_rejects_invalid_parameters(options, message):
    with pytest.raises(ParameterError) as caught:
        MultilayerPerceptron(**options).fit([[0.0], [1.0]], [0, 1])
    assert str(caught.value) == message


def test_batch_norm_requires_two_rows():
    with pytest.raises(ValueError, match="batch_size") as caught:
        MultilayerPerceptron(batch_norm=True, batch_size=1).fit([[0.0], [1.0]], [0, 1])
    assert str(caught.value) == "batch_size must be at least 2 with batch_norm, got 1"


def test_learns_digits():
    X, y = load_digits(return_X_y=True)
    mlp = MultilayerPerceptron(
        hidden=(64,), learning_rate=3e-3, max_epochs=15, batch_size=32, device="cpu", random_state=0
    )
    # The accuracy is .91; that of a linear classifier is .89.
    assert mlp.fit(X[:600] / 16, y[:600]).score(X[600:] / 16, y[600:]) > 0.88
    images = X[:, None, None, :].reshape(-1, 1, 8, 8) / 16
    same = MultilayerPerceptron(**mlp.get_params()).fit(images[:600], y[:600])
    assert np.array_equal(same.predict_proba(images), mlp.predict_proba(X / 16))
    assert all(isinstance(part, nn.Module) for part in same.module_)
