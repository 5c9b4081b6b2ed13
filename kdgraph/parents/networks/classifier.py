"""Losses of classification: (logits Float32[b, K], targets Int[b], weights Float32[b]) → the mean
over rows of weight × loss.

Networks of torch as classifiers: labels, the loss on their logits, probabilities.

Any module of torch as a classifier.
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
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data
from torch import Tensor, nn

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
    """-log p of the row's class, as torch has it."""
    return (weights * F.cross_entropy(logits, targets, reduction="none")).mean()


def binary_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """-(1/K) Σ_k of log p_k for the row's class and log(1 - p_k) for the others, where p is the
    softmax (binary cross-entropy by class).

    The published implementation of Dey et al. (2024) trains its network for tables with it, as
    Keras' ``binary_crossentropy``.

    Exact where p rounds to 1: the complement of the largest p is summed from the others, which are
    at most 1/2.
    """
    log_p = logits.log_softmax(dim=1)
    top = log_p.argmax(dim=1, keepdim=True)
    others = log_p.scatter(1, top, -torch.inf)
    log_complement = torch.log1p(-others.exp()).scatter(
        1, top, others.logsumexp(dim=1, keepdim=True)
    )
    own = F.one_hot(targets, logits.shape[1]).bool()
    return -(weights * torch.where(own, log_p, log_complement).mean(dim=1)).mean()


def batch_mmce(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """The maximum mean calibration error of Kumar et al. (2018) of a batch:
    ``kdgraph.metrics.mmce`` with a gradient, a scalar.

    The root of the mean over pairs of rows of ``(c_i - a_i) (c_j - a_j) exp(-|c_i - c_j| / 0.4)``,
    with c the largest probability and a 1 where it is that of the row's class. Which class that is
    does not follow the weights smoothly and is a constant to the gradient. A row's ``c - a`` counts
    with its weight.
    """
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    gap = weights * (confidence - (predicted == targets).to(confidence.dtype))
    blocks = zip(gap.split(MMCE_BLOCK_ROWS), confidence.split(MMCE_BLOCK_ROWS), strict=True)
    pairs = sum(
        own @ torch.exp(-(c[:, None] - confidence).abs() / _MMCE_KERNEL_WIDTH) @ gap
        for own, c in blocks
    )
    return (torch.as_tensor(pairs).clamp(min=0) / len(gap) ** 2 + MMCE_EPSILON).sqrt()


_MMCE_KERNEL_WIDTH = 0.4
"""Of the Laplacian kernel on confidences, that of Kumar et al. (2018)."""
MMCE_EPSILON = 1e-10
"""Under the root, whose slope would be infinite at 0; so a batch without any error has 1e-5."""
MMCE_BLOCK_ROWS = 1024
"""Rows of the kernel at a time: held-out rows may be many, batches are one block."""


@dataclass(frozen=True)
class MmceLoss:
    """Cross-entropy + ``weight`` × :func:`batch_mmce` of the batch.

    Kumar, Sarawagi, Jain, "Trainable calibration measures for neural networks from kernel mean
    embeddings", ICML 2018. It is their MMCE over all pairs, not the variant that weights right and
    wrong rows apart. Each batch has its own; of several it is their mean.
    """

    weight: float

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """A scalar, of logits Float32[b, K], targets Int[b] and weights Float32[b]."""
        loss = cross_entropy(logits, targets, weights)
        return loss + self.weight * batch_mmce(logits, targets, weights) if self.weight else loss


CLASSIFICATION_LOSSES: dict[str, TrainingLoss] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
}
"""By the name that an estimator's ``loss`` has."""


