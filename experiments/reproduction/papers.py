"""Names of the reproduced papers, and the choice of their tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from experiments.common.published import read_published
from experiments.reproduction.studies import Paper
from kdgraph.errors import UsageError, did_you_mean

# Each has a module ``experiments.<name>.paper`` with a ``PAPER``.
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


def paper(name: str) -> Paper:
    """Return the paper of one of :data:`NAMES`."""
    return import_module(f"experiments.{name}.paper").PAPER


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
    """Return the paper with some items and the studies that make them; all without words."""
    if not words:
        return paper
    known = items_of(paper)
    items = [_item(word, known, paper.name) for word in words]
    studies = [study for study in paper.studies if set(study.items) & set(items)]
    return replace(paper, studies=studies, items=tuple(items))


def _item(word: str, known: Sequence[str], name: str) -> str:
    """Return the published spelling of an item: "Table 1" for "table1"."""
    same = [item for item in known if _plain(item) == _plain(word)]
    if not same:
        hint = did_you_mean(word, known, "; it has " + ", ".join(known))
        raise UsageError(f"{name} has no '{word}'{hint}")
    return same[0]


def _plain(item: str) -> str:
    return "".join(letter for letter in item.lower() if letter.isalnum())
