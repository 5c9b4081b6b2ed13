"""What classes are called where a warning names them: a run fits everything on their positions, and its user knows them by their labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_labels: ContextVar[Sequence[Any]] = ContextVar("labels", default=())


@contextmanager
def class_names(labels: Sequence[Any]) -> Iterator[None]:
    """Within the block, classes that are known by their positions are called by these [K] labels."""
    token = _labels.set(labels)
    try:
        yield
    finally:
        _labels.reset(token)


def called(label: Any) -> str:
    """The class as its user calls it.

    >>> with class_names(["setosa", "virginica"]):
    ...     called(1), called("1"), called("any class")
    ('virginica', 'virginica', 'any class')
    >>> called(1)
    '1'
    """
    labels, word = _labels.get(), str(label)
    return str(labels[int(word)]) if word.isdigit() and int(word) < len(labels) else word