_OUTLIER_STREAM = b"outliers"
"""Beside the seed of a training: what is chosen of outliers once, or found out with them, is no
order of rows.
"""


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkClassifier(ClassifierMixin, Network):
    """A network of torch as a classifier and a transformer of scikit-learn.

    A subclass is a dataclass too; its fields are parameters, and it implements ``_make_module``,
    from rows to logits.

    Parameters
    ----------
    loss : "cross_entropy"; "binary_cross_entropy": that of each class against the others, mean over
        the classes, on the softmax; or "mmce", which calibrates in training: cross-entropy +
        ``mmce_weight`` × the batch's maximum mean calibration error (Kumar et al., 2018).
    mmce_weight : of "mmce", from 0: one, or several, of which the network with the lowest negative
        log likelihood of the held-out rows is kept (ours). All of them start from the same weights
        and see the same batches; 0 is "cross_entropy" to the bit.
    exposure : what trains the network with outliers, an
    :class:`~kdgraph.parents.networks.exposure.Exposure`; None: nothing does.
    stop_on : as of :class:`Network`; or "validation_accuracy", that of held-out rows: ``patience``
    counts epochs in which it did not rise.
    **others : those of :class:`Network`.

    Attributes
    ----------
    classes_ : [K] labels, sorted; column j of every output belongs to ``classes_[j]``.
    mmce_weight_, mmce_nll_ : with "mmce", the weight that was kept, and the negative log
    likelihoods in nats that decided, one for each.
    exposure_history_ : as ``history_``, of the tuning with outliers; empty without one. Where there
        are outliers, each epoch has an outlier_loss, which the other losses leave out: the mean of
        ``weight`` × what they cost.
    exposure_ : with ``exposure``, what was found out for it: margins of energies.
    **others : those of :class:`Network`.
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
        """Those that are tried."""
        given = np.atleast_1d(self.mmce_weight).astype(float).tolist()
        if not given:
            raise ParameterError("mmce_weight must have at least one number, got []")
        if len(given) > 1 and (self.patience is None or self.stop_on == "train"):
            why = (
                "without held-out rows (patience=null or stop_on=train) nothing chooses among"
                " several"
            )
            raise ParameterError(f"mmce_weight must be one number, got {given}: {why}")
        return given

    def _train_and_select(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        *,
        X_outliers: np.ndarray | None = None,
        **more: Any,
    ) -> TrainingResult:
        if self.exposure is None:
            return self._train_with_best_weight(module, examples, validation, options, **more)
        exposure, rows, rng = (
            self.exposure,
            examples.inputs.numpy(),
            np.random.default_rng([more["seed"], *_OUTLIER_STREAM]),
        )
        draw = (
            exposure.outlier_source.make_sampler(rows, rng)
            if X_outliers is None
            else row_sampler(to_float32(X_outliers))
        )

        def beside() -> OutlierLoss | None:
            found = exposure.auxiliary_loss(module, rows, draw, options.device, rng)
            self.exposure_ = dict(found.fitted_values) if found else {}
            return found

        self.exposure_history_ = []
        if exposure.start == "scratch":
            return self._train_with_best_weight(
                module, examples, validation, options, **more, auxiliary_loss=beside()
            )
        trained = self._train_with_best_weight(module, examples, validation, options, **more)
        tuning = replace(
            options,
            max_epochs=exposure.epochs,
            learning_rate=exposure.learning_rate,
            schedule="cosine",
            patience=None,
        )
        after = more["checkpoint"] and more["checkpoint"].for_stage("exposure")
        more |= {"checkpoint": after, "beside": beside(), "stage": "exposure"}
        self.exposure_history_ = self._tune(module, examples, validation, tuning, **more).history
        if after:
            after.remove()
        return trained

    def _tune(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        **more: Any,
    ) -> TrainingResult:
        """Go on training a module, in place; a subclass whose training begins with something else
        leaves that out.
        """
        return self._train(module, examples, validation, options, **more)

    def _train_with_best_weight(
        self,
        module: nn.Module,
        examples: Examples,
        validation: Examples | None,
        options: TrainingOptions,
        **more: Any,
    ) -> TrainingResult:
        """Train the new module in place; with "mmce", once for each weight."""
        if self.loss != "mmce":
            return self._train(module, examples, validation, options, **more)

        def trained_with(weight: float, checkpoint: Checkpoint | None) -> TrainingResult:
            self.mmce_weight_ = weight
            return self._train(
                module, examples, validation, options, **{**more, "checkpoint": checkpoint}
            )

        weights = self._candidate_weights()
        at, self.mmce_nll_, trained = tune_loss_weight(
            trained_with, weights, module, validation or examples, options, more["checkpoint"]
        )
        self.mmce_weight_ = weights[at]
        return trained

    def describe(self) -> dict[str, Any]:
        """What training came to, for the record; with "mmce" also the weight that was kept, and the
        NLL in nats that each weight had; with an exposure its name, that of its outliers, and what
        they cost in the first and the last epoch.
        """
        found = super().describe()
        if self.loss == "mmce":
            found |= {"mmce_weight": self.mmce_weight_, "mmce_nll": list(self.mmce_nll_)}
        if self.exposure is not None:
            costs = [
                each["outlier_loss"]
                for each in self.exposure_history_ or self.history_
                if "outlier_loss" in each
            ]
            found |= {
                **self.exposure.words(),
                **self.exposure_,
                "outlier_loss": [costs[0], costs[-1]] if costs else [],
            }
        return found

    def _strata(self, target: np.ndarray) -> np.ndarray:
        return target

    def fit(self, X, y, sample_weight=None, X_outliers=None):
        """Train a new module.

        Parameters
        ----------
        X : Float[n, d], or more axes, such as images Float[n, channels, height, width].
        y : [n] labels of any kind, of at least two classes.
        sample_weight : Float[n] or None, from 0; a row of weight 0 is left out.
        X_outliers : Float[m, …] or None, with ``exposure``: rows from which outliers are drawn, in
            place of its own.

        Raises
        ------
        ParameterError : for a parameter outside its range; for outliers without an exposure.
        ValueError : for NaN or infinity, for one class only, for a device that is not there, for a
            training that diverges.

        Warns
        -----
        ConvergenceWarning : when the network does no better than the class shares alone.
        """
        check_parameters(self)
        if self.loss == "mmce":
            self._candidate_weights()
        self._check_exposure(X_outliers)
        self._device()  # one that is not there is told before the rows are looked at
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], allow_nd=True)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_, target = np.unique(y, return_inverse=True)
        present = self.classes_[np.unique(target[weight > 0])]
        if len(present) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, got one class:"
                f" {present.tolist()}"
            )
        beside = (
            {} if X_outliers is None else {"X_outliers": self._validate_outliers(X, X_outliers)}
        )
        self._warn_if_no_better_than_constant(
            self._fit_arrays(X, target, weight, len(self.classes_), **beside)
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
        if not self.history_:
            return
        reached = monitored_loss(self.history_[self.best_epoch_ - 1])
        shares = torch.zeros(len(self.classes_)).index_add(0, monitored.targets, monitored.weights)
        constant = self._loss()(
            (shares / shares.sum()).log().expand(len(monitored), -1),
            monitored.targets,
            monitored.weights,
        ).item()
        if reached > constant * (1 - 1e-6) and not self._beats_majority_class(shares):
            name = type(self).__name__
            advice = "try another random_state or learning_rate, or more epochs"
            message = (
                f"{name} learnt nothing: its loss, {reached:.3f}, is not below that of the class"
                f" shares; {advice}"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _beats_majority_class(self, shares: torch.Tensor) -> bool:
        """Whether the accuracy that stopped it says that something was learnt: of a network too
        sure of itself the loss may not.
        """
        error = self.history_[self.best_epoch_ - 1].get("validation_error")
        return error is not None and error < 1 - float(shares.max() / shares.sum()) - 1e-6

    def logits(self, X) -> np.ndarray:
        """Float64[n, K]: what the softmax takes; X as in ``fit``."""
        return self._module_outputs(X).astype(np.float64)

    @np.errstate(under="ignore")
    def predict_proba(self, X) -> np.ndarray:
        """Float64[n, K]: class probabilities; rows are finite and sum to 1 for every finite X
        (Float[n, *input_shape]).
        """
        return softmax(self.logits(X), axis=1)

    def decision_function(self, X) -> np.ndarray:
        """Float64[n], the second logit less the first, for two classes; else the logits, Float64[n,
        K].
        """
        logits = self.logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X) -> np.ndarray:
        """[n] labels: the class of the largest logit, the first of several."""
        logits = self.logits(X)
        return self.classes_[logits.argmax(axis=1)]


@dataclass(eq=False, repr=False)
class ModuleClassifier(NetworkClassifier):
    """A module of your own: copied, trained on from the weights that it has, or taken as it is.

    Parameters
    ----------
    module : maps Float32[b, *input_shape] to logits Float32[b, K], column j for the j-th label in
        sorted order. It stays as it is. Lazy layers take their shape from the data.
    **others : those of :class:`NetworkClassifier`; ``max_epochs=0`` trains nothing, and ``fit``
        only learns the labels and the shape.

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
            raise ValueError(
                f"module must map one row to logits of shape (1, {n_outputs}), one for each class"
                f" of y, got {got}"
            )
        return module
