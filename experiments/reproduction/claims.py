"""Sentences of a paper that numbers can be asked about, ``claims.csv`` in its folder, and what
finished runs say of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from experiments.common.claims import Claim, ClaimTest

COLUMNS = ("claim", "page", "quote", "tested_by", "run", "untested", "note")
Untested = Literal["no test yet", "not at hand", "not testable"]
UNTESTED: tuple[Untested, ...] = get_args(Untested)
"""Nobody has asked yet; data, weights or text are missing; no number could say."""
Standing = Literal[
    "holds", "partly", "does not hold", "not run yet", "no test yet", "not at hand", "not testable"
]
STANDINGS: tuple[Standing, ...] = get_args(Standing)


@dataclass(frozen=True)
class Sentence:
    """One line of the file.

    Attributes
    ----------
    name, quote : how it is called, and the paper's own words.
    place : page or section of the paper.
    tested_by : functions that ask runs about it, each ``module:function`` and an
    :data:`~experiments.common.claims.ClaimTest`.
    run : what makes the runs that they ask.
    untested : why there is no such function; empty where there is one.
    note : what was or could be asked, and what of the sentence is no number.
    universal : whether it is about all or any, so that one part that does not hold refutes it.
    """

    name: str
    quote: str
    place: str
    tested_by: tuple[str, ...]
    run: str
    untested: str
    note: str
    universal: bool = False


@dataclass(frozen=True)
class Asked:
    """A sentence, and what runs say of it: a claim for each part that was asked."""

    sentence: Sentence
    parts: Sequence[Claim]

    @property
    def held(self) -> int:
        """Parts that hold."""
        return sum(part.holds for part in self.parts)

    @property
    def standing(self) -> Standing:
        """What all parts together say."""
        if self.sentence.untested:
            return next(each for each in STANDINGS if each == self.sentence.untested)
        if not self.parts:
            return "not run yet"
        if self.held == len(self.parts):
            return "holds"
        return "partly" if self.held and not self.sentence.universal else "does not hold"

    @property
    def verdict(self) -> str:
        """The same, with how many parts hold where not all or none do."""
        some = 0 < self.held < len(self.parts)
        return f"{self.standing} ({self.held} of {len(self.parts)})" if some else self.standing


def sentences(folder: Path) -> list[Sentence]:
    """All of a paper, in its order.

    Raises
    ------
    ValueError
        A column is missing, two lines have one name, or a line is both tested and untested or
        neither.
    """
    path = folder / "claims.csv"
    lines = pd.read_csv(path, dtype=str, keep_default_na=False)
    if missing := [name for name in COLUMNS if name not in lines]:
        raise ValueError(
            f"{path} must have the columns {', '.join(COLUMNS)}; it lacks {', '.join(missing)}"
        )
    if (twice := lines.claim.duplicated()).any():
        raise ValueError(f"{path} has two lines that are called {lines.claim[twice].iloc[0]!r}")
    wrong = (lines.tested_by != "") == (lines.untested != "")
    wrong |= (lines.untested != "") & ~lines.untested.isin(UNTESTED) | (lines.tested_by != "") & (
        lines.run == ""
    )
    if wrong.any():
        rule = f"have tested_by and run, or be untested because of {', '.join(UNTESTED)}"
        raise ValueError(f"{path}: line {int(wrong.argmax()) + 2} must {rule}")
    return [_sentence(line) for _, line in lines.iterrows()]


def _sentence(line: pd.Series) -> Sentence:
    section = line.get("section", "")
    place = (
        f"page {line['page']}"
        if line["page"]
        else f"section {section}"
        if section[:1].isdigit()
        else section
    )
    return Sentence(
        line["claim"],
        line["quote"],
        place,
        tuple(line["tested_by"].split()),
        line["run"],
        line["untested"],
        line["note"],
        line.get("universal", "") == "yes",
    )


def function_of(where: str) -> ClaimTest:
    """What ``module:function`` names."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def ask(of: Iterable[Sentence], runs: Path) -> list[Asked]:
    """Each sentence with the claims about it that the runs below a folder decide; every function is
    called once.

    Raises
    ------
    ValueError
        A function tells of a sentence that does not name it.
    """
    of = list(of)
    told = {
        where: list(function_of(where)(runs))
        for where in dict.fromkeys(name for each in of for name in each.tested_by)
    }
    for where, claims in told.items():
        naming = {each.name for each in of if where in each.tested_by}
        if strange := sorted({name for claim in claims for name in claim.of} - naming):
            raise ValueError(
                f"{where} tells of {', '.join(strange)}, whose line in claims.csv does not name it"
            )
    return [
        Asked(
            each,
            [claim for where in each.tested_by for claim in told[where] if each.name in claim.of],
        )
        for each in of
    ]
