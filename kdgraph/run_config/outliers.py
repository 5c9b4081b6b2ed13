"""Outliers that a network trains with, against what is out of distribution in the same run: a method must not be asked what it was told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kdgraph.components import Node
from kdgraph.errors import ConfigError

Science = Mapping[str, Any]
"""The part of a config that decides the numbers: group → node."""

_MADE_BY = {"NoiseOutliers": ("noise",), "PermutedOutliers": ("permuted",), "MixedOutliers": ()}
_WORDS = {"noise": ("noise",), "permuted": ("permuted",), "mixed": ("noise", "permuted")}
_OF_KIND = {"UniformNoise": "noise", "GaussianNoise": "noise", "ColumnPermuted": "permuted"}
"""Class of what is out of distribution → the kind of outliers that it is like."""


def check_outliers(science: Science) -> None:
    """Raise ConfigError for a word that stands for no outliers, and for rows of the data set that is trained on."""
    for path, outliers in _outliers(science):
        if not isinstance(outliers, Mapping) and outliers not in _WORDS:
            rule = f"one of {', '.join(_WORDS)}, or a node of kdgraph.parents.networks.exposure"
            raise ConfigError(f"{path} must be {rule}, got {outliers!r}")
        for source in _rows_of(outliers):
            if _names(science["dataset"]) & _names(source):
                what = f"{path}.source is {source['name']}, which is what dataset={science['dataset']['name']} trains on"
                raise ConfigError(f"{what}, and no outlier; choose another: 'kdg list dataset' shows them")


def seen_in_training(science: Science) -> list[str]:
    """A sentence for each set out of distribution that is of a kind that the network of this run was trained with."""
    found = []
    for path, outliers in _outliers(science):
        kinds, sources = set(_kinds(outliers)), [_names(source) for source in _rows_of(outliers)]
        for name, node in _sets("ood", science["ood"]):
            other = _names(node["source"]) if isinstance(node.get("source"), Mapping) else set()
            kind = _OF_KIND.get(_class(node))
            if kind in kinds or any(source & other for source in sources):
                seen = f"{name} ({node['name']}) is like the outliers that {path} trains with"
                found.append(f"{seen}, so what is measured there says nothing of outliers that the network has not seen")
    return found


def sources_of_outliers(science: Science) -> list[Node]:
    """The data sets that outliers are rows of."""
    return [source for _, outliers in _outliers(science) for source in _rows_of(outliers)]


def _outliers(science: Science) -> Iterator[tuple[str, Any]]:
    """Key and value of each ``outliers`` of an exposure, of the parent or of a calibrator that trains it again."""
    nodes = {"parent": science.get("parent"), "calibrator.changes": (science.get("calibrator") or {}).get("changes")}
    for path, node in ((path, node or {}) for path, node in nodes.items()):
        if exposure := node.get("exposure"):
            yield f"{path}.exposure.outliers", exposure.get("outliers", "noise")


def _kinds(outliers: Any) -> tuple[str, ...]:
    if not isinstance(outliers, Mapping):
        return _WORDS.get(outliers, ())
    parts = (outliers.get("parts") or {}).values()
    return _MADE_BY.get(_class(outliers), ()) + tuple(kind for part in parts for kind in _kinds(part))


def _rows_of(outliers: Any) -> Iterator[Node]:
    """The data sets that the outliers are rows of."""
    if isinstance(outliers, Mapping):
        if isinstance(outliers.get("source"), Mapping):
            yield outliers["source"]
        for part in (outliers.get("parts") or {}).values():
            yield from _rows_of(part)


def _sets(name: str, ood: Node) -> Iterator[tuple[str, Node]]:
    """What is out of distribution, alone or as one of several."""
    several = ood.get("sources") or {}
    for key, node in several.items():
        yield from _sets(f"{name}.sources.{key}", {"name": key, **node})
    if not several:
        yield name, ood


def _names(source: Node) -> set[Any]:
    """Name and number of a data set, which can go by two names."""
    return {source.get("name"), source.get("id")} - {None}


def _class(node: Node) -> str:
    return str(node.get("_target_")).rpartition(".")[2]
