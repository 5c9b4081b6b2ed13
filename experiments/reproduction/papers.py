"""The papers whose numbers can be made again, and the words that choose among their tables and
figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from experiments.common.published import read_published
from experiments.reproduction.declared import Paper
from kdgraph.errors import UsageError, did_you_mean

NAMES = ("p1", "p2", "p3", "p4", "p5")
"""Each has a module ``experiments.<name>.paper`` with a ``PAPER``."""


def chosen(words: Sequence[str]) -> list[Paper]:
    """Papers and items that words name: "p5", "p5 'Table 1' 'Table 2'"; all papers where there is
    none.

    Raises
    ------
    UsageError
        A word is neither a paper nor an item of the paper before it.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        if word in NAMES:
            found.setdefault(word, [])
        elif not found:
            raise UsageError(
                f"'{word}' is no paper"
                + did_you_mean(word, NAMES, "; there are " + ", ".join(NAMES))
            )
        else:
            found[list(found)[-1]].append(word)
    return [
        _with_items(paper(name), items)
        for name, items in (found or {name: [] for name in NAMES}).items()
    ]


def paper(name: str) -> Paper:
    """One of :data:`NAMES`."""
    return import_module(f"experiments.{name}.paper").PAPER


def with_items(papers: Sequence[Paper], items: Mapping[str, Sequence[str]]) -> list[Paper]:
    """Papers that were chosen, and more tables and figures of them and of others, by their names;
    in the order of :data:`NAMES`.
    """
    asked = {paper.name: paper for paper in papers}
    found = []
    for name in dict.fromkeys(
        [*(name for name in NAMES if name in asked or name in items), *asked]
    ):
        of, more = asked.get(name), items.get(name, ())
        if of is not None and (of.items is None or not more):
            found.append(of)
        else:
            found.append(
                replace(
                    paper(name),
                    items=tuple(dict.fromkeys([*(of.items or () if of else ()), *more])),
                )
            )
    return found


def items_of(paper: Paper) -> list[str]:
    """Tables, figures and sections that its ``published.csv`` has numbers of, in order."""
    return list(dict.fromkeys(read_published(paper.folder).item))


def _with_items(of: Paper, items: Sequence[str]) -> Paper:
    """The paper with the studies alone that make some of the items."""
    if not items:
        return of
    known = items_of(of)
    wanted = [_item(word, known, of.name) for word in items]
    return replace(
        of,
        studies=[study for study in of.studies if set(study.items) & set(wanted)],
        items=tuple(wanted),
    )


def _item(word: str, known: Sequence[str], name: str) -> str:
    """As the paper calls it; "table1" is Table 1."""
    same = [item for item in known if _plain(item) == _plain(word)]
    if not same:
        raise UsageError(
            f"{name} has no '{word}'" + did_you_mean(word, known, "; it has " + ", ".join(known))
        )
    return same[0]


def _plain(item: str) -> str:
    return "".join(letter for letter in item.lower() if letter.isalnum())
