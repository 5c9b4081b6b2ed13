"""What a page says already: numbers and claims of earlier runs, which stay on it when a part of it
is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.published import ABOUT
from experiments.reproduction.declared import Paper, Scale
from experiments.reproduction.verdicts import Measurement
from kdgraph.errors import UsageError

CELLS, CLAIMS, MEASURED = "cells.csv", "claims.csv", "measurements.csv"
"""Beside a page: its published numbers with ours, a row for each variant too; the parts that claims
were asked in; and the measurements by seed that the numbers are of.
"""


@dataclass(frozen=True)
class Kept:
    """What a page's files hold.

    Attributes
    ----------
    cells : as :func:`experiments.reproduction.page.write` leaves them in :data:`CELLS`; all text,
    empty where nothing is.
    claims : the same of :data:`CLAIMS`.
    measured : the same of :data:`MEASURED`. Numbers of older pages have no rows in it.
    """

    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    claims: pd.DataFrame = field(default_factory=pd.DataFrame)
    measured: pd.DataFrame = field(default_factory=pd.DataFrame)

    def with_measured(self, measured: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
        """Return the measurements by seed: new ones, and kept ones of other numbers.

        Parameters
        ----------
        measured : DataFrame
            New ones of all papers, with the column ``paper``.
        keys : sequence of str
            Columns that identify a number of some paper, beside ``paper`` and ``variant``.
        """
        columns = ["paper", *keys, "variant"]
        if self.measured.empty or measured.empty:
            return measured if self.measured.empty else self.measured
        new, old = (
            [_key(row, columns) for _, row in frame.reindex(columns=columns).iterrows()]
            for frame in (measured, self.measured)
        )
        again = set(new)
        kept = self.measured[[key not in again for key in old]]
        return pd.concat([kept, measured.astype(object)], ignore_index=True)

    @property
    def items(self) -> dict[str, list[str]]:
        """Paper → its tables, figures and sections on the page."""
        return (
            {
                str(name): list(dict.fromkeys(rows["item"]))
                for name, rows in self.cells.groupby("paper")
            }
            if len(self.cells)
            else {}
        )

    def found(self, paper: Paper, published: pd.DataFrame) -> dict[int, dict[str, Measurement]]:
        """Label of a published number → variant → what there is of ours; numbers of which there is
        nothing are left out.
        """
        if self.cells.empty:
            return {}
        keys = [name for name in published if name not in ABOUT | paper.about]
        rows = self.cells[(self.cells.paper == paper.name) & (self.cells.n != "0")].reindex(
            columns=[*self.cells, *_new(keys, self.cells)]
        )
        known: dict[tuple[str, ...], dict[str, Measurement]] = {}
        for _, row in rows.iterrows():
            found = Measurement(
                _float(row["ours"]),
                _float(row["sd"]),
                int(row["n"]),
                row["made"],
                _float(row.get("comparable", "")),
            )
            known.setdefault(_key(row, keys), {})[row["variant"]] = found
        return {
            int(label): known[key]
            for label, row in published.iterrows()
            if (key := _key(row, keys)) in known
        }  # type: ignore[arg-type]

    def parts(self, paper: str, sentence: str, now: Iterable[Claim]) -> list[Claim]:
        """Of one sentence: what was asked now, and before it what was asked before and not again; a
        part is known by its text.
        """
        now = list(now)
        if self.claims.empty:
            return now
        rows = self.claims[(self.claims.paper == paper) & (self.claims.claim == sentence)]
        before = [
            Claim(
                row["text"],
                row["holds"] == "True",
                row["found"],
                (sentence,),
                row["made"],
                row["scale"],
            )
            for _, row in rows.iterrows()
        ]
        again = {claim.text: claim for claim in now}
        first = [again.pop(claim.text, claim) for claim in before]
        return [*first, *again.values()]


def kept_in(folder: Path, scale: Scale) -> Kept:
    """What the page in a folder holds; nothing where there is none.

    Raises
    ------
    UsageError
        Its numbers are of another scale, or nothing says of which.
    """
    found = {
        name: pd.read_csv(folder / name, dtype=str, keep_default_na=False)
        for name in (CELLS, CLAIMS, MEASURED)
        if (folder / name).exists()
    }
    for name, frame in found.items():
        if missing := {"scale", "made"} - {*frame}:
            raise UsageError(
                f"{folder / name} is not beside a page of this version: it has no column"
                f" {min(missing)}; move it away"
            )
        # Claims may come from computations of another scale than the page's, and name it.
        if name != CLAIMS and (other := set(frame.scale) - {scale}):
            raise UsageError(
                f"{folder} has a page of scale {min(other)}; choose another folder for that of"
                f" scale {scale}"
            )
    return Kept(*(found.get(name, pd.DataFrame()) for name in (CELLS, CLAIMS, MEASURED)))


def told(made: Mapping[str, int]) -> str:
    """How many numbers are not of now but of when, where and which commit, a sentence; empty where
    all are.
    """
    return (
        f"Kept from earlier runs: {'; '.join(f'{n:,} of {when}' for when, n in made.items())}."
        if made
        else ""
    )


def _new(keys: Iterable[str], known: pd.DataFrame) -> list[str]:
    """Columns that the file has not."""
    return [name for name in keys if name not in known]


def _key(row: Any, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(_text(row[name]) for name in keys)


def _text(value: Any) -> str:
    """However a number is written, in a file or in a frame, it is the same."""
    if value is None or value != value:
        return ""
    try:
        return repr(float(value))
    except ValueError:
        return str(value)


def _float(text: str) -> float:
    return float(text) if text else float("nan")
