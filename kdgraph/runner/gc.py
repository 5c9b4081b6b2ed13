"""What the store keeps for no finished run: found, and deleted.

An entry is needed as long as a finished run's record names it, or a running one's: a run says in
``stages.json`` which entries are its own before it asks for the first of them, and its claim says
whether it is running. What another process is making has a claim of its own. The claim of a living
process is its own to remove.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kdgraph.runner.claim import clear, is_claimed
from kdgraph.runner.rundir import HELD, RECORD, RunDir, unsealed
from kdgraph.runner.sealed import ChecksumError, check_and_load
from kdgraph.runner.store import CLAIM, FOLDER, SUFFIX

_OF_ENTRY = re.compile(r"\.?([0-9a-f]{24})\.")
"""Every file of an entry begins with its key: itself, its claim, the state of its training, what a
killed writer left.
"""
OLDER, CHECKPOINTS, LEFTOVERS = "older version", "checkpoints", "leftovers"


@dataclass(frozen=True)
class Garbage:
    """A file that nobody needs; ``kind`` is its stage, or what else it is; ``frees`` the bytes that
    its end would leave free.
    """

    path: Path
    kind: str
    frees: int


def garbage(out: Path) -> list[Garbage]:
    """Files of the store of ``out`` that no finished run refers to and no running one holds, by
    kind.
    """
    needed = {name for run in _runs(out) for name in _needed_by(run)}
    found = (_judged(path, needed) for path in sorted((out / FOLDER).glob("*/*")) if path.is_file())
    return sorted((each for each in found if each), key=lambda each: (each.kind, each.path))


def damaged_records(out: Path) -> list[str]:
    """Return a line on each record below ``out`` that is not as it was written: which entries its
    run needs is not known.
    """
    return [line for run in _runs(out) if (line := RunDir(run).damage())]


def delete(out: Path, files: Iterable[Garbage]) -> list[Garbage]:
    """Delete those of ``files`` that still nobody needs; gives them."""
    still = {each.path for each in garbage(out)}
    gone = [each for each in files if each.path in still]
    for each in gone:
        if each.path.suffix == CLAIM:
            clear(each.path)
        else:
            each.path.unlink(missing_ok=True)
    return gone


def _judged(path: Path, needed: set[str]) -> Garbage | None:
    """What a file of the store is, if it is garbage."""
    match = _OF_ENTRY.match(path.name)
    if is_claimed(path if path.suffix == CLAIM or not match else path.with_name(match[1] + CLAIM)):
        return None
    stat = path.stat()
    frees = stat.st_size if stat.st_nlink == 1 else 0
    if not match or path.suffix == ".pkl":
        return Garbage(path, OLDER if path.suffix == ".pkl" else LEFTOVERS, frees)
    entry = f"{path.parent.name}/{match[1]}{SUFFIX}"
    if path.name.startswith(".") or path.suffix == CLAIM:
        return Garbage(path, LEFTOVERS, frees)
    if path.suffix == SUFFIX:
        return None if entry in needed else Garbage(path, path.parent.name, frees)
    return (
        None
        if entry in needed and not path.with_name(f"{match[1]}{SUFFIX}").exists()
        else Garbage(path, CHECKPOINTS, frees)
    )


def _needed_by(run: Path) -> Iterator[str]:
    """Entries that a run names: a finished one in its record, one at work in a list of its own."""
    yield from _names(run / RECORD)
    if RunDir(run).is_running:
        yield from _names(run / HELD)


def _names(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
    except OSError:
        return []
    try:
        named = check_and_load(content).get("store")
    except ChecksumError:
        named = (unsealed(content) or {}).get("store")
    return list(named.values()) if isinstance(named, dict) else []


def _runs(out: Path) -> Iterator[Path]:
    """Directories of runs: ``<out>/<dataset>/<method>/<id>``."""
    return (path for path in out.glob("[!.]*/*/*") if path.is_dir())
