"""What the page knows: records as one JSON value in which nothing that runs share is written
twice.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.report.metrics_text import Entry, Record
from kdgraph.report.page.columns import Columns
from kdgraph.report.page.commands import Command
from kdgraph.report.page.pictures import figure_names
from kdgraph.results.names import Run
from kdgraph.results.parts import PARTS, after, chain, task_of
from kdgraph.results.write import EXACT

DIGITS, DIGITS_OF_ERRORS = 6, 3
"""Significant digits of values and of standard errors; all of them are in the records."""


class Table:
    """Values that many runs share: each is kept once, and referred to by its position."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._positions: dict[str, int] = {}

    def position(self, value: Any) -> int:
        """Where the value is, from now on if it is new."""
        text = json.dumps(value, sort_keys=True, default=str)
        if text not in self._positions:
            self._positions[text] = len(self.values)
            self.values.append(value)
        return self._positions[text]


class Content:
    """Collects runs; :meth:`as_json` is what the page's script reads."""

    def __init__(self) -> None:
        self.columns = Columns()
        names = (
            "datasets",
            "methods",
            "parents",
            "settings",
            "nodes",
            "layouts",
            "numbers",
            "facts",
            "stages",
            "sets",
            "made",
            "warnings",
        )
        names = (*names, "commands", "notes", "figures", "tabulated")
        self.tables = {name: Table() for name in names}
        self.runs: list[dict[str, Any]] = []

    def add(
        self,
        runs: Sequence[Run],
        commands: Sequence[Command],
        paths: Sequence[str],
        parents: Mapping[str, str],
    ) -> None:
        """Add all runs; ``commands`` say how each is done again, ``paths`` where it is, ``parents``
        what theirs are called as methods.
        """
        for run, command, path in zip(runs, commands, paths, strict=True):
            record = run.record
            setting = {
                "dataset": self.tables["datasets"].position(run.dataset),
                "method": self.tables["methods"].position(run.method),
                "parent": self.tables["parents"].position(parents[run.parent]),
                "is_parent": run.is_parent,
                "parts": {part: str(record[part]) for part in PARTS},
                "chain": chain(record),
                "after": after(record),
                "protocol": record["protocol"],
                "task": task_of(record),
                "nodes": {
                    name: self.tables["nodes"].position(node)
                    for name, node in record["config"].items()
                    if name != "seed"
                },
            }
            where = {
                "id": record["run_id"],
                "path": path,
                "repetition": [
                    n if n <= EXACT else str(n) for n in run.repetition
                ],  # JavaScript has no larger integers
                "setting": self.tables["settings"].position(setting),
            }
            self.runs.append(
                {**where, **self._numbers(record), **self._facts(record), **self._again(command)}
            )

    def as_json(self) -> dict[str, Any]:
        """Everything but titles and figures."""
        tables = {name: table.values for name, table in self.tables.items()}
        return {"columns": self.columns.as_json(), **tables, "runs": self.runs}

    def _numbers(self, record: Record) -> dict[str, int]:
        """Where the numbers of parent and calibrated model are; runs that share a parent share its
        numbers.
        """
        of: dict[str, dict[int, Entry]] = {"parent": {}, "calibrated": {}}
        for column, entry in self.columns.of(record):
            of[entry["of"]][column] = entry
        return {
            name: self.tables["numbers"].position(self._numbers_of(entries))
            for name, entries in of.items()
        }

    def _numbers_of(self, entries: Mapping[int, Entry]) -> dict[str, Any]:
        """Values and standard errors in the order of a layout; ``n`` rows each, but for those in
        ``other_n``.
        """
        usual = Counter(entry["n"] for entry in entries.values()).most_common(1)
        n = usual[0][0] if usual else None
        return {
            "layout": self.tables["layouts"].position(list(entries)),
            "value": [_rounded(entry["value"], DIGITS) for entry in entries.values()],
            "stderr": [_rounded(entry["stderr"], DIGITS_OF_ERRORS) for entry in entries.values()],
            "n": n,
            "other_n": {
                i: entry["n"] for i, entry in enumerate(entries.values()) if entry["n"] != n
            },
        }

    def _facts(self, record: Record) -> dict[str, Any]:
        data = dict(record["dataset"])
        return {
            "fingerprint": data.pop("fingerprint", None),
            "facts": self.tables["facts"].position(data),
            "made": (
                self.tables["made"].position(
                    {key: record[key] for key in ("versions", "git", "host")}
                )
            ),
            "warnings": [
                self.tables["warnings"].position(warning) for warning in record["warnings"]
            ],
            "stages": self.tables["stages"].position(list(record["seconds"])),
            "seconds": [_rounded(value, DIGITS_OF_ERRORS) for value in record["seconds"].values()],
            "memory": [round(most) for most in record["peak_memory_mb"].values()],
            "stored": record["from_store"],
            "figures": self.tables["figures"].position(figure_names(record)),
            "tables": self.tables["tabulated"].position(record["files"]["tables"]),
            "learnt": _shortened(record["learnt"]),
            "sets": self.tables["sets"].position(record["ood_sets"]),
        }

    def _again(self, command: Command) -> dict[str, int]:
        found = (
            {
                "command": (
                    self.tables["commands"].position(shlex.join(("kdg", "run", *command.words)))
                )
            }
            if command.words
            else {}
        )
        return found | (
            {"note": self.tables["notes"].position(command.note)} if command.note else {}
        )


def _rounded(value: float | None, digits: int) -> float | None:
    """Return a number with so many significant digits."""
    return None if value is None else float(f"{value:.{digits}g}")


def _shortened(learnt: Any) -> Any:
    if isinstance(learnt, Mapping):
        return {key: _shortened(value) for key, value in learnt.items()}
    return _rounded(learnt, DIGITS) if isinstance(learnt, float) else learnt
