"""Several multilayer perceptrons that train side by side as one module, and answer together.

Monte Carlo dropout: a network as many as it has masks.
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
from kdgraph.parents.networks.training import (
    Examples,
    TrainingLoss,
    TrainingOptions,
    TrainingResult,
    train,
)

_CombinationRule = Literal["mean", "mean_logs", "sum_logs"]


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerPerceptronEnsemble(NetworkClassifier):
    """Multilayer perceptrons that differ in their weights at the start and in the batches that they
    see; Lakshminarayanan's deep ensemble.

    Every member draws its own batches from the training rows, with replacement; an epoch is as many
    steps as the rows have batches. All members are one module of stacked weights: a step of ten of
    them is one product of matrices a layer, not ten.

    Parameters
    ----------
    members : networks.
    hidden : units of each hidden layer, with ReLU.
    combine : "mean": of the members' probabilities (Lakshminarayanan et al., Eq. 3; the score of
        PhANNs is ten times it); "mean_logs": the softmax of the mean of their log probabilities;
        "sum_logs": of their sum, which is the sharper the more members there are (Salamon et al.,
        Appendix).
    patience, stop_on : go by the loss of the members together.
    **others : those of :class:`NetworkClassifier`.

    References
    ----------
    Lakshminarayanan, Pritzel, Blundell, Simple and scalable predictive uncertainty estimation using
    deep ensembles, 2017, Section 2.4. Salamon et al., Estimating classification confidence using
    kernel densities, Appendix: members of 300 and 100 units.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> five = MultilayerPerceptronEnsemble(members=5, hidden=(32,), learning_rate=0.01, max_epochs=30, device="cpu", random_state=0)
    >>> bool(five.fit(X, y).score(X, y) > 0.9), five.member_log_proba(X).shape
    (True, (5, 150, 3))
    """

    members: Count = 10
    hidden: Sequence[Count] = (300, 100)
    combine: _CombinationRule = "mean"

    def member_log_proba(self, X) -> np.ndarray:
        """Float64[members, n, K]: log probabilities that each member gives; X as in ``fit``."""
        X = self._validate_X(X)
        module = self._module_on_device()
        assert isinstance(module, StackedPerceptrons)
        (found,) = self._map_batches(
            X, lambda batch: (module.member_logits(batch).log_softmax(dim=2),)
        )
        return np.moveaxis(found.astype(np.float64), 1, 0)

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        widths = [prod(input_shape), *(int(width) for width in self.hidden), n_outputs]
        return StackedPerceptrons(widths, self.members, self.combine)

    def _loss(self) -> TrainingLoss:
        loss = super()._loss()
        return MemberMeanLoss(loss, self.members) if self.loss == "mmce" else loss

    def _train(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        **more: Any,
    ) -> TrainingResult:
        rows = min(options.batch_size, len(examples))

        def order(rng: np.random.Generator, n: int) -> np.ndarray:
            return rng.integers(n, size=-(-n // rows) * self.members * rows)

        together = replace(options, batch_size=self.members * rows)
        return train(
            module,
            examples,
            self._loss(),
            together,
            validation=validation,
            batch_sampler=order,
            **more,
        )

    def _last_linear_name(self) -> str:
        return [
            name for name, part in self.module_.named_modules() if isinstance(part, StackedLinear)
        ][-1]


@dataclass(frozen=True)
class MemberMeanLoss:
    """Of a batch that has one for each member, the mean of a loss of batches that is no mean over
    rows (ours); else that loss.

    Attributes
    ----------
    loss : (logits Float32[b, K], targets Int[b], weights Float32[b]) → a scalar.
    members : with gradients, logits are those of each member's own b / members rows, one member
        after the other.
    """

    loss: TrainingLoss
    members: int

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """A scalar, of the same arguments as the loss."""
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
    """Members of equal shape, with their weights in one tensor a layer. How they are stacked is
    ours; see the ensemble for what they are.

    Parameters
    ----------
    widths : of the input, each hidden layer and the output.
    members, combine : as of :class:`MultilayerPerceptronEnsemble`.

    Notes
    -----
    In training a batch is a batch for each member, one after the other, and the outputs are those
    of that member for each row, in the same order. The gradient of each member is then that of its
    own mean loss, as if it trained alone. In eval mode every member sees every row, and the outputs
    are the logits of all together.
    """

    def __init__(self, widths: Sequence[int], members: int, combine: _CombinationRule):
        super().__init__()
        self.layers = nn.ModuleList(
            StackedLinear(members, before, after) for before, after in pairwise(widths)
        )
        self.members, self.combine = members, combine

    def forward(self, rows: Tensor) -> Tensor:
        """Float32[n, …] → Float32[n, K]: logits of each member's own rows in training (ours), else
        of all together.
        """
        if not self.training:
            return self._combine_members(self.member_logits(rows).log_softmax(dim=2))
        own = rows.flatten(1).unflatten(0, (self.members, -1)).transpose(0, 1)
        logits = self._apply_layers(own).transpose(0, 1).flatten(0, 1)
        if logits.requires_grad:
            logits.register_hook(
                lambda gradient: gradient * self.members
            )  # of the mean over all rows → over the rows of a member
        return logits

    def member_logits(self, rows: Tensor) -> Tensor:
        """Float32[n, …] → Float32[n, members, K]: the logits of every member (Salamon et al.,
        Appendix: before the softmax layer).
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
    """A linear map for each member: Float32[n, members, before] → Float32[n, members, after].

    Its weights begin as those of torch.nn.Linear do.
    """

    def __init__(self, members: int, before: int, after: int):
        super().__init__()
        bound = before**-0.5
        self.weight = nn.Parameter(torch.empty(members, before, after).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, after).uniform_(-bound, bound))

    def forward(self, values: Tensor) -> Tensor:
        """Member by member; in memory the rows of one member lie together."""
        return torch.baddbmm(self.bias, values.transpose(0, 1), self.weight).transpose(0, 1)


