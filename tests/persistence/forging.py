"""Forged files: any document and any arrays, with a digest and a checksum that fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from kdgraph.persistence import to_bytes
from kdgraph.persistence.archive import SigningKey, pack, sign, unpack


def tampered(value: Any, change: Callable[[dict[str, Any], list[np.ndarray]], Any]) -> bytes:
    """A file of ``value`` whose document and arrays were changed."""
    document, arrays = unpack(to_bytes(value))
    change(document, arrays)
    return pack(document, arrays)


def of(value: Any, **parts: Any) -> bytes:
    """A file whose document contains ``value``, which is JSON already."""
    return tampered(None, lambda document, arrays: document.update(value=value, **parts))


def by_another(content: bytes) -> bytes:
    """The same file as another user's key would mark it."""
    with patch(
        "kdgraph.persistence.archive.current_key",
        return_value=SigningKey(b"x" * 32, Path("theirs")),
    ):
        return sign(content)


def unchecked(value: Any) -> bytes:
    """A file of ``value`` by a writer who checks nothing."""
    with (
        patch("kdgraph.persistence.codec.Encoder._check"),
        patch("kdgraph.persistence.codec.is_listed", return_value=False),
    ):
        return to_bytes(value)
