"""Encodings of text by any of their names, and the byte-order marks that files may begin with."""

from __future__ import annotations

import codecs

from kdgraph.errors import DataError
from kdgraph.overrides import override

# The mark of UTF-32 in little-endian order begins with that of UTF-16, so it must be compared first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def codec_of(encoding: str) -> str:
    """Return the one name under which Python has an encoding of text, whichever of its names is given.

    Parameters
    ----------
    encoding : in any case, with ``-`` or ``_``, or an alias.

    Raises
    ------
    DataError
        If Python has no encoding of text of this name.

    Examples
    --------
    >>> [codec_of(name) for name in ("UTF8", "utf_8_sig", "Latin-1", "windows-1252")]
    ['utf-8', 'utf-8-sig', 'iso8859-1', 'cp1252']
    """
    try:
        "".encode(encoding)  # codecs such as base64, which encode bytes, are refused here
        return codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        known = "it has utf-8, latin-1, utf-16 and others"
        raise DataError(f"dataset.encoding={encoding} is no encoding that Python knows; {known}") from error


def marked_encoding(start: bytes) -> str | None:
    """Return the encoding whose byte-order mark ``start`` begins with: utf-8, utf-16, utf-32, or None."""
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


def unmarked_codec(where: str, start: bytes, codec: str) -> str:
    """Return the codec that decodes a file which begins with ``start``, and drops its byte-order mark.

    Parameters
    ----------
    where : how the message names the file.
    start : its first 4 bytes, or more.
    codec : as :func:`codec_of` returns it.

    Raises
    ------
    DataError
        If the mark is that of another encoding.
    """
    marked = marked_encoding(start)
    if marked is None:
        return codec
    if not codec.startswith(marked):
        raise DataError(f"{where} is text in {marked.upper()}; give {override('dataset.encoding', marked)}")
    return "utf-8-sig" if marked == "utf-8" else marked


def has_wide_units(codec: str) -> bool:
    """Return whether bytes that are 0 belong to text in this codec."""
    return codec.startswith(("utf-16", "utf-32"))
