"""Something done every few seconds beside other work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def every(seconds: float, do: Callable[[], object], *, name: str) -> Iterator[None]:
    """Call ``do`` again and again while the block runs, from a thread of its own, never once it has
    ended.
    """
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(seconds):
            do()

    thread = threading.Thread(target=beat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
