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

from kdgraph.config import Job, Plan, Read, files_read
from kdgraph.runner.files import ChecksumError, add_checksum, check_and_load

OTHER_INDICES = 4
"""Indices of other configurations that stay beside the one in use."""


@dataclass(frozen=True)
class Index:
    """Run directories by the key of a job.

    Attributes
    ----------
    path : Path or None
        The file; None where nothing can be remembered.
    entries : mapping
        Key of a job → its entry.
    """

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
            return cls(None, {})
        path = planned.out / ".sweeps" / f"index-{digest[:16]}.jsonl"
        return cls(path, _read(path))

    def known(self) -> dict[str, Path]:
        """Return key → run directory, of the jobs whose files are unchanged."""
        unchanged: dict[str, bool] = {}
        return {
            key: Path(entry["run_dir"])
            for key, entry in self.entries.items()
            if _are_unchanged(entry.get("files") or [], unchanged)
        }

    def remember(self, jobs: Iterable[Job]) -> None:
        """Add jobs that have been composed; other processes may do the same at the same time."""
        lines = [_line(job.key, job.run_dir, job.config.science()) for job in jobs]
        if self.path is None or not lines:
            return
        # A full disk, or another user's folder: an index saves time and nothing else.
        with suppress(OSError):
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
        lines = path.read_bytes().splitlines()
    except OSError:
        return {}
    entries = {}
    for line in lines:
        with suppress(ChecksumError):
            entry = check_and_load(line)
            entries[entry["key"]] = entry
    return entries


def _line(key: str, run_dir: Path, science: Mapping[str, Any]) -> bytes:
    files = [[*astuple(read), read.stamp(), read.digest()] for read in files_read(science).values()]
    entry = {"key": key, "run_dir": str(run_dir), "files": files}
    return add_checksum(entry, indent=None) + b"\n"


def _are_unchanged(files: Iterable[Any], unchanged: dict[str, bool]) -> bool:
    """Return whether the files' sizes and times, or else their content, are as in an entry.

    Parameters
    ----------
    files : iterable
        Files of an entry, as in :func:`_line`.
    unchanged : dict
        Results for files of other entries; changed in place.
    """
    for target, key, path, stamp, digest in files:
        name, read = f"{target} {key} {path} {digest}", Read(target, key, path)
        if name not in unchanged:
            unchanged[name] = read.stamp() == stamp or read.digest() == digest
        if not unchanged[name]:
            return False
    return True


def _delete_old(path: Path) -> None:
    others = sorted(path.parent.glob("index-*.jsonl"), key=os.path.getmtime, reverse=True)
    for old in others[OTHER_INDICES - 1 :]:
        old.unlink(missing_ok=True)
