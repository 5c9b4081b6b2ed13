"""What training with outliers has in common: when it happens, where outliers come from, what a step sees of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from kdgraph.errors import ParameterError
from kdgraph.parameters import NonNegative, Positive, Range, check_parameters
from kdgraph.parents.networks.exposure.outliers import Draw, Outliers, built_in

Cost = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(logits Float32[b, K] of training rows, their weights Float32[b], logits Float32[m, K] of outliers) → a scalar."""

Harder = Callable[[nn.Module, Tensor], Tensor]
"""(module, outliers Float32[m, …]) → Float32[m, …]: those that are learnt from instead."""


@dataclass(frozen=True)
class OutliersBeside:
    """What each step of a training sees beside its rows; ours.

    Attributes
    ----------
    draw : outliers, as many as the step has training rows.
    of_logits : what they cost.
    weight : of that, in the loss.
    harder : what becomes of them first, or None.
    learnt : what was found out before, for the record.
    """

    draw: Draw
    of_logits: Cost
    weight: float
    harder: Harder | None = None
    learnt: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, module: nn.Module, n: int, rng: np.random.Generator) -> Tensor:
        """Float32[n, …]: outliers, on the device of the module."""
        drawn = torch.from_numpy(self.draw(n, rng)).to(next(module.parameters()).device)
        return drawn if self.harder is None else self.harder(module, drawn)

    def cost(self, outputs: Tensor, weights: Tensor, others: Tensor) -> Tensor:
        """``weight`` × the cost, a scalar, of logits Float32[b, K], weights Float32[b] and logits Float32[m, K] of outliers."""
        return self.weight * self.of_logits(outputs, weights, others)


@dataclass(eq=False, repr=False, kw_only=True)
class Exposure(BaseEstimator):
    """Training with outliers: cross-entropy on training rows, or another loss, + ``weight`` × what outliers cost (Hendrycks et al. 2019).

    A subclass is a dataclass too; it implements ``cost``, or ``beside`` where that has to look at the network first.

    Parameters
    ----------
    outliers : where they come from: "noise", "permuted" or "mixed", half of each, which are made of the training rows alone
        (:func:`~kdgraph.parents.networks.exposure.outliers.built_in`); or any :class:`~kdgraph.parents.networks.exposure.Outliers`. Each
        step draws as many new ones as it has training rows.
    weight : of what they cost. 0 draws none.
    start : "trained": the network is first trained without them, then tuned with them for a fixed number of epochs. "scratch": they are in
        its one training, which stops as ever by the loss of training or held-out rows alone.
    epochs, learning_rate : of the tuning; the rate falls along a cosine towards 0. The rest is as in training.

    Notes
    -----
    Where batches are normalised, training rows and outliers pass through the network together, so that the statistics are of both, as in
    the published implementations of outlier exposure and energy fine-tuning.
    """

    outliers: Literal["noise", "permuted", "mixed"] | Outliers = "noise"
    weight: NonNegative = 1.0
    start: Literal["trained", "scratch"] = "scratch"
    epochs: Annotated[int, Range(0)] = 10
    learning_rate: Positive = 1e-3

    @property
    def drawn_from(self) -> Outliers:
        """The outliers, made of their word if that is what they are."""
        return built_in(self.outliers) if isinstance(self.outliers, str) else self.outliers

    def check(self, prefix: str = "exposure.") -> None:
        """Raise ParameterError for a parameter out of range, here or of the outliers."""
        check_parameters(self, prefix)
        if not isinstance(self.drawn_from, Outliers):
            rule = "noise, permuted, mixed, or Outliers of kdgraph.parents.networks.exposure"
            raise ParameterError(f"{prefix}outliers must be {rule}, got {self.outliers!r}")
        self.drawn_from.check(f"{prefix}outliers.")

    def cost(self, logits: Tensor, weights: Tensor, of_outliers: Tensor) -> Tensor:
        """A scalar; see :data:`Cost` for the shapes."""
        raise NotImplementedError

    def beside(self, module: nn.Module, rows: np.ndarray, draw: Draw, device: str, rng: np.random.Generator) -> OutliersBeside | None:
        """What each step sees: of a ``module`` before its training (on the CPU), training rows Float32[n, …], and what draws outliers.

        None where they weigh nothing: then the training is the one without them, to the bit.
        """
        return OutliersBeside(draw, self.cost, self.weight) if self.weight else None

    def words(self) -> dict[str, str]:
        """Its class and that of the outliers, for the record."""
        return {"exposure": type(self).__name__, "outliers": type(self.drawn_from).__name__}
