"""Files of the store that no finished run needs: a list of them, and their deletion.

An entry is needed as long as the record of a finished run lists it, or a run that is at work: it
writes a list of its entries (``pins.json``) before it looks the first of them up, and its lock
shows that it is running. A stage that another process is computing has a lock of its own. The lock
of a living process is never deleted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kdgraph.errors import UsageError
from kdgraph.runner.files import ChecksumError, check_and_load
from kdgraph.runner.locks import break_stale_lock, is_locked
from kdgraph.runner.run_dir import PINS, RECORD, RunDir, load_old_record
from kdgraph.runner.store import LOCK_SUFFIX, STORE_FOLDER, SUFFIX

_KEY = re.compile(r"\.?([0-9a-f]{24})\.")
"""The beginning of the name of every file of an entry: the entry itself, its lock, the state of its
training, temporary files of killed writers.
"""
OLDER, CHECKPOINTS, LEFTOVERS = "older version", "checkpoints", "leftovers"


@dataclass(frozen=True)
class Garbage:
    """A file that no run needs, and the bytes that its deletion frees.

    ``kind`` is its stage, or one of ``OLDER``, ``CHECKPOINTS``, ``LEFTOVERS``.
    """

    path: Path
    kind: str
    frees: int


def find_garbage(out: Path) -> list[Garbage]:
    """Return the files in the store of ``out`` that no run needs, by kind.

    Files whose names are none of an entry's are not the store's, and stay, and so does what a link
    leads to. A store that is a link raises UsageError: runs of other folders may need its entries.
    """
    store = out / STORE_FOLDER
    if store.is_symlink():
        raise UsageError(
            f"{store} is a link to {os.path.realpath(store)}, and kdg gc deletes nothing behind a"
            f" link; move that folder to {store}"
        )
    needed = {name for run in _run_dirs(out) for name in _needed_entries(run)}
    stages = (stage for stage in sorted(store.glob("*")) if not stage.is_symlink())
    paths = (path for stage in stages for path in sorted(stage.glob("*")) if path.is_file())
    garbage = [file for path in paths if (file := _classify(path, needed))]
    return sorted(garbage, key=lambda file: (file.kind, file.path))


def has_runs(out: Path) -> bool:
    """Return whether ``out`` has a store or the record of a run, so that runs were made there."""
    return (out / STORE_FOLDER).is_dir() or any((run / RECORD).is_file() for run in _run_dirs(out))


def damaged_records(out: Path) -> list[str]:
    """Return a line on each record below ``out`` that is not as it was written.

    The entries that its run needs are not known.
    """
    return [line for run in _run_dirs(out) if (line := RunDir(run).damage())]


def delete(out: Path, files: Iterable[Garbage]) -> list[Garbage]:
    """Delete those of ``files`` that still no run needs, and return them."""
    paths = {file.path for file in find_garbage(out)}
    deleted = [file for file in files if file.path in paths]
    for file in deleted:
        if file.path.suffix == LOCK_SUFFIX:
            break_stale_lock(file.path)
        else:
            file.path.unlink(missing_ok=True)
    return deleted


def _classify(path: Path, needed: set[str]) -> Garbage | None:
    """Return a file of the store as garbage, or None if a run needs it."""
    match = _KEY.match(path.name)
    if not match:
        return None
    is_lock = path.suffix == LOCK_SUFFIX
    if is_locked(path if is_lock else path.with_name(match[1] + LOCK_SUFFIX)):
        return None
    stat = path.stat()
    frees = stat.st_size if stat.st_nlink == 1 else 0
    if path.suffix == ".pkl":
        return Garbage(path, OLDER, frees)
    entry = f"{path.parent.name}/{match[1]}{SUFFIX}"
    if path.name.startswith(".") or is_lock:
        return Garbage(path, LEFTOVERS, frees)
    if path.suffix == SUFFIX:
        return None if entry in needed else Garbage(path, path.parent.name, frees)
    # The state of a training: needed until its entry is there.
    training_goes_on = entry in needed and not path.with_name(f"{match[1]}{SUFFIX}").exists()
    return None if training_goes_on else Garbage(path, CHECKPOINTS, frees)


def _needed_entries(run_dir: Path) -> Iterator[str]:
    """Yield the entries of a run: of a finished one in its record, of a running one in its list."""
    yield from _entries_in(run_dir / RECORD)
    if RunDir(run_dir).is_running:
        yield from _entries_in(run_dir / PINS)


def _entries_in(path: Path) -> list[str]:
    try:
        content = path.read_bytes() if path.is_file() else b""
    except OSError:
        content = b""
    try:
        entries = check_and_load(content).get("store")
    except ChecksumError:
        entries = (load_old_record(content) or {}).get("store")
    names = entries.values() if isinstance(entries, dict) else ()
    return [name for name in names if isinstance(name, str)]


def _run_dirs(out: Path) -> Iterator[Path]:
    """Yield the directories of runs: ``<out>/<dataset>/<method>/<id>``."""
    return (path for path in out.glob("[!.]*/*/*") if path.is_dir())
