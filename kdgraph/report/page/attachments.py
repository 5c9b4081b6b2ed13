"""Figures and tables of runs inside the page.

Both have a budget, so that the page stays small enough to be sent around. Runs are visited in the
order of their repetitions: the first seed of every setting comes before the second seed of any.
"""

from __future__ import annotations

import base64
import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from kdgraph.containment import LeadsOutside, path_inside
from kdgraph.results.names import NamedRun
from kdgraph.results.origins import Record
from kdgraph.runner.files import file_checksum
from kdgraph.wording import counted

FigureAmount = Literal["none", "some", "all"]
FIGURE_BUDGET = 4_000_000
"""Bytes of the page that figures may take, unless all of them are wanted."""
TABLE_BUDGET = 2_000_000
"""Bytes of the page that tables may take."""
LARGEST = 60_000
"""Bytes of a table that is in the page as a whole; of larger ones the first rows are."""
FIRST_ROWS = 12
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass
class _Attachments:
    """Files of runs in the page."""

    # Position of the run → contents of its files.
    by_run: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    left_out: int = 0  # files that are not in the page
    missing: int = 0  # files that are gone, or changed since they were written
    size: int = 0  # bytes in the page

    @property
    def count(self) -> int:
        return sum(map(len, self.by_run.values()))

    def _sentence(self, noun: str, reason: str, problem: str) -> str:
        """Return one sentence about the files; "" if no run has any."""
        if not self.count + self.left_out + self.missing:
            return ""
        parts = [f"{counted(self.count, noun)} {_are(self.count)} in the page"]
        if self.left_out:
            parts.append(f"{self.left_out:,} {_are(self.left_out)} not ({reason})")
        return ", ".join([*parts, problem] if self.missing else parts)


@dataclass
class PageFigures(_Attachments):
    """Figures in the page: name, type and content (text of SVG, base64 of PNG) of each."""

    def summary(self, amount: FigureAmount) -> str:
        """Return one sentence about the figures of the chosen amount; "" without any."""
        reason = (
            "--figures some or all takes them"
            if amount == "none"
            else f"figures take at most {FIGURE_BUDGET / 1e6:g} MB; --figures all takes all"
        )
        problem = f"{counted(self.missing, 'file')} {_are(self.missing)} gone"
        return self._sentence("figure", reason, problem)


@dataclass
class PageTables(_Attachments):
    """Tables (curves, histograms, maps) in the page.

    Each has a name, a label, a file, columns, rows as text and the number of rows in the file.
    """

    @property
    def summary(self) -> str:
        """One sentence about the tables; "" if no run has any."""
        problem = f"{self.missing:,} of their files {_are(self.missing)} gone, changed or no tables"
        return self._sentence("table", f"tables take at most {TABLE_BUDGET / 1e6:g} MB", problem)


def read_figures(runs: Sequence[NamedRun], amount: FigureAmount) -> PageFigures:
    """Read the smaller file of each figure, some until the budget is used up, or all or none."""
    figures = PageFigures()
    for i in _by_repetition(runs):
        for name, path in _figure_files(runs[i]).items():
            if path is None:
                figures.missing += 1
                continue
            # base64 writes three bytes as four characters.
            size = path.stat().st_size * (4 / 3 if path.suffix == ".png" else 1)
            if amount == "none" or (amount == "some" and figures.size + size > FIGURE_BUDGET):
                figures.left_out += 1
                continue
            figures.size += round(size)
            figures.by_run.setdefault(i, []).append(
                {"name": name, "type": TYPES[path.suffix], "content": _figure_content(path)}
            )
    return figures


def read_tables(runs: Sequence[NamedRun]) -> PageTables:
    """Read tables until the budget is used up."""
    tables = PageTables()
    for i in _by_repetition(runs):
        for name, file in runs[i].record["files"]["tables"].items():
            path = _file_of_run(runs[i], file)
            checksum = runs[i].record["files"].get("sha256", {}).get(file)
            is_unchanged = path is not None and checksum in (None, file_checksum(path))
            content = _table_content(path) if path and is_unchanged else None
            if content is None:
                tables.missing += 1
                continue
            size = sum(len(cell) + 3 for row in content["rows"] for cell in row)
            if tables.size + size > TABLE_BUDGET:
                tables.left_out += 1
                continue
            tables.size += size
            label = runs[i].record["about_metrics"][name]["label"]
            tables.by_run.setdefault(i, []).append(
                {"name": name, "label": label, "file": file, **content}
            )
    return tables


def browser_figures(record: Record) -> list[str]:
    """Return the figure files of a record that a browser can show."""
    return [name for name in record["files"]["figures"] if Path(name).suffix in TYPES]


def _by_repetition(runs: Sequence[NamedRun]) -> list[int]:
    return sorted(range(len(runs)), key=lambda i: runs[i].repetition)


def _figure_files(run: NamedRun) -> dict[str, Path | None]:
    """Return the smallest file of each figure that a browser can show; None if all are gone."""
    smallest: dict[str, Path | None] = {}
    for name in browser_figures(run.record):
        path, stem = _file_of_run(run, name), Path(name).stem
        other = smallest.setdefault(stem, None)
        if path and (other is None or path.stat().st_size < other.stat().st_size):
            smallest[stem] = path
    return smallest


def _file_of_run(run: NamedRun, name: str) -> Path | None:
    """Return a file that a record names; None where it is gone, or a link leads elsewhere."""
    try:
        path = path_inside(run.finished.path, name)
    except LeadsOutside:
        return None
    return path if os.path.isfile(path) else None


def _figure_content(path: Path) -> str:
    if path.suffix == ".svg":
        return path.read_text(encoding="utf-8", errors="replace")
    return base64.b64encode(path.read_bytes()).decode()


def _table_content(path: Path) -> dict[str, Any] | None:
    """Return columns, rows and the number of rows of a CSV file; None if it is not a table."""
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


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
