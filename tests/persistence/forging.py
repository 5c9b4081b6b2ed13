"""Forged files: arbitrary documents and arrays with a valid digest and checksum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from kdgraph.persistence import to_bytes
from kdgraph.persistence.archive import pack, sign, unpack
from kdgraph.signing import SigningKey


def tampered(value: Any, change: Callable[[dict[str, Any], list[np.ndarray]], Any]) -> bytes:
    """Return a file of ``value`` whose document and arrays ``change`` has modified in place."""
    document, arrays = unpack(to_bytes(value))
    change(document, arrays)
    return pack(document, arrays)


def file_of_node(node: Any, **entries: Any) -> bytes:
    """Return a file whose document has the encoded value ``node``, and these other entries."""
    return tampered(None, lambda document, arrays: document.update(value=node, **entries))


def signed_by_another_user(content: bytes) -> bytes:
    """Return the same file, signed with the key of another user."""
    with patch(
        "kdgraph.persistence.archive.current_key",
        return_value=SigningKey(b"x" * 32, Path("other.key")),
    ):
        return sign(content)


def written_without_checks(value: Any) -> bytes:
    """Return a file of ``value`` by an encoder that checks nothing."""
    with (
        patch("kdgraph.persistence.codec.Encoder._check"),
        patch("kdgraph.persistence.codec.is_listed", return_value=False),
    ):
        return to_bytes(value)
