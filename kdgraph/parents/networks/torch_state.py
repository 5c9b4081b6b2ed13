"""Control of torch's global state, and inference that does not depend on it.

Context managers set defaults, random numbers, threads and algorithms for a while and restore
them. :func:`map_batches` runs inference in batches of one fixed size, so that neither the batch of
a row nor the number of threads changes its result.
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

from kdgraph.errors import ParameterError

# Lock for one training at a time in a process. torch's random state and its number of threads
# belong to the process, so concurrent trainings would disturb each other.
_TRAINING_LOCK = threading.RLock()


# Values of ``fp32_precision`` with which float32 has all bits; "none" is that of the parent.
_FULL_PRECISION = ("ieee", "none")


def _numeric_settings() -> list[tuple[Any, str, tuple[Any, ...]]]:
    """Return the settings of the process on which the digits of a result depend.

    Each is an object of torch, the name of its attribute, and the suitable values, of which the
    first is set where the value is another one.
    """
    backends: Any = torch.backends  # not all of its attributes are in torch's stubs
    settings: list[tuple[Any, str, tuple[Any, ...]]] = [
        (backends.cudnn, "enabled", (True,)),
        # A benchmark picks the fastest convolution, which differs from one process to the next.
        (backends.cudnn, "benchmark", (False,)),
        (backends.cudnn, "deterministic", (True,)),
    ]
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        # Before torch 2.9 there was one switch for convolutions, and none for oneDNN.
        return [*settings, (backends.cudnn, "allow_tf32", (False,))]
    # On a GPU, torch computes convolutions in TF32 unless it is switched off: 10 bits of a factor
    # instead of 23. Parents come before the operations that inherit from them. So an operation
    # that still has an unsuitable value has it of its own, and one that inherits is left alone.
    owners = [backends, backends.cudnn, backends.cuda.matmul, backends.cudnn.conv]
    owners += [backends.cudnn.rnn]
    owners += [getattr(backends.mkldnn, name) for name in ("matmul", "conv", "rnn")]
    return [*settings, *((owner, "fp32_precision", _FULL_PRECISION) for owner in owners)]


def _matmul_precision() -> str | None:
    """Return torch's precision of matrix products by name, None if it has no name.

    It has none where the user set ``fp32_precision`` of a single library, the newer way.
    """
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


class _ProcessDefaults:
    """Context manager for settings of the whole process that several threads may enter.

    The first thread that enters saves and sets them. The last thread that leaves restores them.
    Otherwise a thread could save the temporary settings of another thread as those of the user.
    """

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._entered:
                self._save_and_set()
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                self._restore()

    def _save_and_set(self) -> None:
        self._dtype, self._precision = torch.get_default_dtype(), _matmul_precision()
        if self._dtype != torch.float32:
            torch.set_default_dtype(torch.float32)
        # The name comes first: setting it sets the precision of libraries, too. Without a name it
        # is left alone, since it could not be restored.
        if self._precision not in (None, "highest"):
            torch.set_float32_matmul_precision("highest")
        self._changed: list[tuple[Any, str, Any]] = []
        for owner, name, suitable in _numeric_settings():
            value = getattr(owner, name)
            if value not in suitable:
                self._changed.append((owner, name, value))
                setattr(owner, name, suitable[0])

    def _restore(self) -> None:
        if self._dtype != torch.float32:
            torch.set_default_dtype(self._dtype)
        if self._precision not in (None, "highest"):
            torch.set_float32_matmul_precision(self._precision)
        for owner, name, value in reversed(self._changed):
            setattr(owner, name, value)


_PROCESS_DEFAULTS = _ProcessDefaults()


def check_cuda() -> None:
    """Raise ParameterError if torch sees no CUDA device."""
    if not torch.cuda.is_available():
        raise ParameterError(
            "device=cuda needs a CUDA device, and torch sees none on this machine; choose"
            " device=auto or device=cpu"
        )


@contextmanager
def default_torch_state() -> Iterator[None]:
    """Use torch's own defaults, and restore the settings of the user afterwards.

    The defaults are: float32 in full precision (no TF32, on a GPU either), convolutions of cuDNN
    that add in one order, the CPU where no device is named, gradients enabled, no autocast. This
    context surrounds every fit and prediction, so that neither depends on the global state at the
    call. The settings of the process (type, precision and cuDNN) apply to all threads in the
    meantime; the others apply to the current thread.
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
    """Make the same seed give the same bits, and restore the previous state afterwards.

    Inside the context, random numbers come from ``seed``, the number of threads within an operation
    is fixed (None keeps the current one) and algorithms are deterministic. Only one thread of the
    process can be inside; a second one waits.
    """
    devices = [torch.device(device).index or 0] if device != "cpu" else []
    with (
        _TRAINING_LOCK,
        default_torch_state(),
        torch.random.fork_rng(devices),
        intra_op_threads(threads or torch.get_num_threads()),
    ):
        seed_torch(device, seed)
        yield


def seed_torch(device: str, seed: int) -> None:
    """Seed the random numbers of the CPU and of this device.

    Unlike ``torch.manual_seed``, it does not change other devices.
    """
    torch.default_generator.manual_seed(seed)
    if device != "cpu":
        torch.cuda.manual_seed(seed)


