"""Sources of rows in a config: files, OOD rows from other data sets, outliers for training.

The content of every file that is read is part of a run's id, so that other content is another run;
a sweep reads each version of a file once.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kdgraph.config.components import Node, is_node, target_of
from kdgraph.errors import ConfigError, RunFailed

Science = Mapping[str, Any]
"""The part of a config that decides the numbers: group → node."""

_KINDS_OF_CLASS = {
    "NoiseOutliers": ("noise",),
    "PermutedOutliers": ("permuted",),
    "MixedOutliers": (),
}
_KINDS_OF_NAME = {"noise": ("noise",), "permuted": ("permuted",), "mixed": ("noise", "permuted")}
_SIMILAR_KIND = {"UniformNoise": "noise", "GaussianNoise": "noise", "ColumnPermuted": "permuted"}
"""Class of OOD rows → the kind of outliers that they are like."""
_OWN_SOURCES = ("kdgraph.data.", "kdgraph.fitted.")
"""Packages of kdgraph with sources of rows and models."""
_SIMULATIONS = "kdgraph.data.simulations."
"""Package whose sources read no file: a run of them that is done imports no arrays."""


def check_sources(science: Science) -> None:
    """Raise ConfigError for outliers of an unknown kind, and for rows of the training data.

    These are neither outliers nor out of distribution.
    """
    dataset = science["dataset"]
    for path, outliers in _outliers(science):
        if not isinstance(outliers, Mapping) and outliers not in _KINDS_OF_NAME:
            rule = f"one of {', '.join(_KINDS_OF_NAME)}, or a node of kdgraph.parents.networks"
            raise ConfigError(f"{path} must be {rule}, got {outliers!r}")
        for source, _ in _rows_of(outliers):
            if _names(dataset) & _names(source):
                raise ConfigError(
                    f"{path}.source is {source['name']}, which is what dataset={dataset['name']}"
                    " trains on, and no outlier; choose another: 'kdg list dataset' shows them"
                )
    for path, node in ood_nodes("ood", science["ood"]):
        source = node.get("source") or {}
        if is_node(source) and _names(dataset) & _names(source):
            raise ConfigError(
                f"{path}.name={source['name']} is what dataset={dataset['name']} trains on, so its"
                " rows are in distribution; choose another: 'kdg list dataset' shows them"
            )


def seen_in_training(science: Science) -> list[str]:
    """Return a sentence for each OOD set of a kind that the network was trained with."""
    sentences = []
    for path, outliers in _outliers(science):
        kinds, rows = set(_kinds(outliers)), list(_rows_of(outliers))
        for name, node in ood_nodes("ood", science["ood"]):
            if _SIMILAR_KIND.get(_class(node)) in kinds or any(
                _have_rows_of(node, *source) for source in rows
            ):
                seen = f"{name} ({node['name']}) is like the outliers that {path} trains with"
                sentences.append(
                    f"{seen}, so its metrics do not show how the network predicts outliers of other"
                    " kinds"
                )
    return sentences


def ood_nodes(path: str, ood: Node) -> Iterator[tuple[str, Node]]:
    """Yield key and node of each OOD source.

    There is one, or several (``sources``), or one that perturbs the rows of another (``images``) or
    mixes them with test rows (``outliers``).
    """
    sources = ood.get("sources") or {}
    for key, node in sources.items():
        yield from ood_nodes(f"{path}.sources.{key}", {"name": key, **node})
    inner = [key for key in ("images", "outliers") if isinstance(ood.get(key), Mapping)]
    for key in inner:
        yield from ood_nodes(f"{path}.{key}", {"name": ood.get("name"), **ood[key]})
    if not sources and not inner:
        yield path, ood


def sources_of_outliers(science: Science) -> list[Node]:
    """Return the nodes of the data sets that outliers are rows of."""
    return [source for _, outliers in _outliers(science) for source, _ in _rows_of(outliers)]


def _outliers(science: Science) -> Iterator[tuple[str, Any]]:
    """Yield key and value of the ``outliers`` that the parent is trained with, if there are any."""
    if exposure := (science.get("parent") or {}).get("exposure"):
        yield "parent.exposure.outliers", exposure.get("outliers", "noise")


def _kinds(outliers: Any) -> tuple[str, ...]:
    if not isinstance(outliers, Mapping):
        return _KINDS_OF_NAME.get(outliers, ())
    parts = (outliers.get("parts") or {}).values()
    return _KINDS_OF_CLASS.get(_class(outliers), ()) + tuple(
        kind for part in parts for kind in _kinds(part)
    )


def _rows_of(outliers: Any) -> Iterator[tuple[Node, str | None]]:
    """Yield the data sets that outliers are rows of, and the half of the classes."""
    if isinstance(outliers, Mapping):
        if isinstance(outliers.get("source"), Mapping):
            yield outliers["source"], outliers.get("class_half")
        for part in (outliers.get("parts") or {}).values():
            yield from _rows_of(part)


def _have_rows_of(ood: Node, source: Node, class_half: str | None) -> bool:
    """Return whether a set of OOD rows has classes of that half of a data set."""
    if not isinstance(ood.get("source"), Mapping) or not _names(source) & _names(ood["source"]):
        return False
    return None in (class_half, ood.get("class_half")) or class_half == ood["class_half"]


def _names(source: Node) -> set[Any]:
    """Return name and number of a data set, which can have two names."""
    return {source.get("name"), source.get("id")} - {None}


def _class(node: Node) -> str:
    return str(node.get("_target_")).rpartition(".")[2]


@dataclass(frozen=True)
class Read:
    """File or folder that a parameter of a source names, with the import path of the class."""

    target: str | None
    key: str
    path: str

    def files(self) -> list[Path]:
        """Return the existing files that are read: by the source's ``file_parameters``, or one."""
        files_of = reads_of({"_target_": self.target}).get(self.key, _only_itself)
        return [file for file in files_of(Path(os.path.expanduser(self.path))) if file.is_file()]

    def stamp(self) -> str:
        """Return a hash of names, sizes and times of the files, which are not read."""
        stats = [(str(file), file.stat()) for file in self.files()]
        return _hash([f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats])

    def digest(self) -> str | None:
        """Return the SHA-256 of one file, or of names and hashes of several; None without files."""
        return _digest(self, self.stamp())


