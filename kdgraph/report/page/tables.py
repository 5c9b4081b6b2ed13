"""The tables of runs (curves, histograms, maps) inside the page: the first rows of each, and the
whole of those that are small.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from kdgraph.results.names import Run
from kdgraph.runner.files import file_checksum

BUDGET = 2_000_000
"""Bytes of the page that tables may take."""
LARGEST = 60_000
"""Bytes of a file that the page has as a whole; of a larger one it has the first rows."""
FIRST_ROWS = 12


@dataclass
class Tables:
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
    def told(self) -> str:
        """What is in the page and what is not, in one sentence; "" where no run has a table."""
        count = sum(map(len, self.by_run.values()))
        if not count + self.left_out + self.missing:
            return ""
        parts = [f"{count:,} table{' is' if count == 1 else 's are'} in the page"]
        parts += (
            [f"{self.left_out:,} are not (tables take at most {BUDGET / 1e6:g} MB)"]
            if self.left_out
            else []
        )
        parts += (
            [f"{self.missing:,} of their files are gone, changed or no tables"]
            if self.missing
            else []
        )
        return ", ".join(parts)


def tables_of(runs: Sequence[Run]) -> Tables:
    """Read tables until the budget is used up, the first repetition of every setting before the
    second of any.
    """
    taken = Tables()
    for i in sorted(range(len(runs)), key=lambda i: runs[i].repetition):
        for name, file in runs[i].record["files"]["tables"].items():
            path = Path(runs[i].found.path, file)
            digest = runs[i].record["files"].get("sha256", {}).get(file)
            found = _read(path) if digest in (None, file_checksum(path)) else None
            if found is None:
                taken.missing += 1
                continue
            size = sum(len(cell) + 3 for row in found["rows"] for cell in row)
            if taken.size + size > BUDGET:
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
