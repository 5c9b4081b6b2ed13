"""Progress, cost and warnings of a stage while it runs."""

from __future__ import annotations

import re
import resource
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.wording import print_note


class ProgressReporter:
    """Receiver of the progress of runs: silent, but for notes; a terminal shows more.

    Notes, which a user must not miss, go to stderr as one line each.
    """

    def begin(self, title: str, number: int = 1, total: int = 1) -> None:
        """Receive the title of a run that begins, the ``number``-th of a sweep."""

    def stage(self, name: str) -> None:
        """Receive the name of a stage that begins."""

    def note(self, line: str) -> None:
        """Print a line about something out of the ordinary that was dealt with."""
        print_note(line)

    def waiting(self, line: str) -> None:
        """Print a line about another process that holds a lock."""
        self.note(line)

    def sweep_status(self, status: Any) -> None:
        """Receive a :class:`kdgraph.runner.sweep.SweepStatus`, about once a second."""

    def progress(self, training: Any) -> None:
        """Receive a :class:`~kdgraph.parents.networks.checkpoint.TrainingProgress` each epoch."""


@dataclass
class Cost:
    """Wall-clock time of a block of code, and the largest memory of the process meanwhile.

    Memory is resident memory in MB (10⁶ bytes).
    """

    seconds: float = 0.0
    peak_memory_mb: float = 0.0


_outer_cost: ContextVar[Cost | None] = ContextVar("_outer_cost", default=None)
"""The cost of the innermost block that is being measured, if there is one."""


@contextmanager
def measure_cost() -> Iterator[Cost]:
    """Fill in the yielded cost when the block ends.

    Linux can forget the old peak, so each stage has its own; elsewhere the peak is that of the
    process so far. What is measured inside of another block counts there too, and so does what that
    block needed before.
    """
    cost, outer = Cost(), _outer_cost.get()
    if outer is not None:
        outer.peak_memory_mb = max(outer.peak_memory_mb, _peak_mb())
    _forget_peak()
    start, token = time.perf_counter(), _outer_cost.set(cost)
    try:
        yield cost
    finally:
        _outer_cost.reset(token)
        cost.seconds = time.perf_counter() - start
        cost.peak_memory_mb = max(cost.peak_memory_mb, _peak_mb())
        if outer is not None:
            outer.peak_memory_mb = max(outer.peak_memory_mb, cost.peak_memory_mb)


def _forget_peak() -> None:
    with suppress(OSError):  # no /proc, or not allowed to: the peak then includes what came before
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    with suppress(OSError):
        if match := re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text()):
            return int(match[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


@contextmanager
def record_warnings() -> Iterator[list[str]]:
    """Fill in the messages of the block's warnings, each once, when it ends.

    They belong into the record: a sweep is read long after its terminal is gone. An exception that
    leaves the block carries them as notes.
    """
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        try:
            yield messages
        except Exception as error:  # any: the warnings before it may explain it
            for message in _messages(caught):
                error.add_note(f"warned before: {message}")
            raise
    messages.extend(_messages(caught))


def _messages(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    return list(dict.fromkeys(str(warning.message) for warning in caught))
