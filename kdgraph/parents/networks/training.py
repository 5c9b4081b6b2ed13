"""The one training loop: any module of torch, any loss of (outputs, targets, weights).

One network trained with several weights of a term of its loss, and the best of them kept.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from kdgraph.parents.networks.checkpoint import Checkpoint, ProgressCallback, TrainingProgress
from kdgraph.parents.networks.torch_state import deterministic_torch, map_batches, seed_torch

TrainingLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(outputs Float32[b, ...], targets [b, ...], weights Float32[b]) → a scalar: the mean over the
batch of weight × what a row costs.
"""


BatchSampler = Callable[[np.random.Generator, int], np.ndarray]
"""(generator of an epoch, n) → Int[m]: the rows of the n that the epoch takes, in batches one after
the other; m need not be n.
"""


class AuxiliaryLoss(Protocol):
    """Rows without a label that every step sees beside its training rows, and what they cost:
    outliers, say. Ours.
    """

    def sample_rows(self, module: nn.Module, n: int, rng: np.random.Generator) -> Tensor:
        """Float32[n, ...], new ones for each step; ``module`` is on the device of the training."""
        ...

    def loss(self, outputs: Tensor, weights: Tensor, auxiliary_outputs: Tensor) -> Tensor:
        """A scalar that is added to the loss, of outputs of training rows with their weights
        Float32[b], and of outputs of the others.
        """
        ...


def shuffle_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    """Int[n]: every row once."""
    return rng.permutation(n)


@dataclass(frozen=True)
class TrainingOptions:
    """How a training goes; the names are those of :class:`NetworkClassifier`."""

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
        """The learning rate of an epoch (from 0); "cosine" falls from ``learning_rate`` towards 0
        over ``max_epochs``.
        """
        falling = (
            0.5 * (1 + math.cos(math.pi * epoch / self.max_epochs))
            if self.schedule == "cosine"
            else 1.0
        )
        return self.learning_rate * falling


@dataclass(frozen=True)
class Examples:
    """What is learnt from: inputs Float32[n, ...], targets [n, ...], weights Float32[n] with mean
    1.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.inputs[index], self.targets[index], self.weights[index]

    def to_device(self, device: str) -> Examples:
        """These on the device if they take less than half of its free memory (gathering a batch
        there is faster), else as they are.
        """
        tensors = (self.inputs, self.targets, self.weights)
        size = sum(t.numel() * t.element_size() for t in tensors)
        if device == "cpu" or size > torch.cuda.mem_get_info(device)[0] / 2:
            return self
        return Examples(*(t.to(device) for t in tensors))


@dataclass(frozen=True)
class TrainingResult:
    """What a training did: for each epoch a dict of epoch, loss and validation_loss, of
    validation_error where that stops it, and of outlier_loss, the mean of what rows beside them
    cost, where there are some; and the epoch (from 1) whose weights were kept.
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
    auxiliary_loss: AuxiliaryLoss | None = None,
) -> TrainingResult:
    """Train a module in place; it comes back on the CPU, in eval mode.

    With a ``patience`` the training stops after that many epochs without a lower loss, and the
    module gets the weights of the epoch where it was lowest (the first of several); that is the
    validation loss if there are validation examples, or their share that is wrong with ``stop_on``
    "validation_accuracy", else the mean training loss during the epoch. Without, it keeps the last
    weights.

    Order and dropout of epoch e follow from (seed, e) alone, so a training that goes on from a
    checkpoint gives the same bits as one that was never cut off.

    Parameters
    ----------
    module : maps inputs to what the loss takes.
    examples, validation : on the CPU.
    loss : see :data:`Loss`.
    seed : from 0.
    report : gets the progress after each epoch.
    checkpoint : where the state is saved and looked for; the file stays, finished, for the caller
    to remove.
    stage : what the report calls this training.
    batch_sampler : the rows of an epoch.
    auxiliary_loss : rows that each step sees beside its own; the losses in the history are without them.

    Raises
    ------
    ValueError : when the loss is no longer finite; when nothing can be trained.
    """
    if options.max_epochs == 0:
        module.eval()
        return TrainingResult([], 0)
    with deterministic_torch(options.device, seed):
        course = _TrainingRun(module, loss, options, seed, batch_sampler, auxiliary_loss)
        course.resume(checkpoint)
        if examples.inputs.ndim == 4:
            # Convolutions of few filters: 30 ms a step against 83, ResNet-20 250 against 370.
            module.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] - documented, but not in its stubs
        try:
            course.run(
                examples.to_device(options.device),
                validation and validation.to_device(options.device),
                report,
                checkpoint,
                stage,
            )
        finally:
            course.release()
    return TrainingResult(course.history, course.best_epoch)


