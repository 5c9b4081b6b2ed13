"""Outliers that a network trains with, against what is out of distribution in the same run: a
method must not be asked what it was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kdgraph.config.components import Node
from kdgraph.errors import ConfigError

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
    """Yield key and value of the ``outliers`` that the parent is trained with, if there are any."""
    if exposure := (science.get("parent") or {}).get("exposure"):
        yield "parent.exposure.outliers", exposure.get("outliers", "noise")


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
