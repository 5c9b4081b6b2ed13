"""Encodings of text by any of their names, and the byte-order marks that files may begin with.

Files that a user names: found, opened and decoded, or refused in one line.
"""

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

from kdgraph.errors import DataError, NotAtHand, did_you_mean
from kdgraph.overrides import override

# The mark of UTF-32 in little-endian order begins with that of UTF-16, so it must be compared
# first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def codec_name(encoding: str) -> str:
    """Return the one name under which Python has an encoding of text, whichever of its names is
    given.

    Parameters
    ----------
    encoding : in any case, with ``-`` or ``_``, or an alias.

    Raises
    ------
    DataError
        If Python has no encoding of text of this name.

    Examples
    --------
    >>> [codec_name(name) for name in ("UTF8", "utf_8_sig", "Latin-1", "windows-1252")]
    ['utf-8', 'utf-8-sig', 'iso8859-1', 'cp1252']
    """
    try:
        "".encode(encoding)  # codecs such as base64, which encode bytes, are refused here
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        known = "it has utf-8, latin-1, utf-16 and others"
        raise DataError(
            f"dataset.encoding={encoding} is no encoding that Python knows; {known}"
        ) from error


def encoding_from_bom(start: bytes) -> str | None:
    """Return the encoding whose byte-order mark ``start`` begins with: utf-8, utf-16, utf-32, or
    None.
    """
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if start.startswith(mark)), None)


def codec_without_bom(where: str, start: bytes, codec: str) -> str:
    """Return the codec that decodes a file which begins with ``start``, and drops its byte-order
    mark.

    Parameters
    ----------
    where : how the message names the file.
    start : its first 4 bytes, or more.
    codec : as :func:`codec_name` returns it.

    Raises
    ------
    DataError
        If the mark is that of another encoding.
    """
    marked = encoding_from_bom(start)
    if marked is None:
        return codec
    if not codec.startswith(marked):
        raise DataError(
            f"{where} is text in {marked.upper()}; give {override('dataset.encoding', marked)}"
        )
    return "utf-8-sig" if marked == "utf-8" else marked


def uses_null_bytes(codec: str) -> bool:
    """Return whether bytes that are 0 belong to text in this codec."""
    return codec.startswith(("utf-16", "utf-32"))


DECOMPRESSORS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
READ_ERRORS = (EOFError, OSError, lzma.LZMAError)
"""What these raise of files that are not compressed, or not to their end."""
_BINARY_SIGNATURES = {
    b"PAR1": "a parquet file",
    b"PK\x03\x04": "a zip archive, as spreadsheets and npz files are",
    b"\x1f\x8b": "compressed (.gz)",
}


def file_stem(path: str | None, otherwise: str = "table") -> str:
    """The name of a file without folder and ending, made of letters, digits, ``_``, ``-`` and
    ``.``; ``otherwise`` where there is none.

    >>> file_stem("data/my table.csv.gz"), file_stem("reviews/"), file_stem(None)
    ('my_table', 'reviews', 'table')
    """
    name = PurePath(path or "")
    if name.suffix.lower() in DECOMPRESSORS:
        name = name.with_suffix("")
    return re.sub(r"[^\w.-]+", "_", name.stem).strip(".") or otherwise


def resolve_existing(path: str, key: str = "path", made_by: str | None = None) -> Path:
    """The file or folder ``path``, relative to the working directory.

    Raises
    ------
    NotAtHand
        If there is none; what makes it is told, or names that are near are offered. ``key`` is the
        parameter that named it.
    """
    found = Path(path).expanduser()
    if os.path.exists(found):  # False, where Path.exists raises, of a name that is too long
        return found
    folder = found.parent
    way_out = f"; make it by {made_by}" if made_by else ""
    if not os.path.isdir(folder):
        raise NotAtHand(
            f"{path_argument(path, key)}: there is no folder {folder.resolve()}{way_out}"
        )
    raise NotAtHand(
        f"{path_argument(path, key)}: no such file in"
        f" {folder.resolve()}{way_out or did_you_mean(found.name, list_names(folder))}"
    )


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted, to offer near ones; none of a folder that is not there
    or closed.
    """
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def single_file(path: Path) -> list[Path]:
    """What is read where a parameter names one file."""
    return [path]


def path_argument(path: object, key: str = "path") -> str:
    """How messages name a file: by the argument that a user gave."""
    return f"dataset.{key}={path}"


def checked_suffix(path: Path, known: Sequence[str], key: str = "path") -> str:
    """The ending that says what kind of file it is, without that of a compression.

    Raises
    ------
    DataError
        If ``path`` is a folder or its ending is none of ``known``.
    """
    if path.is_dir():
        raise DataError(f"{path_argument(path, key)} is a folder; give one file")
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in DECOMPRESSORS:
        endings.pop()
    if not endings or endings[-1] not in known:
        raise DataError(
            f"{path_argument(path, key)}: the ending of a file says what it is, and must be one of"
            f" {', '.join(known)}"
        )
    return endings[-1]


def open_bytes(path: Path) -> IO[bytes]:
    """The file, decompressed."""
    return DECOMPRESSORS.get(path.suffix.lower(), open)(path, "rb")  # type: ignore[return-value]


def check_text(path: Path, encoding: str) -> str:
    """Return the codec that decodes a file, without its byte-order mark.

    Raises
    ------
    DataError
        Unless the file has something in it and is text in this encoding.
    """
    codec = codec_name(encoding)
    try:
        with open_bytes(path) as file:
            codec = check_text_start(path_argument(path), file.read(4096), codec)
            file.seek(0)
            _check_decodable(path, file, codec, encoding)
    except READ_ERRORS as error:
        raise unreadable_file_error(path, error) from error
    return codec


def check_text_start(where: str, start: bytes, codec: str) -> str:
    """Return the codec that decodes a file which begins with ``start``: ``codec``, without a
    byte-order mark.

    Raises
    ------
    DataError
        If the file is empty, has the mark of another encoding, or is no text. ``where`` names it.
    """
    if not start.strip():
        raise DataError(f"{where} is empty")
    if kind := next(
        (kind for magic, kind in _BINARY_SIGNATURES.items() if start.startswith(magic)), None
    ):
        raise DataError(f"{where} is {kind}, not text; its ending must say so")
    unmarked = codec_without_bom(where, start, codec)
    if encoding_from_bom(start):
        return unmarked
    if b"\0" in start and not uses_null_bytes(codec):
        raise DataError(f"{where} is no text: byte {start.index(0):,} is 0")
    return codec


def sha256_of(path: Path) -> str:
    """16 hex digits of the hash of the file as it lies there."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def unreadable_file_error(path: Path, error: BaseException) -> DataError:
    """The error for a file that is there and cannot be read."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
    return DataError(f"{path_argument(path)} cannot be read: {reason}")


def _check_decodable(path: Path, file: IO[bytes], codec: str, encoding: str) -> None:
    """Read it all once, so that a byte that is none of the encoding is told with its place in the
    file.
    """
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
            raise DataError(
                f"{path_argument(path)} is not text in {encoding}: {found} cannot be decoded{way_out}"
            ) from error
        except UnicodeError as error:
            raise DataError(f"{path_argument(path)} is not text in {encoding}: {error}") from error
        if not block:
            return
        done += len(block)
