"""Monte Carlo dropout: a network as many as it has masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn

from kdgraph.distributions import Distribution, WeightedSamples
from kdgraph.distributions.rows import blocks
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count
from kdgraph.parents.networks.mlp import _Dropout
from kdgraph.parents.networks.mlp_regressor import MultilayerPerceptronRegressor

_MASKS = b"masks"
"""Beside the seed of a training: masks of predictions are no order of rows."""


@dataclass(eq=False, repr=False, kw_only=True)
class MonteCarloDropout(MultilayerPerceptronRegressor):
    """A perceptron trained with dropout, whose predictions under S random masks are the sample that it predicts.

    The same network without masks, by the "weight scaling inference rule", is :class:`MultilayerPerceptronRegressor` with the same
    parameters; its weights are the same to the bit. A run trains each of the two by itself.

    Parameters
    ----------
    masks : S, of each layer of dropout; the paper has 1,000.
    noise : whether each prediction gets noise, as the head has it, at one level of S that are evenly spread. Without, as in the paper, the
        sample is of what networks predict and says nothing of how far outcomes are from it.
    dropout : as of :class:`FullyConnected`, above 0 somewhere.
    **others : those of :class:`MultilayerPerceptronRegressor`.

    Attributes
    ----------
    mask_seed_ : from it follow masks and noise.
    **others : those of :class:`MultilayerPerceptronRegressor`.

    Notes
    -----
    A mask is the same for all rows, so each is one network, drawn from those that dropout trains; what a row is given does not depend on
    the rows beside it. With the head "lognormal" a prediction is exp(f), as in Torres et al.; batches are normalised as in inference.
    Of 10,000 rows under 1,000 masks the default layers take a minute of one core, and 0.6 GB.

    References
    ----------
    Gal and Ghahramani, "Dropout as a Bayesian approximation", ICML 2016; Torres et al., "Model-free local recalibration of neural
    networks", 2024, Section 4.2.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 1))
    >>> network = MonteCarloDropout(masks=30, hidden=(16,), max_epochs=3, device="cpu", random_state=0).fit(X, X[:, 0])
    >>> network.predict_dist(X[:2]).x.shape
    (2, 30)
    """

    hidden: Sequence[Count] = (256, 256, 64, 64)
    dropout: _Dropout | Sequence[_Dropout] = 0.5
    masks: Count = 100
    noise: bool = False

    def fit(self, X, y, sample_weight=None):
        """Train a new module, and draw the seed of the masks; X: Float[n, d], y: Float[n] and errors as of the base.

        Raises
        ------
        ParameterError : without any dropout; else as of the base.
        """
        super().fit(X, y, sample_weight)
        self.mask_seed_ = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return self

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        if not any(self._dropouts()):
            raise ParameterError(f"dropout must be above 0 somewhere, for masks to differ, got {self.dropout}")
        return super()._make_module(input_shape, n_outputs)

    def predict_dist(self, X) -> Distribution:
        """The samples that the masks give, of rows X (Float[n, *input_shape]), in the units of y."""
        outputs = self._by_mask(X)
        samples = np.empty(outputs.shape[:2])
        for rows in blocks(len(samples), self.masks):
            samples[rows] = self._samples(outputs[rows].astype(np.float64))
        return WeightedSamples(samples)

    def outputs_by_mask(self, X) -> np.ndarray:
        """Float64[n, masks, n_outputs]: what the module puts out under each mask; X as in ``fit``."""
        return self._by_mask(X).astype(np.float64)

    def _by_mask(self, X: Any) -> np.ndarray:
        """Float32[n, masks, n_outputs]: of 10,000 rows under 1,000 masks 40 MB."""
        X, module = self._checked(X), self._placed()
        masks = [torch.from_numpy(mask).to(self._device()) for mask in self._masks(module)]
        (found,) = self._in_batches(X, lambda batch: (_under_masks(module, batch, masks),))
        return np.nan_to_num(found, copy=False)

    def _samples(self, outputs: np.ndarray) -> np.ndarray:
        """Float64[b, masks], in the units of y, of Float64[b, masks, n_outputs]."""
        head = self._head()
        if not self.noise:
            return head.point(outputs, self.units_)
        levels = (self._rng().permutation(self.masks) + 0.5) / self.masks
        noisy = [head.distribution(outputs[:, s], self.units_, self.dispersion_).ppf(float(level)) for s, level in enumerate(levels)]
        return np.stack(noisy, axis=1)

    def _rng(self, *more: int) -> np.random.Generator:
        return np.random.default_rng([self.mask_seed_, *_MASKS, *more])

    def _masks(self, module: Any) -> list[np.ndarray]:
        """Float32[masks, width] for each layer of dropout: 0, or 1/(1 - p) where a unit stays."""
        found, width = [], 0
        for part in module:
            width = part.out_features if isinstance(part, nn.Linear) else width
            if isinstance(part, nn.Dropout):
                stays = self._rng(len(found)).random((self.masks, width)) >= part.p
                found.append((stays / (1 - part.p)).astype(np.float32))
        return found


def _under_masks(module: Any, batch: Tensor, masks: Sequence[Tensor]) -> Tensor:
    """Float32[b, masks, n_outputs]; what comes before the first mask is the same under all of them, and computed once."""
    parts = list(module)
    first = next(i for i, part in enumerate(parts) if isinstance(part, nn.Dropout))
    for part in parts[:first]:
        batch = part(batch)
    found = []
    for s in range(len(masks[0])):
        values, rest = batch, iter(masks)
        for part in parts[first:]:
            values = values * next(rest)[s] if isinstance(part, nn.Dropout) else part(values)
        found.append(values)
    return torch.stack(found, dim=1)
