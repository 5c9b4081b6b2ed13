"""The files that a run reads its rows from: other content is another run.

It is the content that counts, of every file that is read, as of a folder of pictures; a sweep reads
each version of them once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kdgraph.config.components import Node, target_of
from kdgraph.config.outliers import ood_sets, sources_of_outliers
from kdgraph.errors import RunFailed


@dataclass(frozen=True)
class Read:
    """What a source reads where one of its parameters names a file or a folder.

    Attributes
    ----------
    target : the class of the source, or None.
    key : the parameter.
    path : its value.
    """

    target: str | None
    key: str
    path: str

    def files(self) -> list[Path]:
        """All of them that are there; a source that does not say (``file_parameters``) reads the one that
        ``path`` names.
        """
        files_of = reads_of({"_target_": self.target})[self.key]
        return [file for file in files_of(Path(self.path).expanduser()) if file.is_file()]

    def stamp(self) -> str:
        """Changes with the name, the size or the time of any file; reads none."""
        found = [(str(file), file.stat()) for file in self.files()]
        return _hash([f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in found])

    def digest(self) -> str | None:
        """SHA-256 of one file, or of the names and the hashes of several; None if there is none."""
        return _digest(self, self.stamp())


def file_digests(science: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each of :func:`what_is_read`. What is not there has none."""
    digests = {key: read.digest() for key, read in what_is_read(science).items()}
    return {key: digest for key, digest in digests.items() if digest is not None}


def what_is_read(science: Mapping[str, Any]) -> dict[str, Read]:
    """The files that rows are read from, of the data set, of those out of distribution, and of
    outliers that train.
    """
    nodes = {"": science["dataset"] or {}}
    nodes |= {
        f"{path}.": node["source"]
        for path, node in ood_sets("ood", science["ood"] or {})
        if node.get("source")
    }
    nodes |= {f"outliers.{i}.": source for i, source in enumerate(sources_of_outliers(science))}
    return {
        prefix + key: Read(node.get("_target_"), key, str(node[key]))
        for prefix, node in nodes.items()
        for key in reads_of(node)
        if node.get(key)
    }


def reads(science: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what a record holds of each of :func:`what_is_read` that is there, so that later
    content can be told from it.

    Returns
    -------
    dict
        Key → target, key and absolute path of a :class:`Read`, its ``stamp`` and its ``sha256``.
    """
    found = {
        key: Read(read.target, read.key, str(Path(read.path).expanduser().absolute()))
        for key, read in what_is_read(science).items()
    }
    digests = {key: read.digest() for key, read in found.items()}
    return {
        key: {**asdict(read), "stamp": read.stamp(), "sha256": digests[key]}
        for key, read in found.items()
        if digests[key]
    }


def refuse_changed(before: Mapping[str, str], science: Mapping[str, Any]) -> None:
    """Raise where a file that is still there has other content than before: nobody knows which of
    the two a stage has read.

    Parameters
    ----------
    before : of :func:`file_digests`, when the run's id was made.
    science : the part of the config that decides the numbers.

    Raises
    ------
    RunFailed
        One line with the name of the file.
    """
    for key, digest in file_digests(science).items():
        if before.get(key) != digest:
            path = what_is_read(science)[key].path
            raise RunFailed(
                f"{path} has changed while the run was reading it; give the same command again once"
                " it is whole"
            )


def reads_of(source: Node) -> Mapping[str, Any]:
    """Parameter of a source that names a file or a folder → function from its path to the files
    that are read.
    """
    return getattr(target_of(source), "file_parameters", {"path": lambda path: [path]})


@lru_cache(maxsize=256)
def _digest(read: Read, stamp: str) -> str | None:
    from kdgraph.data.files.paths import (
        sha256_of,
    )  # here, not above: a run that is done needs no table

    files = read.files()
    if len(files) == 1:
        return sha256_of(files[0])
    return _hash([f"{file} {sha256_of(file)}" for file in files]) if files else None


def _hash(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