class _TrainingRun:
    """A training under way: what a checkpoint holds, and one epoch after another."""

    def __init__(
        self,
        module: nn.Module,
        loss: TrainingLoss,
        options: TrainingOptions,
        seed: int,
        batch_sampler: BatchSampler,
        auxiliary: AuxiliaryLoss | None = None,
    ):
        self.module, self.loss, self.options, self.seed, self.batch_sampler = (
            module.to(options.device),
            loss,
            options,
            seed,
            batch_sampler,
        )
        self.auxiliary, self.has_batch_norm = (
            auxiliary,
            any(isinstance(part, _BatchNorm) for part in module.modules()),
        )
        self.history: list[dict[str, Any]] = []
        self.best_weights: Mapping[str, Tensor] | None = None
        self.optimizer = _optimizer(module, options)
        self.mixed_precision = options.amp and options.device != "cpu"
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.mixed_precision)

    @property
    def best_epoch(self) -> int:
        """The first epoch (from 1) of the lowest loss, or error where that decides; without
        patience the last one.
        """
        if self.options.patience is None or not self.history:
            return len(self.history)
        return 1 + min(
            range(len(self.history)), key=lambda e: early_stopping_metric(self.history[e])
        )

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
        """Train until it is done, then take the best weights."""
        start, before = time.perf_counter(), len(self.history)
        while not self.is_finished:
            self.history.append(self.run_epoch(examples, validation))
            if self.options.patience is not None and self.best_epoch == len(self.history):
                self.best_weights = copy.deepcopy(self.module.state_dict())
            if checkpoint:
                checkpoint.save(self.state(), force=self.is_finished)
            if report:
                epoch = len(self.history)
                pace = (time.perf_counter() - start) / (epoch - before)
                last = {key: self.history[-1][key] for key in ("loss", "validation_loss")}
                report(
                    TrainingProgress(
                        epoch,
                        self.options.max_epochs,
                        **last,
                        seconds_left=pace * (self.options.max_epochs - epoch),
                        stage=stage,
                    )
                )
        if self.best_weights is not None:
            self.module.load_state_dict(self.best_weights)

    def run_epoch(self, examples: Examples, validation: Examples | None) -> dict[str, Any]:
        """One pass over the examples."""
        number, rng = len(self.history), np.random.default_rng([self.seed, len(self.history)])
        self.rng, self.auxiliary_loss_sum = (
            rng,
            torch.zeros((), dtype=torch.float64, device=self.options.device),
        )
        seed_torch(self.options.device, int(rng.integers(2**63)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate_at(number)
        self.module.train()
        order = torch.from_numpy(self.batch_sampler(rng, len(examples)))
        loss = self._mean(examples, order, self.training_step)
        self.module.eval()
        with torch.no_grad():
            held_out = (
                None
                if validation is None
                else self._mean(validation, torch.arange(len(validation)), self.evaluate)
            )
            also = {}
            if validation is not None and self.options.stop_on == "validation_accuracy":
                also["validation_error"] = self._mean(
                    validation, torch.arange(len(validation)), self.error_rate
                )
            if self.auxiliary is not None:
                also["outlier_loss"] = self.auxiliary_loss_sum.item() / len(order)
        if not math.isfinite(sum(also.values(), loss if held_out is None else loss + held_out)):
            rate = f"learning_rate, {self.options.learning_rate:g}"
            raise ValueError(
                f"training diverged: the loss of epoch {number + 1} is not finite; lower {rate}, or"
                " scale the features"
            )
        return {"epoch": number + 1, "loss": loss, "validation_loss": held_out, **also}

    def _mean(self, examples: Examples, order: Tensor, function: Callable[..., Tensor]) -> float:
        """The mean over rows of a function of batches that gives their mean; read once, since each
        reading waits for the device.
        """
        total = torch.zeros((), dtype=torch.float64, device=self.options.device)
        order = order.to(examples.inputs.device)
        for rows in split_batches(order, self.options.batch_size):
            inputs, *rest = (t.to(self.options.device) for t in examples[rows])
            if inputs.ndim == 4:
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            total += function(inputs, *rest).detach() * len(rows)
        return total.item() / len(order)

    def training_step(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """One step of the optimizer; gives the loss before it."""
        others = (
            None
            if self.auxiliary is None
            else self.auxiliary.sample_rows(self.module, len(inputs), self.rng)
        )
        with torch.amp.autocast("cuda", enabled=self.mixed_precision):
            outputs, of_others = self.outputs(inputs, others)
        loss = total = self.loss(outputs.float(), targets, weights)
        if self.auxiliary is not None and of_others is not None:
            cost = self.auxiliary.loss(outputs.float(), weights, of_others.float())
            self.auxiliary_loss_sum += cost.detach() * len(inputs)
            total = loss + cost
        self.optimizer.zero_grad()
        self.scaler.scale(total).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def outputs(
        self, inputs: Tensor, auxiliary_rows: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Of training rows and of those beside them: in one pass where batches are normalised, so
        that their statistics are of both.
        """
        if auxiliary_rows is None:
            return self.module(inputs), None
        auxiliary_rows = auxiliary_rows.to(inputs.device)
        if not self.has_batch_norm:
            return self.module(inputs), self.module(auxiliary_rows)
        both = torch.cat([inputs, auxiliary_rows])
        outputs = self.module(
            both.contiguous(memory_format=torch.channels_last) if both.ndim == 4 else both
        )
        return outputs[: len(inputs)], outputs[len(inputs) :]

    def evaluate(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """The loss in full precision, as inference has it."""
        return self.loss(self.module(inputs), targets, weights)

    def error_rate(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """The share of weight whose largest logit is not that of its class."""
        return (weights * (self.module(inputs).argmax(dim=1) != targets)).mean()

    def state(self) -> dict[str, Any]:
        """All that the rest of the training depends on; learning rates and random states follow
        from the number of the epoch.
        """
        parts = {"module": self.module, "optimizer": self.optimizer, "scaler": self.scaler}
        return {name: part.state_dict() for name, part in parts.items()} | {
            "best_weights": self.best_weights,
            "history": self.history,
        }

    def resume(self, checkpoint: Checkpoint | None) -> None:
        """Go on from the state in the checkpoint, if it is this training's."""
        if checkpoint is None or (state := checkpoint.load()) is None:
            return
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.best_weights, self.history = state["best_weights"], state["history"]

    def release(self) -> None:
        """Take the module back to the CPU and leave the device's memory free."""
        self.best_weights = None
        del self.optimizer
        self.module.zero_grad(set_to_none=True)
        self.module.to("cpu").eval()
        if self.options.device != "cpu":
            torch.cuda.empty_cache()


def split_batches(row_ids: Tensor, size: int) -> Iterator[Tensor]:
    """Row numbers in batches of ``size``; a single last row joins the batch before, since batch
    normalisation cannot take it alone.
    """
    alone = len(row_ids) % size == 1 and len(row_ids) > size > 1
    cut = len(row_ids) - size - 1 if alone else len(row_ids)
    yield from (row_ids[start : start + size] for start in range(0, cut, size))
    if alone:
        yield row_ids[cut:]


def _optimizer(module: nn.Module, options: TrainingOptions) -> torch.optim.Optimizer:
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError(
            f"{type(module).__name__} has no parameter to train; max_epochs=0 takes it as it is"
        )
    rate, decay = options.learning_rate, options.weight_decay
    if options.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=decay)
    # Fused: 17 ms a step against 32 ms on one CPU thread (four layers of 1,000 units, batches of
    # 64).
    return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)


def monitored_loss(epoch_losses: Mapping[str, Any]) -> float:
    """Of an epoch in the history, the validation loss, or without one the training loss."""
    return (
        epoch_losses["loss"]
        if epoch_losses["validation_loss"] is None
        else epoch_losses["validation_loss"]
    )


def early_stopping_metric(epoch_losses: Mapping[str, Any]) -> float:
    """Of an epoch in the history, what early stopping makes small: the validation error where it
    has one, else the decisive loss.
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
    """Train a module in place once for each weight, from the same start, and leave it as the one
    with the lowest NLL of ``validation``; ours.

    Of one weight alone the NLL is measured too. Each training has a checkpoint of its own, so that
    what was cut off goes on with the weight where it was; they are removed at the end.

    Parameters
    ----------
    train_with_weight : trains ``module`` with a weight.
    weights : w of them.
    module : as it was made, on the CPU.
    validation : that decide, Float32[n, ...] and their classes.
    options : of the training.

    Returns
    -------
    at : position of the weight that was kept, the first of equals.
    nll : Float[w], negative log likelihoods in nats.
    trained : what its training did.
    """
    start, stages = (
        copy.deepcopy(module.state_dict()),
        [checkpoint and checkpoint.for_stage(f"mmce_{weight:g}") for weight in weights],
    )
    nll: list[float] = []
    kept: tuple[int, dict[str, Any], TrainingResult] | None = None
    for at, (weight, stage) in enumerate(zip(weights, stages, strict=True)):
        module.load_state_dict(start)
        trained = train_with_weight(weight, stage)
        nll.append(_nll(module, validation, options.device))
        if kept is None or nll[at] < nll[kept[0]]:
            kept = at, copy.deepcopy(module.state_dict()), trained
    assert kept is not None, "weights must have one"
    module.load_state_dict(kept[1])
    for stage in stages:
        if stage:
            stage.remove()
    return kept[0], nll, kept[2]


def _nll(module: nn.Module, rows: Examples, device: str) -> float:
    """Mean over rows, by their weights, of -log p of the class, in nats."""
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
