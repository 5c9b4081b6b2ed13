"""The store: what a stage made, found again by the content of everything that went into it.

An entry is one file: a checksum and a pickle. It is written beside its place and renamed; a checksum that does not fit (a truncated or
altered file) throws the entry away, with a note, and the stage is done again. Pickles are read from the user's own store only.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kdgraph.runner.claim import claim
from kdgraph.runner.cost import Cost, measured
from kdgraph.runner.files import write_atomically
from kdgraph.runner.heard import heard_warnings
from kdgraph.runner.watch import Watch

CODE_SCHEMA = {"fit": 3, "calibrate": 3, "evaluate": 4}
"""Version of what each stage does; raise it with a change that alters its values, and old entries are no longer found."""

_MAGIC = b"kdgraph store 1\n"
_DIGEST = 64


@dataclass(frozen=True)
class Made:
    """A stage's value, and what making it cost and warned of, now or when it came into the store."""

    value: Any
    cost: Cost
    warnings: Sequence[str]
    from_store: bool


def make(function: Callable[[], Any]) -> Made:
    """Do a stage."""
    with measured() as cost, heard_warnings() as warnings:
        value = function()
    return Made(value, cost, warnings, from_store=False)


def stage_key(stage: str, data: str, config: Mapping[str, Any], seed: int) -> str:
    """Hex key of a stage: its code, the fingerprint of its data, its config with all earlier ones, the seed.

    Pickles of fitted models belong to the library that wrote them, so its version is part of the key too.
    """
    libraries = {name: version(name) for name in ("numpy", "scikit-learn", "torch")}
    parts = [stage, CODE_SCHEMA[stage], data, config, seed, libraries]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


class Store:
    """A folder of entries.

    Parameters
    ----------
    root : the folder.
    watch : is told about entries that had to be thrown away, and about waiting.
    reuse : False makes everything again and replaces what is there.
    """

    def __init__(self, root: Path, watch: Watch, *, reuse: bool = True) -> None:
        self.root = root
        self.watch = watch
        self.reuse = reuse

    def get_or_make(self, stage: str, key: str, function: Callable[[], Any], shared: Mapping[str, Any] | None = None) -> Made:
        """The value under ``key``, made by ``function`` if need be; of processes that want it at once, one makes it.

        ``shared`` names objects that the value refers to and that come from elsewhere: they are left out of the entry, and put back
        when it is read.
        """
        path = self.path(stage, key)
        if self.reuse and (found := self._read(path, shared or {})):
            return found
        with claim(path.with_suffix(".claim"), self.watch.waiting) as waited:
            if (self.reuse or waited) and (found := self._read(path, shared or {})):
                return found
            made = make(function)
            _write(path, made, shared or {})
        return made

    def path(self, stage: str, key: str) -> Path:
        """Where the entry is or would be."""
        return self.root / stage / f"{key[:24]}.pkl"

    def _read(self, path: Path, shared: Mapping[str, Any]) -> Made | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        digest, payload = content[len(_MAGIC) :][:_DIGEST], content[len(_MAGIC) + _DIGEST :]
        if not content.startswith(_MAGIC) or hashlib.sha256(payload).hexdigest().encode() != digest:
            return self._throw_away(path, "is damaged (its checksum does not fit)")
        try:
            made = Made(*_Unpickler(io.BytesIO(payload), shared).load(), from_store=True)
        except (pickle.UnpicklingError, AttributeError, ImportError) as error:  # classes that have moved since
            return self._throw_away(path, f"cannot be read by this version ({error})")
        return made

    def _throw_away(self, path: Path, why: str) -> None:
        path.unlink(missing_ok=True)
        self.watch.note(f"store entry {path} {why}; thrown away, it is made again")


def _write(path: Path, made: Made, shared: Mapping[str, Any]) -> None:
    buffer = io.BytesIO()
    _Pickler(buffer, shared).dump((made.value, made.cost, made.warnings))
    payload = buffer.getvalue()
    write_atomically(path, _MAGIC + hashlib.sha256(payload).hexdigest().encode() + payload)


class _Pickler(pickle.Pickler):
    """Writes the name of a shared object instead of the object."""

    def __init__(self, file: io.BytesIO, shared: Mapping[str, Any]) -> None:
        super().__init__(file, protocol=5)
        self.names = {id(value): name for name, value in shared.items()}

    def persistent_id(self, obj: Any) -> str | None:
        return self.names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    """Puts the shared objects back."""

    def __init__(self, file: io.BytesIO, shared: Mapping[str, Any]) -> None:
        super().__init__(file)
        self.shared = shared

    def persistent_load(self, pid: str) -> Any:
        if pid not in self.shared:
            raise pickle.UnpicklingError(f"it refers to {pid!r}, which is not here")
        return self.shared[pid]
