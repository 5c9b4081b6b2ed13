"""Page of claims: each sentence of a paper with its verdict, and the numbers behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.markdown import table
from experiments.reproduction.claims import STANDINGS, TestedSentence, sentences, with_claims
from experiments.reproduction.stored_page import StoredPage, stored_note
from experiments.reproduction.studies import Paper, Scale
from kdgraph.results.export import Section


@dataclass(frozen=True)
class PaperClaims:
    """A paper with its tested sentences."""

    paper: Paper
    tested: Sequence[TestedSentence]

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of sentences of each standing."""
        return Counter(each.standing for each in self.tested)

    @property
    def stored(self) -> Mapping[str, int]:
        """Return how many parts are of earlier tests, by their time, machine and commit."""
        return Counter(part.made for each in self.tested for part in each.parts if part.made)


def claims_of(
    papers: Sequence[Paper], runs: Path, stored: StoredPage, scale: Scale
) -> list[PaperClaims]:
    """Return the claims of every paper with a list of them, tested on the runs below a folder.

    Stored parts of which there is no run stay. The scale of a part is empty if it is the page's.
    """
    return [
        PaperClaims(
            p,
            [_with_stored(p, x, stored, scale) for x in with_claims(sentences(p.folder), runs)],
        )
        for p in papers
        if (p.folder / "claims.csv").exists()
    ]


def _with_stored(
    paper: Paper, tested: TestedSentence, stored: StoredPage, scale: Scale
) -> TestedSentence:
    if tested.sentence.untested:
        return tested
    parts = stored.parts(paper.name, tested.sentence.name, tested.parts)
    own = [replace(part, scale="") if part.scale == scale else part for part in parts]
    return replace(tested, parts=own)


def parts_table(chapters: Sequence[PaperClaims], scale: Scale, made: str) -> pd.DataFrame:
    """Return the stored form: ``paper, claim, text, holds, found, scale, made`` of each part."""
    rows = [
        (
            *(chapter.paper.name, each.sentence.name, part.text, part.holds, part.measured),
            *(part.scale or scale, part.made or made),
        )
        for chapter in chapters
        for each in chapter.tested
        for part in each.parts
    ]
    return pd.DataFrame(rows, columns=["paper", "claim", "text", "holds", "found", "scale", "made"])


def summary(chapters: Sequence[PaperClaims]) -> str:
    """Return a table of the number of sentences of each standing."""
    rows = (
        [c.paper.name, len(c.tested), *(c.counts[name] for name in STANDINGS)] for c in chapters
    )
    return table(["claims of", "all", *STANDINGS], ([str(cell) for cell in row] for row in rows))


def section(chapters: Sequence[PaperClaims]) -> Section:
    """Return :func:`summary` with a column for each paper and a row for each standing."""
    rows = [
        [name, *(str(chapter.counts[name]) for chapter in chapters)]
        for name in STANDINGS
        if any(chapter.counts[name] for chapter in chapters)
    ]
    return Section("claims in words", ["", *(chapter.paper.name for chapter in chapters)], rows)


def evidence(part: Claim) -> str:
    """Return the numbers behind a part, and its scale if it is not the page's."""
    return f"{part.measured}; {part.scale} scale" if part.scale else part.measured


def markdown(chapters: Sequence[PaperClaims], about: Sequence[str]) -> str:
    """Return the page as Markdown."""
    blocks = ["# What the papers claim", "\n".join(f"{each}  " for each in about)]
    blocks.append(summary(chapters))
    for chapter in chapters:
        name = chapter.paper.name
        blocks += [f"## {name}: {chapter.paper.title}", stored_note(chapter.stored)]
        for each in chapter.tested:
            sentence = each.sentence
            parts = [
                f"- {'holds' if part.holds else '**fails**'}: {part.text}. {evidence(part)}"
                for part in each.parts
            ]
            blocks += [
                f"### {name}, {sentence.name}: {each.verdict}",
                f"> {sentence.quote} ({sentence.place})",
                "\n".join(parts),
                sentence.note,
                f"Runs: `{sentence.run}`" if sentence.run else "",
            ]
    return "\n\n".join(block for block in blocks if block) + "\n"
