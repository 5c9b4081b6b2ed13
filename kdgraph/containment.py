"""Names of files that come from a file: none of them leads out of the folder that it belongs to.

A record names the files of its run, and a folder of runs may come from somebody else. Joined
unchecked, a name such as ``../../.ssh/id_ed25519`` would make a command read, rename or write any
file of the user (path traversal). Original to kdgraph.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from kdgraph.errors import DataError
from kdgraph.wording import printable

LONGEST_PART = 255
"""Bytes of a file name that usual file systems take."""


class LeadsOutside(DataError):
    """A name, or a link that it passes through, leads out of its folder."""


def path_inside(folder: str | Path, name: str) -> Path:
    """Join a folder and the name of a file in it.

    Parameters
    ----------
    folder : str or Path
        The folder; links on the way to it are the user's own, and followed.
    name : str
        A relative path with slashes. Neither the file nor the folders on its way need to exist.

    Returns
    -------
    Path
        ``folder / name``.

    Raises
    ------
    LeadsOutside
        The name leads out of the folder by its words, or by a link in any of its parts.

    Examples
    --------
    >>> path_inside("outputs", "tables/error.csv").as_posix()
    'outputs/tables/error.csv'
    >>> path_inside("outputs", "../secret.txt")
    Traceback (most recent call last):
        ...
    kdgraph.containment.LeadsOutside: '../secret.txt' leads out of outputs; ...
    """
    path = Path(folder, name) if is_inner_name(name) else None
    # realpath follows the links of all parts, the last one included, whether the file exists or not
    if path is None or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise LeadsOutside(
            f"'{printable(name)}' leads out of {folder}; a file named by another file must lie in"
            " its folder, and no link on the way may lead elsewhere"
        )
    return path


def is_inner_name(name: str) -> bool:
    r"""Return whether the words of a relative path stay below the folder that it is joined to.

    Drive letters and backslashes count too: a folder may be copied from one system to another.

    Examples
    --------
    >>> [is_inner_name(name) for name in ("a.csv", "tables/a.csv", "a..csv")]
    [True, True, True]
    >>> [is_inner_name(name) for name in ("", ".", "/a", "a/../b", "C:a", "..\\a", "a\0b")]
    [False, False, False, False, False, False, False]
    """
    return "\0" not in name and all(
        path.parts
        and not path.anchor
        and ".." not in path.parts
        and max(map(_length, path.parts)) <= LONGEST_PART
        for path in (PurePosixPath(name), PureWindowsPath(name))
    )


def _length(part: str) -> int:
    """Return the bytes of one part of a path."""
    return len(part.encode("utf-8", "surrogatepass"))
