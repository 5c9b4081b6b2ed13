"""Records of finished runs: found below a folder, and chosen by what they were run with."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.config import RECORD_SCHEMA
from kdgraph.errors import UsageError
from kdgraph.results.complete import lacking
from kdgraph.results.filters import parse, refuse_unknown
from kdgraph.results.origins import PresentFiles, hidden_differences
from kdgraph.runner.files import ChecksumError, check_and_load
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import RECORD, is_current, load_old_record
from kdgraph.wording import counted, some


@dataclass(frozen=True)
class Found:
    """A finished run: its directory and its record."""

    path: Path
    record: dict[str, Any]


def find(
    out: str | Path,
    filters: Sequence[str] = (),
    tell: Callable[[str], None] | None = None,
    *,
    outdated: bool = False,
) -> list[Found]:
    """Return every finished run below ``out`` that passes all filters.

    Left out are records of another schema, of earlier code, without a key that all have, or not as
    they were written, and runs of files that have other content by now. ``tell`` gets a line on
    what is left out, and one on what differs behind runs that stay.

    Parameters
    ----------
    out : a folder at any level: that of all runs, of a data set, of a method, or of one run.
    filters : ``key=value[,value…]`` or ``key!=value[,value…]``; see :mod:`kdgraph.results.filters`.
    tell : is given the notes; None: they go to stderr.
    outdated : whether runs of earlier contents of their files are returned too.

    Returns
    -------
    list of Found
        By data set, method, seed and id.

    Raises
    ------
    UsageError
        ``out`` is no folder, a filter cannot be read or has an unknown key, or no run passes.
    """
    if not Path(out).is_dir():
        raise UsageError(f"--out must be a folder with runs, got '{out}', which is no folder")
    wanted = [parse(word) for word in filters]
    note = tell or ProgressReporter().note
    read = _Read()
    with without_collection():
        read.below(out)
        passing = [one for one in read.found if all(each.passes(one.record) for each in wanted)]
        found = passing if outdated else _without_outdated(passing, out, note)
    if left_out := read.left_out(out):
        note(f"left out of {out}: {left_out}")
    if not read.found:
        raise UsageError(
            f"no finished run in '{out}'; make one with 'kdg run', or name another folder with"
            " --out"
        )
    if not passing:
        records = [one.record for one in read.found]
        refuse_unknown(wanted, records)
        raise UsageError(f"none of the {len(records):,} runs in '{out}' has {' '.join(filters)}")
    if not found:
        which = f"{counted(len(passing), 'run')} in '{out}'" + (
            f" with {' '.join(filters)}" if filters else ""
        )
        raise UsageError(
            f"of {which} none is of its files as they are now; run them again, or see them with"
            " --outdated"
        )
    for line in hidden_differences([one.record for one in found]):
        note(line)
    return sorted(found, key=_place)


def _without_outdated(
    found: Sequence[Found], out: str | Path, note: Callable[[str], None]
) -> list[Found]:
    files, present = PresentFiles(), []
    changed: dict[str, int] = {}
    for one in found:
        paths = files.changed(one.record)
        for path in paths:
            changed[path] = changed.get(path, 0) + 1
        if not paths:
            present.append(one)
    if changed:
        names = some([Path(path).name for path in changed], 3)
        runs = counted(len(found) - len(present), "run")
        note(
            f"left out of {out}: {runs} of an earlier content of {names}; --outdated shows them"
            " too, under names of their own"
        )
    return present


def _place(found: Found) -> tuple[str, str, int, str]:
    record = found.record
    return (
        str(record["dataset"]["name"]),
        str(record["method"]),
        int(record["seed"]),
        str(record["run_id"]),
    )


class _Read:
    """What is below a folder: records that can be used, and what cannot, by its kind."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.schemas: list[str] = []
        self.of_earlier_code = 0
        self.missing: list[str] = []
        self.damaged: list[Path] = []
        self.closed: list[str] = []

    def below(self, folder: str | Path) -> None:
        """Read the records below ``folder``, not inside the directory of a run, nor in hidden
        folders such as the store.
        """
        try:
            with os.scandir(folder) as entries:
                inside = list(entries)
        except PermissionError:
            self.closed.append(str(folder))
            return
        if any(entry.name == RECORD for entry in inside):
            self._record(Path(folder, RECORD))
            return
        for entry in inside:
            if not entry.name.startswith(".") and entry.is_dir():
                self.below(entry.path)

    def _record(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except PermissionError:
            self.closed.append(str(path))
            return
        except OSError:  # gone meanwhile, or a folder of that name
            self.damaged.append(path)
            return
        try:
            record = check_and_load(content)
        except ChecksumError:
            if (earlier := load_old_record(content)) is None:
                self.damaged.append(path)
            else:
                self.schemas.append(str(earlier["schema"]))
            return
        if record.get("schema") != RECORD_SCHEMA:
            self.schemas.append(str(record.get("schema")))
        elif key := lacking(record):
            self.missing.append(key)
        elif not is_current(record):
            self.of_earlier_code += 1
        else:
            self.found.append(Found(path.parent, record))

    def left_out(self, out: str | Path) -> str:
        """Return what cannot be used, in words; "" if all can."""
        kinds = ", ".join(sorted(set(self.schemas)))
        others, earlier = len(self.schemas), self.of_earlier_code
        parts = (
            [
                f"{counted(others, 'run')} of another version (schema {kinds}; this kdgraph reads"
                f" {RECORD_SCHEMA})"
            ]
            if others
            else []
        )
        parts += (
            [
                f"{counted(earlier, 'run')} of other code than this kdgraph's; the same kdg run"
                " makes them again"
            ]
            if earlier
            else []
        )
        if self.missing:
            parts.append(
                f"{counted(len(self.missing), 'run')} whose {RECORD} lacks"
                f" {', '.join(sorted(set(self.missing)))}"
            )
        if self.damaged:
            names = some(sorted(str(path) for path in self.damaged), 2)
            parts.append(
                f"{counted(len(self.damaged), 'run')} whose {RECORD} is damaged ({names}); the same"
                " kdg run makes them again"
            )
        if self.closed:
            parts.append(
                f"what you may not read ({some(self.closed, 2)}); its owner can let you with 'chmod"
                f" -R a+rX {out}'"
            )
        return "; ".join(parts)


@contextmanager
def without_collection() -> Iterator[None]:
    """A block without the garbage collector, which walks through all records again and again: they
    take a third of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
