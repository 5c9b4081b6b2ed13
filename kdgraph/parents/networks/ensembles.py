"""Ensembles of networks: deep ensembles and Monte Carlo dropout.

:class:`MultilayerPerceptronEnsemble` trains several perceptrons as one module of stacked weights
(Lakshminarayanan et al. 2017). :class:`MonteCarloDropout` predicts with one network under many
dropout masks (Gal and Ghahramani 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, prod
from typing import Any, Literal

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn
from torch.nn import functional

from kdgraph.distributions import Distribution, WeightedSamples
from kdgraph.distributions.base import row_blocks
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.mlp import MultilayerPerceptronRegressor, _DropoutRate
from kdgraph.parents.networks.training import TrainingLoss

_CombinationRule = Literal["mean", "mean_logs", "sum_logs"]


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerPerceptronEnsemble(NetworkClassifier):
    """Deep ensemble of multilayer perceptrons (Lakshminarayanan et al. 2017).

    Members differ in their initial weights and in their batches. Every member draws its own batches
    from the training rows, with replacement. An epoch has as many steps as the rows have batches.
    All members are one module of stacked weights, so a layer of ten members is one matrix product,
    not ten.

    Parameters
    ----------
    members : int, default=10
        Number of networks.
    hidden : sequence of int, default=(300, 100)
        Units of each hidden layer, with ReLU.
    combine : {"mean", "mean_logs", "sum_logs"}, default="mean"
        "mean" is the mean of the probabilities of the members (Lakshminarayanan et al., Eq. 3; the
        score of PhANNs is ten times it). "mean_logs" is the softmax of the mean of their log
        probabilities. "sum_logs" is the softmax of their sum, which is sharper the more members
        there are (Salamon et al., Appendix).
    patience, stop_on
        As in :class:`NetworkClassifier`; they monitor the loss of the combined prediction.

    References
    ----------
    Lakshminarayanan, Pritzel, Blundell, Simple and scalable predictive uncertainty estimation using
    deep ensembles, 2017, Section 2.4. Salamon et al., Estimating classification confidence using
    kernel densities, Appendix: members of 300 and 100 units.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ensemble = MultilayerPerceptronEnsemble(
    ...     members=5, hidden=(32,), learning_rate=0.01, max_epochs=30, device="cpu", random_state=0
    ... )
    >>> bool(ensemble.fit(X, y).score(X, y) > 0.9), ensemble.member_log_proba(X).shape
    (True, (5, 150, 3))
    """

    members: Count = 10
    hidden: Sequence[Count] = (300, 100)
    combine: _CombinationRule = "mean"

    def member_log_proba(self, X) -> np.ndarray:
        """Return the log probabilities of each member, Float64[members, n, K]."""
        X = self._validate_X(X)
        module = self._module_on_device()
        assert isinstance(module, StackedPerceptrons)
        (log_proba,) = self._map_batches(
            X, lambda batch: (module.member_logits(batch).log_softmax(dim=2),)
        )
        return np.moveaxis(log_proba.astype(np.float64), 1, 0)

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        widths = [prod(input_shape), *(int(width) for width in self.hidden), n_outputs]
        return StackedPerceptrons(widths, self.members, self.combine)

    def _loss(self) -> TrainingLoss:
        loss = super()._loss()
        return MemberMeanLoss(loss, self.members) if self.loss == "mmce" else loss

    def _train(self, module, examples, validation, options, **train_options):
        """Train all members together, each on its own batches."""
        # A batch is the concatenation of one batch for each member. The row numbers are drawn with
        # replacement, so consecutive parts of them can serve as the batches of the members.
        member_batch_size = min(options.batch_size, len(examples))

        def sample_member_batches(rng: np.random.Generator, n: int) -> np.ndarray:
            return rng.integers(
                n, size=-(-n // member_batch_size) * self.members * member_batch_size
            )

        ensemble_options = replace(options, batch_size=self.members * member_batch_size)
        train_options["batch_sampler"] = sample_member_batches
        return super()._train(module, examples, validation, ensemble_options, **train_options)

    def _last_linear_name(self) -> str:
        return [
            name for name, part in self.module_.named_modules() if isinstance(part, StackedLinear)
        ][-1]


@dataclass(frozen=True)
class MemberMeanLoss:
    """Mean over members of a loss that is not a mean over rows, such as "mmce".

    With gradients, the logits, Float32[b, K], are those of b / members rows of each member, one
    member after the other. Without gradients there is one batch for all members, and the loss is
    computed for it as a whole. Original to kdgraph.
    """

    loss: TrainingLoss
    members: int

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the loss, a scalar."""
        if not logits.requires_grad:
            return self.loss(logits, targets, weights)
        parts = zip(
            logits.chunk(self.members),
            targets.chunk(self.members),
            weights.chunk(self.members),
            strict=True,
        )
        return torch.stack([self.loss(*part) for part in parts]).mean()


