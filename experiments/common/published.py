"""What a paper printed or stored: ``published.csv`` in its folder, one number a row."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.common.markdown import number

COLUMNS = ("item", "source", "dataset", "metric", "method", "value")
"""That every such file has: the table or figure, where the number was read, and what it is of; a
paper adds what else it varies.
"""
ABOUT = {
    "kind",
    "page",
    "row",
    "column",
    "source",
    "value",
    "decimals",
    "spread",
    "spread_is",
    "note",
}
"""Columns that tell of a number, not what it is of."""
LOST = "lost in the text"
"""How the note of a number begins that was printed and cannot be read any more."""


def read_published(folder: Path) -> pd.DataFrame:
    """The numbers of the paper in ``folder``, a row each, and to how many ``decimals`` each is
    printed.

    Raises
    ------
    ValueError
        A column is missing, a number too that is not noted as lost, or two rows are of the same
        thing.
    """
    numbers = pd.read_csv(folder / "published.csv", dtype={"dataset": str, "value": str})
    if missing := [name for name in COLUMNS if name not in numbers]:
        raise ValueError(
            f"{folder}/published.csv must have the columns {', '.join(COLUMNS)}; it lacks"
            f" {', '.join(missing)}"
        )
    numbers = numbers.assign(
        value=numbers.value.astype(float),
        decimals=numbers.value.fillna("").str.partition(".")[2].str.len(),
    )
    lost = numbers.note.fillna("").str.startswith(LOST) if "note" in numbers else False
    if (empty := numbers.value.isna() & ~lost).any():
        raise ValueError(
            f"{folder}/published.csv has no value in row {int(empty.argmax())}, and its note does"
            f" not begin with {LOST!r}"
        )
    if (twice := numbers.duplicated([name for name in numbers if name not in ABOUT])).any():
        raise ValueError(
            f"{folder}/published.csv has two values of one thing, the second in row"
            f" {int(twice.argmax())}"
        )
    return numbers


def cell(found: pd.DataFrame, digits: int = 3) -> str:
    """The number of what was found, for a table; a dash where nothing was published.

    Raises
    ------
    ValueError
        More than one number was found.
    """
    if len(found) > 1:
        raise ValueError(
            f"a cell holds one published number, got {len(found)}: name what else tells them apart"
        )
    return number(float(found.value.iloc[0]), digits) if len(found) else "–"
