"""Tables of data sets: which of them are on this machine, and whether they are whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdgraph.data.openml.cache import CacheCheck


def dataset_table(ids: Mapping[str, int], sizes: Mapping[int, int], folder: Path) -> str:
    """One line for each data set.

    Parameters
    ----------
    ids : number of OpenML by name.
    sizes : bytes by number, of those that are on this machine.
    folder : where they are.
    """
    rows = [("", "OpenML", "on this machine")]
    rows += [
        (name, str(id), size_text(sizes[id]) if id in sizes else "–") for name, id in ids.items()
    ]
    wanted = set(ids.values())
    here = wanted & sizes.keys()
    total = (
        f"{len(here)} of {len(wanted)} data sets are in {folder}"
        f" ({size_text(sum(sizes[id] for id in here))})"
    )
    way_out = "" if here == wanted else "; 'kdg data get NAME' fetches one or a group"
    return "\n".join([*_aligned(rows, "<>>"), total + way_out])


def check_table(found: Sequence[CacheCheck], folder: Path) -> str:
    """One line for each data set that was checked, and one in the end."""
    rows = [("", "", "rows", "columns", "size", "")]
    rows += [
        (
            str(each.id),
            each.name,
            f"{each.rows:,}",
            f"{each.columns:,}",
            size_text(each.size),
            "damaged" if each.problem else "ok",
        )
        for each in found
    ]
    bad = sum(each.problem is not None for each in found)
    total = size_text(sum(each.size for each in found))
    state = "all of them whole" if not bad else f"{bad} of them damaged"
    return "\n".join(
        [*_aligned(rows, "><>>><"), f"{len(found)} data sets in {folder} ({total}), {state}"]
    )


def size_text(size: int) -> str:
    """A number of bytes as people say it.

    >>> megabytes(13_492_599), megabytes(2_000), megabytes(0)
    ('13.5 MB', '2 kB', '0 kB')
    """
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"


def _aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
