"""The file: a zip of one JSON document and of arrays, with a keyed digest and a checksum.

``document.json`` is deflated; arrays are ``0.npy``, ``1.npy``, …, or ``0.npy.zst`` where zstd makes them smaller. It ends with the zip's
comment: the HMAC of the SHA-256 of all bytes before, with the maker's key, and the SHA-256 of all
bytes before that sum, which shows damage without a key. Unzip, zstd and ``numpy.load`` open every
part of it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.lib import format as npy

from kdgraph.persistence.errors import CannotLoad, Damaged, damage
from kdgraph.persistence.keys import current_key

_MARK, _SUM_MARK = b"kdgraph 2 hmac-sha256 ", b" sha256 "
_DIGITS = 64
_END = len(_MARK) + _DIGITS + len(_SUM_MARK) + _DIGITS
PLACEHOLDER = _MARK + b"0" * _DIGITS + _SUM_MARK + b"0" * _DIGITS
"""The end of a file before :func:`seal`."""
_OTHER_VERSION = b"kdgraph 1 sha256 "
_RATIO, _FREE = 100, 256_000_000
"""A file may unpack to so many times its size, or to so many bytes: a few kilobytes must not take all memory."""
_SHARE_OF_MEMORY = 0.8
"""Nor may any file unpack to more than this share of the machine's memory."""
_PIECE = 1 << 20
"""Bytes that are unpacked at once."""
_SMALLEST = 512
"""Bytes of an array below which compression is not tried."""
_GAIN = 0.9
"""Compression that leaves more than this share of an array is not worth unpacking: random numbers."""
_NARROW = tuple(np.dtype(name) for name in ("i1", "i2", "i4"))


def pack(document: dict[str, Any], arrays: Sequence[np.ndarray]) -> bytes:
    """The file's bytes; the same for the same content.

    Parameters
    ----------
    document : JSON-safe, without the key ``arrays``.
    arrays : of one axis each, of numbers, text or dates.
    """
    packed = _packed(document, arrays, compress=True)
    return packed if sum(array.nbytes for array in arrays) <= _allowed(len(packed)) else _packed(document, arrays, compress=False)


def seal(content: bytes) -> bytes:
    """Return ``content`` with digest and checksum in the place of :data:`PLACEHOLDER`, its end."""
    total = hashlib.sha256(memoryview(content)[:-_END])
    end = _MARK + current_key().digest(total.digest()).encode() + _SUM_MARK
    total.update(end)
    return content[:-_END] + end + total.hexdigest().encode()


def is_own(content: bytes) -> bool:
    """Return whether the file's digest was made with this user's key.

    Raises
    ------
    Damaged
        If the checksum does not fit, or this is another kind of file.
    CannotLoad
        If another version wrote it.
    """
    end = content[-_END:]
    digest, sum_mark = end[len(_MARK) :][:_DIGITS], end[len(_MARK) + _DIGITS : -_DIGITS]
    if content[-len(_OTHER_VERSION) - _DIGITS :].startswith(_OTHER_VERSION):
        raise CannotLoad("was written by another version of kdgraph")
    if len(end) < _END or not end.startswith(_MARK) or sum_mark != _SUM_MARK:
        raise Damaged("is damaged or no file of kdgraph (its checksum is not there)")
    total = hashlib.sha256(memoryview(content)[:-_END])
    payload = total.digest()
    total.update(end[:-_DIGITS])
    if total.hexdigest().encode() != end[-_DIGITS:]:
        raise Damaged("is damaged (its checksum does not fit)")
    return current_key().fits(payload, digest.decode("latin-1"))


