"""Networks that predict quantiles.

:class:`QuantileNetwork` has an output for each level of a grid.
:class:`SimultaneousQuantileNetwork` has the level as a further input and is trained for all levels
at once (Kuleshov and Deshpande 2022).
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
    check_loss,
)
from kdgraph.parents.regressors import QUANTILE_LEVELS


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileNetwork(FullyConnectedMixin, NetworkRegressor):
    """Multilayer perceptron that predicts quantiles at a grid of levels, which never cross.

    It does not assume a family. Its predictions are a :class:`~kdgraph.distributions.QuantileGrid`:
    linear between the levels, with exponential tails beyond them. The quantile network of Kuleshov
    and Deshpande (2022) has the level as a further input; this one has an output for each level.

    Parameters
    ----------
    levels : sequence of float, default=deciles and tails
        Levels in (0, 1), at least two, increasing.
    hidden : sequence of int, default=(200, 200)
        Units of each hidden layer; none for a linear model.

    Notes
    -----
    Quantiles as sums of positive steps are original to kdgraph.

    References
    ----------
    Koenker, "Quantile regression", 2005; Taylor, "A quantile regression neural network approach to
    estimating the conditional density of multiperiod returns", Journal of Forecasting 19, 2000.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 1))
    >>> network = QuantileNetwork(
    ...     levels=(0.1, 0.5, 0.9), hidden=(16,), max_epochs=3, device="cpu", random_state=0
    ... )
    >>> network.fit(X, X[:, 0]).predict_dist(X[:2]).values.shape
    (2, 3)
    """

    levels: Sequence[OpenFraction] = QUANTILE_LEVELS
    hidden: Sequence[Count] = (200, 200)

    def _head(self) -> DistributionHead:
        return QuantileHead(self.levels)

    def fit(self, X, y, sample_weight=None):
        """Train a new module, as :class:`NetworkRegressor` does.

        Fewer than two levels, or levels that do not increase, raise ParameterError.
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


# Levels of the predicted quantiles. They are hundredths, and the ends of the central intervals of
# 95, 99, 99.5 and 99.8 %.
_INTERVAL_ENDS = (0.001, 0.0025, 0.005, 0.025, 0.975, 0.995, 0.9975, 0.999)
_PREDICTED_LEVELS = tuple(sorted({*(i / 100 for i in range(1, 100)), *_INTERVAL_ENDS}))
# Number of random levels for a row in each step, one in each eighth of (0, 1).
_SAMPLED_LEVELS_PER_STEP = 8


@dataclass(eq=False, repr=False, kw_only=True)
class SimultaneousQuantileNetwork(NetworkRegressor):
    """Densely connected network that maps a row and a level τ to the quantile at τ.

    It is trained with the check loss at levels that are drawn anew in each step.

    Parameters
    ----------
    hidden : sequence of int, default=(20, 20)
        Units of each hidden layer. The input of a layer is the input of the network and the outputs
        of all previous layers.
    level_input : {"score", "probability"}, default="score"
        Form in which τ is an input. "score" is the quantile z of a standard normal distribution.
        Then training starts at that distribution for every row, so outcomes must be standardised.
        "probability" is τ itself, and training starts at random weights.

    Notes
    -----
    Early stopping monitors the mean check loss at fixed levels: hundredths and the ends of central
    intervals up to 99.8 %. Predictions are the quantiles at these levels; crossing quantiles are
    sorted. The normal score as an input and the start at the normal distribution are original to
    kdgraph.

    References
    ----------
    Kuleshov and Deshpande, "Calibrated and sharp uncertainties in deep learning via density
    estimation", ICML 2022; Tagasovska and Lopez-Paz, "Single-model uncertainties for deep
    learning", NeurIPS 2019, Section 2.
    """

    hidden: Sequence[Count] = (20, 20)
    level_input: Literal["score", "probability"] = "score"

    def _head(self) -> DistributionHead:
        return SimultaneousQuantileHead(is_standardised=self.level_input == "score")

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        return SimultaneousQuantileModule(
            int(np.prod(input_shape)), self.hidden, uses_normal_scores=self.level_input == "score"
        )


