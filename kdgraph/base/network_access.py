"""Access to the network inside a parent: logits, layer features and input gradients.

Scores such as energy, ODIN or the Mahalanobis distance need more of a network than its
probabilities. :func:`access_network` finds the network inside pipelines, frozen estimators and
other wrappers. :func:`logits_after_step` takes the input step of ODIN (Liang et al., ICLR 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from kdgraph.smoothing import rms_of

ODIN_STEP_SIZES = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08)
"""Candidates for the step size ε of ODIN with "auto": none, and the six of Hsu et al. (2020)."""


@dataclass(frozen=True)
class NetworkAccess:
    """A fitted network and the transformers in front of it, the outermost first.

    ``network`` is a :class:`~kdgraph.parents.networks.Network`, or an object with its methods.
    """

    network: Any
    transformers: tuple[Any, ...] = ()

    def network_input(self, X: Any) -> Any:
        """Return the rows X (Float[n, d], images or a data frame) as the network receives them."""
        for transformer in self.transformers:
            X = transformer.transform(X)
        return X

    def logits(self, X: Any) -> np.ndarray:
        """Return the inputs of the softmax for X, Float64[n, K]."""
        return self.network.logits(self.network_input(X))

    def features(self, X: Any, layer: str | None = None) -> np.ndarray:
        """Return the outputs of a layer for X, flattened, Float32[n, m].

        Without a name, the layer is the input of the last linear layer.
        """
        return self.network.transform(self.network_input(X), layer)

    def input_gradient(self, X: Any, function: Callable[[Any], Any]) -> np.ndarray:
        """Return the gradient of a function of the logits by :meth:`network_input`, Float32[n, …].

        ``function`` maps a torch tensor of logits, [n, K], to one number for each row, [n].
        """
        return self.network.input_gradient(self.network_input(X), function)


def access_network(parent: Any) -> NetworkAccess:
    """Return the network inside a fitted parent, or raise TypeError if there is none.

    The network may be the parent, or be frozen, at the end of pipelines of scikit-learn, or the
    ``estimator_`` of another estimator.
    """
    transformers, inner = [], parent
    while not hasattr(inner, "input_gradient"):
        if isinstance(inner, FrozenEstimator):
            inner = inner.estimator
        elif isinstance(inner, Pipeline):
            first_steps = [inner[:-1]] if len(inner) > 1 else []
            transformers, inner = [*transformers, *first_steps], inner[-1]
        elif hasattr(inner, "estimator_"):
            inner = inner.estimator_
        else:
            raise TypeError(
                f"{type(parent).__name__} has no logits or layers to read; pass a network of"
                " kdgraph.parents.networks"
            )
    return NetworkAccess(inner, tuple(transformers))


def input_spread(parent: Any, X: Any) -> float:
    """Return the root mean square distance of the network's inputs from their mean, 1 if it is 0.

    A step in units of this number means the same for any data set: the images of the papers are
    divided by their standard deviation. Original to kdgraph.
    """
    inputs = np.asarray(access_network(parent).network_input(X), dtype=np.float64)
    return rms_of(inputs.reshape(len(inputs), -1))


def logits_after_step(
    parent: Any, X: Any, temperature: float, step_sizes: Sequence[float]
) -> list[np.ndarray]:
    """Return the logits, Float64[n, K], after a step of the input that increases the confidence.

    The step is x̃ = x - ε·sign(-∇ₓ log S_ŷ(x; T)), where S(x; T) is the softmax of the logits
    divided by T, and ŷ its largest class (Liang et al. 2018, Eq. 2), for each ε ≥ 0 of
    ``step_sizes``. It changes the numbers that the network itself receives: pixels may leave [0,
    1], and numbers whose gradient is 0 are not changed.
    """
    access = access_network(parent)
    inputs = np.asarray(access.network_input(X))

    def log_confidence(logits: Any) -> Any:
        return (logits / temperature).log_softmax(dim=1).max(dim=1).values

    # A gradient that overflows is NaN and has no sign. It becomes 0, so that the number stays.
    direction = (
        np.sign(np.nan_to_num(access.network.input_gradient(inputs, log_confidence)))
        if any(step_sizes)
        else 0.0
    )
    return [
        access.network.logits(inputs + size * direction if size else inputs) for size in step_sizes
    ]
