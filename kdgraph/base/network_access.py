"""What a network says beside its probabilities: logits, features of its layers, gradients; behind
whatever is wrapped around it.

A small step of the input towards what a network predicts: what ODIN does before it asks the
network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from kdgraph.smoothing import rms_of


@dataclass(frozen=True)
class NetworkAccess:
    """A fitted network and what transforms rows before it: how scores of energy, ODIN or
    Mahalanobis kind ask their parent. Ours.

    Attributes
    ----------
    network : a fitted :class:`~kdgraph.parents.networks.Network`, or what has its methods.
    transformers : transformers, the outermost first.
    """

    network: Any
    transformers: tuple[Any, ...] = ()

    def network_input(self, X: Any) -> Any:
        """The rows X (Float[n, d], images or a data frame) as the network takes them."""
        for transformer in self.transformers:
            X = transformer.transform(X)
        return X

    def logits(self, X: Any) -> np.ndarray:
        """Float64[n, K]: what the softmax takes."""
        return self.network.logits(self.network_input(X))

    def features(self, X: Any, layer: str | None = None) -> np.ndarray:
        """Float32[n, m]: what the layer of that name puts out, flattened; None: what enters the
        last linear layer.
        """
        return self.network.transform(self.network_input(X), layer)

    def input_gradient(self, X: Any, function: Callable[[Any], Any]) -> np.ndarray:
        """Float32[n, …]: gradient by the numbers of :meth:`rows`, of a function of the logits that
        gives one number a row, in torch.
        """
        return self.network.input_gradient(self.network_input(X), function)


def access_network(parent: Any) -> NetworkAccess:
    """The network inside a fitted ``parent``: itself, frozen, at the end of pipelines of
    scikit-learn, or under what keeps ``estimator_``.

    Raises
    ------
    TypeError : if there is no network in it.
    """
    before, inner = [], parent
    while not hasattr(inner, "input_gradient"):
        if isinstance(inner, FrozenEstimator):
            inner = inner.estimator
        elif isinstance(inner, Pipeline):
            before, inner = [*before, *([inner[:-1]] if len(inner) > 1 else [])], inner[-1]
        elif hasattr(inner, "estimator_"):
            inner = inner.estimator_
        else:
            raise TypeError(
                f"{type(parent).__name__} has no logits or layers to read; pass a network of"
                " kdgraph.parents.networks"
            )
    return NetworkAccess(inner, tuple(before))


ODIN_STEP_SIZES = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08)
"""What "auto" chooses ε from: none, and the six of Hsu et al. (2020)."""


def input_spread(parent: Any, X: Any) -> float:
    """Root mean square distance, per number, of the rows X from their mean, as the network in
    ``parent`` takes them; 1 if it is 0. Ours.

    In units of it a step means the same for any data set: the papers' images are divided by their
    standard deviation.
    """
    rows = np.asarray(access_network(parent).network_input(X), dtype=np.float64)
    return rms_of(rows.reshape(len(rows), -1))


def logits_after_step(
    parent: Any, X: Any, temperature: float, step_sizes: Sequence[float]
) -> list[np.ndarray]:
    """Float64[n, K] for each step: logits of the network in ``parent`` after each number of a row
    went up or down by it.

    The direction is that in which the confidence grows: x̃ = x - ε·sign(-∇ₓ log S_ŷ(x; T)), where
    S(x; T) is the softmax of the logits divided by T, and ŷ its largest class (Liang et al.,
    "Enhancing the reliability of out-of-distribution image detection in neural networks", ICLR
    2018, Eq. 2). Numbers whose gradient is 0 stay where they are.

    Parameters
    ----------
    parent : a fitted network, also in a pipeline or frozen; the step is one in the numbers that the
    network itself takes.
    X : Float[n, d], images Float[n, c, h, w] or a data frame, as the parent takes them. Pixels may
    leave [0, 1]: nothing is cut off.
    temperature : T > 0.
    step_sizes : ε ≥ 0 of each step. The gradient is that at X, for all of them.

    Raises
    ------
    TypeError : if there is no network in ``parent``.
    """
    inside = access_network(parent)
    rows = np.asarray(inside.network_input(X))

    def log_confidence(logits: Any) -> Any:
        return (logits / temperature).log_softmax(dim=1).max(dim=1).values

    # A gradient that overflows has no sign: NaN moves nothing.
    direction = (
        np.sign(np.nan_to_num(inside.network.input_gradient(rows, log_confidence)))
        if any(step_sizes)
        else 0.0
    )
    return [inside.network.logits(rows + size * direction if size else rows) for size in step_sizes]
