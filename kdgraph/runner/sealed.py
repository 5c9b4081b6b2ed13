"""JSON with a checksum at its end, so that a file in which a single bit has changed is not read as
if it were whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_END = re.compile(rb'"checksum": "([0-9a-f]{64})"\n?\}\Z')
"""The last member of a sealed object, and whatever closes it."""


class ChecksumError(ValueError):
    """The content is not what was written, or was never sealed."""


def add_checksum(value: Mapping[str, Any], indent: int | None = 1) -> bytes:
    """Return ``value`` as JSON whose last member is the SHA-256 of all bytes before it.

    Parameters
    ----------
    value : JSON-safe values by key, without a key ``checksum`` and without NaN.
    indent : as of :func:`json.dumps`; None: one line.
    """
    text = json.dumps({**value, "checksum": ""}, indent=indent, ensure_ascii=False, allow_nan=False)
    before, name, end = text.rpartition('"checksum": "')
    digest = hashlib.sha256(before.encode()).hexdigest()
    return f"{before}{name}{digest}{end}".encode()


def check_and_load(content: bytes) -> dict[str, Any]:
    """Return the values that :func:`add_checksum` was given.

    Raises
    ------
    ChecksumError
        The checksum is not there, or is not that of the content.

    Examples
    --------
    >>> check_and_load(add_checksum({"seed": 3}))
    {'seed': 3}
    """
    found = _END.search(content)
    if found is None:
        raise ChecksumError("it has no checksum at its end")
    if hashlib.sha256(content[: found.start()]).hexdigest() != found[1].decode():
        raise ChecksumError("its checksum does not fit")
    value = json.loads(content)
    del value["checksum"]
    return value


def file_checksum(path: Path) -> str | None:
    """Return the SHA-256 of a file as 64 hex digits, or None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
