"""Files that are complete or absent, and JSON with a checksum at its end.

With the checksum, a file in which a single bit has changed is not read as if it were complete.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kdgraph.errors import CannotWrite, UsageError

OUT = "out=…"
"""The argument that names the folder of runs."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_atomically(path: Path, content: bytes, option: str = OUT) -> None:
    """Write to a temporary file in the same folder, and rename it to ``path``.

    A reader, or a kill at any moment, finds the old content or the new, never a part. ``option`` is
    the argument with which a user names another place, for the message of CannotWrite.
    """
    temporary = temporary_path(path)
    with wrap_os_errors(path, option):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """Return a name for a file that is to be renamed to ``path``, which no other process chooses.

    Random, since the number of a process is unique in its own container alone, where it is often 1.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def delete_temporary_files(folder: Path) -> None:
    """Delete what killed writers left; call it only while no other process writes there."""
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)


def check_writable(folder: Path, option: str = OUT) -> None:
    """Create ``folder`` if need be, and write a small, unnamed file to it, or raise CannotWrite."""
    with wrap_os_errors(folder, option):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))  # a page: an empty file fits on a full disk


@contextmanager
def wrap_os_errors(path: Path, option: str = OUT) -> Iterator[None]:
    """Raise CannotWrite, one line with the way out, for an error of the operating system.

    ``path`` is what the block writes, ``option`` the argument with which a user names another
    place.
    """
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"cannot write {path}: {_reason(error)}; {_remedy(error, option)}"
        ) from error


def check_output_name(path: Path, flag: str) -> None:
    """Raise UsageError if no file can have the name that ``flag`` gives, before any other work.

    It is the name of a folder, or too long, or its folder is a file.
    """
    if os.path.isdir(path):  # False, where Path.is_dir raises, of a name that is too long
        raise UsageError(f"{flag} must be a file, got '{path}', which is a folder")
    try:
        os.lstat(temporary_path(path))  # its content is written under this name first
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {_reason(error)}; {_remedy(error, flag)}"
        ) from error


def refuse_inputs(output: Path, inputs: Mapping[str, str | Path | None], flag: str) -> None:
    """Raise UsageError if ``flag`` names no file, or one that the command reads.

    ``inputs`` maps options to the files that they name. None, and a name of no file, is never the
    output.
    """
    check_output_name(output, flag)
    for option, path in inputs.items():
        # A link to the input, and another name of it, are the same file.
        if (
            path is not None
            and os.path.exists(output)
            and os.path.exists(given := os.path.expanduser(path))
            and os.path.samefile(output, given)
        ):
            raise UsageError(f"{flag} {output} is the file of {option}; give another name")


def _reason(error: OSError) -> str:
    """Return the words of the operating system, without those that a library puts around them."""
    return os.strerror(error.errno) if error.errno else " ".join(str(error).split())


def _remedy(error: OSError, option: str) -> str:
    if error.errno in DISK_FULL:
        return (
            "free some space ('kdg gc' deletes what no run needs) or name another folder with"
            f" {option}, and give the same command again"
        )
    if error.errno in (errno.EISDIR, errno.EEXIST, errno.ENOTDIR, errno.ENOENT, errno.ELOOP):
        return f"name another place with {option}"
    if error.errno == errno.EFBIG:
        return f"raise the limit with 'ulimit -f', or name another folder with {option}"
    if error.errno == errno.ENAMETOOLONG:
        return f"give a shorter name with {option}"
    return f"change the rights of the folder, or name another one with {option}"


_CHECKSUM = re.compile(rb'"checksum": "([0-9a-f]{64})"\n?\}\Z')
"""The last member of a JSON object with a checksum, and its closing bracket."""


class ChecksumError(ValueError):
    """The content has no checksum, or another one: it is not as it was written."""


def add_checksum(value: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """Return ``value`` as JSON in UTF-8 whose last member is the SHA-256 of all bytes before it.

    Its values are JSON-safe and not NaN, and no key is ``checksum``. ``indent`` is that of
    :func:`json.dumps`; None: one line.
    """
    text = json.dumps({**value, "checksum": ""}, indent=indent, ensure_ascii=False, allow_nan=False)
    before, name, end = text.rpartition('"checksum": "')
    digest = hashlib.sha256(before.encode()).hexdigest()
    return f"{before}{name}{digest}{end}".encode()


def check_and_load(content: bytes) -> dict[str, Any]:
    """Return the values behind the bytes of :func:`add_checksum`.

    Raises ChecksumError where the checksum is absent, or not that of the content, or the content is
    no JSON that Python reads.

    >>> check_and_load(add_checksum({"seed": 3}))
    {'seed': 3}
    """
    match = _CHECKSUM.search(content)
    if match is None:
        raise ChecksumError("it has no checksum at its end")
    if hashlib.sha256(content[: match.start()]).hexdigest() != match[1].decode():
        raise ChecksumError("its checksum does not fit")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # no JSON, too deep, or a number of 5,000 digits
        raise ChecksumError(f"it is no JSON that can be read: {error}") from error
    del value["checksum"]
    return value


def file_checksum(path: Path) -> str | None:
    """Return the SHA-256 of a file as 64 hex digits, or None where it cannot be read.

    A pipe cannot, since it may never end.
    """
    if not os.path.isfile(path):
        return None
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
