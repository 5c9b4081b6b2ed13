"""Network classifiers and their losses.

:class:`NetworkClassifier` adds labels, losses on logits and probabilities to the network base
class. :class:`TorchClassifier` wraps any module of torch. A loss is a function (logits
Float32[b, K], targets Int[b], weights Float32[b]) that returns the mean over rows of weight × loss.
The loss "mmce" calibrates during training (Kumar et al. 2018); an exposure trains with outliers
(Hendrycks et al. 2019).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor, nn

from kdgraph.base.validation import check_single_precision, check_weights
from kdgraph.errors import ParameterError
from kdgraph.parameters import NonNegative, check_parameters
from kdgraph.parents.networks.checkpoint import Checkpoint
from kdgraph.parents.networks.exposure import Exposure, OutlierLoss
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.outlier_sources import row_sampler
from kdgraph.parents.networks.torch_state import default_torch_state, to_float32
from kdgraph.parents.networks.training import (
    Examples,
    TrainingLoss,
    TrainingOptions,
    TrainingResult,
    monitored_loss,
    tune_loss_weight,
)


def cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean of -log p of the class, as torch computes it."""
    return (weights * F.cross_entropy(logits, targets, reduction="none")).mean()


def binary_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the binary cross-entropy of each class against the others, on the softmax.

    It is -(1/K) Σ_k of log p_k for the class of the row and log(1 - p_k) for the others, where p is
    the softmax. The published implementation of Dey et al. (2024) trains its network for tables
    with it, as Keras' ``binary_crossentropy``.
    """
    # 1 - p would be 0 where p rounds to 1. So the complement of the largest p is the sum of the
    # others; all other p are at most 1/2, where log1p is exact.
    log_p = logits.log_softmax(dim=1)
    top = log_p.argmax(dim=1, keepdim=True)
    other_log_p = log_p.scatter(1, top, -torch.inf)
    log_complement = torch.log1p(-other_log_p.exp()).scatter(
        1, top, other_log_p.logsumexp(dim=1, keepdim=True)
    )
    is_target = F.one_hot(targets, logits.shape[1]).bool()
    return -(weights * torch.where(is_target, log_p, log_complement).mean(dim=1)).mean()


def batch_mmce(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the maximum mean calibration error (MMCE, Kumar et al. 2018) of a batch.

    It is ``kdgraph.metrics.mmce`` with a gradient: the root of the mean over pairs of rows of
    ``(c_i - a_i) (c_j - a_j) exp(-|c_i - c_j| / 0.4)``. Here c is the largest probability, and a is
    1 if it belongs to the class of the row. The predicted class is not differentiable in the
    weights, so a is a constant for the gradient. ``c - a`` of a row is multiplied by its weight.
    """
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    gap = weights * (confidence - (predicted == targets).to(confidence.dtype))
    blocks = zip(gap.split(MMCE_BLOCK_ROWS), confidence.split(MMCE_BLOCK_ROWS), strict=True)
    pairs = sum(
        block_gap @ torch.exp(-(c[:, None] - confidence).abs() / _MMCE_KERNEL_WIDTH) @ gap
        for block_gap, c in blocks
    )
    return (torch.as_tensor(pairs).clamp(min=0) / len(gap) ** 2 + MMCE_EPSILON).sqrt()


# Width of the Laplacian kernel on confidences (Kumar et al. 2018).
_MMCE_KERNEL_WIDTH = 0.4
MMCE_EPSILON = 1e-10
"""Constant under the root of the MMCE, whose slope would be infinite at 0.

A batch without any calibration error therefore has an MMCE of 1e-5.
"""
MMCE_BLOCK_ROWS = 1024
"""Rows of the kernel matrix that are computed at a time.

Held-out sets may be large; a training batch is usually one block.
"""


