"""The page of claims: each sentence of a paper that numbers can be asked about, what was asked, and
what the runs said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.markdown import head, line
from experiments.reproduction.claims import STANDINGS, Asked, ask, sentences
from experiments.reproduction.declared import Paper, Scale
from experiments.reproduction.kept import Kept, told
from kdgraph.results.export import Section

__all__ = ["STANDINGS", "Sayings", "asked_of", "found_of", "markdown", "section", "summary"]


@dataclass(frozen=True)
class Sayings:
    """One paper, and its sentences with what runs say of them."""

    paper: Paper
    asked: Sequence[Asked]

    @property
    def counts(self) -> Mapping[str, int]:
        """By standing."""
        return Counter(each.standing for each in self.asked)

    @property
    def kept(self) -> Mapping[str, int]:
        """When, where and by which commit parts were asked that were not asked now → how many."""
        return Counter(part.made for each in self.asked for part in each.parts if part.made)


def asked_of(papers: Sequence[Paper], runs: Path, kept: Kept, scale: Scale) -> list[Sayings]:
    """Return the claims of every paper that has a list of them, tested on the runs below a folder.

    Parts of which there is no run stay as they were. The scale of a part is empty where it is that
    of the page.
    """
    listed = [paper for paper in papers if (paper.folder / "claims.csv").exists()]
    return [
        Sayings(
            paper,
            [_with_kept(paper, each, kept, scale) for each in ask(sentences(paper.folder), runs)],
        )
        for paper in listed
    ]


def _with_kept(paper: Paper, asked: Asked, kept: Kept, scale: Scale) -> Asked:
    if asked.sentence.untested:
        return asked
    parts = kept.parts(paper.name, asked.sentence.name, asked.parts)
    return replace(
        asked, parts=[replace(one, scale="") if one.scale == scale else one for one in parts]
    )


def table(chapters: Sequence[Sayings], scale: Scale, made: str) -> pd.DataFrame:
    """A row for each part of a sentence that was asked: columns ``paper, claim, text, holds, found,
    scale, made``.
    """
    rows = [
        {
            "paper": of.paper.name,
            "claim": each.sentence.name,
            "text": part.text,
            "holds": part.holds,
            "found": part.found,
        }
        | {"scale": part.scale or scale, "made": part.made or made}
        for of in chapters
        for each in of.asked
        for part in each.parts
    ]
    return pd.DataFrame(rows, columns=["paper", "claim", "text", "holds", "found", "scale", "made"])


def summary(chapters: Sequence[Sayings]) -> list[str]:
    """A table: how many sentences of each paper stand how."""
    lines = head(["claims of", "all", *STANDINGS])
    return lines + [
        line([of.paper.name, str(len(of.asked)), *(str(of.counts[name]) for name in STANDINGS)])
        for of in chapters
    ]


def section(chapters: Sequence[Sayings]) -> Section:
    """Return :func:`summary` as a narrow table: a column for each paper, a row for each standing.

    Standings that no sentence has are left out.
    """
    rows = [
        [name, *(str(of.counts[name]) for of in chapters)]
        for name in STANDINGS
        if any(of.counts[name] for of in chapters)
    ]
    return Section("claims in words", ["", *(of.paper.name for of in chapters)], rows)


def found_of(part: Claim) -> str:
    """Return the numbers behind a part, and its scale where it is not that of the page."""
    return f"{part.found}; {part.scale} scale" if part.scale else part.found


def markdown(chapters: Sequence[Sayings], about: Sequence[str]) -> str:
    """The page without its style."""
    parts = [
        "# What the papers claim",
        "\n".join(f"{said}  " for said in about),
        "\n".join(summary(chapters)),
    ]
    for of in chapters:
        parts += [f"## {of.paper.name}: {of.paper.title}", told(of.kept)]
        for each in of.asked:
            parts += [
                f"### {of.paper.name}, {each.sentence.name}: {each.verdict}",
                f"> {each.sentence.quote} ({each.sentence.place})",
            ]
            parts += [
                "\n".join(
                    f"- {'holds' if one.holds else '**fails**'}: {one.text}. {found_of(one)}"
                    for one in each.parts
                )
            ]
            parts += [
                each.sentence.note,
                f"Runs: `{each.sentence.run}`" if each.sentence.run else "",
            ]
    return "\n\n".join(part for part in parts if part) + "\n"
