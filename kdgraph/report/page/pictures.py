"""The figures of runs inside the page, as far as they fit: each as SVG or PNG, whichever is
smaller.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kdgraph.report.metrics_text import Record
from kdgraph.results.names import Run

Amount = Literal["none", "some", "all"]
BUDGET = 4_000_000
"""Bytes of the page that figures may take, unless all of them are wanted."""
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass
class Pictures:
    """What is in the page.

    Attributes
    ----------
    by_run : position of the run → its figures: name, type, and content (text of SVG, base64 of
    PNG).
    left_out : figures that were not taken, and ``missing`` those whose file is not there.
    size : bytes that they take in the page.
    """

    by_run: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    left_out: int = 0
    missing: int = 0
    size: int = 0

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.by_run.values()))

    def told(self, amount: Amount) -> str:
        """What is in the page and what is not, in one sentence; "" where no run has a figure."""
        if not self.count + self.left_out + self.missing:
            return ""
        why = (
            "--figures some or all takes them"
            if amount == "none"
            else f"figures take at most {BUDGET / 1e6:g} MB; --figures all takes all"
        )
        parts = [f"{self.count:,} figure{' is' if self.count == 1 else 's are'} in the page"]
        parts += [f"{self.left_out:,} are not ({why})"] if self.left_out else []
        parts += [f"{self.missing:,} files are gone"] if self.missing else []
        return ", ".join(parts)


def pictures_of(runs: Sequence[Run], amount: Amount) -> Pictures:
    """Read figures until the budget is used up, the first repetition of every setting before the
    second of any.
    """
    taken = Pictures()
    for i in sorted(range(len(runs)), key=lambda i: runs[i].repetition):
        for name, path in _files(runs[i]).items():
            if path is None:
                taken.missing += 1
                continue
            size = path.stat().st_size * (4 / 3 if path.suffix == ".png" else 1)
            if amount == "none" or (amount == "some" and taken.size + size > BUDGET):
                taken.left_out += 1
                continue
            taken.size += round(size)
            taken.by_run.setdefault(i, []).append(
                {"name": name, "type": TYPES[path.suffix], "content": _content(path)}
            )
    return taken


def _files(run: Run) -> dict[str, Path | None]:
    """Name of each figure → the smallest file that a browser shows, or None if it is gone."""
    found: dict[str, Path | None] = {}
    for file in run.record["files"]["figures"]:
        path = Path(run.found.path, file)
        if path.suffix not in TYPES:
            continue
        there = found.setdefault(path.stem, None)
        if path.is_file() and (there is None or path.stat().st_size < there.stat().st_size):
            found[path.stem] = path
    return found


def _content(path: Path) -> str:
    return (
        path.read_text(encoding="utf-8")
        if path.suffix == ".svg"
        else base64.b64encode(path.read_bytes()).decode()
    )


def figure_names(record: Record) -> list[str]:
    """Files of a run's figures that a browser can show, by the record."""
    return [name for name in record["files"]["figures"] if Path(name).suffix in TYPES]
