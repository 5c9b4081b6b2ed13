"""What a network says beside its probabilities: logits, features of its layers, gradients; behind whatever is wrapped around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline


@dataclass(frozen=True)
class Inside:
    """A fitted network and what transforms rows before it: how scores of energy, ODIN or Mahalanobis kind ask their parent. Ours.

    Attributes
    ----------
    network : a fitted :class:`~kdgraph.parents.networks.Network`, or what has its methods.
    before : transformers, the outermost first.
    """

    network: Any
    before: tuple[Any, ...] = ()

    def rows(self, X: Any) -> Any:
        """The rows X (Float[n, d], images or a data frame) as the network takes them."""
        for transformer in self.before:
            X = transformer.transform(X)
        return X

    def logits(self, X: Any) -> np.ndarray:
        """Float64[n, K]: what the softmax takes."""
        return self.network.logits(self.rows(X))

    def features(self, X: Any, layer: str | None = None) -> np.ndarray:
        """Float32[n, m]: what the layer of that name puts out, flattened; None: what enters the last linear layer."""
        return self.network.transform(self.rows(X), layer)

    def input_gradient(self, X: Any, of: Callable[[Any], Any]) -> np.ndarray:
        """Float32[n, …]: gradient by the numbers of :meth:`rows`, of a function of the logits that gives one number a row, in torch."""
        return self.network.input_gradient(self.rows(X), of)


def inside_of(parent: Any) -> Inside:
    """The network inside a fitted ``parent``: itself, frozen, at the end of pipelines of scikit-learn, or under what keeps ``estimator_``.

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
            raise TypeError(f"{type(parent).__name__} has no logits or layers to read; pass a network of kdgraph.parents.networks")
    return Inside(inner, tuple(before))
