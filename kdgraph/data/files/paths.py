"""Paths of files that a user names: existence, ending, compression, encoding and hash.

The functions return what a reader needs to open a file, or raise an error of one line that names
the argument, the rule and the way out.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import IO, Any

from kdgraph.errors import DataError, DataNotAvailable, did_you_mean
from kdgraph.quoting import override

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
    """Return the name under which Python has an encoding of text, given any of its names.

    Examples
    --------
    >>> [codec_name(name) for name in ("UTF8", "utf_8_sig", "Latin-1", "windows-1252")]
    ['utf-8', 'utf-8-sig', 'iso8859-1', 'cp1252']
    """
    try:
        # Codecs that encode bytes, such as base64, raise an error here.
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        examples = "it has utf-8, latin-1, utf-16 and others"
        raise DataError(
            f"dataset.encoding={encoding} is not an encoding of Python; {examples}"
        ) from error


def encoding_from_bom(start: bytes) -> str | None:
    """Return the encoding whose byte-order mark ``start`` begins with, or None."""
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if start.startswith(mark)), None)


def codec_without_bom(source: str, start: bytes, codec: str) -> str:
    """Return the codec that decodes a file and drops its byte-order mark, one of ``start``.

    A mark of another encoding raises DataError.
    """
    bom_encoding = encoding_from_bom(start)
    if bom_encoding is None:
        return codec
    if not codec.startswith(bom_encoding):
        raise DataError(
            f"{source} is text in {bom_encoding.upper()}; give"
            f" {override('dataset.encoding', bom_encoding)}"
        )
    return "utf-8-sig" if bom_encoding == "utf-8" else bom_encoding


def uses_null_bytes(codec: str) -> bool:
    """Return whether text in this codec may contain bytes that are 0."""
    return codec.startswith(("utf-16", "utf-32"))


def open_zip(archive: Any, mode: str = "rb") -> IO[bytes]:
    """Open the only file of a zip archive; of several, raise ``zipfile.BadZipFile``."""
    return (opened := zipfile.ZipFile(archive)).open(_only_member(opened))


def _only_member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [
        member
        for member in archive.infolist()
        if not member.is_dir() and not member.filename.startswith("__MACOSX/")
    ]
    if len(members) != 1:
        raise zipfile.BadZipFile(f"it holds {len(members)} files, and must hold one table")
    return members[0]


DECOMPRESSORS: dict[str, Callable[..., Any]] = {
    **{".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zip": open_zip}
}
READ_ERRORS = (EOFError, OSError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
"""Errors that readers raise for files that are not compressed, or truncated."""
_BINARY_SIGNATURES = {
    b"PAR1": "a parquet file",
    b"PK\x03\x04": "a zip archive, as spreadsheets and npz files are",
    b"\x1f\x8b": "compressed (.gz)",
}


def file_stem(path: str | None, otherwise: str = "table") -> str:
    """Return the name of a file without folder and ending, free of unusual characters.

    Examples
    --------
    >>> file_stem("data/my table.csv.gz"), file_stem("reviews/"), file_stem(None)
    ('my_table', 'reviews', 'table')
    """
    name = PurePath(path or "")
    if name.suffix.lower() in DECOMPRESSORS:
        name = name.with_suffix("")
    return re.sub(r"[^\w.-]+", "_", name.stem).strip(".") or otherwise


def resolve_existing(path: str, key: str = "path", made_by: str | None = None) -> Path:
    """Return the path of an existing file or folder, relative to the working directory.

    If it does not exist, DataNotAvailable suggests ``made_by``, the command that makes it, or a
    similar name. ``key`` is the parameter that named it.
    """
    resolved = Path(path).expanduser()
    # For a name that is too long, Path.exists raises an error, and os.path.exists returns False.
    if os.path.exists(resolved):
        return resolved
    folder = resolved.parent
    way_out = f"; make it by {made_by}" if made_by else ""
    if not os.path.isdir(folder):
        raise DataNotAvailable(
            f"{path_argument(path, key)}: there is no folder {folder.resolve()}{way_out}"
        )
    raise DataNotAvailable(
        f"{path_argument(path, key)}: no such file in"
        f" {folder.resolve()}{way_out or did_you_mean(resolved.name, list_names(folder))}"
    )


def list_names(folder: Path) -> list[str]:
    """Return the sorted names in a folder, for suggestions; [] if the folder cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def single_file(path: Path) -> list[Path]:
    """Return the files that are read for a parameter that names one file."""
    return [path]