def unpack(content: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Document and arrays, which can be written to, of a file whose checksum fits (:func:`is_own`).

    Raises
    ------
    Damaged
        If its parts do not fit together. Nothing is made that is larger than the file allows.
    """
    allowed = _allowed(len(content))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            document = json.loads(_member(archive, "document.json", allowed))
            table = [(np.dtype(dtype), int(n), int(size)) for dtype, n, size in document.pop("arrays")]
            if any(n < 0 for _, n, _ in table) or sum(max(dtype.itemsize * n, size) for dtype, n, size in table) > allowed:
                raise ValueError("its arrays are too large for such a file, or for this machine")
            return document, [_array(archive, k, *entry) for k, entry in enumerate(table)]
    except Exception as error:  # of zlib, zipfile, zstd, NumPy and JSON, which list in no place what they raise on nonsense
        raise Damaged(damage(error)) from error


def _allowed(size: int) -> int:
    """Bytes that a file of ``size`` may unpack to."""
    return int(min(max(_FREE, _RATIO * size), _SHARE_OF_MEMORY * _memory()))


@cache
def _memory() -> int:
    """Bytes of the machine's memory; without an end where it is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _packed(document: dict[str, Any], arrays: Sequence[np.ndarray], *, compress: bool) -> bytes:
    buffer, table = io.BytesIO(), []
    with zipfile.ZipFile(buffer, "w") as archive:
        for k, array in enumerate(arrays):
            name, content = f"{k}.npy", _npy(_narrowed(array))
            table.append([array.dtype.str, len(array), len(content)])
            if compress and len(content) >= _SMALLEST:
                smaller = _zstd().compress(content, asbytes=True)
                if len(smaller) < _GAIN * len(content):
                    name, content = f"{name}.zst", smaller
            archive.writestr(zipfile.ZipInfo(name), content)
        text = json.dumps({**document, "arrays": table}, allow_nan=False, separators=(",", ":"))
        archive.writestr(zipfile.ZipInfo("document.json"), text, zipfile.ZIP_DEFLATED, 1)
        archive.comment = PLACEHOLDER
    return seal(buffer.getvalue())


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as they need: half the time of compression, and nine tenths of the size."""
    if array.dtype.kind != "i" or not len(array):
        return array
    low, high = array.min(), array.max()
    fits = (kind for kind in _NARROW if kind.itemsize < array.itemsize and np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return array.astype(next(fits, array.dtype), copy=False)


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    npy.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _array(archive: zipfile.ZipFile, k: int, dtype: np.dtype, n: int, size: int) -> np.ndarray:
    """Return array ``k``: ``n`` times ``dtype``, whatever it was narrowed to; ``size`` bytes as .npy.

    It is read into its own memory as it is unpacked, so that there is never a second copy of it.
    """
    name = f"{k}.npy"
    if name in archive.namelist():
        file: Any = archive.open(name)
    else:
        import pyarrow

        file = pyarrow.CompressedInputStream(pyarrow.BufferReader(_member(archive, f"{name}.zst", size)), "zstd")
    with file:
        npy.read_magic(file)
        shape, _, stored = npy.read_array_header_1_0(file)
        if shape != (n,) or dtype.hasobject or stored.hasobject or not np.can_cast(stored, dtype, "safe"):
            raise ValueError(f"array {k} is {stored}{shape}, not {dtype}({n},)")
        array = np.zeros(n, stored)
        _fill(file, array.view(np.uint8).data if array.nbytes else memoryview(b""))
        if file.read(1):
            raise ValueError(f"array {k} is longer than it says")
    return array.astype(dtype, copy=False)


def _fill(file: Any, memory: memoryview) -> None:
    while memory:
        n = file.readinto(memory[:_PIECE])  # a member of a zip reads what it is asked for into a copy first
        if not n:
            raise ValueError("an array ends early")
        memory = memory[n:]


def _member(archive: zipfile.ZipFile, name: str, at_most: int) -> bytes:
    info = archive.getinfo(name)
    if info.file_size > at_most:
        raise ValueError(f"{name} is too large for such a file")
    return archive.read(info)


@cache
def _zstd() -> Any:
    """Level 1: a third of the time of higher ones, and within a tenth of their size on forests."""
    import pyarrow  # here, since it takes 0.1 s to import

    return pyarrow.Codec("zstd", compression_level=1)
