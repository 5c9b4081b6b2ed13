"""Pictures (PNG, JPEG and others) of a folder or a zip file, as arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from kdgraph.data.files.paths import said
from kdgraph.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
_GREY = {"1": "L", "L": "L", "LA": "L", "I;16": "I;16"}
"""Modes of Pillow that are grey, and what each is read as; all others are read as colours."""


def read_pictures(path: Path) -> Iterator[tuple[np.ndarray, str]]:
    """Each picture as UInt8[c, h, w], grey or in colours, with the folder that it is in, in the order of their names.

    Transparency is not read. What begins with a dot or two underscores is left out, as are files that are no pictures by their ending.

    Raises
    ------
    DataError
        In one line, if there are none, or one cannot be read.
    """
    names = _names(path)
    if not names:
        raise DataError(f"{said(path)} has no pictures ({', '.join(SUFFIXES)})")
    if path.is_dir():
        for name in names:
            with (path / name).open("rb") as file:
                yield _read(file, f"{said(path)}: {name}"), str(name.parent)
        return
    with zipfile.ZipFile(path) as archive:
        for name in names:
            try:
                with archive.open(str(name)) as file:
                    yield _read(file, f"{said(path)}: {name}"), str(name.parent)
            except (zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: it wants a password
                raise DataError(f"{said(path)}: {name} cannot be read: {error}") from error


def _names(path: Path) -> list[PurePosixPath]:
    if path.is_dir():
        found = [PurePosixPath(file.relative_to(path).as_posix()) for file in path.rglob("*") if file.is_file()]
    else:
        try:
            with zipfile.ZipFile(path) as archive:
                found = [PurePosixPath(name) for name in archive.namelist()]
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(f"{said(path)} is no zip file, or damaged: {error}") from error
    return sorted(name for name in found if name.suffix.lower() in SUFFIXES and not any(p.startswith((".", "__")) for p in name.parts))


def _read(file: IO[bytes], where: str) -> np.ndarray:
    """UInt8[1 or 3, h, w]."""
    from PIL import Image

    try:
        with Image.open(file) as picture:
            pixels = np.asarray(picture.convert(_GREY.get(picture.mode, "RGB")))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{where} cannot be read as a picture: {error}") from error
    if pixels.dtype == np.uint16:
        pixels = (pixels // 257).astype(np.uint8)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
