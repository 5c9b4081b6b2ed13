"""Torch's global state, set for a while and put back: defaults, random numbers, threads,
algorithms.

Inference of torch in batches of one fixed size, so that neither a row's batch nor the number of
threads changes a bit of it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from joblib import Parallel, delayed
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_TRAINING_LOCK = threading.RLock()
"""torch's random state and its number of threads belong to the process: two trainings side by side
would take each other's.
"""


class _ProcessDefaults:
    """Settings of the whole process, set by the first of several threads that enter and put back by
    the last that leaves, so that none of them takes another's for the user's.
    """

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._entered:
                self._before = torch.get_default_dtype(), torch.get_float32_matmul_precision()
                self._set(torch.float32, "highest")
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                self._set(*self._before)

    def _set(self, dtype: torch.dtype, precision: str) -> None:
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        if torch.get_float32_matmul_precision() != precision:
            torch.set_float32_matmul_precision(precision)


_PROCESS_DEFAULTS = _ProcessDefaults()


@contextmanager
def default_torch_state() -> Iterator[None]:
    """Have torch's own defaults, and put what the user has set back: float32 in full precision, on
    the CPU where no device is named, with gradients, without autocast. Ours.

    It stands around every fit and prediction, so that neither depends on the global state in which
    it is called. The settings of the process (type and precision) are the defaults for all threads
    meanwhile; all others belong to the thread.
    """
    with ExitStack() as stack:
        stack.enter_context(_PROCESS_DEFAULTS)
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        yield


@contextmanager
def deterministic_torch(device: str, seed: int, threads: int | None = None) -> Iterator[None]:
    """Same seed, same bits: random numbers from ``seed``, so many threads, deterministic
    algorithms; then all is set as it was before.

    One at a time in a process: a second thread waits.
    """
    devices = [torch.device(device).index or 0] if device != "cpu" else []
    with (
        _TRAINING_LOCK,
        default_torch_state(),
        torch.random.fork_rng(devices),
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True),
        intra_op_threads(threads or torch.get_num_threads()),
    ):
        seed_torch(device, seed)
        yield


def seed_torch(device: str, seed: int) -> None:
    """Seed the random numbers of the CPU and of this device; not of others, as torch.manual_seed
    would.
    """
    torch.default_generator.manual_seed(seed)
    if device != "cpu":
        torch.cuda.manual_seed(seed)


@contextmanager
def intra_op_threads(n: int) -> Iterator[None]:
    """Let torch use n threads inside an operation, in this thread and in those started meanwhile,
    and put the number back.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_MAX_INPUT = 1e15
"""Rows that reach further are scaled down to it: even squares, and sums over some thousand of them,
stay finite in float32.
"""
_MAX_BATCH_VALUES = 2**18
"""Input numbers of a batch of images: 1 MB, so that the activations of a residual network stay
under 0.1 GB a thread.
"""

_MIN_LINEAR_OUTPUTS = 16


def inference_batch_size(input_shape: Sequence[int]) -> int:
    """Rows of a batch, which follow from the shape of one row alone: 256 vectors, 8 to 256 images
    (a power of two).
    """
    if len(input_shape) == 1:
        # 14,000 rows a second through four layers of 1,000 units, as with 512, and one row alone
        # takes 18 ms instead of 35
        return 256
    return 2 ** int(np.clip(math.log2(_MAX_BATCH_VALUES / math.prod(input_shape)), 3, 8))


def map_batches(
    X: np.ndarray,
    function: Callable[[Tensor], Sequence[Any]],
    *,
    input_shape: Sequence[int],
    device: str | torch.device = "cpu",
    n_jobs: int | None = None,
) -> tuple[np.ndarray, ...]:
    """Apply ``function`` to all rows of X, a batch at a time; equal to the last bit for any
    division of the rows and any ``n_jobs``.

    A matrix product adds in another order for another number of rows or threads. So every batch is
    full (the last is padded with copies of its last row, cut off afterwards) and runs on one
    thread; several run side by side. Linear layers with few outputs are computed as wider ones. (Of
    modules this holds for what nn.Linear and convolutions multiply; a product of another kind may
    depend on the place of a row in its batch.)

    Parameters
    ----------
    X : Float[n, *input_shape], n >= 1.
    function : of a batch, Float32[batch_rows, *input_shape] on ``device``; gives tensors or arrays
        of ``inference_batch_size`` rows each. It is called from several threads at once, without gradients;
        modules that it uses must be in eval mode.
    input_shape : the shape of one row.
    device : where batches are put. On a CUDA device they run one after another.
    n_jobs : threads, as in joblib.

    Returns
    -------
    tuple of arrays, what the function gave, of n rows each.
    """
    rows, device = inference_batch_size(input_shape), torch.device(device)

    def compute(start: int) -> list[np.ndarray]:
        with torch.inference_mode(), _PadLinearLayers():
            outputs = function(_pad_batch(X[start : start + rows], rows).to(device))
            return [o.cpu().numpy() if isinstance(o, Tensor) else np.asarray(o) for o in outputs]

    def fill(start: int, computed: list[np.ndarray]) -> None:
        for result, part in zip(results, computed, strict=True):
            result[start : start + rows] = part[: len(X) - start]

    with default_torch_state(), intra_op_threads(1):
        first = compute(0)
        results = tuple(np.empty((len(X), *part.shape[1:]), part.dtype) for part in first)
        fill(0, first)
        workers = n_jobs if device.type == "cpu" else 1
        # Threads whatever the caller's joblib configuration says: another process would fill a copy
        # of the results.
        Parallel(n_jobs=workers, require="sharedmem")(
            delayed(lambda s: fill(s, compute(s)))(s) for s in range(rows, len(X), rows)
        )
    return results


