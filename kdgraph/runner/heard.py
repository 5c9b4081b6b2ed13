"""What a stage warns of, kept for the record: a sweep is read long after its terminal is gone."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def heard_warnings() -> Iterator[list[str]]:
    """Fill in the messages of the block's warnings, each once, when it ends; an exception that
    leaves it carries them as notes.
    """
    heard: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        try:
            yield heard
        except Exception as error:
            for message in _messages(caught):
                error.add_note(f"warned before: {message}")
            raise
    heard.extend(_messages(caught))


def _messages(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    return list(dict.fromkeys(str(one.message) for one in caught))
