"""Files that a user names: found, opened and decoded, or refused in one line."""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import lzma
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import IO

from kdgraph.data.files.encodings import codec_of, has_wide_units, marked_encoding, unmarked_codec
from kdgraph.errors import DataError, NotAtHand, did_you_mean

OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BROKEN = (EOFError, OSError, lzma.LZMAError)
"""What these raise of files that are not compressed, or not to their end."""
_BINARY = {b"PAR1": "a parquet file", b"PK\x03\x04": "a zip archive, as spreadsheets and npz files are", b"\x1f\x8b": "compressed (.gz)"}


def file_stem(path: str | None, otherwise: str = "table") -> str:
    """The name of a file without folder and ending, made of letters, digits, ``_``, ``-`` and ``.``; ``otherwise`` where there is none.

    >>> file_stem("data/my table.csv.gz"), file_stem("reviews/"), file_stem(None)
    ('my_table', 'reviews', 'table')
    """
    name = PurePath(path or "")
    if name.suffix.lower() in OPENERS:
        name = name.with_suffix("")
    return re.sub(r"[^\w.-]+", "_", name.stem).strip(".") or otherwise


def existing(path: str, key: str = "path", made_by: str | None = None) -> Path:
    """The file or folder ``path``, relative to the working directory.

    Raises
    ------
    NotAtHand
        If there is none; what makes it is told, or names that are near are offered. ``key`` is the parameter that named it.
    """
    found = Path(path).expanduser()
    if os.path.exists(found):  # False, where Path.exists raises, of a name that is too long
        return found
    folder = found.parent
    way_out = f"; make it by {made_by}" if made_by else ""
    if not os.path.isdir(folder):
        raise NotAtHand(f"{said(path, key)}: there is no folder {folder.resolve()}{way_out}")
    raise NotAtHand(f"{said(path, key)}: no such file in {folder.resolve()}{way_out or did_you_mean(found.name, names_in(folder))}")


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted, to offer near ones; none of a folder that is not there or closed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def itself(path: Path) -> list[Path]:
    """What is read where a parameter names one file."""
    return [path]


def said(path: object, key: str = "path") -> str:
    """How messages name a file: by the argument that a user gave."""
    return f"dataset.{key}={path}"


def suffix_of(path: Path, known: Sequence[str], key: str = "path") -> str:
    """The ending that says what kind of file it is, without that of a compression.

    Raises
    ------
    DataError
        If ``path`` is a folder or its ending is none of ``known``.
    """
    if path.is_dir():
        raise DataError(f"{said(path, key)} is a folder; give one file")
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in OPENERS:
        endings.pop()
    if not endings or endings[-1] not in known:
        raise DataError(f"{said(path, key)}: the ending of a file says what it is, and must be one of {', '.join(known)}")
    return endings[-1]


def open_bytes(path: Path) -> IO[bytes]:
    """The file, decompressed."""
    return OPENERS.get(path.suffix.lower(), open)(path, "rb")  # type: ignore[return-value]


def check_text(path: Path, encoding: str) -> str:
    """Return the codec that decodes a file, without its byte-order mark.

    Raises
    ------
    DataError
        Unless the file has something in it and is text in this encoding.
    """
    codec = codec_of(encoding)
    try:
        with open_bytes(path) as file:
            codec = check_start(said(path), file.read(4096), codec)
            file.seek(0)
            _decode(path, file, codec, encoding)
    except BROKEN as error:
        raise unreadable(path, error) from error
    return codec


def check_start(where: str, start: bytes, codec: str) -> str:
    """Return the codec that decodes a file which begins with ``start``: ``codec``, without a byte-order mark.

    Raises
    ------
    DataError
        If the file is empty, has the mark of another encoding, or is no text. ``where`` names it.
    """
    if not start.strip():
        raise DataError(f"{where} is empty")
    if kind := next((kind for magic, kind in _BINARY.items() if start.startswith(magic)), None):
        raise DataError(f"{where} is {kind}, not text; its ending must say so")
    unmarked = unmarked_codec(where, start, codec)
    if marked_encoding(start):
        return unmarked
    if b"\0" in start and not has_wide_units(codec):
        raise DataError(f"{where} is no text: byte {start.index(0):,} is 0")
    return codec


def sha256_of(path: Path) -> str:
    """16 hex digits of the hash of the file as it lies there."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def unreadable(path: Path, error: BaseException) -> DataError:
    """The error for a file that is there and cannot be read."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
    return DataError(f"{said(path)} cannot be read: {reason}")


def _decode(path: Path, file: IO[bytes], codec: str, encoding: str) -> None:
    """Read it all once, so that a byte that is none of the encoding is told with its place in the file."""
    decoder, done = codecs.getincrementaldecoder(codec)(), 0
    while True:
        block = file.read(1 << 20)
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            place = done - pending + error.start
            way_out = "; it may be dataset.encoding=latin-1" if codec.startswith("utf-8") else ""
            found = f"byte {place:,} (0x{error.object[error.start]:02x})"
            raise DataError(f"{said(path)} is not text in {encoding}: {found} cannot be decoded{way_out}") from error
        except UnicodeError as error:
            raise DataError(f"{said(path)} is not text in {encoding}: {error}") from error
        if not block:
            return
        done += len(block)
