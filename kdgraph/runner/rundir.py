"""The directory of one run: its record, its failure, its claim."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.config import RECORD_SCHEMA
from kdgraph.errors import CannotWrite, KdgError
from kdgraph.runner.claim import claim, clear, is_claimed
from kdgraph.runner.files import sweep_leftovers, write_atomically
from kdgraph.runner.sealed import ChecksumError, add_checksum, check_and_load, file_checksum
from kdgraph.runner.store import CODE_SCHEMA
from kdgraph.runner.watch import Watch

CLAIM = "running.json"
HELD = "stages.json"
"""The entries of the store that a run will ask for, until it is done."""
RECORD = "result.json"
ASIDE = ".damaged"
"""What the name of a file ends in that was not as it was written, and that another one has
replaced.
"""


FIRST_SEALED = 7
"""The first schema of a record that ends in a checksum."""


def is_current(record: Mapping[str, Any]) -> bool:
    """Return whether a record is one of this version: its keys, and the code of the stages behind
    its numbers.
    """
    return record.get("schema") == RECORD_SCHEMA and record.get("code") == CODE_SCHEMA


@dataclass(frozen=True)
class Ended:
    """Versions of the record and of the last failure, None where there is none: what changes when a
    run ends once more.
    """

    record: tuple[int, int] | None
    failure: tuple[int, int] | None


def unsealed(content: bytes) -> dict[str, Any] | None:
    """Return a record of a schema that had no checksum; None where it is none, as where one has
    lost its own.
    """
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return None
    schema = record.get("schema") if isinstance(record, dict) else None
    return record if isinstance(schema, int) and schema < FIRST_SEALED else None


class RunDir:
    """``result.json`` is the only mark of done; ``running.json`` is the claim, ``error.txt`` the
    last failure.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self) -> dict[str, Any] | None:
        """Return the record of the finished run, or None where there is none, none that is whole,
        or one of earlier code.
        """
        try:
            record = check_and_load((self.path / RECORD).read_bytes())
        except (
            FileNotFoundError,
            NotADirectoryError,
            ChecksumError,
        ):  # a power cut may leave an empty file: not done
            return None
        return record if is_current(record) else None

    def damage(self) -> str | None:
        """Return a line on a record that is not as it was written, or None."""
        try:
            content = (self.path / RECORD).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            check_and_load(content)
        except ChecksumError as error:
            if unsealed(content) is None:
                return (
                    f"{self.path / RECORD} is damaged ({error}); a run sets it aside as"
                    f" {RECORD}{ASIDE} and makes it again"
                )
        return None

    def set_aside_damaged(self) -> None:
        """Rename a record that is not as it was written; call it only while no other process writes
        there.
        """
        if self.damage():
            self._set_aside(RECORD)

    def changed_files(self, record: Mapping[str, Any]) -> list[str]:
        """Return the names of the run's files, predictions first, that are gone or are not as they
        were written.
        """
        return [
            name
            for name, digest in record["files"].get("sha256", {}).items()
            if file_checksum(self.path / name) != digest
        ]

    def set_aside_changed(self, record: Mapping[str, Any]) -> list[str]:
        """Rename the files that are not as they were written, and the record with them; return
        their names.
        """
        changed = self.changed_files(record)
        for name in [*changed, RECORD] if changed else []:
            self._set_aside(name)
        return changed

    def _set_aside(self, name: str) -> None:
        path = self.path / name
        with suppress(FileNotFoundError):
            os.replace(path, path.with_name(path.name + ASIDE))

    @property
    def ended(self) -> Ended:
        """Which record and which failure are there now."""
        return Ended(*(_version(self.path / name) for name in (RECORD, "error.txt")))

    def failure(self) -> str | None:
        """What went wrong last time, in one line, or None."""
        try:
            return (
                (self.path / "error.txt")
                .read_text(encoding="utf-8", errors="replace")
                .partition("\n")[0]
            )
        except (FileNotFoundError, NotADirectoryError):
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
        """Of a run that is done: remove the claim of one that was killed as soon as it had written
        the record.
        """
        clear(self.path / CLAIM)

    def hold(self, entries: Mapping[str, str]) -> None:
        """From now on these entries of the store are this run's own, by stage; they stay its own by
        the record.
        """
        write_atomically(self.path / HELD, add_checksum({"store": entries}))

    def finish(self, record: dict[str, Any]) -> None:
        """Mark the run as done."""
        (self.path / "error.txt").unlink(missing_ok=True)
        write_atomically(self.path / RECORD, add_checksum(record))
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
    """``ValueError: what it says``, whatever line breaks that has; of our own errors, which say
    enough, what they say.
    """
    text = str(error) if isinstance(error, KdgError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
