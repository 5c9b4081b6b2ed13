"""Processor time of a function, to compare methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def processor_seconds(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of ``work`` and its own processor time in seconds, over all cores."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def in_turn(works: Mapping[str, Callable[[], object]], seed: int) -> dict[str, float]:
    """Return seconds of processor time of each function; an odd seed reverses the order."""
    result = {}
    for name in sorted(works, reverse=bool(seed % 2)):
        _, result[name] = processor_seconds(works[name])
    return result