class StackedPerceptrons(nn.Module):
    """Perceptrons of equal shape whose weights are stacked in one tensor for each layer.

    ``widths`` are those of the input, of each hidden layer and of the output. In training, a batch
    is the concatenation of one batch for each member. The output for a row is that of its member,
    in the same order. The gradient of each member is then that of its own mean loss, as if it was
    trained alone. In eval mode every member receives every row, and the outputs are the combined
    logits. The stacking is original to kdgraph.
    """

    def __init__(self, widths: Sequence[int], members: int, combine: _CombinationRule):
        super().__init__()
        self.layers = nn.ModuleList(
            StackedLinear(members, n_inputs, n_outputs) for n_inputs, n_outputs in pairwise(widths)
        )
        self.members, self.combine = members, combine

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits Float32[n, K] of rows Float32[n, …].

        In training they are those of the member of each row, otherwise those of all members
        combined.
        """
        if not self.training:
            return self._combine_members(self.member_logits(rows).log_softmax(dim=2))
        member_rows = rows.flatten(1).unflatten(0, (self.members, -1)).transpose(0, 1)
        logits = self._apply_layers(member_rows).transpose(0, 1).flatten(0, 1)
        if logits.requires_grad:
            # The loss is a mean over all rows of the batch. Multiplying its gradient by the number
            # of members makes it that of the mean over the rows of a member.
            logits.register_hook(lambda gradient: gradient * self.members)
        return logits

    def member_logits(self, rows: Tensor) -> Tensor:
        """Return the logits of every member, Float32[n, members, K], for rows Float32[n, …].

        These are the values before the softmax layer (Salamon et al., Appendix).
        """
        return self._apply_layers(rows.flatten(1)[:, None].expand(-1, self.members, -1))

    def _apply_layers(self, values: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            values = functional.relu(layer(values))
        return last(values)

    def _combine_members(self, log_proba: Tensor) -> Tensor:
        if self.combine == "mean":
            return log_proba.logsumexp(dim=1) - log(self.members)
        return log_proba.sum(dim=1) if self.combine == "sum_logs" else log_proba.mean(dim=1)


class StackedLinear(nn.Module):
    """Linear map for each member: Float32[n, members, n_inputs] → Float32[n, members, n_outputs].

    Its initial weights are distributed like those of torch.nn.Linear.
    """

    def __init__(self, members: int, n_inputs: int, n_outputs: int):
        super().__init__()
        bound = n_inputs**-0.5
        self.weight = nn.Parameter(
            torch.empty(members, n_inputs, n_outputs).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.empty(members, 1, n_outputs).uniform_(-bound, bound))

    def forward(self, values: Tensor) -> Tensor:
        """Apply the map of each member; in memory the rows of one member are contiguous."""
        return torch.baddbmm(self.bias, values.transpose(0, 1), self.weight).transpose(0, 1)


# Suffix of the seed for masks, which separates them from other random numbers.
_MASK_STREAM = b"masks"


@dataclass(eq=False, repr=False, kw_only=True)
class MonteCarloDropout(MultilayerPerceptronRegressor):
    """Perceptron with dropout whose predictions under S random masks are a predicted sample.

    The same network without masks, by the "weight scaling inference rule", is
    :class:`MultilayerPerceptronRegressor` with the same parameters; its weights are the same to the
    bit. A run trains each of the two separately.

    Parameters
    ----------
    hidden : sequence of int, default=(256, 256, 64, 64)
        Units of each hidden layer.
    masks : int, default=100
        Number S of masks for each dropout layer; the paper has 1,000.
    noise : bool, default=False
        Add noise of the predicted distribution to each prediction, at one of S evenly spaced
        levels. Without noise, as in the paper, the sample consists of the predictions of networks
        and does not contain the spread of the outcomes around them.
    dropout : float or sequence of float, default=0.5
        As in :class:`FullyConnectedMixin`; at least one rate must be above 0.

    Attributes
    ----------
    mask_seed_ : int
        Seed of masks and noise.

    Notes
    -----
    A mask is the same for all rows, so each mask defines one network, drawn from those that dropout
    trains. The prediction for a row does not depend on the other rows. With the head "lognormal" a
    prediction is exp(f), as in Torres et al. Batch normalisation is in inference mode. For 10,000
    rows and 1,000 masks the default layers need a minute on one core and 0.6 GB.

    References
    ----------
    Gal and Ghahramani, "Dropout as a Bayesian approximation", ICML 2016; Torres et al., "Model-free
    local recalibration of neural networks", 2024, Section 4.2.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 1))
    >>> network = MonteCarloDropout(
    ...     masks=30, hidden=(16,), max_epochs=3, device="cpu", random_state=0
    ... )
    >>> network.fit(X, X[:, 0]).predict_dist(X[:2]).x.shape
    (2, 30)
    """

    hidden: Sequence[Count] = (256, 256, 64, 64)
    dropout: _DropoutRate | Sequence[_DropoutRate] = 0.5
    masks: Count = 100
    noise: bool = False

    def fit(self, X, y, sample_weight=None):
        """Train a new module, as :class:`NetworkRegressor` does, and draw the seed of the masks.

        Without dropout ParameterError is raised.
        """
        super().fit(X, y, sample_weight)
        self.mask_seed_ = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return self

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        if not any(self._dropouts()):
            raise ParameterError(
                f"dropout must be above 0 somewhere, for masks to differ, got {self.dropout}"
            )
        return super()._make_module(input_shape, n_outputs)

    def predict_dist(self, X) -> Distribution:
        """Return S predictions under the masks for each row as samples, in the units of y."""
        outputs = self._float32_outputs_by_mask(X)
        samples = np.empty(outputs.shape[:2])
        for rows in row_blocks(len(samples), self.masks):
            samples[rows] = self._outcome_samples(outputs[rows].astype(np.float64))
        return WeightedSamples(samples)

    def outputs_by_mask(self, X) -> np.ndarray:
        """Return the outputs of the module under each mask, Float64[n, masks, n_outputs]."""
        return self._float32_outputs_by_mask(X).astype(np.float64)

    def _float32_outputs_by_mask(self, X: Any) -> np.ndarray:
        """Return the outputs under each mask, Float32[n, masks, n_outputs].

        For 10,000 rows and 1,000 masks they need 40 MB.
        """
        X, module = self._validate_X(X), self._module_on_device()
        masks = [torch.from_numpy(mask).to(self._device()) for mask in self._draw_masks(module)]
        (outputs,) = self._map_batches(X, lambda batch: (_apply_masks(module, batch, masks),))
        return np.nan_to_num(outputs, copy=False)

    def _outcome_samples(self, outputs: np.ndarray) -> np.ndarray:
        """Return samples Float64[b, masks] of outputs Float64[b, masks, n_outputs]."""
        head = self._head()
        if not self.noise:
            return head.point_prediction(outputs, self.target_scaler_)
        # Each mask has one level of the predicted distribution. The levels are evenly spaced and
        # permuted, so that they do not depend on the order of the masks.
        levels = (self._rng().permutation(self.masks) + 0.5) / self.masks
        samples = [
            head.distribution(outputs[:, s], self.target_scaler_, self.dispersion_).ppf(
                float(level)
            )
            for s, level in enumerate(levels)
        ]
        return np.stack(samples, axis=1)

    def _rng(self, *layer: int) -> np.random.Generator:
        return np.random.default_rng([self.mask_seed_, *_MASK_STREAM, *layer])

    def _draw_masks(self, module: Any) -> list[np.ndarray]:
        """Return masks Float32[masks, width] for each dropout layer.

        A mask contains 0 for a dropped unit and 1/(1 - p) for a kept one.
        """
        masks, width = [], 0
        for part in module:
            width = part.out_features if isinstance(part, nn.Linear) else width
            if isinstance(part, nn.Dropout):
                is_kept = self._rng(len(masks)).random((self.masks, width)) >= part.p
                masks.append((is_kept / (1 - part.p)).astype(np.float32))
        return masks


def _apply_masks(module: Any, batch: Tensor, masks: Sequence[Tensor]) -> Tensor:
    """Return the outputs Float32[b, masks, n_outputs] under each mask.

    The layers before the first mask are computed once, since they are the same for all masks.
    """
    layers = list(module)
    first = next(i for i, layer in enumerate(layers) if isinstance(layer, nn.Dropout))
    for layer in layers[:first]:
        batch = layer(batch)
    outputs = []
    for s in range(len(masks[0])):
        values, layer_masks = batch, iter(masks)
        for layer in layers[first:]:
            values = (
                values * next(layer_masks)[s] if isinstance(layer, nn.Dropout) else layer(values)
            )
        outputs.append(values)
    return torch.stack(outputs, dim=1)
