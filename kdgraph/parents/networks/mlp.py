"""Multilayer perceptrons for classification and regression.

Both share :class:`FullyConnectedMixin`, which builds the layers.
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
    """Mixin that builds fully connected layers with piecewise linear activations.

    Parameters
    ----------
    hidden : sequence of int, default=(1000, 1000, 1000, 1000)
        Units of each hidden layer; none for a linear model.
    activation : {"relu", "leaky_relu"}, default="relu"
        Activation; "leaky_relu" has slope 0.01 below 0.
    dropout : float or sequence of float, default=0.0
        Fraction of the activations that training sets to 0 after each hidden layer. A list applies
        to the last layers: ``[0.4]`` is 0.4 after the last one alone.
    batch_norm : bool, default=False
        Normalise before each activation; batches must have at least two rows.
    initial_std : float or None, default=None
        Standard deviation of the normal distribution of the initial weights of every layer, above
        0; biases are 0. None: the initial weights of PyTorch, which are uniform. For four layers of
        1,000 units they are much smaller than with 0.05, the value of Keras. From the larger
        weights a network fits its training rows sooner and becomes more confident.

    Notes
    -----
    The combination of these layers is original to kdgraph.

    References
    ----------
    He et al., "Delving deep into rectifiers", 2015 (leaky_relu); Srivastava et al., "Dropout",
    2014; Ioffe and Szegedy, "Batch normalization", 2015.
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
        # Images are flattened by a layer of the module, so that they take the same path as vectors.
        # The order within a block is that of the papers: normalisation before the activation (Ioffe
        # and Szegedy 2015), dropout after it (Srivastava et al. 2014).
        layers: list[nn.Module] = [nn.Flatten()]
        for (n_inputs, n_units), dropout in zip(pairwise(widths), self._dropouts(), strict=True):
            layers.append(nn.Linear(n_inputs, n_units))
            if self.batch_norm:
                layers.append(nn.BatchNorm1d(n_units))
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
        n = len(self.hidden)
        rates = np.asarray(self.dropout, dtype=float)
        if rates.ndim == 0:
            rates = np.broadcast_to(rates, n)
        if len(rates) > n:
            raise ParameterError(
                f"dropout must be one fraction, or a list of at most one for each of {n} hidden"
                f" layers, got {rates.tolist()}"
            )
        return [0.0] * (n - len(rates)) + rates.tolist()


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerPerceptron(FullyConnectedMixin, NetworkClassifier):
    """Multilayer perceptron for classification.

    The defaults are those of Dey et al., Table 3: four layers of 1,000 units, Adam at 3e-4. Images
    are flattened.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> mlp = MultilayerPerceptron(
    ...     hidden=(32,), learning_rate=0.01, max_epochs=30, device="cpu", random_state=0
    ... ).fit(X, y)
    >>> bool(mlp.score(X, y) > 0.9), mlp.layer_names_, mlp.transform(X).shape
    (True, ['0', '1', '2', '3'], (150, 32))
    """


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerPerceptronRegressor(FullyConnectedMixin, NetworkRegressor):
    """Multilayer perceptron that predicts a distribution for each row.

    The defaults are the smaller network of the simulation study of Torres et al. (2024), Section
    4.3, except for its widths: the "big" network of the paper has 200, 200, 200 and 5 units.

    Parameters
    ----------
    hidden : sequence of int, default=(200, 200, 200, 5)
        Units of each hidden layer; none for a linear model.
    head : HeadName, default="normal"
        Family of the predicted distribution, see
        :data:`~kdgraph.parents.networks.regressor.HeadName`. The training loss is its likelihood.

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
    >>> mlp = MultilayerPerceptronRegressor(
    ...     hidden=(32,), head="normal_scale", learning_rate=0.02, max_epochs=40, random_state=0
    ... )
    >>> low, high = mlp.fit(X, y).predict_dist([[-1.0], [1.0]]).interval(0.9)
    >>> bool((high - low)[0] < 1 < (high - low)[1]), mlp.transform(X).shape
    (True, (400, 32))
    """

    hidden: Sequence[Count] = (200, 200, 200, 5)
    head: HeadName = "normal"

    def _head(self) -> DistributionHead:
        # An unknown name is rejected in fit. scikit-learn reads the tags, which need a head,
        # before.
        return DISTRIBUTION_HEADS.get(self.head, DISTRIBUTION_HEADS["normal"])
