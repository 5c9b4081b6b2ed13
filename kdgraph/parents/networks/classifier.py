"""Networks of torch as classifiers: labels, the loss on their logits, probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import nn

from kdgraph.errors import ParameterError
from kdgraph.parameters import NonNegative, check_parameters
from kdgraph.parents.networks.checkpoint import Checkpoint
from kdgraph.parents.networks.losses import LOSSES, Mmce
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.training import Examples, Loss, Options, Trained, decisive_loss
from kdgraph.parents.networks.weighing import least_nll


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkClassifier(ClassifierMixin, Network):
    """A network of torch as a classifier and a transformer of scikit-learn.

    A subclass is a dataclass too; its fields are parameters, and it implements ``_make_module``, from rows to logits.

    Parameters
    ----------
    loss : "cross_entropy"; "binary_cross_entropy": that of each class against the others, mean over the classes, on the softmax; or "mmce",
        which calibrates in training: cross-entropy + ``mmce_weight`` × the batch's maximum mean calibration error (Kumar et al., 2018).
    mmce_weight : of "mmce", from 0: one, or several, of which the network with the lowest negative log likelihood of the held-out rows is
        kept (ours). All of them start from the same weights and see the same batches; 0 is "cross_entropy" to the bit.
    stop_on : as of :class:`Network`; or "validation_accuracy", that of held-out rows: ``patience`` counts epochs in which it did not rise.
    **others : those of :class:`Network`.

    Attributes
    ----------
    classes_ : [K] labels, sorted; column j of every output belongs to ``classes_[j]``.
    mmce_weight_, mmce_nll_ : with "mmce", the weight that was kept, and the negative log likelihoods in nats that decided, one for each.
    **others : those of :class:`Network`.
    """

    loss: Literal["cross_entropy", "binary_cross_entropy", "mmce"] = "cross_entropy"
    mmce_weight: NonNegative | Sequence[NonNegative] = (0.0, 1.0, 2.0, 4.0, 8.0)
    stop_on: Literal["validation", "validation_accuracy", "train"] = "validation"  # pyright: ignore[reportIncompatibleVariableOverride]

    def _loss(self) -> Loss:
        return Mmce(self.mmce_weight_) if self.loss == "mmce" else LOSSES[self.loss]

    def _mmce_weights(self) -> list[float]:
        """Those that are tried."""
        given = np.atleast_1d(self.mmce_weight).astype(float).tolist()
        if not given:
            raise ParameterError("mmce_weight must have at least one number, got []")
        if len(given) > 1 and (self.patience is None or self.stop_on == "train"):
            why = "without held-out rows (patience=null or stop_on=train) nothing chooses among several"
            raise ParameterError(f"mmce_weight must be one number, got {given}: {why}")
        return given

    def _learn(self, module: nn.Module, examples: Examples, validation: Examples | None, options: Options, **more: Any) -> Trained:
        if self.loss != "mmce":
            return super()._learn(module, examples, validation, options, **more)

        def trained_with(weight: float, checkpoint: Checkpoint | None) -> Trained:
            self.mmce_weight_ = weight
            return self._train(module, examples, validation, options, **{**more, "checkpoint": checkpoint})

        weights = self._mmce_weights()
        at, self.mmce_nll_, trained = least_nll(trained_with, weights, module, validation or examples, options, more["checkpoint"])
        self.mmce_weight_ = weights[at]
        return trained

    def describe(self) -> dict[str, Any]:
        """What training came to, for the record; with "mmce" also the weight that was kept, and the NLL in nats that each weight had."""
        found = super().describe()
        return found | {"mmce_weight": self.mmce_weight_, "mmce_nll": list(self.mmce_nll_)} if self.loss == "mmce" else found

    def _strata(self, target: np.ndarray) -> np.ndarray:
        return target

    def fit(self, X, y, sample_weight=None):
        """Train a new module.

        Parameters
        ----------
        X : Float[n, d], or more axes, such as images Float[n, channels, height, width].
        y : [n] labels of any kind, of at least two classes.
        sample_weight : Float[n] or None, from 0; a row of weight 0 is left out.

        Raises
        ------
        ParameterError : for a parameter outside its range.
        ValueError : for NaN or infinity, for one class only, for a device that is not there, for a training that diverges.

        Warns
        -----
        ConvergenceWarning : when the network does no better than the class shares alone.
        """
        check_parameters(self)
        if self.loss == "mmce":
            self._mmce_weights()
        self._device()  # one that is not there is told before the rows are looked at
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], allow_nd=True)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_, target = np.unique(y, return_inverse=True)
        present = self.classes_[np.unique(target[weight > 0])]
        if len(present) < 2:
            raise ValueError(f"{type(self).__name__} needs rows of at least two classes, got one class: {present.tolist()}")
        self._warn_if_nothing_was_learnt(self._trained_on(X, target, weight, len(self.classes_)))
        return self

    def _warn_if_nothing_was_learnt(self, decisive: Examples) -> None:
        if not self.history_:
            return
        reached = decisive_loss(self.history_[self.best_epoch_ - 1])
        shares = torch.zeros(len(self.classes_)).index_add(0, decisive.targets, decisive.weights)
        constant = self._loss()((shares / shares.sum()).log().expand(len(decisive), -1), decisive.targets, decisive.weights).item()
        if reached > constant * (1 - 1e-6) and not self._beats_the_largest_class(shares):
            name = type(self).__name__
            advice = "try another random_state or learning_rate, or more epochs"
            message = f"{name} learnt nothing: its loss, {reached:.3f}, is not below that of the class shares; {advice}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def _beats_the_largest_class(self, shares: torch.Tensor) -> bool:
        """Whether the accuracy that stopped it says that something was learnt: of a network too sure of itself the loss may not."""
        error = self.history_[self.best_epoch_ - 1].get("validation_error")
        return error is not None and error < 1 - float(shares.max() / shares.sum()) - 1e-6

    def logits(self, X) -> np.ndarray:
        """Float64[n, K]: what the softmax takes; X as in ``fit``."""
        return self._outputs(X).astype(np.float64)

    def predict_proba(self, X) -> np.ndarray:
        """Float64[n, K]: class probabilities; rows are finite and sum to 1 for every finite X (Float[n, *input_shape])."""
        return softmax(self.logits(X), axis=1)

    def decision_function(self, X) -> np.ndarray:
        """Float64[n], the second logit less the first, for two classes; else the logits, Float64[n, K]."""
        logits = self.logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X) -> np.ndarray:
        """[n] labels: the class of the largest logit, the first of several."""
        logits = self.logits(X)
        return self.classes_[logits.argmax(axis=1)]
