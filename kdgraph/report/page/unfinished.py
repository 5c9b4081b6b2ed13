"""Runs that have no result to show: failed, still running, or cut off."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kdgraph.results.filters import parse
from kdgraph.runner.run_dir import LOCK_FILE, RunDir

State = Literal["failed", "running", "cut off"]
JUDGED_BY_PATH = ("dataset", "method")


@dataclass(frozen=True)
class Unfinished:
    """A run directory below ``out``, what became of the run, and why in one line where that is
    known.
    """

    path: Path
    state: State
    reason: str


def unfinished(out: str | Path, filters: Sequence[str] = ()) -> list[Unfinished]:
    """Every such run below ``out``, in the order of their paths; a failed attempt to repeat a run
    that is done is one of them.

    There is no record to filter by, only ``<dataset>/<method>/<id>``: filters of data set and
    method count, others let all pass.
    """
    wanted = [each for each in map(parse, filters) if each.key in JUDGED_BY_PATH]
    found = []
    for path in _directories(out):
        dataset, method = path.parts[-3:-1] if len(path.parts) > 2 else ("", "")
        if all(each.passes({"method": method, "config": {"dataset": dataset}}) for each in wanted):
            found.append(_state_of(path))
    return sorted(found, key=lambda one: one.path)


def _directories(out: str | Path) -> Iterator[Path]:
    for folder, below, files in os.walk(out):
        if "error.txt" in files or (LOCK_FILE in files and "result.json" not in files):
            yield Path(folder)
        below[:] = (
            []
            if {"result.json", "error.txt", LOCK_FILE} & set(files)
            else [name for name in below if not name.startswith(".")]
        )


def _state_of(path: Path) -> Unfinished:
    folder = RunDir(path)
    failure = folder.failure()
    if folder.is_running:
        return Unfinished(path, "running", "it is running at the moment")
    if failure is not None:
        return Unfinished(path, "failed", failure)
    return Unfinished(
        path, "cut off", "it was ended before it was done; it is done again next time"
    )