def path_argument(path: object, key: str = "path") -> str:
    """Return the argument by which a user named a file, for messages."""
    return f"dataset.{key}={path}"


def checked_suffix(path: Path, allowed: Sequence[str], key: str = "path") -> str:
    """Return the ending of a file that determines its kind, without that of a compression."""
    if os.path.isdir(path):
        raise DataError(f"{path_argument(path, key)} is a folder; give one file")
    endings = uncompressed_endings(path)
    if not endings or endings[-1] not in allowed:
        raise DataError(
            f"{path_argument(path, key)}: the ending of a file determines its kind, and must be one"
            f" of {', '.join(allowed)}"
        )
    return endings[-1]


def uncompressed_endings(path: Path) -> list[str]:
    """Return the endings of a file's name in lower case, without that of a compression.

    An archive without further endings, such as ``rows.zip``, has those of the file in it.
    """
    endings = [ending.lower() for ending in path.suffixes]
    if not endings or endings[-1] not in DECOMPRESSORS:
        return endings
    compression = endings.pop()
    if endings or compression != ".zip":
        return endings
    try:
        with zipfile.ZipFile(path) as archive:
            name = PurePath(_only_member(archive).filename)
    except (OSError, zipfile.BadZipFile):
        return []
    return [ending.lower() for ending in name.suffixes]


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading and decompress it by its ending."""
    return DECOMPRESSORS.get(path.suffix.lower(), open)(path, "rb")  # type: ignore[return-value]


def check_text(path: Path, encoding: str) -> str:
    """Return the codec that decodes a file, without its byte-order mark, after decoding it once."""
    codec = codec_name(encoding)
    try:
        with open_bytes(path) as file:
            codec = check_text_start(path_argument(path), file.read(4096), codec)
            file.seek(0)
            _check_decodable(path, file, codec, encoding)
    except READ_ERRORS as error:
        raise unreadable_file_error(path, error) from error
    return codec


def check_text_start(source: str, start: bytes, codec: str) -> str:
    """Return the codec that decodes a file which begins with ``start``, without its mark.

    DataError is raised if the file is empty, has the mark of another encoding, or is not text.
    """
    if not start.strip():
        raise DataError(f"{source} is empty")
    if kind := next(
        (kind for magic, kind in _BINARY_SIGNATURES.items() if start.startswith(magic)), None
    ):
        raise DataError(f"{source} is {kind}, not text; give it the ending of its kind")
    codec_after_mark = codec_without_bom(source, start, codec)
    if encoding_from_bom(start):
        return codec_after_mark
    if b"\0" in start and not uses_null_bytes(codec):
        raise DataError(f"{source} is not text: byte {start.index(0):,} is 0")
    return codec


def sha256_of(path: Path) -> str:
    """Return 16 hexadecimal digits of the hash of a file, without decompressing it.

    That of a folder is of the names and contents of its files.
    """
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    digest = hashlib.sha256()
    for file in files_below(path):
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256_of(file)}\0".encode())
    return digest.hexdigest()[:16]


def files_below(path: Path) -> list[Path]:
    """Return the files that are read for a parameter that names a file or a folder of files."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def unreadable_file_error(path: Path, error: BaseException) -> DataError:
    """Return the error for a file that exists and cannot be read."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
    return DataError(f"{path_argument(path)} cannot be read: {reason}")


def undecodable_error(
    source: str, encoding: str, position: int, error: UnicodeDecodeError
) -> DataError:
    """Return the error for a byte at a position of a file that is not text in an encoding."""
    way_out = (
        "; it may be dataset.encoding=latin-1" if codec_name(encoding).startswith("utf-8") else ""
    )
    return DataError(
        f"{source} is not text in {encoding}: byte {position:,}"
        f" (0x{error.object[error.start]:02x}) cannot be decoded{way_out}"
    )


def _check_decodable(path: Path, file: IO[bytes], codec: str, encoding: str) -> None:
    """Read the whole file once and raise an error with the position of the first invalid byte."""
    decoder, n_read = codecs.getincrementaldecoder(codec)(), 0
    while True:
        block = file.read(1 << 20)
        # The decoder holds back the bytes of an incomplete character at the end of a block.
        # ``error.start`` counts from the first of these.
        pending = len(decoder.getstate()[0])
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            position = n_read - pending + error.start
            raise undecodable_error(path_argument(path), encoding, position, error) from error
        except UnicodeError as error:
            raise DataError(f"{path_argument(path)} is not text in {encoding}: {error}") from error
        if not block:
            return
        n_read += len(block)