class SimultaneousQuantileHead(DistributionHead):
    """Quantiles at fixed levels, for a module that outputs the level next to each quantile.

    Outputs are Float64[n, levels, 2]; outcomes may be standardised already. Original to kdgraph.
    """

    name = "levels"
    n_outputs = len(_PREDICTED_LEVELS)

    def __init__(self, is_standardised: bool) -> None:
        self.is_standardised = is_standardised

    def fit_scaler(self, y: np.ndarray, weight: np.ndarray) -> TargetScaler:
        return TargetScaler(0.0, 1.0) if self.is_standardised else super().fit_scaler(y, weight)

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the :func:`check_loss` of quantiles and levels, Float32[b, m, 2]."""
        residuals, levels = targets[:, None] - outputs[..., 0], outputs[..., 1]
        return check_loss(residuals, levels, weights)

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Return the median, Float[n], from outputs Float64[n, levels, 2]."""
        return scaler.center + scaler.spread * outputs[..., _PREDICTED_LEVELS.index(0.5), 0]

    def distribution(self, outputs, scaler, dispersion) -> Distribution:
        return QuantileGrid(
            np.array(_PREDICTED_LEVELS), scaler.center + scaler.spread * outputs[..., 0]
        )


class SimultaneousQuantileModule(nn.Module):
    """Module that maps rows Float32[b, …] to quantiles and their levels, Float32[b, m, 2].

    The levels are random in training, and fixed in inference. Original to kdgraph.
    """

    def __init__(self, n_inputs: int, hidden: Sequence[int], *, uses_normal_scores: bool) -> None:
        super().__init__()
        self.uses_normal_scores = uses_normal_scores
        widths = [n_inputs + 1 + sum(hidden[:i]) for i in range(len(hidden) + 1)]
        self.hidden = nn.ModuleList(
            nn.Linear(n_inputs_of_layer, units)
            for n_inputs_of_layer, units in zip(widths, hidden, strict=False)
        )
        self.slopes = nn.ModuleList(nn.PReLU() for _ in hidden)
        self.quantile = nn.Linear(widths[-1], 1)
        self.levels = nn.Buffer(torch.tensor(_PREDICTED_LEVELS, dtype=torch.float32))
        if uses_normal_scores:
            # The last layer outputs 0 at first, so training starts at the normal distribution.
            nn.init.zeros_(self.quantile.bias)
            nn.init.zeros_(self.quantile.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Return quantiles and levels, Float32[b, m, 2].

        With scores a quantile is that of a standard normal distribution plus the output of the
        network.
        """
        # Every layer receives the row, the level and the outputs of all previous layers.
        rows = rows.flatten(1)
        levels = self._sample_levels(rows) if self.training else self.levels.expand(len(rows), -1)
        level_inputs = torch.special.ndtri(levels) if self.uses_normal_scores else levels
        features = torch.cat(
            [rows[:, None, :].expand(-1, levels.shape[1], -1), level_inputs[..., None]], dim=2
        )
        for layer, slope in zip(self.hidden, self.slopes, strict=True):
            features = torch.cat([features, slope(layer(features))], dim=2)
        quantile = self.quantile(features)[..., 0]
        return torch.stack(
            [level_inputs + quantile if self.uses_normal_scores else quantile, levels], dim=2
        )

    def _sample_levels(self, rows: Tensor) -> Tensor:
        """Return random levels, one in each eighth of (0, 1), Float32[b, 8].

        They are clipped to a range slightly wider than that of the predicted levels.
        """
        scaled_levels = torch.arange(_SAMPLED_LEVELS_PER_STEP, device=rows.device) + torch.rand(
            len(rows), _SAMPLED_LEVELS_PER_STEP, device=rows.device
        )
        return (scaled_levels / _SAMPLED_LEVELS_PER_STEP).clamp(
            _PREDICTED_LEVELS[0] / 2, 1 - _PREDICTED_LEVELS[0] / 2
        )
