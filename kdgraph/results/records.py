"""Records of finished runs: found below a folder, and chosen by what they were run with."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.errors import UsageError
from kdgraph.results.complete import lacking
from kdgraph.results.filters import parse, refuse_unknown
from kdgraph.run_config import RECORD_SCHEMA
from kdgraph.runner.watch import Watch
from kdgraph.wording import counted

RECORD = "result.json"


@dataclass(frozen=True)
class Found:
    """A finished run: its directory and its record."""

    path: Path
    record: dict[str, Any]


def find(out: str | Path, filters: Sequence[str] = (), tell: Callable[[str], None] | None = None) -> list[Found]:
    """Every finished run below ``out`` that passes all filters.

    Records of another schema or without a key that all have, and files that are no record, are left out; ``tell`` gets a line on how many.

    Parameters
    ----------
    out : a folder at any level: that of all runs, of a data set, of a method, or of one run.
    filters : ``key=value[,value…]`` or ``key!=value[,value…]``; see :mod:`kdgraph.results.filters`.
    tell : is given the note; None: it goes to stderr.

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
    with without_collection():
        files = list(_files(out))
        read = [(path, _read(path)) for path in files]
        lacks = [lacking(record) if record and _is_current(record) else None for _, record in read]
        current = [
            Found(path.parent, record)
            for (path, record), key in zip(read, lacks, strict=True)
            if record and _is_current(record) and key is None
        ]
        found = [one for one in current if all(each.passes(one.record) for each in wanted)]
    if left_out := _left_out([record for _, record in read], [key for key in lacks if key]):
        (tell or Watch().note)(f"left out of {out}: {left_out}")
    if not current:
        raise UsageError(f"no finished run in '{out}'; make one with 'kdg run', or name another folder with --out")
    if not found:
        records = [one.record for one in current]
        refuse_unknown(wanted, records)
        raise UsageError(f"none of the {len(current):,} runs in '{out}' has {' '.join(filters)}")
    return sorted(found, key=_place)


def _place(found: Found) -> tuple[str, str, int, str]:
    record = found.record
    return str(record["dataset"]["name"]), str(record["method"]), int(record["seed"]), str(record["run_id"])


def _files(folder: str | Path) -> Iterator[Path]:
    """Records below ``folder``, not inside the directory of a run, nor in hidden folders such as the store."""
    with os.scandir(folder) as entries:
        inside = list(entries)
    if any(entry.name == RECORD for entry in inside):
        yield Path(folder, RECORD)
        return
    for entry in inside:
        if not entry.name.startswith(".") and entry.is_dir():
            yield from _files(entry.path)


def _read(path: Path) -> dict[str, Any] | None:
    """The record, or None where the file is not one (a power cut may leave it empty)."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _is_current(record: Mapping[str, Any]) -> bool:
    return record.get("schema") == RECORD_SCHEMA


def _left_out(records: Sequence[dict[str, Any] | None], missing: Sequence[str]) -> str:
    """What cannot be used, in words; "" if all can."""
    others = [record.get("schema") for record in records if record and not _is_current(record)]
    damaged = sum(record is None for record in records)
    kinds = ", ".join(sorted({str(schema) for schema in others}))
    parts = [f"{counted(len(others), 'run')} of another version (schema {kinds}; this kdgraph reads {RECORD_SCHEMA})"] if others else []
    parts += [f"{counted(len(missing), 'run')} whose {RECORD} lacks {', '.join(sorted(set(missing)))}"] if missing else []
    return "; ".join([*parts, *([f"{counted(damaged, 'run')} whose {RECORD} cannot be read"] if damaged else [])])


@contextmanager
def without_collection() -> Iterator[None]:
    """A block without the garbage collector, which walks through all records again and again: they take a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
