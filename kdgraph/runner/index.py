"""Run directories of the points of a sweep, remembered from one command to the next.

A point that is done is skipped without composing its config, which takes 3 to 100 ms.

The index is lines of JSON in ``<out>/.sweeps/index-<digest>.jsonl``, where the digest is of
everything that overrides are composed from: other YAML files, another index. The files that rows
are read from are part of a run's id, so a point with such files is known only while they are
unchanged. Losing an index costs time and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from kdgraph.config import Job, Plan
from kdgraph.config.data_sources import files_read, recorded_read
from kdgraph.containment import LeadsOutside, path_inside
from kdgraph.runner.files import ChecksumError, add_checksum, check_and_load

OTHER_INDICES = 4
"""Indices of other configurations that stay beside the one in use."""


@dataclass(frozen=True)
class Index:
    """Entries of the runs in ``out`` by the key of their job.

    ``path`` is the file; None where nothing can be remembered.
    """

    out: Path
    path: Path | None
    entries: Mapping[str, Any]

    @classmethod
    def of(cls, planned: Plan) -> Index:
        """Read the index of a plan.

        A line that was cut off by a kill, or is not as it was written, is left out.
        """
        digest = planned.composer.digest() if planned.multirun else None
        if digest is None or any(
            "oc.env" in override for job in planned.jobs for override in job.overrides
        ):
            return cls(planned.out, None, {})
        path = planned.out / ".sweeps" / f"index-{digest[:16]}.jsonl"
        return cls(planned.out, path, _read(path))

    def known(self) -> dict[str, Path]:
        """Return key → run directory, of the jobs whose files are unchanged."""
        unchanged: dict[str, bool] = {}
        known = {}
        for key, entry in self.entries.items():
            with suppress(LeadsOutside):
                if _are_unchanged(entry["files"], unchanged):
                    known[key] = path_inside(self.out, entry["run"])
        return known

    def remember(self, jobs: Iterable[Job]) -> None:
        """Add jobs that have been composed; other processes may do the same at the same time."""
        if self.path is None:
            return
        # Of a sweep over ``out``, the runs in other folders are composed again each time.
        lines = [
            _line(job.key, job.run_dir.relative_to(self.out).as_posix(), job.config.science())
            for job in jobs
            if job.run_dir.is_relative_to(self.out)
        ]
        # A full disk, or another user's folder: an index saves time and nothing else.
        with suppress(OSError):
            if lines:
                self._append(self.path, lines)

    @staticmethod
    def _append(path: Path, lines: Iterable[bytes]) -> None:
        if not path.exists():
            _delete_old(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b"".join(lines))


def _read(path: Path) -> dict[str, Any]:
    try:
        lines = path.read_bytes().splitlines() if path.is_file() else []
    except OSError:
        return {}
    entries = {}
    for line in lines:
        with suppress(ChecksumError):
            entry = check_and_load(line)
            if _is_entry(entry):
                entries[entry["key"]] = entry
    return entries


def _is_entry(entry: Mapping[str, Any]) -> bool:
    """Return whether the content of a line is as :func:`_line` writes it."""
    files = entry.get("files")
    return (
        isinstance(entry.get("key"), str)
        and isinstance(entry.get("run"), str)
        and isinstance(files, list)
        and all(
            isinstance(file, list)
            and len(file) == 5
            and all(isinstance(word, str | None) for word in file)
            and None not in file[1:4]
            for file in files
        )
    )


def _line(key: str, run: str, science: Mapping[str, Any]) -> bytes:
    files = [[*astuple(read), read.stamp(), read.digest()] for read in files_read(science).values()]
    entry = {"key": key, "run": run, "files": files}
    return add_checksum(entry, indent=None) + b"\n"


def _are_unchanged(files: Iterable[Any], unchanged: dict[str, bool]) -> bool:
    """Return whether the files' sizes and times, or else their content, are as in an entry.

    ``unchanged`` has the results for files of other entries, and gets those of these.
    """
    for target, key, path, stamp, digest in files:
        name, read = f"{target} {key} {path} {digest}", recorded_read(target, key, path)
        if name not in unchanged:
            unchanged[name] = read.stamp() == stamp or read.digest() == digest
        if not unchanged[name]:
            return False
    return True


def _delete_old(path: Path) -> None:
    others = sorted(path.parent.glob("index-*.jsonl"), key=os.path.getmtime, reverse=True)
    for old in others[OTHER_INDICES - 1 :]:
        old.unlink(missing_ok=True)
