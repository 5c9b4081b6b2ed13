"""Arrays in .npz files and in idx files.

The arrays of a .npz file are read one by one, when they are needed. The idx format is that of
MNIST and of many data sets like it. All objects here are original to kdgraph, except the formats.
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
    """Open a .npz file whose arrays, of any shape [n, …], are read by name.

    Only the arrays that the caller accesses are read, so a file of a thousand arrays costs as
    little as a file with the one that is needed. DataError is raised here or where an array is
    read; Python objects are refused, because reading these could run code.
    """
    checked_suffix(path, (".npz",))
    try:
        # numpy would report any other file as one of Python objects.
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("it is not a zip file")
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except DataError:
        raise
    except MemoryError as error:
        # Memory is reserved for what the header of an array declares, before any number is read.
        declared = _declared_beyond_content(path)
        if declared is None:
            raise
        raise DataError(
            f"{path_argument(path)} is damaged: it declares {declared}; make it again"
        ) from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path_argument(path)} holds Python objects, which are not read because they can"
                " run code; save numbers, or text as numpy strings (np.asarray(labels, dtype=str))"
            ) from error
        raise DataError(
            f"{path_argument(path)} is not a .npz file, or damaged: {error};"
            " numpy.savez('my.npz', X=X, y=y) writes one"
        ) from error


def _declared_beyond_content(path: Path) -> str | None:
    """Return the first array of a .npz file that is longer in its header than in the file."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as file:
                shape, _, dtype = read_npy_header(file)
            if math.prod(shape) * dtype.itemsize > member.file_size:
                name = member.filename.removesuffix(".npy")
                return f"the shape {shape} of '{name}', which holds {member.file_size:,} bytes"
    return None


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, Fortran order and type of the array [n, …] whose .npy file begins here."""
    version = npy.read_magic(file)  # type: ignore[arg-type]
    return npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)


def array_shapes(arrays: np.lib.npyio.NpzFile) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of an open .npz file by its name; no array is read."""
    assert arrays.zip is not None  # it is None once the file is closed
    shapes = {}
    for name in arrays.files:
        with arrays.zip.open(f"{name}.npy") as file:
            shapes[name] = read_npy_header(file)[0]
    return shapes


_IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Types of the numbers of an idx file, by the third byte of the file."""


def read_idx(path: Path) -> np.ndarray:
    """Return the array of an idx file, which may be compressed: UInt8[n, h, w] for images.

    References
    ----------
    LeCun, Cortes and Burges, The MNIST database of handwritten digits: file formats.
    """
    # The header consists of two bytes of 0, the type, the number of axes, and the length of each
    # axis in four bytes, big-endian. The numbers follow, big-endian too.
    try:
        with open_bytes(path) as file:
            magic = file.read(4)
            if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_DTYPES:
                raise DataError(
                    f"{path_argument(path)} is not an idx file: it begins with"
                    f" {magic.hex(' ') or 'nothing'}"
                )
            header = file.read(4 * magic[3])
            shape = tuple(np.frombuffer(header[: len(header) // 4 * 4], ">u4").astype(int).tolist())
            dtype, content = np.dtype(_IDX_DTYPES[magic[2]]), file.read()
    except (*READ_ERRORS, zlib.error) as error:
        raise unreadable_file_error(path, error) from error
    if len(shape) != magic[3] or len(content) != math.prod(shape) * dtype.itemsize:
        raise DataError(
            f"{path_argument(path)} is truncated: its header declares {shape} numbers of"
            f" {dtype.itemsize} bytes, and {len(content):,} bytes follow"
        )
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def label_file_of(images: Path) -> Path | None:
    """Return the label file that belongs to a file of images, or None.

    For ``train-images-idx3-ubyte.gz`` this is ``train-labels-idx1-ubyte.gz``, if it exists.
    """
    prefix, separator, _ = images.name.rpartition("images")
    label_files = sorted(images.parent.glob(f"{prefix}labels*")) if separator else []
    return label_files[0] if label_files else None
