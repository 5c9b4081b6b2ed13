"""Documents in UBJSON, of the types that XGBoost reads and writes.

The format is that of https://ubjson.org (draft 12), with the unsigned integers of draft 13.
Original to kdgraph.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_NUMBERS = {
    **{b"i": ">i1", b"I": ">i2", b"l": ">i4", b"L": ">i8"},
    **{b"U": ">u1", b"u": ">u2", b"m": ">u4", b"M": ">u8"},
    **{b"d": ">f4", b"D": ">f8"},
}
_MARKERS = {np.dtype(dtype).newbyteorder("="): marker for marker, dtype in _NUMBERS.items()}
_CONSTANTS = {b"T": True, b"F": False, b"Z": None}
_MAX_NESTING = 50


def decode_ubjson(content: bytes) -> Any:
    r"""Return the value of a document, as :func:`json.loads`, with typed arrays as arrays of NumPy.

    ValueError is raised if it is none, is truncated, or has a name twice.

    >>> decode_ubjson(b"{i\x01a[$U#i\x02\x07\x08}")
    {'a': array([7, 8], dtype=uint8)}
    """
    value, end = _decode_value(content, 0, 0)
    if end != len(content):
        raise ValueError(f"the document ends at byte {end:,} of {len(content):,}")
    return value


def encode_ubjson(value: Any) -> bytes:
    r"""Return the document of a value, in a form that XGBoost reads.

    Values are dictionaries with texts as keys, lists, texts, numbers and arrays Int[n] or Float[n],
    else TypeError is raised. Numbers with a fraction become single precision, as those of XGBoost
    are.

    >>> encode_ubjson({"a": np.array([7, 8], np.uint8)})
    b'{L\x00\x00\x00\x00\x00\x00\x00\x01a[$U#L\x00\x00\x00\x00\x00\x00\x00\x02\x07\x08}'
    """
    if isinstance(value, dict):
        members = (_encode_text(key) + encode_ubjson(item) for key, item in value.items())
        return b"{" + b"".join(members) + b"}"
    if isinstance(value, list):
        return b"[#" + _encode_count(len(value)) + b"".join(map(encode_ubjson, value))
    if isinstance(value, str):
        return b"S" + _encode_text(value)
    if isinstance(value, np.ndarray):
        marker = _MARKERS[value.dtype]
        data = value.astype(_NUMBERS[marker]).tobytes()
        return b"[$" + marker + b"#" + _encode_count(len(value)) + data
    if isinstance(value, bool) or value is None:
        return next(marker for marker, constant in _CONSTANTS.items() if constant is value)
    if isinstance(value, int):
        return _encode_count(value)
    if isinstance(value, float):
        return b"d" + struct.pack(">f", value)
    raise TypeError(f"a {type(value).__name__} cannot be written")


def _encode_count(count: int) -> bytes:
    return b"L" + struct.pack(">q", count)


def _encode_text(text: str) -> bytes:
    content = text.encode()
    return _encode_count(len(content)) + content


def _decode_value(content: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Return the value whose type is at this position, and the position behind it."""
    kind, at = content[at : at + 1], at + 1
    if depth > _MAX_NESTING:
        raise ValueError("the document is nested too deeply")
    if kind in _NUMBERS:
        numbers, at = _decode_numbers(content, at, kind, 1)
        return numbers[0].item(), at
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind == b"S":
        return _decode_text(content, at)
    if kind == b"[":
        return _decode_array(content, at, depth)
    if kind != b"{":
        raise ValueError(f"the document has no value at byte {at - 1:,}")
    members: dict[str, Any] = {}
    while content[at : at + 1] != b"}":
        name, at = _decode_text(content, at)
        if name in members:
            raise ValueError(f"the document has the name {name!r:.40} twice")
        members[name], at = _decode_value(content, at, depth + 1)
    return members, at + 1


def _decode_array(content: bytes, at: int, depth: int) -> tuple[Any, int]:
    kind = content[at + 1 : at + 2] if content[at : at + 1] == b"$" else None
    at += 0 if kind is None else 2
    if content[at : at + 1] != b"#":
        values: list[Any] = []
        while content[at : at + 1] != b"]":
            value, at = _decode_value(content, at, depth + 1)
            values.append(value)
        return values, at + 1
    count, at = _decode_count(content, at + 1)
    if kind is not None:
        return _decode_numbers(content, at, kind, count)
    values = []
    for _ in range(count):
        value, at = _decode_value(content, at, depth + 1)
        values.append(value)
    return values, at


def _decode_numbers(content: bytes, at: int, kind: bytes, count: int) -> tuple[np.ndarray, int]:
    if kind not in _NUMBERS:
        raise ValueError(f"the document has no numbers at byte {at:,}")
    dtype = np.dtype(_NUMBERS[kind])
    numbers = np.frombuffer(content, dtype, count, at)
    return numbers.astype(dtype.newbyteorder("=")), at + count * dtype.itemsize


def _decode_count(content: bytes, at: int) -> tuple[int, int]:
    numbers, end = _decode_numbers(content, at + 1, content[at : at + 1], 1)
    count = int(numbers[0])
    if not 0 <= count <= len(content):
        raise ValueError(f"the document has a length of {count:,} at byte {at:,}")
    return count, end


def _decode_text(content: bytes, at: int) -> tuple[str, int]:
    length, at = _decode_count(content, at)
    text = content[at : at + length]
    if len(text) != length:
        raise ValueError("the document is truncated")
    return text.decode(), at + length
