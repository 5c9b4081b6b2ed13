"""Members of zip archives of any origin, and arrays in the format of NumPy in them.

A member is read into memory and never extracted. Two members of one name, which two readers may
resolve in two ways, a name that leads out of the archive, and a total size far beyond that of the
file are refused before anything is unpacked. Original to kdgraph.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import numpy as np
from numpy.lib import format as npy

MAX_BYTES = 4 * 1024**3
"""Size in bytes of the largest archive, and of all that it expands to."""
# A zip archive of 1 kB can hold 1 MB of zeros. Trees compress about tenfold.
_MAX_EXPANSION, _MIN_EXPANDED_BYTES = 100, 64 * 1024**2


class ZipMembers(Mapping[str, bytes]):
    """Contents of the members of a zip archive by name, unpacked at first access.

    ValueError is raised if the archive is damaged, names a file outside of itself or one member
    twice, or expands to more than 100 times its size.

    >>> buffer = io.BytesIO()
    >>> with zipfile.ZipFile(buffer, "w") as archive:
    ...     archive.writestr("a.txt", "text")
    >>> members = ZipMembers(buffer.getvalue())
    >>> list(members), members["a.txt"]
    (['a.txt'], b'text')
    """

    def __init__(self, content: bytes) -> None:
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
            raise ValueError(f"is damaged ({error})") from error
        members = self._archive.infolist()
        for member in members:
            _check_name(member.filename)
        self._members = {member.filename: member for member in members}
        if len(self._members) < len(members):
            raise ValueError("is refused: it holds two members of one name")
        expanded = sum(member.file_size for member in members)
        limit = min(max(_MAX_EXPANSION * len(content), _MIN_EXPANDED_BYTES), MAX_BYTES)
        if expanded > limit:
            raise ValueError(
                f"is refused: its {len(content):,} bytes expand to {expanded:,}, and {limit:,} are"
                " the most"
            )

    def __getitem__(self, name: str) -> bytes:
        # No more is unpacked than the size in the directory, which is within the limit.
        return self._archive.read(self._members[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def _check_name(name: str) -> None:
    # zipfile replaces a backslash on Windows only.
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or name.startswith(("/", "\\")) or ":" in (parts or ("",))[0]:
        raise ValueError(f"is refused: it names a file outside of it, {name!r}")


def array_from_npy(content: bytes) -> np.ndarray:
    """Return the array of a file ``.npy``; nothing is unpickled or allocated beyond its size.

    ValueError is raised if it is no array of numbers, text or dates, or has another size than its
    header declares.

    >>> buffer = io.BytesIO()
    >>> np.save(buffer, np.arange(3))
    >>> array_from_npy(buffer.getvalue())
    array([0, 1, 2])
    """
    file = io.BytesIO(content)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(file)
    if version not in readers:
        raise ValueError(f"an array has the version {version} of its format")
    shape, is_fortran, dtype = readers[version](file)
    count = int(np.prod(shape, dtype=object))
    if dtype.hasobject or (count and not dtype.itemsize):
        raise ValueError(f"an array of {dtype} holds no numbers, text or dates")
    if count < 0 or count * dtype.itemsize != len(content) - file.tell():
        raise ValueError("an array has another size than its header declares")
    flat = np.frombuffer(content, dtype, count, file.tell()) if count else np.empty(0, dtype)
    # A copy is aligned and can be written to, and its truth values are 0 or 1.
    values = flat.view(np.uint8) != 0 if dtype.kind == "b" else flat.copy()
    return values.reshape(shape, order="F" if is_fortran else "C")
