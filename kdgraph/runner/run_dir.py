"""The directory of one run: its record, its failure, its lock and its models."""

from __future__ import annotations

import json
import os
import stat
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.config import RECORD_SCHEMA
from kdgraph.containment import LeadsOutside, path_inside
from kdgraph.errors import CannotWrite, KdgError
from kdgraph.runner.files import (
    ChecksumError,
    add_checksum,
    check_and_load,
    check_writable,
    delete_temporary_files,
    file_checksum,
    temporary_path,
    write_atomically,
)
from kdgraph.runner.locks import break_stale_lock, is_locked, lock
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.record_shape import record_problem
from kdgraph.runner.store import CODE_SCHEMA, SUFFIX, StageResult

LOCK_FILE = "running.json"
PINS = "pins.json"
"""The store entries that a run needs, until it is done; its record lists them from then on."""
RECORD = "result.json"
FAILURE = "error.txt"
ASIDE = ".damaged"
"""End of the name of a file that was not as it was written, and that another one has replaced."""
FIRST_SCHEMA_WITH_CHECKSUM = 7

MODEL_FOLDER = "model"
CALIBRATED, PARENT, MODEL_SCHEMA = f"calibrated{SUFFIX}", f"parent{SUFFIX}", "schema.json"


class RecordShapeError(ValueError):
    """A record is not as a run writes it: somebody has edited it, or written it."""


def load_record(content: bytes) -> dict[str, Any]:
    """Return the record in the content of a file.

    Raises ChecksumError for content that is not as it was written, RecordShapeError for a record of
    this version with a value that no run writes.
    """
    record = check_and_load(content)
    if is_current(record) and (problem := record_problem(record)):
        raise RecordShapeError(problem)
    return record


def is_current(record: Mapping[str, Any]) -> bool:
    """Return whether a record has this version's keys, and numbers of this version's stages."""
    return record.get("schema") == RECORD_SCHEMA and record.get("code") == CODE_SCHEMA


def load_old_record(content: bytes) -> dict[str, Any] | None:
    """Return a record of a schema that had no checksum yet.

    None if the content is no such record, as where a record has lost its checksum.
    """
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return None
    schema = record.get("schema") if isinstance(record, dict) else None
    return record if isinstance(schema, int) and schema < FIRST_SCHEMA_WITH_CHECKSUM else None


@dataclass(frozen=True)
class RunVersions:
    """Inode and time of a run's record and of its last failure: one changes when the run ends."""

    record: tuple[int, int] | None
    failure: tuple[int, int] | None


