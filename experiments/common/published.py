"""Published numbers of a paper: ``published.csv`` in its folder, one number per row."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.common.markdown import number

# Columns of every such file: table or figure, source of the number, and its meaning. A paper adds
# columns for what else it varies.
COLUMNS = ("item", "source", "dataset", "metric", "method", "value")
# Columns with the origin of a number, which do not identify it.
ABOUT = {"kind", "page", "row", "column", "source", "value"}
ABOUT |= {"decimals", "spread", "spread_is", "note"}
# Beginning of the note of a number that was printed and is no longer legible.
LOST = "lost in the text"


def read_published(folder: Path) -> pd.DataFrame:
    """Return the published numbers of the paper in ``folder``, and their printed ``decimals``."""
    numbers = pd.read_csv(folder / "published.csv", dtype={"dataset": str, "value": str})
    if missing := [name for name in COLUMNS if name not in numbers]:
        raise ValueError(
            f"{folder}/published.csv must have the columns"
            f" {', '.join(COLUMNS)}; it lacks {', '.join(missing)}"
        )
    numbers = numbers.assign(
        value=numbers.value.astype(float),
        decimals=numbers.value.fillna("").str.partition(".")[2].str.len(),
    )
    lost = numbers.note.fillna("").str.startswith(LOST) if "note" in numbers else False
    if (empty := numbers.value.isna() & ~lost).any():
        raise ValueError(
            f"{folder}/published.csv has no value in row {int(empty.argmax())},"
            f" and its note does not begin with {LOST!r}"
        )
    if (duplicates := numbers.duplicated([name for name in numbers if name not in ABOUT])).any():
        raise ValueError(
            f"{folder}/published.csv has two values of one thing, the second in row"
            f" {int(duplicates.argmax())}"
        )
    return numbers


def cell(matches: pd.DataFrame, digits: int = 3) -> str:
    """Return the only published number of some rows for a table, or a dash if there are none."""
    if len(matches) > 1:
        raise ValueError(
            "a cell holds one published number, got"
            f" {len(matches)}: name a key that distinguishes them"
        )
    return number(float(matches.value.iloc[0]), digits) if len(matches) else "–"


def printed(folder: Path, digits: int = 3, **keys: object) -> str:
    """Return the published number with these keys, of the paper in ``folder``, for a table."""
    rows = read_published(folder)
    for name, value in keys.items():
        rows = rows[rows[name] == value]
    return cell(rows, digits)
