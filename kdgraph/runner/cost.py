"""What a stage costs: seconds and peak memory."""

from __future__ import annotations

import re
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cost:
    """Wall-clock seconds, and the largest resident memory of the process meanwhile, in MB (10⁶ bytes)."""

    seconds: float = 0.0
    peak_memory_mb: float = 0.0


@contextmanager
def measured() -> Iterator[Cost]:
    """Fill in the cost when the block ends.

    Linux can forget the old peak, so each stage has its own; elsewhere the peak is that of the process so far.
    """
    cost = Cost()
    _forget_peak()
    start = time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - start
        cost.peak_memory_mb = _peak_mb()


def _forget_peak() -> None:
    with suppress(OSError):  # no /proc, or not allowed to: the peak then includes what came before
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    with suppress(OSError):
        if match := re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text()):
            return int(match[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
