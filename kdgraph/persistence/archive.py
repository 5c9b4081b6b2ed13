"""The file: a zip of one JSON document and of arrays, with a checksum.

``document.json`` is deflated; arrays are ``0.npy``, ``1.npy``, …, or ``0.npy.zst`` where zstd makes them smaller. It ends with the zip's
comment, the SHA-256 of all bytes before that sum. Unzip, zstd and ``numpy.load`` open every part of it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.lib import format as npy

from kdgraph.persistence.errors import Damaged

_MARK = b"kdgraph 1 sha256 "
_SUM = 64
_RATIO, _FREE = 1000, 256_000_000
"""A file may unpack to so many times its size, or to so many bytes: a few kilobytes must not take all memory."""
_SMALLEST = 512
"""Bytes of an array below which compression is not tried."""
_GAIN = 0.9
"""Compression that leaves more than this share of an array is not worth unpacking: random numbers."""
_NARROW = tuple(np.dtype(name) for name in ("i1", "i2", "i4"))
_MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a file can raise that nobody has written."""


def pack(document: dict[str, Any], arrays: Sequence[np.ndarray]) -> bytes:
    """The file's bytes; the same for the same content.

    Parameters
    ----------
    document : JSON-safe, without the key ``arrays``.
    arrays : of one axis each, of numbers, text or dates.
    """
    packed = _packed(document, arrays, compress=True)
    return packed if sum(array.nbytes for array in arrays) <= _allowed(len(packed)) else _packed(document, arrays, compress=False)


def unpack(content: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Document and arrays, which can be written to.

    Raises
    ------
    Damaged
        If the checksum does not fit, or this is another kind of file. Nothing is made that is larger than the file allows.
    """
    tail = content[-len(_MARK) - _SUM :]
    if not tail.startswith(_MARK):
        raise Damaged("is damaged or no file of kdgraph (its checksum is not there)")
    if hashlib.sha256(memoryview(content)[:-_SUM]).hexdigest().encode() != tail[-_SUM:]:
        raise Damaged("is damaged (its checksum does not fit)")
    allowed = _allowed(len(content))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            document = json.loads(_member(archive, "document.json", allowed))
            table = [(np.dtype(dtype), int(n), int(size)) for dtype, n, size in document.pop("arrays")]
            if any(n < 0 for _, n, _ in table) or sum(max(dtype.itemsize * n, size) for dtype, n, size in table) > allowed:
                raise ValueError("its arrays are too large for such a file")
            return document, [_array(archive, k, *entry) for k, entry in enumerate(table)]
    except _MALFORMED as error:
        raise Damaged(f"is damaged ({type(error).__name__}: {error})") from error


def _allowed(size: int) -> int:
    return max(_FREE, _RATIO * size)


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
        archive.comment = _MARK + b"0" * _SUM
    whole = buffer.getvalue()
    return whole[:-_SUM] + hashlib.sha256(memoryview(whole)[:-_SUM]).hexdigest().encode()


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
    """Array ``k``: ``n`` times ``dtype``, whatever it was narrowed to; as .npy it has ``size`` bytes."""
    name = f"{k}.npy"
    if name in archive.namelist():
        content = _member(archive, name, size)
    else:
        content = _zstd().decompress(_member(archive, f"{name}.zst", size), decompressed_size=size, asbytes=True)
    file = io.BytesIO(content)
    npy.read_magic(file)
    shape, _, stored = npy.read_array_header_1_0(file)
    if shape != (n,) or dtype.hasobject or stored.hasobject or not np.can_cast(stored, dtype, "safe"):
        raise ValueError(f"array {k} is {stored}{shape}, not {dtype}({n},)")
    return np.frombuffer(content, stored, n, file.tell()).astype(dtype) if dtype.itemsize else np.zeros(n, dtype)


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