def to_float32(X: np.ndarray) -> np.ndarray:
    """Float32, elementwise of X; but a row whose largest absolute number is above 1e15 is scaled
    down to that, its direction kept.
    """
    flat = X.reshape(len(X), -1)
    largest = np.maximum(flat.max(axis=1), -flat.min(axis=1))
    if (largest <= _MAX_INPUT).all():
        return X.astype(np.float32, copy=False)
    # First to 1, then to 1e15: one factor of 1e15 / 1e308 would lose digits of its own.
    scale = np.where(largest > _MAX_INPUT, largest, 1.0).reshape(-1, *[1] * (X.ndim - 1))
    return (X / scale * np.where(scale == 1.0, 1.0, _MAX_INPUT)).astype(np.float32)


@contextmanager
def record_layers(
    module: nn.Module, names: Sequence[str], *, record_inputs: bool = False
) -> Iterator[Callable[[Tensor], tuple[Tensor, ...]]]:
    """A function of a batch that runs ``module`` and gives what its named submodules put out, a
    tensor each ("" is the module itself).

    Of a submodule that runs several times it gives the last output. Several threads may call it at
    once.

    Parameters
    ----------
    module : in eval mode.
    names : keys of ``dict(module.named_modules())``.
    record_inputs : give what enters the submodules instead (their first argument).
    """
    here, modules = threading.local(), dict(module.named_modules())

    def hook_of(name: str):
        def keep(_: nn.Module, arguments: tuple, output: Any) -> None:
            if hasattr(
                here, "seen"
            ):  # else another thread runs the module for a purpose of its own
                # A copy, since an in-place activation that follows would write over it.
                here.seen[name] = (arguments[0] if record_inputs else output).clone()

        return keep

    def run(batch: Tensor) -> tuple[Tensor, ...]:
        here.seen = {}
        module(batch)
        seen = here.seen
        del here.seen
        for name in names:
            if name not in seen:
                raise ValueError(
                    f"layer {name!r} did not run when the module did: it gives nothing; choose one"
                    " that the module calls"
                )
        return tuple(seen[name] for name in names)

    handles = [modules[name].register_forward_hook(hook_of(name)) for name in names]
    try:
        yield run
    finally:
        for handle in handles:
            handle.remove()


class _PadLinearLayers(TorchFunctionMode):
    """Linear layers with fewer than 16 outputs are computed with 16, of which the others are 0 and
    cut off.

    For those MKL takes dot products, whose order of summation follows from the alignment of a row,
    so from its place in the batch (in 71 of 288 shapes tried, all with at most 10 outputs and an
    input width that is no multiple of 4; in none with 16 outputs).
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.linear:
            return _padded_linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _padded_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    missing = _MIN_LINEAR_OUTPUTS - weight.shape[0]
    if missing <= 0 or weight.ndim < 2:
        return F.linear(input, weight, bias)
    wide = F.linear(
        input,
        F.pad(weight, (0, 0, 0, missing)),
        None if bias is None else F.pad(bias, (0, missing)),
    )
    return wide[..., :-missing]


def _pad_batch(block: np.ndarray, rows: int) -> Tensor:
    """Float32[rows, ...]: the block and copies of its last row, in memory of torch's own (its
    alignment may decide how sums are made).
    """
    batch = torch.empty((rows, *block.shape[1:]))
    batch.numpy()[: len(block)] = to_float32(
        block
    )  # through NumPy, which also reads rows that nobody may write to
    batch[len(block) :] = batch[len(block) - 1].clone()
    return batch