@dataclass(frozen=True)
class MmceLoss:
    """Cross-entropy + ``weight`` × :func:`batch_mmce` of the batch.

    A weight of 0 gives the cross-entropy to the bit. It is the MMCE over all pairs, not the variant
    that weights correct and incorrect predictions separately. Each batch has its own MMCE; the loss
    of several batches is their mean. Kumar, Sarawagi, Jain, "Trainable calibration measures for
    neural networks from kernel mean embeddings", ICML 2018.
    """

    weight: float

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the loss, a scalar."""
        loss = cross_entropy(logits, targets, weights)
        return loss + self.weight * batch_mmce(logits, targets, weights) if self.weight else loss


CLASSIFICATION_LOSSES: dict[str, TrainingLoss] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
}
"""Losses by the name that the parameter ``loss`` has; "mmce" needs a weight and is separate."""


# Suffix of the seed for choices about outliers before training. It separates them from the random
# numbers of the epochs.
_OUTLIER_STREAM = b"outliers"


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkClassifier(ClassifierMixin, Network):
    """Torch network as a classifier and transformer of scikit-learn.

    A subclass is a dataclass too. Its fields are parameters, and it implements ``_make_module``,
    which returns a module that maps rows to logits.

    Parameters
    ----------
    loss : {"cross_entropy", "binary_cross_entropy", "mmce"}, default="cross_entropy"
        Training loss. "binary_cross_entropy" is the binary cross-entropy of each class against the
        others, averaged over the classes, on the softmax. "mmce" calibrates in training: it is
        cross-entropy + ``mmce_weight`` × the maximum mean calibration error of the batch (Kumar et
        al., 2018).
    mmce_weight : float or sequence of float, default=(0.0, 1.0, 2.0, 4.0, 8.0)
        Weight of "mmce", from 0. With several weights, the network with the lowest negative log
        likelihood on the held-out rows is kept. All of them start from the same weights and see the
        same batches; 0 is "cross_entropy" to the bit.
    exposure : Exposure or None, default=None
        Training with outliers, an :class:`~kdgraph.parents.networks.exposure.Exposure`.
    stop_on : {"validation", "validation_accuracy", "train"}, default="validation"
        Criterion of early stopping, as in :class:`Network`. With "validation_accuracy",
        ``patience`` counts epochs in which the accuracy on the held-out rows did not increase.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels, sorted. Column j of every output belongs to ``classes_[j]``.
    mmce_weight_ : float
        Selected weight; only with "mmce".
    mmce_nll_ : list of float
        Negative log likelihood in nats for each candidate weight; only with "mmce".
    exposure_history_ : list of dict
        As ``history_``, of the tuning with outliers; empty without one. With outliers, each epoch
        has an ``outlier_loss``: the mean of ``weight`` × the outlier loss. The other losses exclude
        it.
    exposure_ : dict
        Values that were fitted for the exposure, such as energy margins; only with ``exposure``.

    Notes
    -----
    The selection of ``mmce_weight`` is original to kdgraph.

    Examples
    --------
    A subclass whose module is a linear map:

    >>> import math
    >>> from dataclasses import dataclass
    >>> from sklearn.datasets import load_iris
    >>> from torch import nn
    >>> from kdgraph.parents.networks import NetworkClassifier
    >>> @dataclass(eq=False, repr=False, kw_only=True)
    ... class SoftmaxRegression(NetworkClassifier):
    ...     def _make_module(self, input_shape, n_outputs):
    ...         return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), n_outputs))
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SoftmaxRegression(learning_rate=0.03, max_epochs=20, device="cpu", random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.8), model.predict_proba(X).shape
    (True, (150, 3))
    """

    loss: Literal["cross_entropy", "binary_cross_entropy", "mmce"] = "cross_entropy"
    mmce_weight: NonNegative | Sequence[NonNegative] = (0.0, 1.0, 2.0, 4.0, 8.0)
    exposure: Exposure | None = None
    stop_on: Literal["validation", "validation_accuracy", "train"] = "validation"  # pyright: ignore[reportIncompatibleVariableOverride]

    def _loss(self) -> TrainingLoss:
        return (
            MmceLoss(self.mmce_weight_) if self.loss == "mmce" else CLASSIFICATION_LOSSES[self.loss]
        )

    def _candidate_weights(self) -> list[float]:
        candidates = np.atleast_1d(self.mmce_weight).astype(float).tolist()
        if not candidates:
            raise ParameterError("mmce_weight must have at least one number, got []")
        if len(candidates) > 1 and (self.patience is None or self.stop_on == "train"):
            raise ParameterError(
                f"mmce_weight must be one number, got {candidates}: without held-out rows"
                " (patience=null or stop_on=train) nothing chooses among several"
            )
        return candidates

    def _train_and_select(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        *,
        X_outliers: np.ndarray | None = None,
        **train_options: Any,
    ) -> TrainingResult:
        """Train the new module in place, with outliers if there is an exposure."""
        training = module, examples, validation, options
        if self.exposure is None:
            return self._train_with_best_weight(*training, **train_options)
        exposure, rows = self.exposure, examples.inputs.numpy()
        rng = np.random.default_rng([train_options["seed"], *_OUTLIER_STREAM])
        if X_outliers is None:
            sampler = exposure.outlier_source.make_sampler(rows, rng)
        else:
            sampler = row_sampler(to_float32(X_outliers))

        def make_auxiliary_loss() -> OutlierLoss | None:
            auxiliary_loss = exposure.auxiliary_loss(module, rows, sampler, options.device, rng)
            self.exposure_ = dict(auxiliary_loss.fitted_values) if auxiliary_loss else {}
            return auxiliary_loss

        # With "scratch" the outliers are part of the one training. With "trained" the network is
        # first trained without them and then tuned for a fixed number of epochs. The auxiliary
        # loss is made right before its use, since it may depend on the network at that time.
        self.exposure_history_ = []
        if exposure.start == "scratch":
            train_options["auxiliary_loss"] = make_auxiliary_loss()
            return self._train_with_best_weight(*training, **train_options)
        result = self._train_with_best_weight(*training, **train_options)
        tuning_options = replace(
            options,
            max_epochs=exposure.epochs,
            learning_rate=exposure.learning_rate,
            schedule="cosine",
            patience=None,
        )
        checkpoint = train_options["checkpoint"] and train_options["checkpoint"].for_stage(
            "exposure"
        )
        train_options |= {
            "checkpoint": checkpoint,
            "auxiliary_loss": make_auxiliary_loss(),
            "stage": "exposure",
        }
        self.exposure_history_ = self._train(
            module, examples, validation, tuning_options, **train_options
        ).history
        if checkpoint:
            checkpoint.remove()
        return result

    def _train_with_best_weight(self, *training: Any, **train_options: Any) -> TrainingResult:
        """Train the new module in place; with "mmce", once for each weight."""
        if self.loss != "mmce":
            return self._train(*training, **train_options)

        def train_with_weight(weight: float, checkpoint: Checkpoint | None) -> TrainingResult:
            self.mmce_weight_ = weight
            return self._train(*training, **{**train_options, "checkpoint": checkpoint})

        module, examples, validation, options = training
        weights = self._candidate_weights()
        best, self.mmce_nll_, result = tune_loss_weight(
            train_with_weight,
            weights,
            module,
            validation or examples,
            options,
            train_options["checkpoint"],
        )
        self.mmce_weight_ = weights[best]
        return result

    def describe(self) -> dict[str, Any]:
        """Return a summary of the training for the record.

        With "mmce" it also has the selected weight and the NLL in nats of each weight. With an
        exposure it also has its name, that of its outliers, and the outlier loss in the first and
        the last epoch.
        """
        summary = super().describe()
        if self.loss == "mmce":
            summary |= {"mmce_weight": self.mmce_weight_, "mmce_nll": list(self.mmce_nll_)}
        if self.exposure is not None:
            outlier_losses = [
                epoch["outlier_loss"]
                for epoch in self.exposure_history_ or self.history_
                if "outlier_loss" in epoch
            ]
            summary |= {
                **self.exposure.describe(),
                **self.exposure_,
                "outlier_loss": [outlier_losses[0], outlier_losses[-1]] if outlier_losses else [],
            }
        return summary

    def _strata(self, target: np.ndarray) -> np.ndarray:
        return target

    def fit(self, X, y, sample_weight=None, X_outliers=None):
        """Train a new module.

        Parameters
        ----------
        X : ndarray, Float[n, d]
            Rows. They may have more axes, such as images Float[n, channels, height, width].
        y : ndarray of shape (n,)
            Labels of any kind, of at least two classes.
        sample_weight : ndarray, Float[n], or None, default=None
            Weights, from 0; a row of weight 0 is ignored.
        X_outliers : ndarray, Float[m, …], or None, default=None
            Rows from which outliers are drawn, instead of those of ``exposure``.

        Raises
        ------
        ParameterError
            If a parameter is outside its range, or ``X_outliers`` is given without an exposure.
        ValueError
            If X contains NaN or infinity, y has one class only, the device is missing, or the
            training diverges.

        Warns
        -----
        ConvergenceWarning
            If the network is not better than constant class proportions.
        """
        check_parameters(self)
        if self.loss == "mmce":
            self._candidate_weights()
        self._check_exposure(X_outliers)
        # Report a missing device before the rows are validated.
        self._device()
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], allow_nd=True)
        check_classification_targets(y)
        check_single_precision(X, type(self).__name__)
        weight = check_weights(sample_weight, X)
        self.classes_, target = np.unique(y, return_inverse=True)
        present_classes = self.classes_[np.unique(target[weight > 0])]
        if len(present_classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, got one class:"
                f" {present_classes.tolist()}"
            )
        extra_arrays = (
            {} if X_outliers is None else {"X_outliers": self._validate_outliers(X, X_outliers)}
        )
        self._warn_if_no_better_than_constant(
            self._fit_arrays(X, target, weight, len(self.classes_), **extra_arrays)
        )
        return self

    def _check_exposure(self, X_outliers: Any) -> None:
        if self.exposure is None and X_outliers is not None:
            raise ParameterError(
                "X_outliers needs an exposure that trains with them, got exposure=None"
            )
        if self.exposure is None:
            return
        if not isinstance(self.exposure, Exposure):
            raise ParameterError(
                "exposure must be an Exposure of kdgraph.parents.networks, or None, got"
                f" {self.exposure!r}"
            )
        self.exposure.check()
        if self.exposure.start == "scratch" and self.max_epochs == 0:
            raise ParameterError(
                "exposure.start must be trained with max_epochs=0, which trains nothing, got"
                " scratch"
            )

    def _validate_outliers(self, X: np.ndarray, X_outliers: Any) -> np.ndarray:
        outliers = check_array(
            X_outliers, dtype=[np.float64, np.float32], allow_nd=True, input_name="X_outliers"
        )
        if outliers.shape[1:] != X.shape[1:]:
            raise ValueError(
                f"rows of X_outliers must have the shape of those of X, {X.shape[1:]}, got"
                f" {outliers.shape[1:]}"
            )
        return outliers

    @default_torch_state()
    def _warn_if_no_better_than_constant(self, monitored: Examples) -> None:
        """Warn if the monitored loss is not below that of constant class proportions."""
        if not self.history_:
            return
        network_loss = monitored_loss(self.history_[self.best_epoch_ - 1])
        class_weights = torch.zeros(len(self.classes_)).index_add(
            0, monitored.targets, monitored.weights
        )
        constant_loss = self._loss()(
            (class_weights / class_weights.sum()).log().expand(len(monitored), -1),
            monitored.targets,
            monitored.weights,
        ).item()
        if network_loss > constant_loss * (1 - 1e-6) and not self._beats_majority_class(
            class_weights
        ):
            message = (
                f"{type(self).__name__} learnt nothing: its loss, {network_loss:.3f}, is not below"
                " that of the class proportions; try another random_state or learning_rate, or more"
                " epochs"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _beats_majority_class(self, class_weights: torch.Tensor) -> bool:
        """Return whether early stopping used accuracy, and it is above that of the majority class.

        An overconfident network may be accurate although its loss is high.
        """
        error = self.history_[self.best_epoch_ - 1].get("validation_error")
        return (
            error is not None
            and error < 1 - float(class_weights.max() / class_weights.sum()) - 1e-6
        )

    def logits(self, X) -> np.ndarray:
        """Return the input of the softmax for rows X as in ``fit``, Float64[n, K]."""
        return self._module_outputs(X).astype(np.float64)

    @np.errstate(under="ignore")
    def predict_proba(self, X) -> np.ndarray:
        """Return class probabilities, Float64[n, K], in the order of ``classes_``.

        Rows are finite and sum to 1 for every finite X.
        """
        return softmax(self.logits(X), axis=1)

    def decision_function(self, X) -> np.ndarray:
        """Return the second logit minus the first of two classes, otherwise the logits."""
        logits = self.logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X) -> np.ndarray:
        """Return the class of the largest logit, the first of several, for each row."""
        predicted = self.logits(X).argmax(axis=1)  # checks that it is fitted
        return self.classes_[predicted]


@dataclass(eq=False, repr=False)
class TorchClassifier(NetworkClassifier):
    """Classifier around a given torch module, which is copied and trained or used unchanged.

    Parameters
    ----------
    module : nn.Module
        Module that maps Float32[b, *input_shape] to logits Float32[b, K], column j for the j-th
        label in sorted order. It is not modified. Training starts from its weights; with
        ``max_epochs=0`` nothing is trained, and ``fit`` only stores the labels and the shape. Lazy
        layers take their shape from the data.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> module = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.Linear(16, 3))
    >>> classifier = TorchClassifier(module, max_epochs=5, device="cpu", random_state=0)
    >>> classifier.fit(X, y).predict_proba(X).shape
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
            received = tuple(logits.shape) if hasattr(logits, "shape") else type(logits).__name__
            raise ValueError(
                f"module must map one row to logits of shape (1, {n_outputs}), one for each class"
                f" of y, got {received}"
            )
        return module
