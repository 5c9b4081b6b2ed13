"""Gamma regression by a network whose one shape is trained with the means.

Torres et al. (2024), Section 4.4, train their network so. The head "gamma" of kdgraph trains for
the means alone, and its shape is the maximum likelihood estimate given them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from kdgraph.parents.networks import MultilayerPerceptronRegressor


@dataclass(eq=False, repr=False, kw_only=True)
class TrainedShapeRegressor(MultilayerPerceptronRegressor):
    """Perceptron of a log mean for each row and one log shape.

    The second output has a bias and no weights: "a forked output with two exponential layers, one
    for estimating the mean, and the other with zero-constrained weights for estimating the shape
    parameter".

    Parameters
    ----------
    head : {"gamma_shape"}, default="gamma_shape"
        Family of the predicted distribution.
    """

    head: Literal["gamma_shape"] = "gamma_shape"  # pyright: ignore[reportIncompatibleVariableOverride]

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        module = super()._make_module(input_shape, n_outputs)
        assert isinstance(module, nn.Sequential)
        weight = module[-1].weight
        assert isinstance(weight, nn.Parameter)
        with torch.no_grad():
            weight[1] = 0.0

        def without_shape(gradient: Tensor) -> Tensor:
            gradient = gradient.clone()
            gradient[1] = 0.0
            return gradient

        # Weights of 0 whose gradient is 0 stay 0 with every optimiser, also with weight decay.
        weight.register_hook(without_shape)
        return module
