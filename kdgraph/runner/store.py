"""The store: what a stage made, found again by the content of everything that went into it.

An entry is one file of :mod:`kdgraph.persistence`. It is written beside its place and renamed, and
never changed afterwards, so that a run may link to it; a checksum that does not fit (a truncated or
altered file) throws the entry away, with a note, and the stage is done again. So it is where an
entry was not made with this user's key: reading it could run code of whoever may write to the
folder. It stays until the stage's own takes its place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kdgraph.runner.claim import claim, clear
from kdgraph.runner.cost import Cost, measured
from kdgraph.runner.files import write_atomically
from kdgraph.runner.heard import heard_warnings
from kdgraph.runner.watch import Watch

CODE_SCHEMA = {"fit": 5, "calibrate": 13, "parent_outputs": 3, "space": 3, "evaluate": 12}
"""Version of what each stage does; raise it with a change that alters its values, and old entries
are no longer found, nor those of stages that build on it.
"""
BUILDS_ON = {
    "calibrate": ("fit", "space"),
    "parent_outputs": ("fit",),
    "space": ("fit",),
    "evaluate": ("fit", "space", "calibrate"),
}
FOLDER = ".store"
"""Of the store, in the folder of runs."""
SUFFIX, CLAIM = ".kdg", ".claim"
_NOTED: set[tuple[Path, str]] = set()
"""Stores, and what was noted of them in this process."""


@dataclass(frozen=True)
class Made:
    """A stage's value, and what making it cost and warned of, now or when it came into the store.

    ``entry`` is the file that holds it; None where none does.
    """

    value: Any
    cost: Cost
    warnings: Sequence[str]
    from_store: bool
    entry: Path | None = None


def make(function: Callable[[], Any]) -> Made:
    """Do a stage."""
    with measured() as cost, heard_warnings() as warnings:
        value = function()
    return Made(value, cost, warnings, from_store=False)


def stage_key(stage: str, data: str, config: Mapping[str, Any], seed: int) -> str:
    """Hex key of a stage: its code and that of what it builds on, the fingerprint of its data, its
    config with all earlier ones, the seed.

    Numbers belong to the libraries that computed them, so their versions are part of the key too.
    """
    libraries = {name: version(name) for name in ("numpy", "scikit-learn", "torch")}
    code = {name: CODE_SCHEMA[name] for name in (stage, *BUILDS_ON.get(stage, ()))}
    parts = [stage, code, data, config, seed, libraries]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


class Store:
    """A folder of entries.

    Parameters
    ----------
    root : the folder.
    watch : is told about entries that had to be thrown away, about waiting, and about what cannot
    be stored.
    reuse : False makes everything again and replaces what is there.
    trusted : packages whose classes a stage may keep beside those of kdgraph, scikit-learn and
        torch: those that the config names.
    """

    def __init__(
        self, root: Path, watch: Watch, *, reuse: bool = True, trusted: Sequence[str] = ()
    ) -> None:
        self.root = root
        self.watch = watch
        self.reuse = reuse
        self.trusted = trusted

    def get_or_make(
        self,
        stage: str,
        key: str,
        function: Callable[[], Any],
        shared: Mapping[str, Any] | None = None,
    ) -> Made:
        """The value under ``key``, made by ``function`` if need be; of processes that want it at
        once, one makes it.

        ``shared`` names objects that the value refers to and that come from elsewhere: they are
        left out of the entry, and put back when it is read.
        """
        path = self.path(stage, key)
        of_maker = path.with_suffix(CLAIM)
        if self.reuse and (found := self._read(path, shared or {})):
            clear(of_maker)  # killed between the two last things it did
            return found
        with claim(of_maker, self.watch.waiting) as waited:
            if (self.reuse or waited) and (found := self._read(path, shared or {})):
                return found
            made = make(function)
            return self._kept(stage, path, made, shared or {})

    def find(self, stage: str, key: str) -> Any | None:
        """The value under ``key`` if it is there; None too where everything is to be made again."""
        found = self._read(self.path(stage, key), {}) if self.reuse else None
        return found and found.value

    def keep(self, stage: str, key: str, value: Any) -> None:
        """Put a value there that another one has brought with it; of processes that do so at once,
        the last one's stays.
        """
        self._kept(stage, self.path(stage, key), Made(value, Cost(), (), from_store=False), {})

    def path(self, stage: str, key: str) -> Path:
        """Where the entry is or would be."""
        return self.root / entry_name(stage, key)

    def _read(self, path: Path, shared: Mapping[str, Any]) -> Made | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        from kdgraph.persistence import LoadError, UntrustedFileError, from_bytes

        try:
            found = from_bytes(content, f"store entry {path}", shared)
        except UntrustedFileError as error:
            way_out = (
                "users who share a folder of runs can share a key: KDGRAPH_KEY_FILE=FILE names it"
            )
            self._note_once(
                "of another",
                f"{error}; it is made again, as is every other entry like it; {way_out}",
            )
            return None
        except LoadError as error:
            path.unlink(missing_ok=True)
            self.watch.note(f"{error}; thrown away, it is made again")
            return None
        with suppress(OSError):  # somebody else's: it looks unused then
            os.utime(path)
        return Made(
            found.value,
            Cost(**found.metadata["cost"]),
            found.metadata["warnings"],
            from_store=True,
            entry=path,
        )

    def _kept(self, stage: str, path: Path, made: Made, shared: Mapping[str, Any]) -> Made:
        """What was made, now with its entry; without one, and with a note, where something in it
        cannot be saved.
        """
        from kdgraph.persistence import SaveError, UntrustedFileError, key_problem_message, to_bytes
        from kdgraph.persistence.archive import current_key

        if (key := current_key()).problem:
            line = (
                f"{key_problem_message(key)}; later commands make again what this one stores, and have to trust"
                " its models"
            )
            self._note_once("no key", line)
        about = {"cost": asdict(made.cost), "warnings": list(made.warnings)}
        try:
            content = to_bytes(made.value, shared, about, self.trusted)
        except (SaveError, UntrustedFileError) as error:
            also = " and no model of the run is kept" if stage in ("fit", "calibrate") else ""
            self.watch.note(
                f"what {stage} made cannot be saved, so it is made again next time{also}: {error}"
            )
            return made
        write_atomically(path, content)
        return replace(made, entry=path)

    def _note_once(self, subject: str, line: str) -> None:
        """Note what holds for many entries once in this process: a sweep reads thousands."""
        if (self.root.absolute(), subject) not in _NOTED:
            _NOTED.add((self.root.absolute(), subject))
            self.watch.note(line)


def entry_name(stage: str, key: str) -> str:
    """``fit/0123….kdg``: an entry's place in the store, and its name in a record."""
    return f"{stage}/{key[:24]}{SUFFIX}"
