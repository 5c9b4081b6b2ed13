"""Pictures (PNG, JPEG and others) of a folder or a zip file, as arrays."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from kdgraph.data.files.paths import said
from kdgraph.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
_GREY = {"1": "L", "L": "L", "LA": "L", "I;16": "I;16"}
"""Modes of Pillow that are grey, and what each is read as; all others are read as colours."""
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, zipfile.BadZipFile, RuntimeError)
"""What Pillow and archives raise of content that is not what it should be; RuntimeError: it wants a password."""


def read_pictures(path: Path, unreadable: list[str] | None = None) -> Iterator[tuple[np.ndarray, str, int]]:
    """Each picture as UInt8[c, h, w], grey or in colours, with the folder that it is in and its number, in the order of their names.

    The number is the picture's place, from 0, among all names of pictures, those that cannot be read too.

    Transparency is not read. What begins with a dot or two underscores is left out, as are files that are no pictures by their ending.
    Pictures that cannot be read are left out too where ``unreadable`` is a list, to which their names are added.

    Raises
    ------
    DataError
        In one line, if there are none, or one cannot be read.
    """
    names = names_of_pictures(path)
    if not names:
        raise DataError(f"{said(path)} has no pictures ({', '.join(SUFFIXES)})")
    if path.is_dir():
        yield from _each(path, names, lambda name: (path / name).open("rb"), unreadable)
        return
    with zipfile.ZipFile(path) as archive:
        yield from _each(path, names, lambda name: archive.open(str(name)), unreadable)


def _each(
    path: Path, names: list[PurePosixPath], opened: Callable[[PurePosixPath], IO[bytes]], unreadable: list[str] | None
) -> Iterator[tuple[np.ndarray, str, int]]:
    from PIL import Image, UnidentifiedImageError

    for number, name in enumerate(names):
        try:
            with opened(name) as file:
                pixels = _read(file)
        except (*_DAMAGED, Image.DecompressionBombError) as error:
            if unreadable is None:
                way_out = "repair or remove it, or leave out all such files: dataset.unreadable=skip"
                reason = "it is of no known format" if isinstance(error, UnidentifiedImageError) else error
                raise DataError(f"{said(path)}: {name} cannot be read as a picture: {reason}; {way_out}") from error
            unreadable.append(str(name))
        else:
            yield pixels, str(name.parent), number


def names_of_pictures(path: Path) -> list[PurePosixPath]:
    """Of a folder or a zip file, in order."""
    if path.is_dir():
        found = [PurePosixPath(file.relative_to(path).as_posix()) for file in path.rglob("*") if file.is_file()]
    else:
        try:
            with zipfile.ZipFile(path) as archive:
                found = [PurePosixPath(name) for name in archive.namelist()]
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(f"{said(path)} is no zip file, or damaged: {error}") from error
    return sorted(name for name in found if name.suffix.lower() in SUFFIXES and not any(p.startswith((".", "__")) for p in name.parts))


def _read(file: IO[bytes]) -> np.ndarray:
    """UInt8[1 or 3, h, w]."""
    from PIL import Image

    with Image.open(file) as picture:
        pixels = np.asarray(picture.convert(_GREY.get(picture.mode, "RGB")))
    if pixels.dtype == np.uint16:
        pixels = (pixels // 257).astype(np.uint8)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
