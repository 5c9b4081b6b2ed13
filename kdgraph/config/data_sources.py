"""The sources of rows that a config names: files, data sets out of distribution, outliers of training.

The content of every file that is read is part of a run's id, so that other content is another run; a
sweep reads each version of a file once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kdgraph.config.components import Node, target_of
from kdgraph.errors import ConfigError, RunFailed

Science = Mapping[str, Any]
"""The part of a config that decides the numbers: group → node."""

_MADE_BY = {"NoiseOutliers": ("noise",), "PermutedOutliers": ("permuted",), "MixedOutliers": ()}
_WORDS = {"noise": ("noise",), "permuted": ("permuted",), "mixed": ("noise", "permuted")}
_OF_KIND = {"UniformNoise": "noise", "GaussianNoise": "noise", "ColumnPermuted": "permuted"}
"""Class of what is out of distribution → the kind of outliers that it is like."""


def check_outliers(science: Science) -> None:
    """Raise ConfigError for a word that stands for no outliers, and for rows of the data set that
    is trained on.
    """
    for path, outliers in _outliers(science):
        if not isinstance(outliers, Mapping) and outliers not in _WORDS:
            rule = f"one of {', '.join(_WORDS)}, or a node of kdgraph.parents.networks"
            raise ConfigError(f"{path} must be {rule}, got {outliers!r}")
        for source, _ in _rows_of(outliers):
            if _names(science["dataset"]) & _names(source):
                what = (
                    f"{path}.source is {source['name']}, which is what"
                    f" dataset={science['dataset']['name']} trains on"
                )
                raise ConfigError(
                    f"{what}, and no outlier; choose another: 'kdg list dataset' shows them"
                )


def seen_in_training(science: Science) -> list[str]:
    """A sentence for each set out of distribution that is of a kind that the network of this run
    was trained with.
    """
    found = []
    for path, outliers in _outliers(science):
        kinds, rows = set(_kinds(outliers)), list(_rows_of(outliers))
        for name, node in ood_sets("ood", science["ood"]):
            if _OF_KIND.get(_class(node)) in kinds or any(
                _have_rows_of(node, *each) for each in rows
            ):
                seen = f"{name} ({node['name']}) is like the outliers that {path} trains with"
                found.append(
                    f"{seen}, so what is measured there says nothing of outliers that the network"
                    " has not seen"
                )
    return found


def ood_sets(path: str, ood: Node) -> Iterator[tuple[str, Node]]:
    """Yield key and node of each OOD source: alone, one of several (``sources``), or the ``images``
    that another perturbs.
    """
    several = ood.get("sources") or {}
    for key, node in several.items():
        yield from ood_sets(f"{path}.sources.{key}", {"name": key, **node})
    if ood.get("images"):
        yield from ood_sets(f"{path}.images", {"name": ood.get("name"), **ood["images"]})
    elif not several:
        yield path, ood


def sources_of_outliers(science: Science) -> list[Node]:
    """The data sets that outliers are rows of."""
    return [source for _, outliers in _outliers(science) for source, _ in _rows_of(outliers)]


def _outliers(science: Science) -> Iterator[tuple[str, Any]]:
    """Key and value of each ``outliers`` of an exposure, of the parent or of a calibrator that
    trains it again.
    """
    nodes = {
        "parent": science.get("parent"),
        "calibrator.changes": (science.get("calibrator") or {}).get("changes"),
    }
    for path, node in ((path, node or {}) for path, node in nodes.items()):
        if exposure := node.get("exposure"):
            yield f"{path}.exposure.outliers", exposure.get("outliers", "noise")


def _kinds(outliers: Any) -> tuple[str, ...]:
    if not isinstance(outliers, Mapping):
        return _WORDS.get(outliers, ())
    parts = (outliers.get("parts") or {}).values()
    return _MADE_BY.get(_class(outliers), ()) + tuple(
        kind for part in parts for kind in _kinds(part)
    )


def _rows_of(outliers: Any) -> Iterator[tuple[Node, str | None]]:
    """The data sets that the outliers are rows of, and of which half of the classes."""
    if isinstance(outliers, Mapping):
        if isinstance(outliers.get("source"), Mapping):
            yield outliers["source"], outliers.get("class_half")
        for part in (outliers.get("parts") or {}).values():
            yield from _rows_of(part)


def _have_rows_of(ood: Node, source: Node, class_half: str | None) -> bool:
    """Whether a set out of distribution has classes of that half of a data set."""
    if not isinstance(ood.get("source"), Mapping) or not _names(source) & _names(ood["source"]):
        return False
    return None in (class_half, ood.get("class_half")) or class_half == ood["class_half"]


def _names(source: Node) -> set[Any]:
    """Name and number of a data set, which can go by two names."""
    return {source.get("name"), source.get("id")} - {None}


def _class(node: Node) -> str:
    return str(node.get("_target_")).rpartition(".")[2]


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
