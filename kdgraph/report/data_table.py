"""Tables of ``kdg data``: the data sets on this machine, and whether their files are intact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.wording import counted

if TYPE_CHECKING:
    from kdgraph.data.openml.cache import CacheCheck


def dataset_table(ids: Mapping[str, int], sizes: Mapping[int, int], folder: Path) -> str:
    """Return a line for each data set, and a summary.

    ``ids`` are numbers at OpenML by name, ``sizes`` the bytes of those that are on this machine.
    """
    rows = [("", "OpenML", "on this machine")]
    rows += [
        (name, str(id), size_text(sizes[id]) if id in sizes else "–") for name, id in ids.items()
    ]
    wanted = set(ids.values())
    present = wanted & sizes.keys()
    size = size_text(sum(sizes[id] for id in present))
    verb = "is" if len(wanted) == 1 else "are"
    summary = f"{len(present)} of {counted(len(wanted), 'data set')} {verb} in {folder} ({size})"
    way_out = "" if present == wanted else "; 'kdg data get NAME' fetches one or a group"
    return "\n".join([*_aligned(rows, "<>>"), summary + way_out])


def check_table(checks: Sequence[CacheCheck], folder: Path) -> str:
    """Return a line for each data set that was checked, and a summary."""
    rows = [("", "", "rows", "columns", "size", "")]
    rows += [
        (
            str(check.id),
            check.name,
            f"{check.rows:,}",
            f"{check.columns:,}",
            size_text(check.size),
            "damaged" if check.problem else "ok",
        )
        for check in checks
    ]
    n_damaged = sum(check.problem is not None for check in checks)
    size = size_text(sum(check.size for check in checks))
    state = f"{n_damaged} of them damaged" if n_damaged else "all of them whole"
    summary = f"{counted(len(checks), 'data set')} in {folder} ({size}), {state}"
    return "\n".join([*_aligned(rows, "><>>><"), summary])


def size_text(size: int) -> str:
    """Return a number of bytes in MB or kB.

    >>> size_text(13_492_599), size_text(2_000), size_text(0)
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
