"""``model/`` of a run: the parent and the calibrated model as the store has them, and what rows
they take.

The two files are hard links to the store's, so that they cost no disk, and stay when the store is
deleted or the run is copied elsewhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kdgraph.runner.files import sweep_leftovers, temporary_beside, write_atomically
from kdgraph.runner.store import SUFFIX, Made

FOLDER = "model"
CALIBRATED, PARENT, SCHEMA = f"calibrated{SUFFIX}", f"parent{SUFFIX}", "schema.json"
_KNOWN = ("kdgraph", "sklearn", "numpy", "torch")
"""Packages that have a list of their own of what may be read
(:mod:`kdgraph.persistence.allowed`).
"""
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:\w+|[^\W\d]\w*(\.[^\W\d]\w*)+")


def keep(run_dir: Path, fitted: Made, calibrated: Made, schema: Mapping[str, Any]) -> list[str]:
    """Put the models into the run's directory; gives the names of the files, none where a stage has
    no entry in the store.
    """
    if fitted.entry is None or calibrated.entry is None:
        return []
    folder = run_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    sweep_leftovers(folder)
    _put(fitted, folder / PARENT, {})
    _put(calibrated, folder / CALIBRATED, {"parent": fitted.value})
    write_atomically(
        folder / SCHEMA, json.dumps(schema, indent=1, ensure_ascii=False, allow_nan=False).encode()
    )
    return [f"{FOLDER}/{name}" for name in (PARENT, CALIBRATED, SCHEMA)]


def _put(made: Made, place: Path, shared: Mapping[str, Any]) -> None:
    """The entry under another name, or a copy where the file system has no such names."""
    assert made.entry is not None
    beside = temporary_beside(place)
    try:
        os.link(made.entry, beside)
        os.replace(beside, place)
    except FileNotFoundError:  # deleted meanwhile
        from kdgraph.persistence import to_bytes

        write_atomically(place, to_bytes(made.value, shared))
    except OSError:
        write_atomically(place, made.entry.read_bytes())
    finally:
        beside.unlink(missing_ok=True)


def trusted_packages(nodes: Mapping[str, Any]) -> list[str]:
    """Return the packages that a config names itself, for classes and for image models.

    An image model's factory stands for itself where its package is one that has a list.
    """
    found = {str(name).partition(".")[0] for name in _values(nodes, "_target_")} - set(_KNOWN)
    for model in set(_values(nodes, "model")) - {"resnet20"}:  # that one is ours
        package = re.split("[.:]", model)[0] if _IMPORT_PATH.fullmatch(model) else "transformers"
        found.add(model if package in _KNOWN else package)
    return sorted(found)


def _values(node: Any, key: str) -> Iterator[str]:
    """Text under ``key``, at any depth."""
    for name, value in node.items() if isinstance(node, Mapping) else ():
        if name == key and isinstance(value, str):
            yield value
        yield from _values(value, key)
