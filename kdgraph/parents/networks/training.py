"""Training loop of all networks.

:func:`train` trains any module of torch with any loss of (outputs, targets, weights). It supports
early stopping, checkpoints and an auxiliary loss on unlabelled rows. :func:`tune_loss_weight`
trains one network with several weights of a loss term and keeps the best one.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from kdgraph.parents.networks.checkpoint import Checkpoint, ProgressCallback, TrainingProgress
from kdgraph.parents.networks.torch_state import deterministic_torch, map_batches, seed_torch

if TYPE_CHECKING:
    from kdgraph.parents.networks.exposure import OutlierLoss

TrainingLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Function (outputs Float32[b, ...], targets [b, ...], weights Float32[b]) → scalar.

It returns the mean over the batch of weight × loss of a row.
"""


BatchSampler = Callable[[np.random.Generator, int], np.ndarray]
"""Function (generator of an epoch, n) → Int[m]: the row numbers of an epoch.

The batches are consecutive parts of them; m may differ from n.
"""


LOSS_RESOLUTION = float(np.finfo(np.float32).eps)
"""Decrease of a mean loss up to which early stopping takes it for rounding, 1.2e-7.

The smallest cross-entropy of a row in single precision above 0 is as large, so that lower means
only count such rows. Of 9,997 rows of one class and 3 of another, the mean fell in this way for
70 epochs, where balanced classes need 23.
"""