_MASK_STREAM = b"masks"
"""Beside the seed of a training: masks of predictions are no order of rows."""


@dataclass(eq=False, repr=False, kw_only=True)
class MonteCarloDropout(MultilayerPerceptronRegressor):
    """A perceptron trained with dropout, whose predictions under S random masks are the sample that
    it predicts.

    The same network without masks, by the "weight scaling inference rule", is
    :class:`MultilayerPerceptronRegressor` with the same parameters; its weights are the same to the
    bit. A run trains each of the two by itself.

    Parameters
    ----------
    masks : S, of each layer of dropout; the paper has 1,000.
    noise : whether each prediction gets noise, as the head has it, at one level of S that are
        evenly spread. Without, as in the paper, the sample is of what networks predict and says
        nothing of how far outcomes are from it.
    dropout : as of :class:`FullyConnectedMixin`, above 0 somewhere.
    **others : those of :class:`MultilayerPerceptronRegressor`.

    Attributes
    ----------
    mask_seed_ : from it follow masks and noise.
    **others : those of :class:`MultilayerPerceptronRegressor`.

    Notes
    -----
    A mask is the same for all rows, so each is one network, drawn from those that dropout trains;
    what a row is given does not depend on the rows beside it. With the head "lognormal" a
    prediction is exp(f), as in Torres et al.; batches are normalised as in inference. Of 10,000
    rows under 1,000 masks the default layers take a minute of one core, and 0.6 GB.

    References
    ----------
    Gal and Ghahramani, "Dropout as a Bayesian approximation", ICML 2016; Torres et al., "Model-free
    local recalibration of neural networks", 2024, Section 4.2.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 1))
    >>> network = MonteCarloDropout(masks=30, hidden=(16,), max_epochs=3, device="cpu", random_state=0).fit(X, X[:, 0])
    >>> network.predict_dist(X[:2]).x.shape
    (2, 30)
    """

    hidden: Sequence[Count] = (256, 256, 64, 64)
    dropout: _DropoutRate | Sequence[_DropoutRate] = 0.5
    masks: Count = 100
    noise: bool = False

    def fit(self, X, y, sample_weight=None):
        """Train a new module, and draw the seed of the masks; X: Float[n, d], y: Float[n] and
        errors as of the base.

        Raises
        ------
        ParameterError : without any dropout; else as of the base.
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
        """The samples that the masks give, of rows X (Float[n, *input_shape]), in the units of
        y.
        """
        outputs = self._float32_outputs_by_mask(X)
        samples = np.empty(outputs.shape[:2])
        for rows in row_blocks(len(samples), self.masks):
            samples[rows] = self._outcome_samples(outputs[rows].astype(np.float64))
        return WeightedSamples(samples)

    def outputs_by_mask(self, X) -> np.ndarray:
        """Float64[n, masks, n_outputs]: what the module puts out under each mask; X as in
        ``fit``.
        """
        return self._float32_outputs_by_mask(X).astype(np.float64)

    def _float32_outputs_by_mask(self, X: Any) -> np.ndarray:
        """Float32[n, masks, n_outputs]: of 10,000 rows under 1,000 masks 40 MB."""
        X, module = self._validate_X(X), self._module_on_device()
        masks = [torch.from_numpy(mask).to(self._device()) for mask in self._draw_masks(module)]
        (found,) = self._map_batches(X, lambda batch: (_apply_masks(module, batch, masks),))
        return np.nan_to_num(found, copy=False)

    def _outcome_samples(self, outputs: np.ndarray) -> np.ndarray:
        """Float64[b, masks], in the units of y, of Float64[b, masks, n_outputs]."""
        head = self._head()
        if not self.noise:
            return head.point_prediction(outputs, self.target_scaler_)
        levels = (self._rng().permutation(self.masks) + 0.5) / self.masks
        noisy = [
            head.distribution(outputs[:, s], self.target_scaler_, self.dispersion_).ppf(
                float(level)
            )
            for s, level in enumerate(levels)
        ]
        return np.stack(noisy, axis=1)

    def _rng(self, *more: int) -> np.random.Generator:
        return np.random.default_rng([self.mask_seed_, *_MASK_STREAM, *more])

    def _draw_masks(self, module: Any) -> list[np.ndarray]:
        """Float32[masks, width] for each layer of dropout: 0, or 1/(1 - p) where a unit stays."""
        found, width = [], 0
        for part in module:
            width = part.out_features if isinstance(part, nn.Linear) else width
            if isinstance(part, nn.Dropout):
                stays = self._rng(len(found)).random((self.masks, width)) >= part.p
                found.append((stays / (1 - part.p)).astype(np.float32))
        return found


def _apply_masks(module: Any, batch: Tensor, masks: Sequence[Tensor]) -> Tensor:
    """Float32[b, masks, n_outputs]; what comes before the first mask is the same under all of them,
    and computed once.
    """
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
