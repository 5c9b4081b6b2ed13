"""The figures of runs inside the page, as far as they fit: each as SVG or PNG, whichever is
smaller.

The tables of runs (curves, histograms, maps) inside the page: the first rows of each, and the
whole of those that are small.
"""

from __future__ import annotations

import base64
import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from kdgraph.report.run_table import Record
from kdgraph.results.names import NamedRun
from kdgraph.runner.sealed import file_checksum

FigureAmount = Literal["none", "some", "all"]
FIGURE_BUDGET = 4_000_000
"""Bytes of the page that figures may take, unless all of them are wanted."""
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass
class PageFigures:
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

    def summary(self, amount: FigureAmount) -> str:
        """What is in the page and what is not, in one sentence; "" where no run has a figure."""
        if not self.count + self.left_out + self.missing:
            return ""
        why = (
            "--figures some or all takes them"
            if amount == "none"
            else f"figures take at most {FIGURE_BUDGET / 1e6:g} MB; --figures all takes all"
        )
        parts = [f"{self.count:,} figure{' is' if self.count == 1 else 's are'} in the page"]
        parts += [f"{self.left_out:,} are not ({why})"] if self.left_out else []
        parts += [f"{self.missing:,} files are gone"] if self.missing else []
        return ", ".join(parts)


def read_figures(runs: Sequence[NamedRun], amount: FigureAmount) -> PageFigures:
    """Read figures until the budget is used up, the first repetition of every setting before the
    second of any.
    """
    taken = PageFigures()
    for i in sorted(range(len(runs)), key=lambda i: runs[i].repetition):
        for name, path in _files(runs[i]).items():
            if path is None:
                taken.missing += 1
                continue
            size = path.stat().st_size * (4 / 3 if path.suffix == ".png" else 1)
            if amount == "none" or (amount == "some" and taken.size + size > FIGURE_BUDGET):
                taken.left_out += 1
                continue
            taken.size += round(size)
            taken.by_run.setdefault(i, []).append(
                {"name": name, "type": TYPES[path.suffix], "content": _content(path)}
            )
    return taken


def _files(run: NamedRun) -> dict[str, Path | None]:
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


def browser_figures(record: Record) -> list[str]:
    """Files of a run's figures that a browser can show, by the record."""
    return [name for name in record["files"]["figures"] if Path(name).suffix in TYPES]


TABLE_BUDGET = 2_000_000
"""Bytes of the page that tables may take."""
LARGEST = 60_000
"""Bytes of a file that the page has as a whole; of a larger one it has the first rows."""
FIRST_ROWS = 12


@dataclass
class PageTables:
    """What is in the page.

    Attributes
    ----------
    by_run : position of the run → its tables: name, label, file, columns, rows as text (of a large
    table the first), how many there are.
    left_out : tables that were not taken, and ``missing`` those whose file is not there, is no
        table or is not as it was written.
    size : bytes that they take in the page.
    """

    by_run: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    left_out: int = 0
    missing: int = 0
    size: int = 0

    @property
    def summary(self) -> str:
        """What is in the page and what is not, in one sentence; "" where no run has a table."""
        count = sum(map(len, self.by_run.values()))
        if not count + self.left_out + self.missing:
            return ""
        parts = [f"{count:,} table{' is' if count == 1 else 's are'} in the page"]
        parts += (
            [f"{self.left_out:,} are not (tables take at most {TABLE_BUDGET / 1e6:g} MB)"]
            if self.left_out
            else []
        )
        parts += (
            [f"{self.missing:,} of their files are gone, changed or no tables"]
            if self.missing
            else []
        )
        return ", ".join(parts)


def read_tables(runs: Sequence[NamedRun]) -> PageTables:
    """Read tables until the budget is used up, the first repetition of every setting before the
    second of any.
    """
    taken = PageTables()
    for i in sorted(range(len(runs)), key=lambda i: runs[i].repetition):
        for name, file in runs[i].record["files"]["tables"].items():
            path = Path(runs[i].found.path, file)
            digest = runs[i].record["files"].get("sha256", {}).get(file)
            found = _read(path) if digest in (None, file_checksum(path)) else None
            if found is None:
                taken.missing += 1
                continue
            size = sum(len(cell) + 3 for row in found["rows"] for cell in row)
            if taken.size + size > TABLE_BUDGET:
                taken.left_out += 1
                continue
            taken.size += size
            label = runs[i].record["about_metrics"][name]["label"]
            taken.by_run.setdefault(i, []).append(
                {"name": name, "label": label, "file": file, **found}
            )
    return taken


def _read(path: Path) -> dict[str, Any] | None:
    """Columns, rows and how many there are; None where there is no such table."""
    try:
        at_most = None if path.stat().st_size <= LARGEST else FIRST_ROWS
        with path.open(encoding="utf-8", errors="replace", newline="") as lines:
            reader = csv.reader(lines)
            columns = next(reader, [])
            rows = list(islice(reader, at_most))
            n = len(rows) + sum(1 for _ in reader)
    except (OSError, csv.Error):
        return None
    return {"columns": columns, "rows": rows, "n": n} if columns else None