def recorded_read(target: str | None, key: str, path: str) -> Read:
    """Return a file that a record names, without importing what else the record names.

    A record may come from somebody else, and an import runs code. So a class counts if it is one of
    kdgraph's, or imported already. Of another one only the path itself is looked at: a change
    inside of a folder is not noticed.
    """
    module = str(target).rpartition(".")[0]
    is_known = module.startswith(_OWN_SOURCES) or module in sys.modules
    return Read(target if is_known else None, key, path)


def file_digests(science: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest for each of :func:`files_read` that exists."""
    digests = {key: read.digest() for key, read in files_read(science).items()}
    return {key: digest for key, digest in digests.items() if digest is not None}


def files_read(science: Mapping[str, Any]) -> dict[str, Read]:
    """Return the files of the data set, of OOD rows, of outliers, and of a model as parent.

    >>> source = {"_target_": "kdgraph.data.tables.TableFile", "path": "my.csv"}
    >>> files_read({"dataset": source, "ood": {}})
    {'path': Read(target='kdgraph.data.tables.TableFile', key='path', path='my.csv')}
    """
    nodes = {"": science["dataset"] or {}}
    parent = science.get("parent") or {}
    # Parameters of other parents may be called path without naming a file.
    if parent.get("path") is not None and hasattr(target_of(parent), "file_parameters"):
        nodes["parent."] = parent
    nodes |= {
        f"{path}.": node["source"]
        for path, node in ood_nodes("ood", science["ood"] or {})
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
    """Return a record's entry for each of :func:`files_read` that exists.

    It has target, key and absolute path of the :class:`Read`, its ``stamp`` and its ``sha256``.
    Other content is recognised by it later.
    """
    entries: dict[str, dict[str, Any]] = {}
    for key, relative in files_read(science).items():
        path = Path(os.path.expanduser(relative.path)).absolute()
        read = replace(relative, path=str(path))
        if digest := read.digest():
            entries[key] = {**asdict(read), "stamp": read.stamp(), "sha256": digest}
    return entries


def refuse_changed(before: Mapping[str, str], science: Mapping[str, Any]) -> None:
    """Raise RunFailed where a file has other content than before: a stage may have read either.

    ``before`` is of :func:`file_digests`, when the run's id was made.
    """
    for key, digest in file_digests(science).items():
        if before.get(key) != digest:
            path = files_read(science)[key].path
            raise RunFailed(
                f"{path} has changed while the run was reading it; give the same command again once"
                " it is whole"
            )


def reads_of(source: Node) -> Mapping[str, Any]:
    """Return the parameters of a source that name a file or a folder.

    Each maps to a function from its value, a path, to the files that are read.
    """
    if str(source.get("_target_")).startswith(_SIMULATIONS):
        return {}
    return getattr(target_of(source), "file_parameters", {"path": _only_itself})


def _only_itself(path: Path) -> list[Path]:
    return [path]


@lru_cache(maxsize=256)
def _digest(read: Read, stamp: str) -> str | None:
    from kdgraph.data.files.paths import sha256_of  # a run that is done needs no table

    files = read.files()
    if len(files) == 1:
        return sha256_of(files[0])
    return _hash([f"{file} {sha256_of(file)}" for file in files]) if files else None


def _hash(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
