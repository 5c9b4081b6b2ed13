"""What several metrics are computed from, computed once: for as long as one set of rows is scored."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_KEPT: ContextVar[dict[Hashable, dict[Any, Any]] | None] = ContextVar("_KEPT", default=None)


@contextmanager
def sharing() -> Iterator[None]:
    """Until the block ends, metrics find again what others of them have computed; outside of such a block everything is computed anew."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def kept(*inputs: Hashable) -> dict[Any, Any]:
    """Where to keep what follows from these inputs and nothing else: inside a block the same dictionary for equal ones, else a new one."""
    known = _KEPT.get()
    return {} if known is None else known.setdefault(inputs, {})


class Itself:
    """A large input by its identity, where comparing its values would take long; it is held, so that no other object takes its place."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
