"""Why a number of ours is not the published one, and what shows it; or what is missing to have one:
``reasons.csv`` of a paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

COLUMNS = ("kind", "reason", "shown_by")
MISSING, DIFFERS, NOT_RUN = KINDS = "missing", "differs", "not run"


@dataclass(frozen=True)
class Reason:
    """One line of the file.

    Attributes
    ----------
    kind : "missing", what is to be fetched before it can be run; "differs", why it does; "not run",
    why not at this scale.
    reason, shown_by : a sentence, and the run or the section that shows it.
    of : columns of ``published.csv`` and what they must have; those that are empty may have
        anything.
    """

    kind: str
    reason: str
    shown_by: str
    of: Mapping[str, str]

    def is_of(self, published: Mapping[str, Any]) -> bool:
        """Whether it speaks of a published number."""
        return all(str(published.get(name)) == wanted for name, wanted in self.of.items())


def reasons_of(folder: Path) -> list[Reason]:
    """All of a paper; none where there is no file.

    Raises
    ------
    ValueError
        A column is missing, or a line has no sentence or another kind.
    """
    path = folder / "reasons.csv"
    if not path.exists():
        return []
    lines = pd.read_csv(path, dtype=str, keep_default_na=False)
    if missing := [name for name in COLUMNS if name not in lines]:
        raise ValueError(
            f"{path} must have the columns {', '.join(COLUMNS)}; it lacks {', '.join(missing)}"
        )
    if (wrong := ~lines.kind.isin(KINDS) | (lines.reason == "")).any():
        raise ValueError(
            f"{path}: line {int(wrong.argmax()) + 2} must be of kind {' or '.join(KINDS)} and have"
            " a reason"
        )
    return list(_reasons(lines))


def _reasons(lines: pd.DataFrame) -> Iterable[Reason]:
    for _, line in lines.iterrows():
        of = {str(name): value for name, value in line.items() if name not in COLUMNS and value}
        yield Reason(line["kind"], line["reason"], line["shown_by"], of)
