"""Images and labels in idx files, the form in which MNIST and many sets like it are published."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import numpy as np

from kdgraph.data.files.paths import BROKEN, open_bytes, said, unreadable
from kdgraph.errors import DataError

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""The third byte of a file says what its numbers are."""


def read_idx(path: Path) -> np.ndarray:
    """The array of an idx file, which may be compressed: UInt8[n, h, w] of images, whatever its header says of others.

    A header has two bytes of 0, the type, the number of axes, and the lengths of the axes in four bytes each; numbers follow.

    Raises
    ------
    DataError
        In one line, if it is no such file, or not whole.

    References
    ----------
    LeCun, Cortes and Burges, The MNIST database of handwritten digits: file formats.
    """
    try:
        with open_bytes(path) as file:
            start = file.read(4)
            if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in TYPES:
                raise DataError(f"{said(path)} is no idx file: it begins with {start.hex(' ') or 'nothing'}")
            header = file.read(4 * start[3])
            shape = tuple(np.frombuffer(header[: len(header) // 4 * 4], ">u4").astype(int).tolist())
            kind, content = np.dtype(TYPES[start[2]]), file.read()
    except (*BROKEN, zlib.error) as error:
        raise unreadable(path, error) from error
    if len(shape) != start[3] or len(content) != math.prod(shape) * kind.itemsize:
        raise DataError(
            f"{said(path)} is not whole: it says {shape} numbers of {kind.itemsize} bytes and has {len(content):,} bytes of them"
        )
    return np.frombuffer(content, kind).reshape(shape).astype(kind.newbyteorder("="), copy=False)


def labels_beside(images: Path) -> Path | None:
    """The file of the labels of a file of images: ``train-labels-idx1-ubyte.gz`` of ``train-images-idx3-ubyte.gz``, and such."""
    before, found, _ = images.name.rpartition("images")
    others = sorted(images.parent.glob(f"{before}labels*")) if found else []
    return others[0] if others else None
