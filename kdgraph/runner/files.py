"""Files that are either there as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kdgraph.errors import CannotWrite, UsageError

OUT = "out=…"
"""The argument that names the folder of runs."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_atomically(path: Path, content: bytes, option: str = OUT) -> None:
    """Write beside ``path`` and rename: a reader, or a kill at any moment, sees the old content or
    the new, never a part.

    Parameters
    ----------
    path : of the file.
    content : all of it.
    option : the argument with which a user names another place, for the message.

    Raises
    ------
    CannotWrite : in one line, with what to do.
    """
    temporary = temporary_beside(path)
    with told_in_one_line(path, option):
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


def check_writable(folder: Path) -> None:
    """Write a small file, which nobody sees, to ``folder``, which is made if need be.

    Raises
    ------
    CannotWrite : in one line, with what to do.
    """
    with told_in_one_line(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))  # a page: an empty file fits on a full disk


@contextmanager
def told_in_one_line(path: Path, option: str = OUT) -> Iterator[None]:
    """What the operating system says inside the block leaves it as one line that says what to do.

    ``option`` is the argument with which a user names another place.
    """
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"cannot write {path}: {_reason(error)}; {_remedy(error, option)}"
        ) from error


def refuse_folder(path: Path, flag: str) -> None:
    """Raise UsageError if the file that ``flag`` names is a folder, before anything is done for
    it.
    """
    if os.path.isdir(path):  # False, where Path.is_dir raises, of a name that is too long
        raise UsageError(f"{flag} must be a file, got '{path}', which is a folder")


def _reason(error: OSError) -> str:
    """Return the words of the operating system, without those that a library puts around them."""
    return os.strerror(error.errno) if error.errno else " ".join(str(error).split())


def _remedy(error: OSError, option: str) -> str:
    if error.errno in DISK_FULL:
        return (
            "free some space ('kdg gc' deletes what no run needs) or name another folder with"
            f" {option}, and give the same command again"
        )
    if error.errno in (errno.EISDIR, errno.EEXIST, errno.ENOTDIR, errno.ENOENT):
        return f"name another place with {option}"
    if error.errno == errno.ENAMETOOLONG:
        return f"give a shorter name with {option}"
    return f"change the rights of the folder, or name another one with {option}"


def sweep_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left behind; call it only while no other process writes
    there.
    """
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)
