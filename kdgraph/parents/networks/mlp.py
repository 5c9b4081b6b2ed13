"""The multilayer perceptron.

The multilayer perceptron for a continuous outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Annotated, Literal

import numpy as np
from torch import nn

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Positive, Range
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.regressor import (
    DISTRIBUTION_HEADS,
    DistributionHead,
    HeadName,
    NetworkRegressor,
)

_DropoutRate = Annotated[float, Range(0, 1)]
_ACTIVATIONS = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU}


@dataclass(eq=False, repr=False, kw_only=True)
class FullyConnectedMixin:
    """Fully connected layers with piecewise linear activations: what the network is made of,
    whatever it predicts.

    Parameters
    ----------
    hidden : units of each hidden layer; none for a linear model.
    activation : "relu", or "leaky_relu" with slope 0.01 below 0.
    dropout : share of the activations that training sets to 0 after each hidden layer; a list is of
        the last ones: ``[0.4]`` is 0.4 after the last alone.
    batch_norm : normalise before each activation; needs batches of two rows.
    initial_std : standard deviation of the normal distribution that the weights of every layer are
        drawn from at first, above 0; biases are 0. None: as PyTorch draws them, uniformly, and with
        four layers of 1,000 units much smaller than with Keras' 0.05, from which a network comes to
        fit its training rows sooner, and more surely.

    References
    ----------
    He et al., "Delving deep into rectifiers", 2015 (leaky_relu); Srivastava et al., "Dropout",
    2014; Ioffe and Szegedy, "Batch normalization", 2015. How they are put together is ours.
    """

    hidden: Sequence[Count] = (1000, 1000, 1000, 1000)
    activation: Literal["relu", "leaky_relu"] = "relu"
    dropout: _DropoutRate | Sequence[_DropoutRate] = 0.0
    batch_norm: bool = False
    initial_std: Positive | None = None

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        if self.batch_norm and getattr(self, "batch_size", None) == 1:
            raise ValueError("batch_size must be at least 2 with batch_norm, got 1")
        widths = [prod(input_shape), *(int(width) for width in self.hidden)]
        layers: list[nn.Module] = [nn.Flatten()]
        for (before, after), dropout in zip(pairwise(widths), self._dropouts(), strict=True):
            layers.append(nn.Linear(before, after))
            if self.batch_norm:
                layers.append(nn.BatchNorm1d(after))
            layers.append(_ACTIVATIONS[self.activation]())
            if dropout > 0:
                layers.append(nn.Dropout(dropout))
        layers.append(nn.Linear(widths[-1], n_outputs))
        if self.initial_std is not None:
            for layer in layers:
                if isinstance(layer, nn.Linear):
                    nn.init.normal_(layer.weight, std=self.initial_std)
                    nn.init.zeros_(layer.bias)
        return nn.Sequential(*layers)

    def _dropouts(self) -> list[float]:
        """One for each hidden layer."""
        n = len(self.hidden)
        last = (
            np.broadcast_to(self.dropout, n)
            if np.ndim(self.dropout) == 0
            else np.asarray(self.dropout, dtype=float)
        )
        if len(last) > n:
            raise ParameterError(
                f"dropout must be one share, or a list of at most one for each of {n} hidden"
                f" layers, got {last.tolist()}"
            )
        return [0.0] * (n - len(last)) + last.tolist()


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerPerceptron(FullyConnectedMixin, NetworkClassifier):
    """Fully connected layers with piecewise linear activations.

    The defaults are those of Dey et al., Table 3: four layers of 1,000 units, Adam at 3e-4. Images
    are flattened.

    Parameters
    ----------
    hidden, activation, dropout, batch_norm, initial_std : the layers, see :class:`FullyConnectedMixin`.
    **others : those of :class:`NetworkClassifier`.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> mlp = MultilayerPerceptron(hidden=(32,), learning_rate=0.01, max_epochs=30, device="cpu", random_state=0).fit(X, y)
    >>> bool(mlp.score(X, y) > 0.9), mlp.layer_names_, mlp.transform(X).shape
    (True, ['0', '1', '2', '3'], (150, 32))
    """


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerPerceptronRegressor(FullyConnectedMixin, NetworkRegressor):
    """Fully connected layers with piecewise linear activations, which predict a distribution for
    each row.

    The defaults are the smaller network of the simulation study of Torres et al. (2024), Section
    4.3, but for its widths: the paper's "big" one has 200, 200, 200 and 5 units.

    Parameters
    ----------
    hidden, activation, dropout, batch_norm, initial_std : the layers, see :class:`FullyConnectedMixin`.
    head : what is predicted, see :data:`~kdgraph.parents.networks.regressor.HeadName`; trained by
    its likelihood.
    **others : those of :class:`NetworkRegressor`.

    References
    ----------
    Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, "Model-free local recalibration of neural
    networks", 2024, Sections 4.2 to 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(400, 1))
    >>> y = 100 + X[:, 0] ** 2 + rng.normal(size=400) * np.where(X[:, 0] < 0, 0.1, 1.0)
    >>> mlp = MultilayerPerceptronRegressor(hidden=(32,), head="normal_scale", learning_rate=0.02, max_epochs=40, random_state=0)
    >>> low, high = mlp.fit(X, y).predict_dist([[-1.0], [1.0]]).interval(0.9)
    >>> bool((high - low)[0] < 1 < (high - low)[1]), mlp.transform(X).shape
    (True, (400, 32))
    """

    hidden: Sequence[Count] = (200, 200, 200, 5)
    head: HeadName = "normal"

    def _head(self) -> DistributionHead:
        return DISTRIBUTION_HEADS.get(
            self.head, DISTRIBUTION_HEADS["normal"]
        )  # scikit-learn asks before ``fit`` refuses another
