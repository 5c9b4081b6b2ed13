"""Files that are either there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside ``path`` and rename: a reader, or a kill at any moment, sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def sweep_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left behind; call it only while no other process writes there."""
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)
