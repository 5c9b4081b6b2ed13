"""Processor time of a function, to compare methods."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def processor_seconds(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of ``work`` and its own processor time in seconds, over all cores."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start
