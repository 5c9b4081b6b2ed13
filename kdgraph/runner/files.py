"""Files that are either there as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kdgraph.errors import CannotWrite


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside ``path`` and rename: a reader, or a kill at any moment, sees the old content or the new, never a part.

    Raises
    ------
    CannotWrite : in one line, with what to do.
    """
    temporary = temporary_beside(path)
    with told_in_one_line(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def temporary_beside(path: Path) -> Path:
    """Return a name for a file that is to be renamed to ``path``, which no other process chooses.

    Random, since the number of a process is unique in its own container alone, where it is often 1.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


@contextmanager
def told_in_one_line(path: Path) -> Iterator[None]:
    """What the operating system says inside the block leaves it as one line that says what to do."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}; {_remedy(error)}") from error


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space ('kdg gc' deletes what no run needs) or name another folder with out=…, and give the same command again"
    return "change the rights of the folder, or name another one with out=…"


def sweep_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left behind; call it only while no other process writes there."""
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)
