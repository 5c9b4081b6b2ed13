"""Reasons why a measured number differs from the published one or is missing: ``reasons.csv``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

COLUMNS = ("kind", "reason", "shown_by")
MISSING, DIFFERS, NOT_RUN = KINDS = "missing", "differs", "not run"


@dataclass(frozen=True)
class Reason:
    """A row of ``reasons.csv``."""

    kind: str  # "missing", what must be fetched before a run; "differs"; or "not run" at this scale
    reason: str
    shown_by: str  # the run or section that shows it
    # columns of ``published.csv`` and the values that a number must have there
    where: Mapping[str, str]

    def applies_to(self, published: Mapping[str, Any]) -> bool:
        """Return whether it is the reason of a published number."""
        return all(str(published.get(name)) == value for name, value in self.where.items())


def reasons_of(folder: Path) -> list[Reason]:
    """Return the reasons of a paper, none without the file."""
    path = folder / "reasons.csv"
    if not path.exists():
        return []
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    if missing := [name for name in COLUMNS if name not in rows]:
        raise ValueError(
            f"{path} must have the columns {', '.join(COLUMNS)}; it lacks {', '.join(missing)}"
        )
    if (wrong := ~rows.kind.isin(KINDS) | (rows.reason == "")).any():
        raise ValueError(
            f"{path}: line {int(wrong.argmax()) + 2} must be of kind"
            f" {' or '.join(KINDS)} and have a reason"
        )
    keys = [name for name in rows if name not in COLUMNS]
    return [
        Reason(row["kind"], row["reason"], row["shown_by"], {k: row[k] for k in keys if row[k]})
        for _, row in rows.iterrows()
    ]
