"""The figures that there are, by name: one for each decorated function in the modules of this folder."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

_FIGURES: dict[str, Callable[..., Any]] = {}


def run_figure(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a figure of a run under ``name``, its key in ``figures.draw`` and the stem of its file."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _FIGURES[name] = function
        return function

    return register


@cache
def run_figures() -> dict[str, Callable[..., Any]]:
    """Every figure by name; the modules of this folder are imported the first time."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    return _FIGURES
