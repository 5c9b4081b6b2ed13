"""Arrays in .npz files, each read when it is asked for."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from kdgraph.data.files.paths import said, suffix_of
from kdgraph.errors import DataError


@contextmanager
def open_npz(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """An open .npz file; an array of any shape [n, …] is read by its name, so that of a thousand one costs one.

    Raises
    ------
    DataError
        In one line, here or where an array is read, if it is none, or holds Python objects, which could run code when they are read.
    """
    suffix_of(path, (".npz",))
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
            raise DataError(f"{said(path)} holds Python objects, which are not read because they can run code; {way_out}") from error
        raise DataError(f"{said(path)} is no .npz file, or damaged: {error}; numpy.savez('my.npz', X=X, y=y) writes one") from error


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether the first axis varies fastest, and type of the array whose .npy file begins here.

    Raises
    ------
    ValueError
        If none begins here.
    """
    version = npy.read_magic(file)  # type: ignore[arg-type]
    return npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)


def shapes_in(arrays: np.lib.npyio.NpzFile) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of an open .npz file by its name; none of them is read."""
    assert arrays.zip is not None  # it is None once the file is closed
    shapes = {}
    for name in arrays.files:
        with arrays.zip.open(f"{name}.npy") as file:
            shapes[name] = read_header(file)[0]
    return shapes