class RunDir:
    """The directory of a run: ``<out>/<dataset>/<method>/<run_id>``.

    ``result.json`` is the only mark of done; ``running.json`` is the lock, ``error.txt`` the last
    failure.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self) -> dict[str, Any] | None:
        """Return the record of the finished run.

        None if there is none, none that is as it was written, or one of earlier code.
        """
        content = self._record_content()
        try:
            record = None if content is None else load_record(content)
        # a power cut may leave an empty file: not done
        except (ChecksumError, RecordShapeError):
            return None
        return record if record is not None and is_current(record) else None

    def damage(self) -> str | None:
        """Return a line on a record that is not as it was written, or None."""
        content = self._record_content()
        if content is None:
            return None
        try:
            load_record(content)
        except (ChecksumError, RecordShapeError) as error:
            if load_old_record(content) is None:
                return (
                    f"{self.path / RECORD} is damaged ({error}); a run sets it aside as"
                    f" {RECORD}{ASIDE} and makes it again"
                )
        return None

    def _record_content(self) -> bytes | None:
        """Return the content of ``result.json``; None where there is no regular file."""
        path = self.path / RECORD
        try:
            # a pipe would be waited for, for ever
            is_file = stat.S_ISREG(path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return path.read_bytes() if is_file else None

    def set_aside_damaged(self) -> None:
        """Rename a damaged record; call it only while no other process writes there."""
        if self.damage():
            self._set_aside(RECORD)

    def changed_files(self, record: Mapping[str, Any]) -> list[str]:
        """Return the names of the run's files, predictions first, that are absent or changed."""
        return [
            name
            for name, digest in record["files"].get("sha256", {}).items()
            if self._checksum(name) != digest
        ]

    def _checksum(self, name: str) -> str | None:
        """Return the SHA-256 of a file of the run; None where it is absent or elsewhere."""
        try:
            return file_checksum(path_inside(self.path, name))
        except LeadsOutside:
            return None

    def set_aside_changed(self, record: Mapping[str, Any]) -> list[str]:
        """Rename the files that have changed, and the record with them; return their names."""
        changed = self.changed_files(record)
        for name in [*changed, RECORD] if changed else []:
            self._set_aside(name)
        return changed

    def _set_aside(self, name: str) -> None:
        """Rename a file of the run; one that a link leads to is not the run's, and stays."""
        with suppress(FileNotFoundError, LeadsOutside):
            path = path_inside(self.path, name)
            os.replace(path, path.with_name(path.name + ASIDE))

    @property
    def versions(self) -> RunVersions:
        """Versions of the present record and failure."""
        return RunVersions(_version(self.path / RECORD), _version(self.path / FAILURE))

    def failure(self) -> str | None:
        """Return the last failure in one line, or None."""
        try:
            if not (self.path / FAILURE).is_file():
                return None
            text = (self.path / FAILURE).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return text.partition("\n")[0]

    def reason_of_loss(self) -> str:
        """Return why a process may have ended that left no file here.

        A full disk leaves it no place to write that the disk is full.
        """
        try:
            check_writable(self.path.parent)
        except CannotWrite as error:
            return str(error)
        return "out of memory, or killed"

    @property
    def is_running(self) -> bool:
        """True if a living process holds the lock."""
        return is_locked(self.path / LOCK_FILE)

    @contextmanager
    def locked(self, reporter: ProgressReporter) -> Iterator[bool]:
        """Hold the run's lock for the block; yield True if another process held it before."""
        with lock(self.path / LOCK_FILE, reporter.waiting) as waited:
            delete_temporary_files(self.path)
            yield waited

    def break_stale_lock(self) -> None:
        """Remove the lock of a process that was killed just after it wrote the record."""
        break_stale_lock(self.path / LOCK_FILE)

    def pin(self, entries: Mapping[str, str]) -> None:
        """Keep store entries, by their stage, from being deleted until the record lists them."""
        write_atomically(self.path / PINS, add_checksum({"store": entries}))

    def finish(self, record: dict[str, Any]) -> None:
        """Write the record, which marks the run as done."""
        (self.path / FAILURE).unlink(missing_ok=True)
        write_atomically(self.path / RECORD, add_checksum(record))
        (self.path / PINS).unlink(missing_ok=True)

    def fail(self, error: Exception) -> None:
        """Write the failure, one line and the traceback, if the disk has room for it."""
        with suppress(CannotWrite):
            text = f"{one_line(error)}\n\n{''.join(traceback.format_exception(error))}"
            write_atomically(self.path / FAILURE, text.encode())

    @contextmanager
    def noting_failure(self, refusal: type[Exception] | None = None) -> Iterator[None]:
        """Write an error of the block to ``error.txt``, unless it is a refusal, and raise it."""
        try:
            yield
        except Exception as error:  # any: the file has its traceback, and the caller the error
            if refusal is None or not isinstance(error, refusal):
                self.fail(error)
            raise

    def save_models(
        self, fitted: StageResult, calibrated: StageResult, schema: Mapping[str, Any]
    ) -> list[str]:
        """Write ``model/``: the parent, the calibrated model, and the schema of their rows.

        The models are hard links to the store's entries, so that they cost no disk space, and stay
        when the store is deleted or the run is copied elsewhere. Returns the names of the files;
        none if a stage has no entry in the store.
        """
        if fitted.entry is None or calibrated.entry is None:
            return []
        folder = path_inside(self.path, MODEL_FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        delete_temporary_files(folder)
        _link_entry(fitted, folder / PARENT, {})
        _link_entry(calibrated, folder / CALIBRATED, {"parent": fitted.value})
        text = json.dumps(schema, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(folder / MODEL_SCHEMA, text.encode())
        return [f"{MODEL_FOLDER}/{name}" for name in (PARENT, CALIBRATED, MODEL_SCHEMA)]


def _link_entry(result: StageResult, path: Path, shared: Mapping[str, Any]) -> None:
    """Link ``path`` to a store entry, or copy it where the file system has no hard links."""
    assert result.entry is not None
    temporary = temporary_path(path)
    try:
        os.link(result.entry, temporary)
        os.replace(temporary, path)
    except FileNotFoundError:  # the entry was deleted meanwhile
        from kdgraph.persistence import to_bytes

        write_atomically(path, to_bytes(result.value, shared))
    except OSError:
        write_atomically(path, result.entry.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)


def _version(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def one_line(error: Exception) -> str:
    """Return ``ValueError: message`` without line breaks; of kdgraph's own errors the message."""
    text = str(error) if isinstance(error, KdgError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
