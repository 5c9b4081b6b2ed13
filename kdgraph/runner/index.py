"""Which run directory a point of a sweep has, remembered: what is done is skipped without composing
its config, 3 to 100 ms a point.

Lines of JSON in ``<out>/.sweeps/index-<digest>.jsonl``, where the digest is of everything that
overrides are composed from: other YAML, another index. The files that rows are read from are part
of a run's id, so a point with such files is known only while they are as they were. Losing an index
costs time and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from kdgraph.config import Job, Plan, Read, RunConfig, files_read
from kdgraph.runner.sealed import ChecksumError, add_checksum, check_and_load

KEPT = 4
"""Indices of other configurations that stay beside the one in use."""


@dataclass(frozen=True)
class Index:
    """Run directories by the key of a job; ``path`` is None where nothing can be remembered."""

    path: Path | None
    entries: Mapping[str, Any]

    @classmethod
    def of(cls, planned: Plan) -> Index:
        """Read what is known; a line that was cut off by a kill, or is not as it was written, is
        left out.
        """
        digest = planned.composer.digest() if planned.multirun else None
        if digest is None or any(
            "oc.env" in override for job in planned.jobs for override in job.overrides
        ):
            return cls(None, {})
        path = planned.out / ".sweeps" / f"index-{digest[:16]}.jsonl"
        return cls(path, _read(path))

    def known(self) -> dict[str, Path]:
        """Key → run directory, of those whose files are as they were."""
        seen: dict[str, bool] = {}
        return {
            key: Path(entry["run_dir"])
            for key, entry in self.entries.items()
            if _as_it_was(entry.get("files") or [], seen)
        }

    def remember(self, jobs: Iterable[Job]) -> None:
        """Add jobs that have been composed; other processes may do the same at the same time."""
        lines = [_line(job.key, job.config) for job in jobs]
        if self.path is None or not lines:
            return
        with suppress(
            OSError
        ):  # a full disk, a folder of somebody else's: an index saves time and nothing else
            self._append(lines)

    def _append(self, lines: Iterable[bytes]) -> None:
        assert self.path is not None
        if not self.path.exists():
            _forget_old(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(b"".join(lines))


def _read(path: Path) -> dict[str, Any]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        with suppress(ChecksumError):
            entry = check_and_load(line)
            found[entry["key"]] = entry
    return found


def _line(key: str, config: RunConfig) -> bytes:
    files = [
        [*astuple(read), read.stamp(), read.digest()]
        for read in files_read(config.science()).values()
    ]
    return (
        add_checksum({"key": key, "run_dir": str(config.run_dir), "files": files}, indent=None)
        + b"\n"
    )


def _as_it_was(files: Iterable[Any], seen: dict[str, bool]) -> bool:
    """Whether sizes and times are the same, or else the content."""
    for target, key, path, stamp, digest in files:
        known, read = f"{target} {key} {path} {digest}", Read(target, key, path)
        if known not in seen:
            seen[known] = read.stamp() == stamp or read.digest() == digest
        if not seen[known]:
            return False
    return True


def _forget_old(path: Path) -> None:
    others = sorted(path.parent.glob("index-*.jsonl"), key=os.path.getmtime, reverse=True)
    for old in others[KEPT - 1 :]:
        old.unlink(missing_ok=True)
