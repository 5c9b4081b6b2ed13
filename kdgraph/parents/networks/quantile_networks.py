"""A network that predicts quantiles.

A network that takes the level of a quantile as one more input, and learns all levels at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from kdgraph.distributions import Distribution, QuantileGrid
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, OpenFraction
from kdgraph.parents.networks.mlp import FullyConnectedMixin
from kdgraph.parents.networks.regressor import (
    DistributionHead,
    NetworkRegressor,
    QuantileHead,
    TargetScaler,
)

_DEFAULT_LEVELS = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    0.975,
    0.99,
)
"""Deciles, and the ends of the central intervals of 90, 95 and 98 %."""


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileNetwork(FullyConnectedMixin, NetworkRegressor):
    """Fully connected layers that predict quantiles at a grid of levels, which never cross; between
    them lines, beyond exponential tails.

    It assumes no family: what it predicts is a :class:`~kdgraph.distributions.QuantileGrid`. The
    quantile network of Kuleshov and Deshpande (2022) takes the level as a further input; this one
    has an output for each level.

    Parameters
    ----------
    levels : at least two, increasing.
    hidden, activation, dropout, batch_norm, initial_std : the layers, see :class:`FullyConnectedMixin`.
    **others : those of :class:`NetworkRegressor`.

    References
    ----------
    Koenker, "Quantile regression", 2005; Taylor, "A quantile regression neural network approach to
    estimating the conditional density of multiperiod returns", Journal of Forecasting 19, 2000.
    That quantiles are sums of positive steps is ours.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 1))
    >>> network = QuantileNetwork(levels=(0.1, 0.5, 0.9), hidden=(16,), max_epochs=3, device="cpu", random_state=0).fit(X, X[:, 0])
    >>> network.predict_dist(X[:2]).values.shape
    (2, 3)
    """

    levels: Sequence[OpenFraction] = _DEFAULT_LEVELS
    hidden: Sequence[Count] = (200, 200)

    def _head(self) -> DistributionHead:
        return QuantileHead(self.levels)

    def fit(self, X, y, sample_weight=None):
        """Train a new module; X: Float[n, d], y: Float[n] and errors as of the base.

        Raises
        ------
        ParameterError : for fewer than two levels, or levels that do not increase; else as of the
            base.
        """
        if (
            np.ndim(self.levels) != 1
            or len(self.levels) < 2
            or not (np.diff(self.levels) > 0).all()
        ):
            raise ParameterError(
                f"levels must be at least two increasing numbers, got {self.levels}"
            )
        return super().fit(X, y, sample_weight)


_PREDICTED_LEVELS = tuple(
    sorted(
        {
            *(i / 100 for i in range(1, 100)),
            0.001,
            0.0025,
            0.005,
            0.025,
            0.975,
            0.995,
            0.9975,
            0.999,
        }
    )
)
"""At which quantiles are predicted: hundredths, and the ends of the central intervals of 95, 99,
99.5 and 99.8 %.
"""
_SAMPLED_LEVELS_PER_STEP = 8
"""Levels at which a row is looked at in each step, one in each eighth of (0, 1)."""


@dataclass(eq=False, repr=False, kw_only=True)
class SimultaneousQuantileNetwork(NetworkRegressor):
    """Densely connected layers that map a row and a level τ to the quantile at τ, by the check loss
    at levels drawn anew in each step.

    Parameters
    ----------
    hidden : units of each hidden layer, which gets the input and what all layers before it put out.
    level_input : how τ enters. "score": as the quantile z of a standard normal distribution; then
        training starts at that distribution, the same for each row, so outcomes must come in such
        units (both ours). "share": as it is, and training starts anywhere.
    **others : those of :class:`NetworkRegressor`.

    Notes
    -----
    Early stopping goes by the mean check loss at :data:`LEVELS`. There quantiles are predicted too;
    where they cross they are put in order.

    References
    ----------
    Kuleshov and Deshpande, "Calibrated and sharp uncertainties in deep learning via density
    estimation", ICML 2022; Tagasovska and Lopez-Paz, "Single-model uncertainties for deep
    learning", NeurIPS 2019, Section 2.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 1))
    >>> network = SimultaneousQuantileNetwork(max_epochs=2, device="cpu", random_state=0).fit(X, X[:, 0])
    >>> network.predict_dist(X[:3]).ppf(np.array([0.005, 0.5, 0.995])).shape
    (3, 3)
    """

    hidden: Sequence[Count] = (20, 20)
    level_input: Literal["score", "share"] = "score"

    def _head(self) -> DistributionHead:
        return SimultaneousQuantileHead(is_standardised=self.level_input == "score")

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        return SimultaneousQuantileModule(
            int(np.prod(input_shape)), self.hidden, uses_normal_scores=self.level_input == "score"
        )


class SimultaneousQuantileHead(DistributionHead):
    """Quantiles at :data:`LEVELS`; a module says beside each at which level it is (ours).

    Parameters
    ----------
    is_standardised : whether outcomes are in units of the network already.
    """

    name = "levels"
    n_outputs = len(_PREDICTED_LEVELS)

    def __init__(self, is_standardised: bool) -> None:
        self.is_standardised = is_standardised

    def fit_scaler(self, y: np.ndarray, weight: np.ndarray) -> TargetScaler:  # noqa: D102 - as in the base
        return TargetScaler(0.0, 1.0) if self.is_standardised else super().fit_scaler(y, weight)

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Mean over rows and levels of (τ - [z < v]) (z - v), of v and τ, Float32[b, m, 2], and
        targets Float32[b].
        """
        over, levels = targets[:, None] - outputs[..., 0], outputs[..., 1]
        return (weights * torch.maximum(levels * over, (levels - 1) * over).mean(dim=1)).mean()

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Float[n]: the median, of outputs Float64[n, levels, 2]."""
        return scaler.center + scaler.spread * outputs[..., _PREDICTED_LEVELS.index(0.5), 0]

    def distribution(  # noqa: D102
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        return QuantileGrid(
            np.array(_PREDICTED_LEVELS), scaler.center + scaler.spread * outputs[..., 0]
        )


class SimultaneousQuantileModule(nn.Module):
    """Float32[b, …] → Float32[b, m, 2], quantiles and their levels: :data:`DRAWN` random ones in
    training, else :data:`LEVELS`; ours.

    Parameters
    ----------
    n_inputs : numbers of a row.
    hidden, uses_normal_scores : see :class:`SimultaneousQuantileNetwork`.
    """

    def __init__(self, n_inputs: int, hidden: Sequence[int], *, uses_normal_scores: bool) -> None:
        super().__init__()
        self.uses_normal_scores = uses_normal_scores
        widths = [n_inputs + 1 + sum(hidden[:i]) for i in range(len(hidden) + 1)]
        self.hidden = nn.ModuleList(
            nn.Linear(before, units) for before, units in zip(widths, hidden, strict=False)
        )
        self.slopes = nn.ModuleList(nn.PReLU() for _ in hidden)
        self.quantile = nn.Linear(widths[-1], 1)
        self.levels = nn.Buffer(torch.tensor(_PREDICTED_LEVELS, dtype=torch.float32))
        if uses_normal_scores:
            nn.init.zeros_(self.quantile.bias)
            nn.init.zeros_(self.quantile.weight)  # training starts at the normal distribution

    def forward(self, rows: Tensor) -> Tensor:
        """Quantiles and levels; with scores the quantile of a standard normal distribution and what
        is learnt to add to it (ours).
        """
        rows = rows.flatten(1)
        levels = self._sample_levels(rows) if self.training else self.levels.expand(len(rows), -1)
        entering = torch.special.ndtri(levels) if self.uses_normal_scores else levels
        seen = torch.cat(
            [rows[:, None, :].expand(-1, levels.shape[1], -1), entering[..., None]], dim=2
        )
        for layer, slope in zip(self.hidden, self.slopes, strict=True):
            seen = torch.cat([seen, slope(layer(seen))], dim=2)
        quantile = self.quantile(seen)[..., 0]
        return torch.stack(
            [entering + quantile if self.uses_normal_scores else quantile, levels], dim=2
        )

    def _sample_levels(self, rows: Tensor) -> Tensor:
        """Float32[b, DRAWN]: inside of (0, 1), a little further than :data:`LEVELS`."""
        at = torch.arange(_SAMPLED_LEVELS_PER_STEP, device=rows.device) + torch.rand(
            len(rows), _SAMPLED_LEVELS_PER_STEP, device=rows.device
        )
        return (at / _SAMPLED_LEVELS_PER_STEP).clamp(
            _PREDICTED_LEVELS[0] / 2, 1 - _PREDICTED_LEVELS[0] / 2
        )
