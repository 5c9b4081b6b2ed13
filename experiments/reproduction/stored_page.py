"""Numbers and claims of an existing page, which stay on it when a part of it is made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.frames import where
from experiments.common.published import ABOUT
from experiments.reproduction.studies import Paper, Scale
from experiments.reproduction.verdicts import Measurement
from kdgraph.errors import UsageError

# Files beside a page: published and measured numbers with a row for each variant; parts of claims;
# and measurements by seed.
CELLS, CLAIMS, MEASURED = "cells.csv", "claims.csv", "measurements.csv"


@dataclass(frozen=True)
class StoredPage:
    """Contents of the files beside a page, all text, empty without the file."""

    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    claims: pd.DataFrame = field(default_factory=pd.DataFrame)
    # numbers of older pages have no measurements by seed
    measured: pd.DataFrame = field(default_factory=pd.DataFrame)

    def with_measured(self, measured: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
        """Return new measurements by seed, after stored ones with other ``keys``."""
        columns = ["paper", *keys, "variant"]
        if self.measured.empty or measured.empty:
            return measured if self.measured.empty else self.measured
        new, old = (
            [_key(row, columns) for _, row in frame.reindex(columns=columns).iterrows()]
            for frame in (measured, self.measured)
        )
        replaced = set(new)
        others = self.measured[[key not in replaced for key in old]]
        return pd.concat([others, measured.astype(object)], ignore_index=True)

    @property
    def items(self) -> dict[str, list[str]]:
        """Return the items of each paper on the page."""
        by_paper = self.cells.groupby("paper") if len(self.cells) else ()
        return {str(name): list(dict.fromkeys(rows["item"])) for name, rows in by_paper}

    def measurements(
        self, paper: Paper, published: pd.DataFrame
    ) -> dict[int, dict[str, Measurement]]:
        """Return label of a published number → variant → measurement, where there is one."""
        if self.cells.empty:
            return {}
        keys = [name for name in published if name not in ABOUT | paper.about]
        rows = self.cells[(self.cells.paper == paper.name) & (self.cells.n != "0")]
        rows = rows.reindex(columns=[*rows, *(name for name in keys if name not in rows)])
        by_key: dict[tuple[str, ...], dict[str, Measurement]] = {}
        for _, row in rows.iterrows():
            by_key.setdefault(_key(row, keys), {})[row["variant"]] = Measurement(
                _float(row["ours"]),
                _float(row["sd"]),
                int(row["n"]),
                row["made"],
                _float(row.get("comparable", "")),
            )
        of_labels = {label: _key(row, keys) for label, row in published.iterrows()}
        return {label: by_key[key] for label, key in of_labels.items() if key in by_key}  # type: ignore[misc]

    def parts(self, paper: str, sentence: str, new: Iterable[Claim]) -> list[Claim]:
        """Return the stored parts of a sentence, new ones of the same text, then other new ones."""
        new = list(new)
        if self.claims.empty:
            return new
        rows = where(self.claims, paper=paper, claim=sentence)
        before = [
            Claim(r["text"], r["holds"] == "True", r["found"], (sentence,), r["made"], r["scale"])
            for _, r in rows.iterrows()
        ]
        by_text = {claim.text: claim for claim in new}
        first = [by_text.pop(claim.text, claim) for claim in before]
        return [*first, *by_text.values()]


def read_stored_page(folder: Path, scale: Scale) -> StoredPage:
    """Return the contents of the page in a folder, which may have none."""
    frames = {
        name: pd.read_csv(folder / name, dtype=str, keep_default_na=False)
        for name in (CELLS, CLAIMS, MEASURED)
        if (folder / name).exists()
    }
    for name, frame in frames.items():
        if missing := {"scale", "made"} - {*frame}:
            raise UsageError(
                f"{folder / name} is not beside a page of this version: it has no column"
                f" {min(missing)}; move it away"
            )
        # Claims may come from computations of another scale than the page's, and name it.
        if name != CLAIMS and (other := set(frame.scale) - {scale}):
            raise UsageError(
                f"{folder} has a page of scale {min(other)}; choose"
                f" another folder for that of scale {scale}"
            )
    return StoredPage(*(frames.get(name, pd.DataFrame()) for name in (CELLS, CLAIMS, MEASURED)))


def stored_note(counts: Mapping[str, int]) -> str:
    """Return a sentence on how many numbers are of earlier runs, by their origin; or ""."""
    parts = (f"{n:,} of {made}" for made, n in counts.items())
    return f"Kept from earlier runs: {'; '.join(parts)}." if counts else ""


def _key(row: Any, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(_text(row[name]) for name in keys)


def _text(value: Any) -> str:
    """Return one spelling of a number, however a file or a frame has it."""
    if value is None or value != value:
        return ""
    try:
        return repr(float(value))
    except ValueError:
        return str(value)


def _float(text: str) -> float:
    return float(text) if text else float("nan")
