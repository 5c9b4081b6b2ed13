"""Titles of methods, data sets and metrics in tables and figures: ``titles.yaml`` of a paper."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def titles(folder: str, module: str) -> dict[str, Any]:
    """Return what the file in a folder of experiments has of a module; lists are tuples."""
    path = Path(__file__).resolve().parents[1] / folder / "titles.yaml"
    return _with_tuples(yaml.safe_load(path.read_text(encoding="utf-8"))[module])


def _with_tuples(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _with_tuples(value) for key, value in node.items()}
    return tuple(map(_with_tuples, node)) if isinstance(node, list) else node
