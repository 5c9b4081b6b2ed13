"""Claims of the papers, ``claims.csv`` in their folders, and their verdicts from finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from experiments.common.claims import Claim, ClaimTest, saved_claims
from experiments.reproduction.papers import function

COLUMNS = ("claim", "page", "quote", "tested_by", "run", "untested", "note")
Untested = Literal["no test yet", "not at hand", "not testable"]
# There is no test; data, weights or text are missing; no number could decide.
UNTESTED: tuple[Untested, ...] = get_args(Untested)
Standing = Literal[
    "holds", "partly", "does not hold", "not run yet", "no test yet", "not at hand", "not testable"
]
STANDINGS: tuple[Standing, ...] = get_args(Standing)
SAVED = "saved"


@dataclass(frozen=True)
class Sentence:
    """A row of ``claims.csv``."""

    name: str
    quote: str  # words of the paper
    place: str  # page or section
    # ``module:function`` of a ClaimTest, or ``saved:name`` of saved claims
    tested_by: tuple[str, ...]
    run: str  # command that makes the tested runs
    untested: str  # reason for having no test
    note: str  # what is tested, and which part of the sentence is no number
    universal: bool = False  # about all cases, so that one failing part refutes it


@dataclass(frozen=True)
class TestedSentence:
    """A sentence with the claims that test its parts."""

    __test__ = False  # no class of tests for pytest

    sentence: Sentence
    parts: Sequence[Claim]

    @property
    def n_holding(self) -> int:
        """Return the number of parts that hold."""
        return sum(part.holds for part in self.parts)

    @property
    def standing(self) -> Standing:
        """Return the verdict of all parts together."""
        if self.sentence.untested:
            return next(each for each in STANDINGS if each == self.sentence.untested)
        if not self.parts:
            return "not run yet"
        if self.n_holding == len(self.parts):
            return "holds"
        return "partly" if self.n_holding and not self.sentence.universal else "does not hold"

    @property
    def verdict(self) -> str:
        """Return the standing, with the number of parts if only some hold."""
        if 0 < self.n_holding < len(self.parts):
            return f"{self.standing} ({self.n_holding} of {len(self.parts)})"
        return self.standing


def sentences(folder: Path) -> list[Sentence]:
    """Return the claims of a paper, in the order of the file."""
    path = folder / "claims.csv"
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    if missing := [name for name in COLUMNS if name not in rows]:
        raise ValueError(
            f"{path} must have the columns {', '.join(COLUMNS)}; it lacks {', '.join(missing)}"
        )
    if (twice := rows.claim.duplicated()).any():
        raise ValueError(f"{path} has two lines of the name {rows.claim[twice].iloc[0]!r}")
    tested, untested = rows.tested_by != "", rows.untested != ""
    wrong = (tested == untested) | untested & ~rows.untested.isin(UNTESTED)
    wrong |= tested & (rows.run == "")
    if wrong.any():
        rule = f"have tested_by and run, or be untested because of {', '.join(UNTESTED)}"
        raise ValueError(f"{path}: line {int(wrong.argmax()) + 2} must {rule}")
    return [_sentence(row) for _, row in rows.iterrows()]


def _sentence(row: pd.Series) -> Sentence:
    place = section = row.get("section", "")
    if row["page"]:
        place = f"page {row['page']}"
    elif section[:1].isdigit():
        place = f"section {section}"
    return Sentence(
        row["claim"],
        row["quote"],
        place,
        tuple(row["tested_by"].split()),
        row["run"],
        row["untested"],
        row["note"],
        row.get("universal", "") == "yes",
    )


def load_test(test: str) -> ClaimTest:
    """Return the test that ``module:function`` or ``saved:name`` names."""
    module, _, name = test.partition(":")
    if module == SAVED:
        return partial(saved_claims, name=name)
    return function(test)


def with_claims(sentences: Iterable[Sentence], runs: Path) -> list[TestedSentence]:
    """Return each sentence with the claims on it; every test is called once."""
    sentences = list(sentences)
    tests = dict.fromkeys(test for each in sentences for test in each.tested_by)
    claims = {test: list(load_test(test)(runs)) for test in tests}
    for test in claims:
        naming = {each.name for each in sentences if test in each.tested_by}
        if unknown := {name for claim in claims[test] for name in claim.sentences} - naming:
            raise ValueError(
                f"{test} has claims on {', '.join(sorted(unknown))}, whose"
                " line in claims.csv does not name it"
            )
    return [
        TestedSentence(
            each,
            [c for test in each.tested_by for c in claims[test] if each.name in c.sentences],
        )
        for each in sentences
    ]
