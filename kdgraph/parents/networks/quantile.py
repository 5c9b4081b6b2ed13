"""A network that predicts quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, OpenFraction
from kdgraph.parents.networks.heads import Head, QuantileHead
from kdgraph.parents.networks.mlp import FullyConnected
from kdgraph.parents.networks.regressor import NetworkRegressor

DECILES = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
"""Deciles, and the ends of the central intervals of 90, 95 and 98 %."""


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileNetwork(FullyConnected, NetworkRegressor):
    """Fully connected layers that predict quantiles at a grid of levels, which never cross; between them lines, beyond exponential tails.

    It assumes no family: what it predicts is a :class:`~kdgraph.distributions.QuantileGrid`. The quantile network of Kuleshov and
    Deshpande (2022) takes the level as a further input; this one has an output for each level.

    Parameters
    ----------
    levels : at least two, increasing.
    hidden, activation, dropout, batch_norm, initial_std : the layers, see :class:`FullyConnected`.
    **others : those of :class:`NetworkRegressor`.

    References
    ----------
    Koenker, "Quantile regression", 2005; Taylor, "A quantile regression neural network approach to estimating the conditional density of
    multiperiod returns", Journal of Forecasting 19, 2000. That quantiles are sums of positive steps is ours.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 1))
    >>> network = QuantileNetwork(levels=(0.1, 0.5, 0.9), hidden=(16,), max_epochs=3, device="cpu", random_state=0).fit(X, X[:, 0])
    >>> network.predict_dist(X[:2]).values.shape
    (2, 3)
    """

    levels: Sequence[OpenFraction] = DECILES
    hidden: Sequence[Count] = (200, 200)

    def _head(self) -> Head:
        return QuantileHead(self.levels)

    def fit(self, X, y, sample_weight=None):
        """Train a new module; X: Float[n, d], y: Float[n] and errors as of the base.

        Raises
        ------
        ParameterError : for fewer than two levels, or levels that do not increase; else as of the base.
        """
        if np.ndim(self.levels) != 1 or len(self.levels) < 2 or not (np.diff(self.levels) > 0).all():
            raise ParameterError(f"levels must be at least two increasing numbers, got {self.levels}")
        return super().fit(X, y, sample_weight)