@contextmanager
def intra_op_threads(n: int) -> Iterator[None]:
    """Set the number of threads within an operation to ``n``, and restore it afterwards.

    It applies to this thread and to threads that are started in the meantime.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Largest absolute input; rows with larger values are scaled down. Squares of such inputs, and sums
# over some thousand squares, stay finite in float32.
_MAX_INPUT = 1e15
# Number of input values of a batch of images. It is 1 MB, so the activations of a residual network
# stay below 0.1 GB for each thread.
_MAX_BATCH_VALUES = 2**18

# Smallest width with which linear layers are computed, see :class:`_PadLinearLayers`.
_MIN_LINEAR_OUTPUTS = 16


def inference_batch_size(input_shape: Sequence[int]) -> int:
    """Return the number of rows of an inference batch: 256 vectors, or 8 to 256 images.

    It depends on the shape of one row alone, and is a power of two.
    """
    if len(input_shape) == 1:
        # 14,000 rows per second pass through four layers of 1,000 units, as many as with 512. A
        # single row takes 18 ms instead of 35 ms.
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
    """Apply ``function`` to all rows of X, at least one, in batches.

    The result, arrays of n rows, is equal to the last bit for any division of the rows and any
    ``n_jobs``, within one machine. ``function`` maps a batch Float32[batch_size, *input_shape] on
    ``device`` to tensors or arrays of :func:`inference_batch_size` rows each. It is called from
    several threads concurrently, on a CUDA device one after another, without gradients; the modules
    it uses must be in eval mode. For modules, the invariance holds for products of nn.Linear and of
    convolutions. Other products may depend on the position of a row in its batch.
    """
    # A matrix product sums in another order for another number of rows or threads. So every batch
    # is full (the last one is padded with copies of its last row, which are cut off afterwards)
    # and runs on one thread. Several batches run in parallel. Linear layers with few outputs are
    # computed as wider ones.
    batch_size, device = inference_batch_size(input_shape), torch.device(device)

    def compute(start: int) -> list[np.ndarray]:
        with torch.inference_mode(), _PadLinearLayers():
            outputs = function(_pad_batch(X[start : start + batch_size], batch_size).to(device))
            return [o.cpu().numpy() if isinstance(o, Tensor) else np.asarray(o) for o in outputs]

    def fill(start: int, batch_outputs: list[np.ndarray]) -> None:
        for result, part in zip(results, batch_outputs, strict=True):
            result[start : start + batch_size] = part[: len(X) - start]

    with default_torch_state(), intra_op_threads(1):
        first = compute(0)
        results = tuple(np.empty((len(X), *part.shape[1:]), part.dtype) for part in first)
        fill(0, first)
        workers = n_jobs if device.type == "cpu" else 1
        # Always threads, independent of the joblib configuration of the caller: another process
        # would fill a copy of the results.
        Parallel(n_jobs=workers, require="sharedmem")(
            delayed(lambda s: fill(s, compute(s)))(s) for s in range(batch_size, len(X), batch_size)
        )
    return results


def to_float32(X: np.ndarray) -> np.ndarray:
    """Return X as float32, elementwise, with rows of large values scaled down.

    A row whose largest absolute value is above 1e15 is scaled to 1e15; its direction is kept.
    """
    flat = X.reshape(len(X), -1)
    largest = np.maximum(flat.max(axis=1), -flat.min(axis=1))
    if (largest <= _MAX_INPUT).all():
        return X.astype(np.float32, copy=False)
    # First scale to 1, then to 1e15: a single factor of 1e15 / 1e308 would lose digits.
    scale = np.where(largest > _MAX_INPUT, largest, 1.0).reshape(-1, *[1] * (X.ndim - 1))
    return (X / scale * np.where(scale == 1.0, 1.0, _MAX_INPUT)).astype(np.float32)


@contextmanager
def record_layers(
    module: nn.Module, names: Sequence[str], *, record_inputs: bool = False
) -> Iterator[Callable[[Tensor], tuple[Tensor, ...]]]:
    """Provide a function that runs ``module`` on a batch and returns the outputs of its submodules.

    It returns one tensor for each of ``names``, keys of ``dict(module.named_modules())``. For a
    submodule that runs several times it is the last output; with ``record_inputs`` it is the first
    argument instead. A named submodule that did not run raises ValueError. Several threads may call
    the function concurrently. The module is in eval mode.
    """
    thread_records, modules = threading.local(), dict(module.named_modules())

    def hook_of(name: str):
        def store(_: nn.Module, arguments: tuple, output: Any) -> None:
            # Without the attribute, another thread runs the module for another purpose.
            if hasattr(thread_records, "tensors"):
                # Copy the tensor, since a following in-place activation would overwrite it.
                thread_records.tensors[name] = (arguments[0] if record_inputs else output).clone()

        return store

    def run(batch: Tensor) -> tuple[Tensor, ...]:
        thread_records.tensors = {}
        module(batch)
        tensors = thread_records.tensors
        del thread_records.tensors
        for name in names:
            if name not in tensors:
                raise ValueError(
                    f"layer {name!r} did not run when the module did: it gives nothing; choose one"
                    " that the module calls"
                )
        return tuple(tensors[name] for name in names)

    handles = [modules[name].register_forward_hook(hook_of(name)) for name in names]
    try:
        yield run
    finally:
        for handle in handles:
            handle.remove()


class _PadLinearLayers(TorchFunctionMode):
    """Mode in which linear layers with fewer than 16 outputs are computed with 16.

    The additional outputs are 0 and are cut off. For narrow layers MKL uses dot products whose
    order of summation depends on the alignment of a row, and so on its position in the batch. This
    happened in 71 of 288 tested shapes, all with at most 10 outputs and an input width that is not
    a multiple of 4, and in none with 16 outputs.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.linear:
            return _padded_linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _padded_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute a linear layer with at least 16 outputs, and return the requested ones."""
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
    """Return the block followed by copies of its last row, Float32[rows, ...].

    The memory is allocated by torch, since the alignment may determine the order of sums.
    """
    batch = torch.empty((rows, *block.shape[1:]))
    # Assign through NumPy, which can also read rows that are not writeable.
    batch.numpy()[: len(block)] = to_float32(block)
    batch[len(block) :] = batch[len(block) - 1].clone()
    return batch