def shuffle_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return each of n row numbers once in random order, Int[n]."""
    return rng.permutation(n)


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training, with the names and meanings of :class:`NetworkClassifier`."""

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 3e-4
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    batch_size: int = 64
    max_epochs: int = 200
    patience: int | None = 10
    stop_on: str = "validation"
    device: str = "cpu"
    amp: bool = True

    def learning_rate_at(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0.

        With the schedule "cosine" it falls from ``learning_rate`` towards 0 over ``max_epochs``.
        """
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (0.5 * (1 + math.cos(math.pi * epoch / self.max_epochs)))


@dataclass(frozen=True)
class Examples:
    """Training data of a module: inputs Float32[n, ...], targets [n, ...] and weights Float32[n].

    Targets are positions of classes (Int64), or what the loss compares outputs with. The weights
    have mean 1.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.inputs[index], self.targets[index], self.weights[index]

    def to_device(self, device: str) -> Examples:
        """Return the examples on the device, if they need less than half of its free memory.

        Gathering a batch is faster on the device. Larger examples stay on the CPU.
        """
        tensors = (self.inputs, self.targets, self.weights)
        size = sum(t.numel() * t.element_size() for t in tensors)
        if device == "cpu" or size > torch.cuda.mem_get_info(device)[0] / 2:
            return self
        return Examples(*(t.to(device) for t in tensors))


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training.

    The history has, for each epoch, its number ``epoch``, ``loss`` and ``validation_loss``. With
    ``stop_on`` "validation_accuracy" it has ``validation_error``, and with an auxiliary loss
    ``outlier_loss``, the mean of that loss. The module has the weights of the ``best_epoch``,
    counted from 1.
    """

    history: list[dict[str, Any]]
    best_epoch: int


def train(
    module: nn.Module,
    examples: Examples,
    loss: TrainingLoss,
    options: TrainingOptions,
    *,
    seed: int,
    validation: Examples | None = None,
    report: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
    stage: str = "training",
    batch_sampler: BatchSampler = shuffle_rows,
    auxiliary_loss: OutlierLoss | None = None,
) -> TrainingResult:
    """Train a module in place; afterwards it is on the CPU, in eval mode.

    With a ``patience`` the training stops after that many epochs without improvement by more than
    :data:`LOSS_RESOLUTION`. The module gets the weights of the last epoch that improved. The
    criterion is the validation loss if there are validation examples, or their error rate with
    ``stop_on`` "validation_accuracy"; otherwise it is the mean training loss during the epoch.
    Without a ``patience`` the module keeps the last weights.

    Batches and dropout of epoch e depend on (seed, e) alone. So a training that continues from a
    checkpoint gives the same bits as an uninterrupted one. The finished file remains; the caller
    removes it. Examples are on the CPU. ``report`` receives the progress after each epoch with the
    name of the ``stage``. The losses in the history exclude the ``auxiliary_loss``.

    ValueError is raised if the loss is no longer finite, or the module has no parameter to train.
    """
    if options.max_epochs == 0:
        module.eval()
        return TrainingResult([], 0)
    with deterministic_torch(options.device, seed):
        training_run = _TrainingRun(module, loss, options, seed, batch_sampler, auxiliary_loss)
        training_run.resume(checkpoint)
        if examples.inputs.ndim == 4:
            # Channels last is faster: 30 ms a step instead of 83 ms for convolutions with few
            # filters, 250 ms instead of 370 ms for ResNet-20.
            module.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] - documented, but not in its stubs
        try:
            training_run.run(
                examples.to_device(options.device),
                validation and validation.to_device(options.device),
                report,
                checkpoint,
                stage,
            )
        finally:
            training_run.release()
    return TrainingResult(training_run.history, training_run.best_epoch)


class _TrainingRun:
    """State of a training, and the steps that change it.

    The state (module, optimizer, gradient scaler, history, best weights) is what a checkpoint
    contains. Everything else is derived from the options and the number of the epoch.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: TrainingLoss,
        options: TrainingOptions,
        seed: int,
        batch_sampler: BatchSampler,
        auxiliary: OutlierLoss | None = None,
    ):
        self.module = module.to(options.device)
        self.loss, self.options, self.seed = loss, options, seed
        self.batch_sampler = batch_sampler
        self.auxiliary = auxiliary
        self.has_batch_norm = any(isinstance(part, _BatchNorm) for part in module.modules())
        self.history: list[dict[str, Any]] = []
        self.best_weights: Mapping[str, Tensor] | None = None
        self.optimizer = _optimizer(module, options)
        self.mixed_precision = options.amp and options.device != "cpu"
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.mixed_precision)

    @property
    def best_epoch(self) -> int:
        """Epoch (from 1) of the lowest early-stopping metric, of equal ones the first.

        Without patience it is the last epoch.
        """
        if self.options.patience is None or not self.history:
            return len(self.history)
        metrics, best = [early_stopping_metric(losses) for losses in self.history], 0
        for epoch, metric in enumerate(metrics):
            if metric < metrics[best] - LOSS_RESOLUTION:
                best = epoch
        return best + 1

    @property
    def is_finished(self) -> bool:
        patience = self.options.patience
        stopped = patience is not None and len(self.history) - self.best_epoch >= patience
        return stopped or len(self.history) >= self.options.max_epochs

    def run(
        self,
        examples: Examples,
        validation: Examples | None,
        report: ProgressCallback | None,
        checkpoint: Checkpoint | None,
        stage: str,
    ) -> None:
        # A resumed run has epochs already; the pace is measured over the new ones alone.
        start, n_resumed = time.perf_counter(), len(self.history)
        while not self.is_finished:
            self.history.append(self.run_epoch(examples, validation))
            if self.options.patience is not None and self.best_epoch == len(self.history):
                self.best_weights = copy.deepcopy(self.module.state_dict())
            if checkpoint:
                checkpoint.save(self.state(), force=self.is_finished)
            if report:
                epoch, n_epochs = len(self.history), self.options.max_epochs
                pace = (time.perf_counter() - start) / (epoch - n_resumed)
                seconds_left = pace * (n_epochs - epoch)
                losses = self.history[-1]["loss"], self.history[-1]["validation_loss"]
                report(TrainingProgress(epoch, n_epochs, *losses, seconds_left, stage))
        if self.best_weights is not None:
            self.module.load_state_dict(self.best_weights)

    def run_epoch(self, examples: Examples, validation: Examples | None) -> dict[str, Any]:
        # All randomness of the epoch follows from (seed, number of the epoch), in this order:
        # torch's seed (dropout, views of images), the batches, then the auxiliary rows step by
        # step. So a resumed training needs no saved random state.
        number = len(self.history)
        self.rng = rng = np.random.default_rng([self.seed, number])
        self.auxiliary_loss_sum = torch.zeros((), dtype=torch.float64, device=self.options.device)
        seed_torch(self.options.device, int(rng.integers(2**63)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate_at(number)
        self.module.train()
        order = torch.from_numpy(self.batch_sampler(rng, len(examples)))
        loss = self._mean(examples, order, self.training_step)
        self.module.eval()
        with torch.no_grad():
            validation_loss, more_losses = None, {}
            if validation is not None:
                rows = torch.arange(len(validation))
                validation_loss = self._mean(validation, rows, self.evaluate)
                if self.options.stop_on == "validation_accuracy":
                    more_losses["validation_error"] = self._mean(validation, rows, self.error_rate)
            if self.auxiliary is not None:
                more_losses["outlier_loss"] = self.auxiliary_loss_sum.item() / len(order)
        # One sum tests all losses: a single infinite or NaN term makes it non-finite.
        if not math.isfinite(
            sum(more_losses.values(), loss if validation_loss is None else loss + validation_loss)
        ):
            rate = f"learning_rate, {self.options.learning_rate:g}"
            raise ValueError(
                f"training diverged: the loss of epoch {number + 1} is not finite; lower {rate}, or"
                " scale the features"
            )
        return {
            "epoch": number + 1,
            "loss": loss,
            "validation_loss": validation_loss,
            **more_losses,
        }

    def _mean(self, examples: Examples, order: Tensor, function: Callable[..., Tensor]) -> float:
        """Return the mean over rows of a function that returns the mean of a batch.

        The result is read from the device once, since each reading waits for the device.
        """
        total = torch.zeros((), dtype=torch.float64, device=self.options.device)
        order = order.to(examples.inputs.device)
        for rows in split_batches(order, self.options.batch_size):
            inputs, *targets_and_weights = (t.to(self.options.device) for t in examples[rows])
            if inputs.ndim == 4:
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            total += function(inputs, *targets_and_weights).detach() * len(rows)
        return total.item() / len(order)

    def training_step(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Make one step of the optimizer, and return the loss before it, without auxiliary loss."""
        auxiliary_rows = None
        if self.auxiliary is not None:
            auxiliary_rows = self.auxiliary.sample_rows(self.module, len(inputs), self.rng)
        with torch.amp.autocast("cuda", enabled=self.mixed_precision):
            outputs, auxiliary_outputs = self.outputs(inputs, auxiliary_rows)
        loss = total = self.loss(outputs.float(), targets, weights)
        if self.auxiliary is not None and auxiliary_outputs is not None:
            auxiliary_loss = self.auxiliary.loss(
                outputs.float(), weights, auxiliary_outputs.float()
            )
            self.auxiliary_loss_sum += auxiliary_loss.detach() * len(inputs)
            total = loss + auxiliary_loss
        self.optimizer.zero_grad()
        self.scaler.scale(total).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def outputs(
        self, inputs: Tensor, auxiliary_rows: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        if auxiliary_rows is None:
            return self.module(inputs), None
        auxiliary_rows = auxiliary_rows.to(inputs.device)
        # With batch normalisation both pass through the module together, so that the statistics
        # cover both.
        if not self.has_batch_norm:
            return self.module(inputs), self.module(auxiliary_rows)
        all_rows = torch.cat([inputs, auxiliary_rows])
        if all_rows.ndim == 4:
            all_rows = all_rows.contiguous(memory_format=torch.channels_last)
        outputs = self.module(all_rows)
        return outputs[: len(inputs)], outputs[len(inputs) :]

    def evaluate(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the loss in full precision, as in inference."""
        return self.loss(self.module(inputs), targets, weights)

    def error_rate(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted fraction of rows whose largest logit is not that of their class."""
        return (weights * (self.module(inputs).argmax(dim=1) != targets)).mean()

    def state(self) -> dict[str, Any]:
        """Return everything that determines the rest of the training.

        Learning rates and random states follow from the number of the epoch.
        """
        parts = {"module": self.module, "optimizer": self.optimizer, "scaler": self.scaler}
        return {name: part.state_dict() for name, part in parts.items()} | {
            "best_weights": self.best_weights,
            "history": self.history,
        }

    def resume(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None or (state := checkpoint.load()) is None:
            return
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.best_weights, self.history = state["best_weights"], state["history"]

    def release(self) -> None:
        self.best_weights = None
        del self.optimizer
        self.module.zero_grad(set_to_none=True)
        self.module.to("cpu").eval()
        if self.options.device != "cpu":
            torch.cuda.empty_cache()


def split_batches(row_ids: Tensor, size: int) -> Iterator[Tensor]:
    """Split row numbers into batches of ``size``.

    A single last row joins the batch before it, since batch normalisation requires two rows.
    """
    has_single_last = len(row_ids) % size == 1 and len(row_ids) > size > 1
    last_start = len(row_ids) - size - 1 if has_single_last else len(row_ids)
    yield from (row_ids[start : start + size] for start in range(0, last_start, size))
    if has_single_last:
        yield row_ids[last_start:]


def _optimizer(module: nn.Module, options: TrainingOptions) -> torch.optim.Optimizer:
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError(
            f"{type(module).__name__} has no parameter to train; max_epochs=0 uses it unchanged"
        )
    rate, decay = options.learning_rate, options.weight_decay
    if options.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=decay)
    # The fused optimizer takes 17 ms a step instead of 32 ms on one CPU thread (four layers of
    # 1,000 units, batches of 64).
    return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)


def monitored_loss(epoch_losses: Mapping[str, Any]) -> float:
    """Return the validation loss of an epoch in the history, or without one the training loss."""
    held_out = epoch_losses["validation_loss"]
    return epoch_losses["loss"] if held_out is None else held_out


def early_stopping_metric(epoch_losses: Mapping[str, Any]) -> float:
    """Return the metric of an epoch in the history that early stopping minimises.

    It is the validation error if the epoch has one, otherwise :func:`monitored_loss`.
    """
    return epoch_losses.get("validation_error", monitored_loss(epoch_losses))


def tune_loss_weight(
    train_with_weight: Callable[[float, Checkpoint | None], TrainingResult],
    weights: Sequence[float],
    module: nn.Module,
    validation: Examples,
    options: TrainingOptions,
    checkpoint: Checkpoint | None = None,
) -> tuple[int, list[float], TrainingResult]:
    """Train a module in place once for each weight, and keep the lowest validation NLL.

    The index of the best weight, the first of equals, is returned, the NLL of each weight in nats,
    Float[w], and the result of the training with the best weight. Every training starts from the
    same initial weights. The NLL is also measured if there is only one weight. Each training has
    its own checkpoint beside that of the main training, so that an interrupted tuning continues
    with the weight where it stopped. The checkpoints are removed at the end. Original to kdgraph.
    """
    start = copy.deepcopy(module.state_dict())
    stages = [checkpoint and checkpoint.for_stage(f"mmce_{weight:g}") for weight in weights]
    nll: list[float] = []
    best: tuple[int, dict[str, Any], TrainingResult] | None = None
    for index, (weight, stage) in enumerate(zip(weights, stages, strict=True)):
        module.load_state_dict(start)
        result = train_with_weight(weight, stage)
        nll.append(_nll(module, validation, options.device))
        # Only the best weights so far are stored, so memory does not grow with the candidates.
        if best is None or nll[index] < nll[best[0]]:
            best = index, copy.deepcopy(module.state_dict()), result
    assert best is not None, "weights must have one"
    module.load_state_dict(best[1])
    for stage in stages:
        if stage:
            stage.remove()
    return best[0], nll, best[2]


def _nll(module: nn.Module, rows: Examples, device: str) -> float:
    """Return the weighted mean over rows of -log p of the class, in nats."""
    module.to(device).eval()
    try:
        inputs = rows.inputs.numpy()
        (logits,) = map_batches(
            inputs,
            lambda batch: (module(batch),),
            input_shape=inputs.shape[1:],
            device=device,
            n_jobs=1,
        )
    finally:
        module.to("cpu")
    losses = F.cross_entropy(
        torch.from_numpy(logits.astype(np.float64)), rows.targets, reduction="none"
    )
    return float((rows.weights * losses).mean())
