"""Torch's global state, set for a while and put back: random numbers, threads, algorithms."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_ONE_AT_A_TIME = threading.RLock()
"""torch's random state and its number of threads belong to the process: two trainings side by side would take each other's."""


@contextmanager
def reproducible(device: str, seed: int, threads: int | None = None) -> Iterator[None]:
    """Same seed, same bits: random numbers from ``seed``, so many threads, deterministic algorithms; then all is set as it was before.

    One at a time in a process: a second thread waits.
    """
    devices = [torch.device(device).index or 0] if device != "cpu" else []
    with (
        _ONE_AT_A_TIME,
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
