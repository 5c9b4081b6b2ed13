"""Torch's global state, set for a while and put back: defaults, random numbers, threads, algorithms."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

_ONE_AT_A_TIME = threading.RLock()
"""torch's random state and its number of threads belong to the process: two trainings side by side would take each other's."""


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
def plain_torch() -> Iterator[None]:
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
def reproducible(device: str, seed: int, threads: int | None = None) -> Iterator[None]:
    """Same seed, same bits: random numbers from ``seed``, so many threads, deterministic algorithms; then all is set as it was before.

    One at a time in a process: a second thread waits.
    """
    devices = [torch.device(device).index or 0] if device != "cpu" else []
    with (
        _ONE_AT_A_TIME,
        plain_torch(),
        torch.random.fork_rng(devices),
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True),
        intra_op_threads(threads or torch.get_num_threads()),
    ):
        seed_torch(device, seed)
        yield


def seed_torch(device: str, seed: int) -> None:
    """Seed the random numbers of the CPU and of this device; not of others, as torch.manual_seed would."""
    torch.default_generator.manual_seed(seed)
    if device != "cpu":
        torch.cuda.manual_seed(seed)


@contextmanager
def intra_op_threads(n: int) -> Iterator[None]:
    """Let torch use n threads inside an operation, in this thread and in those started meanwhile, and put the number back."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
