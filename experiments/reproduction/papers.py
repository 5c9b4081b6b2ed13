"""Reproduced papers, declared in ``paper.yaml`` of their folders, and the choice of their items.

A study has its ``items``, and its ``sizes`` by scale, or by several. ``{name}`` stands for one of
the ``words`` of the file. A function is named as ``module:function``; one among the ``runs``
returns the words of several sweeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from experiments.common.published import read_published
from experiments.reproduction.studies import Better, Paper, Size, Study
from kdgraph.errors import UsageError, did_you_mean

NAMES = ("p1", "p2", "p3", "p4", "p5")


def chosen(words: Sequence[str]) -> list[Paper]:
    """Return the papers and items of words such as "p5 'Table 1'"; all without words."""
    items: dict[str, list[str]] = {}
    for word in words:
        if word in NAMES:
            items.setdefault(word, [])
        elif not items:
            hint = did_you_mean(word, NAMES, "; there are " + ", ".join(NAMES))
            raise UsageError(f"'{word}' is no paper{hint}")
        else:
            items[list(items)[-1]].append(word)
    return [_restricted(paper(name), items.get(name, ())) for name in items or NAMES]


@cache
def paper(name: str) -> Paper:
    """Return the paper of one of :data:`NAMES`."""
    folder = Path(__file__).resolve().parents[1] / name
    node = yaml.safe_load((folder / "paper.yaml").read_text(encoding="utf-8"))
    node = _filled(node, node.pop("words", {}))
    node |= {key: frozenset(node[key]) for key in ("about", "bounds", "no_better") if key in node}
    if "measurement" in node:
        node["measurement"] = function(node["measurement"])
    better = {metric: _better(value) for metric, value in node.get("better", {}).items()}
    studies = [_study(study) for study in node["studies"]]
    return Paper(**node | {"name": name, "folder": folder, "better": better, "studies": studies})


def function(path: str) -> Any:
    """Return the function that ``module:function`` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _filled(node: Any, words: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _filled(value, words) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, words) for value in node]
    for name, text in words.items() if isinstance(node, str) else ():
        node = node.replace(f"{{{name}}}", text)
    return node


def _study(node: dict[str, Any]) -> Study:
    sizes = {}
    for scales, size in node["sizes"].items():
        computed = {name: function(path) for name, path in size.get("computed", {}).items()}
        runs = [sweep for words in size.get("runs", ()) for sweep in _sweeps(words)]
        sizes |= dict.fromkeys(scales.split(), Size(**size | {"runs": runs, "computed": computed}))
    calls = {key: function(node[key]) for key in ("measured", "archived", "archive") if key in node}
    return Study(**node | calls | {"items": tuple(node["items"]), "sizes": sizes})


def _sweeps(words: str) -> list[tuple[str, ...]]:
    return function(words)() if words.startswith("experiments.") else [tuple(words.split())]


def _better(value: Any) -> Better:
    """Return a direction, an ideal, or the ideal of a row, which may be a multiple of its level."""
    if not isinstance(value, dict):
        return value
    return lambda row: value["times_level"] * float(str(row["level"]))


def with_items(papers: Sequence[Paper], items: Mapping[str, Sequence[str]]) -> list[Paper]:
    """Return papers with further items of them and of others, in the order of :data:`NAMES`."""
    options = {paper.name: paper for paper in papers}
    names = [name for name in NAMES if name in options or name in items]
    extended = []
    for name in dict.fromkeys([*names, *options]):
        own, more = options.get(name), items.get(name, ())
        if own is not None and (own.items is None or not more):
            extended.append(own)
        else:
            together = tuple(dict.fromkeys([*(own.items or () if own else ()), *more]))
            extended.append(replace(paper(name), items=together))
    return extended


def items_of(paper: Paper) -> list[str]:
    """Return the tables, figures and sections with published numbers, in their order."""
    return list(dict.fromkeys(read_published(paper.folder).item))


def _restricted(paper: Paper, words: Sequence[str]) -> Paper:
    if not words:
        return paper
    published = items_of(paper)
    items = [_item(word, published, paper.name) for word in words]
    studies = [study for study in paper.studies if set(study.items) & set(items)]
    return replace(paper, studies=studies, items=tuple(items))


def _item(word: str, items: Sequence[str], name: str) -> str:
    """Return the published spelling of an item: "Table 1" for "table1"."""
    same = [item for item in items if _plain(item) == _plain(word)]
    if not same:
        hint = did_you_mean(word, items, "; it has " + ", ".join(items))
        raise UsageError(f"{name} has no '{word}'{hint}")
    return same[0]


def _plain(item: str) -> str:
    return "".join(letter for letter in item.lower() if letter.isalnum())
