"""Any module of torch as a classifier."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import nn

from kdgraph.errors import ParameterError
from kdgraph.parents.networks.classifier import NetworkClassifier


@dataclass(eq=False, repr=False)
class ModuleClassifier(NetworkClassifier):
    """A module of your own: copied, trained on from the weights that it has, or taken as it is.

    Parameters
    ----------
    module : maps Float32[b, *input_shape] to logits Float32[b, K], column j for the j-th label in sorted order. It stays as it is. Lazy
        layers take their shape from the data.
    **others : those of :class:`NetworkClassifier`; ``max_epochs=0`` trains nothing, and ``fit`` only learns the labels and the shape.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> module = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.Linear(16, 3))
    >>> ModuleClassifier(module, max_epochs=5, device="cpu", random_state=0).fit(X, y).predict_proba(X).shape
    (150, 3)
    """

    module: Any = None
    _: KW_ONLY

    def _make_module(self, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
        if not isinstance(self.module, nn.Module):
            raise ParameterError(f"module must be a torch.nn.Module, got {self.module!r}")
        module = copy.deepcopy(self.module).cpu().float().eval()
        row = torch.zeros(1, *input_shape)
        try:
            with torch.no_grad():
                logits = module(row)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"module cannot take rows of shape {input_shape}: {reason}") from error
        if getattr(logits, "shape", None) != (1, n_outputs):
            got = tuple(logits.shape) if hasattr(logits, "shape") else type(logits).__name__
            raise ValueError(f"module must map one row to logits of shape (1, {n_outputs}), one for each class of y, got {got}")
        return module
