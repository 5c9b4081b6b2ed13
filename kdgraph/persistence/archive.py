"""Container of model files: a signed zip of one JSON document and arrays.

``document.json`` is deflated; arrays are ``0.npy``, ``1.npy``, …, or ``0.npy.zst`` if zstd makes
them smaller. Unzip, zstd and ``numpy.load`` can open every part. The comment of the zip contains
the HMAC-SHA256 (RFC 2104), with the key of the writer, of the SHA-256 of all bytes before, and the
SHA-256 of all bytes before this checksum, which detects damage without a key.

Loading a model can run code chosen by its writer, so a file is loaded without ``trust`` only if its
digest fits the key of this user. The key is created on first use; ``KDGRAPH_KEY_FILE`` names
another one, such as a key shared by a group or by the nodes of a cluster. Original to kdgraph.
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

from kdgraph.errors import KdgError, UsageError
from kdgraph.extras import needs_library
from kdgraph.signing import current_key

_MAX_DETAIL_LENGTH = 200


class SaveError(KdgError, TypeError):
    """Error for a value that cannot be written, such as code or an open file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from kdgraph.persistence import SaveError, save
    >>> with TemporaryDirectory() as folder:
    ...     try:
    ...         save(lambda row: row, f"{folder}/model.kdg")
    ...     except SaveError as error:
    ...         print(error)
    <lambda> of ... cannot be saved: it must stand in a module that can be imported
    """


class LoadError(UsageError):
    """Error for a file that is not a model of kdgraph, is damaged, or needs missing classes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from kdgraph.persistence import LoadError, load
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.kdg"
    ...     _ = path.write_text("no model")
    ...     try:
    ...         load(path)
    ...     except LoadError as error:
    ...         print(str(error).replace(folder, "…"))
    …/model.kdg is damaged or no file of kdgraph (its checksum is not there)
    """


class DamagedFileError(LoadError):
    """Error for a file whose content was changed, or was not written by kdgraph.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from kdgraph.persistence import DamagedFileError, load, save
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.kdg"
    ...     save({"a": 1.0}, path)
    ...     content = bytearray(path.read_bytes())
    ...     content[len(content) // 2] ^= 1
    ...     _ = path.write_bytes(content)
    ...     try:
    ...         load(path)
    ...     except DamagedFileError as error:
    ...         print(str(error).replace(folder, "…"))
    …/model.kdg is damaged (its checksum does not fit)
    """


class UntrustedFileError(LoadError):
    """Error for a file that was signed with another key, or needs classes that are not admitted.

    Attributes
    ----------
    names : tuple of str
        These classes, and names that it imports or calls, ``package.module:Class``; empty if the
        key is the reason.

    Examples
    --------
    The key of another user:

    >>> from tempfile import TemporaryDirectory
    >>> from unittest.mock import patch
    >>> from kdgraph.persistence import UntrustedFileError, load, save
    >>> with TemporaryDirectory() as folder:
    ...     path = f"{folder}/model.kdg"
    ...     save({"a": 1.0}, path)
    ...     with patch.dict("os.environ", {"KDGRAPH_KEY_FILE": f"{folder}/other.key"}):
    ...         try:
    ...             load(path)
    ...         except UntrustedFileError as error:
    ...             print(str(error).startswith(f"{path} was not made with your key"))
    ...         load(path, trust=True)
    True
    {'a': 1.0}
    """

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


def damage_message(error: BaseException) -> str:
    r"""Return "is damaged (…)" with the error, which may quote the file, in one short line.

    >>> damage_message(ValueError("no\nlines"))
    'is damaged (ValueError: no lines)'
    """
    words = " ".join(str(error).split())
    shown = "".join(sign if sign.isprintable() else "?" for sign in words)
    brief = shown[:_MAX_DETAIL_LENGTH] + "…" * (len(shown) > _MAX_DETAIL_LENGTH)
    return f"is damaged ({type(error).__name__}{f': {brief}' if brief else ''})"


_DIGEST_MARK, _CHECKSUM_MARK = b"kdgraph 2 hmac-sha256 ", b" sha256 "
_HEX_DIGITS = 64
_END_LENGTH = len(_DIGEST_MARK) + _HEX_DIGITS + len(_CHECKSUM_MARK) + _HEX_DIGITS
UNSIGNED_END = _DIGEST_MARK + b"0" * _HEX_DIGITS + _CHECKSUM_MARK + b"0" * _HEX_DIGITS
"""The end of a file before :func:`sign`."""
_VERSION_1_MARK = b"kdgraph 1 sha256 "
# A file may unpack to 100 times its size or to 256 MB, whichever is larger, so that a few kilobytes
# cannot take all memory.
_MAX_UNPACK_RATIO, _MIN_UNPACK_LIMIT = 100, 256_000_000
# No file may unpack to more than this fraction of the machine's memory.
_MAX_MEMORY_FRACTION = 0.8
# Number of bytes that are unpacked at once.
_READ_CHUNK = 1 << 20
# Arrays of fewer bytes are not compressed.
_MIN_COMPRESSIBLE_SIZE = 512
# An array that compresses to more than this fraction, such as random numbers, is stored
# uncompressed, because the saved bytes are not worth the time to unpack them.
_MAX_COMPRESSED_FRACTION = 0.9
_NARROW_DTYPES = tuple(np.dtype(name) for name in ("i1", "i2", "i4"))


def pack(document: dict[str, Any], arrays: Sequence[np.ndarray]) -> bytes:
    """Return the bytes of a file, which depend on nothing but its content and the key.

    The document is safe for JSON and has no key ``arrays``; arrays of numbers, text or dates have
    shape [n], each with its own n.
    """
    packed = _pack_zip(document, arrays, compress=True)
    # Arrays that compress by more than the limit, such as zeros, are stored uncompressed, so that
    # every file that is written can be read.
    if sum(array.nbytes for array in arrays) > _max_unpacked_size(len(packed)):
        packed = _pack_zip(document, arrays, compress=False)
    return packed


def sign(content: bytes) -> bytes:
    """Return ``content`` with digest and checksum in place of :data:`UNSIGNED_END`, its end."""
    checksum = hashlib.sha256(memoryview(content)[:-_END_LENGTH])
    end = _DIGEST_MARK + current_key().digest(checksum.digest()).encode() + _CHECKSUM_MARK
    checksum.update(end)
    return content[:-_END_LENGTH] + end + checksum.hexdigest().encode()


def is_signed_by_user(content: bytes) -> bool:
    """Return whether the key of this user signed the file.

    DamagedFileError is raised if the checksum does not fit, or this is another kind of file, and
    LoadError if another version wrote it.
    """
    end = content[-_END_LENGTH:]
    digest, checksum_mark = (
        end[len(_DIGEST_MARK) :][:_HEX_DIGITS],
        end[len(_DIGEST_MARK) + _HEX_DIGITS : -_HEX_DIGITS],
    )
    if content[-len(_VERSION_1_MARK) - _HEX_DIGITS :].startswith(_VERSION_1_MARK):
        raise LoadError("was written by another version of kdgraph")
    if (
        len(end) < _END_LENGTH
        or not end.startswith(_DIGEST_MARK)
        or checksum_mark != _CHECKSUM_MARK
    ):
        raise DamagedFileError("is damaged or no file of kdgraph (its checksum is not there)")
    # The checksum covers the digest too. It is compared first, so that a damaged file is reported
    # as damaged and not as another user's.
    checksum = hashlib.sha256(memoryview(content)[:-_END_LENGTH])
    payload_hash = checksum.digest()
    checksum.update(end[:-_HEX_DIGITS])
    if checksum.hexdigest().encode() != end[-_HEX_DIGITS:]:
        raise DamagedFileError("is damaged (its checksum does not fit)")
    return current_key().verify(payload_hash, digest.decode("latin-1"))


def unpack(content: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return document and writable arrays of a file that passed :func:`is_signed_by_user`.

    DamagedFileError is raised if its parts do not fit together. No array is allocated that is
    larger than the limit.
    """
    max_size = _max_unpacked_size(len(content))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            document = json.loads(_read_member(archive, "document.json", max_size))
            entries = [
                (np.dtype(dtype), int(n), int(size)) for dtype, n, size in document.pop("arrays")
            ]
            # The declared sizes are added up before the first array is allocated.
            if (
                any(n < 0 for _, n, _ in entries)
                or sum(max(dtype.itemsize * n, size) for dtype, n, size in entries) > max_size
            ):
                raise ValueError("its arrays are too large for such a file, or for this machine")
            return document, [_read_array(archive, k, *entry) for k, entry in enumerate(entries)]
    # zlib, zipfile, zstd, NumPy and JSON do not document what they raise for invalid content: 7,500
    # mutated files raised seven types, among them NotImplementedError and RuntimeError.
    except Exception as error:
        raise DamagedFileError(damage_message(error)) from error


def _max_unpacked_size(size: int) -> int:
    return int(
        min(max(_MIN_UNPACK_LIMIT, _MAX_UNPACK_RATIO * size), _MAX_MEMORY_FRACTION * _memory_size())
    )


@cache
def _memory_size() -> int:
    """Return the memory of the machine in bytes, or a huge number if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _pack_zip(document: dict[str, Any], arrays: Sequence[np.ndarray], *, compress: bool) -> bytes:
    """Return a signed zip; ``ZipInfo`` without a date makes equal content equal bytes."""
    buffer, entries = io.BytesIO(), []
    with zipfile.ZipFile(buffer, "w") as archive:
        for k, array in enumerate(arrays):
            name, content = f"{k}.npy", _npy_bytes(_narrow_integers(array))
            entries.append([array.dtype.str, len(array), len(content)])
            method = zipfile.ZIP_STORED
            if compress and len(content) >= _MIN_COMPRESSIBLE_SIZE:
                if (zstd := _zstd_codec()) is None:
                    method = zipfile.ZIP_DEFLATED
                else:
                    compressed = zstd.compress(content, asbytes=True)
                    if len(compressed) < _MAX_COMPRESSED_FRACTION * len(content):
                        name, content = f"{name}.zst", compressed
            archive.writestr(zipfile.ZipInfo(name), content, method, 1)
        text = json.dumps({**document, "arrays": entries}, allow_nan=False, separators=(",", ":"))
        archive.writestr(zipfile.ZipInfo("document.json"), text, zipfile.ZIP_DEFLATED, 1)
        archive.comment = UNSIGNED_END
    return sign(buffer.getvalue())


def _narrow_integers(array: np.ndarray) -> np.ndarray:
    """Return integers in the narrowest type: half the compression time, 0.9 of the size."""
    if array.dtype.kind != "i" or not len(array):
        return array
    low, high = array.min(), array.max()
    sufficient_dtypes = (
        dtype
        for dtype in _NARROW_DTYPES
        if dtype.itemsize < array.itemsize
        and np.iinfo(dtype).min <= low
        and high <= np.iinfo(dtype).max
    )
    return array.astype(next(sufficient_dtypes, array.dtype), copy=False)


def _npy_bytes(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    npy.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _read_array(archive: zipfile.ZipFile, k: int, dtype: np.dtype, n: int, size: int) -> np.ndarray:
    """Return array ``k`` of ``n`` values of ``dtype``, from ``size`` bytes of .npy.

    The stored type may be narrower. The bytes are unpacked into the memory of the array, so that
    there is never a second copy of them.
    """
    name = f"{k}.npy"
    if name in archive.namelist():
        file: Any = archive.open(name)
    else:
        try:
            import pyarrow
        except ImportError as error:
            raise LoadError(needs_library("", "pyarrow")) from error
        file = pyarrow.CompressedInputStream(
            pyarrow.BufferReader(_read_member(archive, f"{name}.zst", size)), "zstd"
        )
    with file:
        npy.read_magic(file)
        shape, _, stored = npy.read_array_header_1_0(file)
        if (
            shape != (n,)
            or dtype.hasobject
            or stored.hasobject
            or not np.can_cast(stored, dtype, "safe")
        ):
            raise ValueError(f"array {k} is {stored}{shape}, not {dtype}({n},)")
        array = np.zeros(n, stored)
        _read_into(file, array.view(np.uint8).data if array.nbytes else memoryview(b""))
        if file.read(1):
            raise ValueError(f"array {k} is longer than its header declares")
    return array.astype(dtype, copy=False)


def _read_into(file: Any, memory: memoryview) -> None:
    while memory:
        # A zip member first reads the requested bytes into a copy, so the chunks are small.
        n = file.readinto(memory[:_READ_CHUNK])
        if not n:
            raise ValueError("an array ends early")
        memory = memory[n:]


def _read_member(archive: zipfile.ZipFile, name: str, max_size: int) -> bytes:
    info = archive.getinfo(name)
    if info.file_size > max_size:
        raise ValueError(f"{name} is too large for such a file")
    return archive.read(info)


@cache
def _zstd_codec() -> Any:
    """Return zstd of level 1: a third of the time of higher levels, nearly their size.

    None without pyarrow, which the library does not require.
    """
    try:
        import pyarrow  # imported late, because it takes 0.1 s
    except ImportError:
        return None
    return pyarrow.Codec("zstd", compression_level=1)
