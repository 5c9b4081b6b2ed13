"""Arrays of new rows: ``X`` of a .npz file, some rows at a time from inside the zip, and
``groups``, where the model wants them.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from kdgraph.data.files.arrays import read_npy_header
from kdgraph.errors import DataError
from kdgraph.runner.prediction.schema import ARRAY_OF_GROUPS


class ArrayRows:
    """The array ``X`` of a .npz file, [n, d] or images [n, c, h, w]; images of uint8 are divided by
    255.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.read, self.total = path, 0, 1

    def shape(self) -> tuple[int, ...]:
        """Of one row.

        Raises
        ------
        DataError
            If there is no ``X`` of numbers.
        """
        with self._opened() as file:
            return self._header(file)[0][1:]

    def arrays(self, rows: int) -> Iterator[np.ndarray]:
        """At most ``rows`` rows at a time: Float64[n, d], or Float32[n, c, h, w]."""
        with self._opened() as file:
            shape, fortran, dtype = self._header(file)
            if fortran:
                raise DataError(
                    f"--input {self.path}: X lies column by column; write np.ascontiguousarray(X)"
                )
            self.total = max(shape[0], 1)
            size = dtype.itemsize * math.prod(shape[1:])
            while self.read < shape[0]:
                n = min(rows, shape[0] - self.read)
                content = file.read(n * size)
                if len(content) < n * size:
                    raise DataError(
                        f"--input {self.path} is damaged: X ends before its {shape[0]:,} rows"
                    )
                self.read += n
                yield _as_read(np.frombuffer(content, dtype).reshape(n, *shape[1:]))

    def groups(self) -> np.ndarray:
        """[n], the array ``groups``: whom each row belongs to.

        Raises
        ------
        DataError
            If there is none, or not of every row.
        """
        with self._opened() as file, np.load(self.path, allow_pickle=False) as arrays:
            n = self._header(file)[0][0]
            if ARRAY_OF_GROUPS not in arrays:
                raise DataError(
                    f"--input {self.path} has no array '{ARRAY_OF_GROUPS}', and the model wants the"
                    " group of each row"
                )
            groups = arrays[ARRAY_OF_GROUPS]
        if groups.shape != (n,):
            raise DataError(
                f"--input {self.path}: {ARRAY_OF_GROUPS} must name the group of each of {n:,} rows,"
                f" got shape {groups.shape}"
            )
        return groups

    def share_read(self) -> float:
        """By rows."""
        return self.read / self.total

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
                if "X" not in names:
                    raise DataError(
                        f"--input {self.path} has no array 'X'; it has"
                        f" {', '.join(names) or 'none'}; name the rows X"
                    )
                with archive.open("X.npy") as file:
                    yield file
        except (zipfile.BadZipFile, OSError, EOFError) as error:
            raise DataError(f"--input {self.path} is no .npz file, or damaged: {error}") from error

    def _header(self, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
        try:
            shape, fortran, dtype = read_npy_header(file)
        except ValueError as error:
            raise DataError(f"--input {self.path} is damaged: {error}") from error
        if dtype.kind not in "biuf" or len(shape) not in (2, 4):
            raise DataError(
                f"--input {self.path}: X must hold numbers, [n, d] or images [n, c, h, w], got"
                f" {dtype}, shape {shape}"
            )
        return shape, fortran, dtype


def _as_read(X: np.ndarray) -> np.ndarray:
    """As a data set of arrays has them."""
    if X.ndim == 2:
        return X.astype(np.float64)
    return X.astype(np.float32) / np.float32(255 if X.dtype == np.uint8 else 1)
