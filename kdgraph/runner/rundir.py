"""The directory of one run: its record, its failure, its claim."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.errors import CannotWrite, KdgError
from kdgraph.runner.claim import claim, clear, is_claimed
from kdgraph.runner.files import sweep_leftovers, write_atomically
from kdgraph.runner.watch import Watch

CLAIM = "running.json"
HELD = "stages.json"
"""The entries of the store that a run will ask for, until it is done."""


@dataclass(frozen=True)
class Ended:
    """Versions of the record and of the last failure, None where there is none: what changes when a run ends once more."""

    record: tuple[int, int] | None
    failure: tuple[int, int] | None


class RunDir:
    """``result.json`` is the only mark of done; ``running.json`` is the claim, ``error.txt`` the last failure."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self) -> dict[str, Any] | None:
        """The record of the finished run, or None if it is not done."""
        try:
            return json.loads((self.path / "result.json").read_text())
        except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):  # a power cut may leave an empty file: not done
            return None

    @property
    def ended(self) -> Ended:
        """Which record and which failure are there now."""
        return Ended(*(_version(self.path / name) for name in ("result.json", "error.txt")))

    def failure(self) -> str | None:
        """What went wrong last time, in one line, or None."""
        try:
            return (self.path / "error.txt").read_text().partition("\n")[0]
        except FileNotFoundError:
            return None

    @property
    def is_running(self) -> bool:
        """Whether a living process holds it."""
        return is_claimed(self.path / CLAIM)

    @contextmanager
    def claimed(self, watch: Watch) -> Iterator[bool]:
        """Keep other processes off this run; yields whether another one had to be waited for."""
        with claim(self.path / CLAIM, watch.waiting) as waited:
            sweep_leftovers(self.path)
            yield waited

    def tidy(self) -> None:
        """Of a run that is done: remove the claim of one that was killed as soon as it had written the record."""
        clear(self.path / CLAIM)

    def hold(self, entries: Mapping[str, str]) -> None:
        """From now on these entries of the store are this run's own, by stage; they stay its own by the record."""
        write_atomically(self.path / HELD, json.dumps({"store": entries}).encode())

    def finish(self, record: dict[str, Any]) -> None:
        """Mark the run as done."""
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        (self.path / "error.txt").unlink(missing_ok=True)
        write_atomically(self.path / "result.json", text.encode())
        (self.path / HELD).unlink(missing_ok=True)

    def fail(self, error: Exception) -> None:
        """Keep the failure: one line, then the whole traceback; if the disk has room for it."""
        with suppress(CannotWrite):
            text = f"{one_line(error)}\n\n{''.join(traceback.format_exception(error))}"
            write_atomically(self.path / "error.txt", text.encode())


def _version(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def one_line(error: Exception) -> str:
    """``ValueError: what it says``, whatever line breaks that has; of our own errors, which say enough, what they say."""
    text = str(error) if isinstance(error, KdgError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
