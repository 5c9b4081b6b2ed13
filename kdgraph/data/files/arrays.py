"""Arrays in .npz files, each read when it is asked for.

Images and labels in idx files, the form in which MNIST and many sets like it are published.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from kdgraph.data.files.paths import (
    READ_ERRORS,
    checked_suffix,
    open_bytes,
    path_argument,
    unreadable_file_error,
)
from kdgraph.errors import DataError


@contextmanager
def open_npz(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """An open .npz file; an array of any shape [n, …] is read by its name, so that of a thousand
    one costs one.

    Raises
    ------
    DataError
        In one line, here or where an array is read, if it is none, or holds Python objects, which
        could run code when they are read.
    """
    checked_suffix(path, (".npz",))
    try:
        if not zipfile.is_zipfile(path):  # numpy takes anything else for objects
            raise zipfile.BadZipFile("it is not a zip file")
        with np.load(path, allow_pickle=False) as found:
            yield found
    except DataError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error):
            way_out = "save numbers, or text as numpy strings (np.asarray(labels, dtype=str))"
            raise DataError(
                f"{path_argument(path)} holds Python objects, which are not read because they can run code;"
                f" {way_out}"
            ) from error
        raise DataError(
            f"{path_argument(path)} is no .npz file, or damaged: {error}; numpy.savez('my.npz', X=X, y=y)"
            " writes one"
        ) from error


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether the first axis varies fastest, and type of the array whose .npy file
    begins here.

    Raises
    ------
    ValueError
        If none begins here.
    """
    version = npy.read_magic(file)  # type: ignore[arg-type]
    return npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)


def array_shapes(arrays: np.lib.npyio.NpzFile) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of an open .npz file by its name; none of them is read."""
    assert arrays.zip is not None  # it is None once the file is closed
    shapes = {}
    for name in arrays.files:
        with arrays.zip.open(f"{name}.npy") as file:
            shapes[name] = read_npy_header(file)[0]
    return shapes


_IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""The third byte of a file says what its numbers are."""


def read_idx(path: Path) -> np.ndarray:
    """The array of an idx file, which may be compressed: UInt8[n, h, w] of images, whatever its
    header says of others.

    A header has two bytes of 0, the type, the number of axes, and the lengths of the axes in four
    bytes each; numbers follow.

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
            if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _IDX_DTYPES:
                raise DataError(
                    f"{path_argument(path)} is no idx file: it begins with {start.hex(' ') or 'nothing'}"
                )
            header = file.read(4 * start[3])
            shape = tuple(np.frombuffer(header[: len(header) // 4 * 4], ">u4").astype(int).tolist())
            kind, content = np.dtype(_IDX_DTYPES[start[2]]), file.read()
    except (*READ_ERRORS, zlib.error) as error:
        raise unreadable_file_error(path, error) from error
    if len(shape) != start[3] or len(content) != math.prod(shape) * kind.itemsize:
        raise DataError(
            f"{path_argument(path)} is not whole: it says {shape} numbers of {kind.itemsize} bytes and has"
            f" {len(content):,} bytes of them"
        )
    return np.frombuffer(content, kind).reshape(shape).astype(kind.newbyteorder("="), copy=False)


def label_file_of(images: Path) -> Path | None:
    """The file of the labels of a file of images: ``train-labels-idx1-ubyte.gz`` of
    ``train-images-idx3-ubyte.gz``, and such.
    """
    before, found, _ = images.name.rpartition("images")
    others = sorted(images.parent.glob(f"{before}labels*")) if found else []
    return others[0] if others else None
