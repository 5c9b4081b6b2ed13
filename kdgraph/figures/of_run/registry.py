"""The figures that there are, by name: one for each decorated function in the modules of this folder."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

_FIGURES: dict[str, Callable[..., Any]] = {}


def figure(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function by its name, which is what ``figures.draw`` and the file are called."""
    _FIGURES[function.__name__] = function
    return function


@cache
def figures() -> dict[str, Callable[..., Any]]:
    """Every figure by name; the modules of this folder are imported the first time."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    return _FIGURES
