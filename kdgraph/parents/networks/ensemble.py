"""Several multilayer perceptrons that train side by side as one module, and answer together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, prod
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from kdgraph.parameters import Count
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.training import Examples, Loss, Options, Trained, train

Combine = Literal["mean", "mean_logs", "sum_logs"]


@dataclass(eq=False, repr=False, kw_only=True)
class MultilayerPerceptronEnsemble(NetworkClassifier):
    """Multilayer perceptrons that differ in their weights at the start and in the batches that they see; Lakshminarayanan's deep ensemble.

    Every member draws its own batches from the training rows, with replacement; an epoch is as many steps as the rows have batches. All
    members are one module of stacked weights: a step of ten of them is one product of matrices a layer, not ten.

    Parameters
    ----------
    members : networks.
    hidden : units of each hidden layer, with ReLU.
    combine : "mean": of the members' probabilities (Lakshminarayanan et al., Eq. 3; the score of PhANNs is ten times it); "mean_logs": the
        softmax of the mean of their log probabilities; "sum_logs": of their sum, which is the sharper the more members there are (Salamon
        et al., Appendix).
    patience, stop_on : go by the loss of the members together.
    **others : those of :class:`NetworkClassifier`.

    References
    ----------
    Lakshminarayanan, Pritzel, Blundell, Simple and scalable predictive uncertainty estimation using deep ensembles, 2017, Section 2.4.
    Salamon et al., Estimating classification confidence using kernel densities, Appendix: members of 300 and 100 units.

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
    combine: Combine = "mean"

    def member_log_proba(self, X) -> np.ndarray:
        """Float64[members, n, K]: log probabilities that each member gives; X as in ``fit``."""
        X = self._checked(X)
        module = self._placed()
        assert isinstance(module, StackedPerceptrons)
        (found,) = self._in_batches(X, lambda batch: (module.by_member(batch).log_softmax(dim=2),))
        return np.moveaxis(found.astype(np.float64), 1, 0)

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        widths = [prod(input_shape), *(int(width) for width in self.hidden), n_outputs]
        return StackedPerceptrons(widths, self.members, self.combine)

    def _loss(self) -> Loss:
        loss = super()._loss()
        return MeanOverMembers(loss, self.members) if self.loss == "mmce" else loss

    def _train(self, module: nn.Module, examples: Examples, validation: Examples | None, options: Options, **more: Any) -> Trained:
        rows = min(options.batch_size, len(examples))

        def order(rng: np.random.Generator, n: int) -> np.ndarray:
            return rng.integers(n, size=-(-n // rows) * self.members * rows)

        together = replace(options, batch_size=self.members * rows)
        return train(module, examples, self._loss(), together, validation=validation, order=order, **more)

    def _last_linear(self) -> str:
        return [name for name, part in self.module_.named_modules() if isinstance(part, StackedLinear)][-1]


@dataclass(frozen=True)
class MeanOverMembers:
    """Of a batch that has one for each member, the mean of a loss of batches that is no mean over rows (ours); else that loss.

    Attributes
    ----------
    loss : (logits Float32[b, K], targets Int[b], weights Float32[b]) → a scalar.
    members : with gradients, logits are those of each member's own b / members rows, one member after the other.
    """

    loss: Loss
    members: int

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """A scalar, of the same arguments as the loss."""
        if not logits.requires_grad:
            return self.loss(logits, targets, weights)
        parts = zip(logits.chunk(self.members), targets.chunk(self.members), weights.chunk(self.members), strict=True)
        return torch.stack([self.loss(*part) for part in parts]).mean()


class StackedPerceptrons(nn.Module):
    """Members of equal shape, with their weights in one tensor a layer. How they are stacked is ours; see the ensemble for what they are.

    Parameters
    ----------
    widths : of the input, each hidden layer and the output.
    members, combine : as of :class:`MultilayerPerceptronEnsemble`.

    Notes
    -----
    In training a batch is a batch for each member, one after the other, and the outputs are those of that member for each row, in the same
    order. The gradient of each member is then that of its own mean loss, as if it trained alone. In eval mode every member sees every
    row, and the outputs are the logits of all together.
    """

    def __init__(self, widths: Sequence[int], members: int, combine: Combine):
        super().__init__()
        self.layers = nn.ModuleList(StackedLinear(members, before, after) for before, after in pairwise(widths))
        self.members, self.combine = members, combine

    def forward(self, rows: Tensor) -> Tensor:
        """Float32[n, …] → Float32[n, K]: logits of each member's own rows in training (ours), else of all together."""
        if not self.training:
            return self._combined(self.by_member(rows).log_softmax(dim=2))
        own = rows.flatten(1).unflatten(0, (self.members, -1)).transpose(0, 1)
        logits = self._through(own).transpose(0, 1).flatten(0, 1)
        if logits.requires_grad:
            logits.register_hook(lambda gradient: gradient * self.members)  # of the mean over all rows → over the rows of a member
        return logits

    def by_member(self, rows: Tensor) -> Tensor:
        """Float32[n, …] → Float32[n, members, K]: the logits of every member (Salamon et al., Appendix: before the softmax layer)."""
        return self._through(rows.flatten(1)[:, None].expand(-1, self.members, -1))

    def _through(self, values: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            values = functional.relu(layer(values))
        return last(values)

    def _combined(self, log_proba: Tensor) -> Tensor:
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
