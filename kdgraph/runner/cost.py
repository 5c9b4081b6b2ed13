"""What a stage costs: seconds and peak memory."""

from __future__ import annotations

import re
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cost:
    """Wall-clock seconds, and the largest resident memory of the process meanwhile, in MB (10⁶
    bytes).
    """

    seconds: float = 0.0
    peak_memory_mb: float = 0.0


_around: ContextVar[Cost | None] = ContextVar("_around", default=None)
"""The cost of the block that is being measured, if one is."""


@contextmanager
def measured() -> Iterator[Cost]:
    """Fill in the cost when the block ends.

    Linux can forget the old peak, so each stage has its own; elsewhere the peak is that of the
    process so far. What is measured inside of another block counts there too, and so does what that
    block needed before.
    """
    cost, around = Cost(), _around.get()
    if around is not None:
        around.peak_memory_mb = max(around.peak_memory_mb, _peak_mb())
    _forget_peak()
    start, inside = time.perf_counter(), _around.set(cost)
    try:
        yield cost
    finally:
        _around.reset(inside)
        cost.seconds = time.perf_counter() - start
        cost.peak_memory_mb = max(cost.peak_memory_mb, _peak_mb())
        if around is not None:
            around.peak_memory_mb = max(around.peak_memory_mb, cost.peak_memory_mb)


def _forget_peak() -> None:
    with suppress(OSError):  # no /proc, or not allowed to: the peak then includes what came before
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    with suppress(OSError):
        if match := re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text()):
            return int(match[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
