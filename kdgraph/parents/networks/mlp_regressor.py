"""The multilayer perceptron for a continuous outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kdgraph.parameters import Count
from kdgraph.parents.networks.heads import HEADS, Head, HeadName
from kdgraph.parents.networks.mlp import FullyConnected
from kdgraph.parents.networks.regressor import NetworkRegressor


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerPerceptronRegressor(FullyConnected, NetworkRegressor):
    """Fully connected layers with piecewise linear activations, which predict a distribution for each row.

    The defaults are the smaller network of the simulation study of Torres et al. (2024), Section 4.3, but for its widths: the paper's
    "big" one has 200, 200, 200 and 5 units.

    Parameters
    ----------
    hidden, activation, dropout, batch_norm, initial_std : the layers, see :class:`FullyConnected`.
    head : what is predicted, see :data:`~kdgraph.parents.networks.heads.HeadName`; trained by its likelihood.
    **others : those of :class:`NetworkRegressor`.

    References
    ----------
    Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, "Model-free local recalibration of neural networks", 2024, Sections 4.2 to 4.4.

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

    def _head(self) -> Head:
        return HEADS.get(self.head, HEADS["normal"])  # scikit-learn asks before ``fit`` refuses another
