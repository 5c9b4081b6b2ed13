"""Parameters of tests of which one or a few are quick, and the others slow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def others_slow(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Return values of a parameter: all but ``quick``, or but the first, are marked slow.

    A tuple has the values of several parameters.
    """
    values = list(values)
    quick = quick or tuple(values[:1])

    def with_mark(value: Any) -> Any:
        arguments = value if isinstance(value, tuple) else (value,)
        return value if value in quick else pytest.param(*arguments, marks=pytest.mark.slow)

    return [with_mark(value) for value in values]
