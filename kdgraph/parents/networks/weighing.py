"""One network trained with several weights of a term of its loss, and the best of them kept."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from kdgraph.parents.networks.checkpoint import Checkpoint
from kdgraph.parents.networks.inference import in_batches
from kdgraph.parents.networks.training import Examples, Options, Trained


def least_nll(
    trained_with: Callable[[float, Checkpoint | None], Trained],
    weights: Sequence[float],
    module: nn.Module,
    rows: Examples,
    options: Options,
    checkpoint: Checkpoint | None = None,
) -> tuple[int, list[float], Trained]:
    """Train a module in place once for each weight, from the same start, and leave it as the one with the lowest NLL of ``rows``; ours.

    Of one weight alone the NLL is measured too. Each training has a checkpoint of its own, so that what was cut off goes on with the weight
    where it was; they are removed at the end.

    Parameters
    ----------
    trained_with : trains ``module`` with a weight.
    weights : w of them.
    module : as it was made, on the CPU.
    rows : that decide, Float32[n, ...] and their classes.
    options : of the training.

    Returns
    -------
    at : position of the weight that was kept, the first of equals.
    nll : Float[w], negative log likelihoods in nats.
    trained : what its training did.
    """
    start, stages = copy.deepcopy(module.state_dict()), [checkpoint and checkpoint.for_stage(f"mmce_{weight:g}") for weight in weights]
    nll: list[float] = []
    kept: tuple[int, dict[str, Any], Trained] | None = None
    for at, (weight, stage) in enumerate(zip(weights, stages, strict=True)):
        module.load_state_dict(start)
        trained = trained_with(weight, stage)
        nll.append(_nll(module, rows, options.device))
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
        (logits,) = in_batches(inputs, lambda batch: (module(batch),), input_shape=inputs.shape[1:], device=device, n_jobs=1)
    finally:
        module.to("cpu")
    losses = F.cross_entropy(torch.from_numpy(logits.astype(np.float64)), rows.targets, reduction="none")
    return float((rows.weights * losses).mean())
