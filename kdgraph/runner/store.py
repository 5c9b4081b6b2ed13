"""The store: results of stages, found again by the content of everything that led to them.

An entry is one file of :mod:`kdgraph.persistence`. It is written to a temporary file and renamed,
and never changed afterwards, so that a run may link to it. An entry whose checksum does not fit (a
truncated or altered file) is deleted, with a note, and the stage is run again. A stage is also run
again if its entry was not written with this user's key: reading it could run code of anybody who
may write to the folder. That entry stays until the stage's own takes its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.runner.files import write_atomically
from kdgraph.runner.locks import break_stale_lock, lock
from kdgraph.runner.monitoring import Cost, ProgressReporter, measure_cost, record_warnings

if TYPE_CHECKING:
    import numpy as np

CODE_SCHEMA = {
    "fit": 5,
    "cross_fit": 1,
    "calibrate": 15,
    "parent_outputs": 3,
    "space": 3,
    "evaluate": 12,
}
"""Version of each stage's code; raise it with a change that alters the stage's values, and old
entries are no longer found, nor those of stages that build on it.
"""
BUILDS_ON = {
    "cross_fit": ("fit",),
    "calibrate": ("fit", "cross_fit", "space"),
    "parent_outputs": ("fit",),
    "space": ("fit",),
    "evaluate": ("fit", "cross_fit", "space", "calibrate"),
}
STORE_FOLDER = ".store"
"""The store's folder, in the folder of runs."""
SUFFIX, LOCK_SUFFIX = ".kdg", ".lock"
_LISTED_PACKAGES = ("kdgraph", "sklearn", "numpy", "torch")
"""Packages with a list of their own of what may be read (:mod:`kdgraph.persistence.allowed`)."""
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:\w+|[^\W\d]\w*(\.[^\W\d]\w*)+")
_noted: set[tuple[Path, str]] = set()
"""Stores, and the subjects of their notes in this process."""


@dataclass(frozen=True)
class StageResult:
    """Result of a stage, from this process or from the store, with its cost and warnings.

    These are of when it ran. ``entry`` is the file in the store that holds the value, if any.
    """

    value: Any
    cost: Cost
    warnings: Sequence[str]
    from_store: bool
    entry: Path | None = None


def run_stage(function: Callable[[], Any]) -> StageResult:
    """Call ``function``, and return its value with its cost and its warnings."""
    with measure_cost() as cost, record_warnings() as warnings:
        value = function()
    return StageResult(value, cost, warnings, from_store=False)


def stage_key(stage: str, data: str, config: Mapping[str, Any], seed: int) -> str:
    """Return the key of a stage, 64 hex digits.

    It is a hash of the stage's code and of that of all stages that it builds on, the fingerprint of
    its data, its config with all earlier ones, and the seed. Numbers belong to the libraries that
    computed them, so their versions are part of the key too, None for one that is not installed.
    """
    libraries = {name: installed_version(name) for name in ("numpy", "scikit-learn", "torch")}
    code = {name: CODE_SCHEMA[name] for name in (stage, *BUILDS_ON.get(stage, ()))}
    parts = [stage, code, data, config, seed, libraries]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def installed_version(library: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def stage_rng(seed: int, stage: str) -> np.random.Generator:
    """Return the random generator of a stage; another stage of the run does not shift it."""
    import numpy as np  # reading the records of finished runs needs no NumPy

    return np.random.default_rng([seed, zlib.crc32(stage.encode())])


def entry_name(stage: str, key: str) -> str:
    """Return the path of an entry in the store, such as ``fit/0123….kdg``; records contain it."""
    return f"{stage}/{key[:24]}{SUFFIX}"


class Store:
    """A folder of entries.

    ``reporter`` receives notes about entries that were deleted, about waiting, and about what
    cannot be stored. ``reuse=False`` runs every stage again and replaces its entry. ``trusted`` are
    packages whose classes a stage may store beside those of kdgraph, scikit-learn and torch: those
    that the config names.
    """

    def __init__(
        self,
        root: Path,
        reporter: ProgressReporter,
        *,
        reuse: bool = True,
        trusted: Sequence[str] = (),
    ) -> None:
        self.root = root
        self.reporter = reporter
        self.reuse = reuse
        self.trusted = trusted

    def get_or_run(
        self,
        stage: str,
        key: str,
        function: Callable[[], Any],
        shared: Mapping[str, Any] | None = None,
    ) -> StageResult:
        """Return the result under ``key``, of :func:`stage_key`; run the stage if there is none.

        Of processes that need the result at the same time, one runs the stage. Objects in
        ``shared`` are those that the value refers to and that another entry holds: they are left
        out of the entry, and put back when it is read.
        """
        path = self.path(stage, key)
        lock_path = path.with_suffix(LOCK_SUFFIX)
        if self.reuse and (result := self._read(path, shared or {})):
            # Left by a process that was killed just after it wrote the entry.
            break_stale_lock(lock_path)
            return result
        with lock(lock_path, self.reporter.waiting) as waited:
            if (self.reuse or waited) and (result := self._read(path, shared or {})):
                return result
            return self._store(stage, path, run_stage(function), shared or {})

    def find(self, stage: str, key: str) -> Any | None:
        """Return the value under ``key``; None if there is none or every stage is to run again."""
        result = self._read(self.path(stage, key), {}) if self.reuse else None
        return result and result.value

    def put(self, stage: str, key: str, value: Any) -> None:
        """Store a value that another stage computed on its way.

        Of processes that do so at the same time, the last one's value stays.
        """
        self._store(
            stage, self.path(stage, key), StageResult(value, Cost(), (), from_store=False), {}
        )

    def path(self, stage: str, key: str) -> Path:
        """Return the path of an entry, whether it exists or not."""
        return self.root / entry_name(stage, key)

    def _read(self, path: Path, shared: Mapping[str, Any]) -> StageResult | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        from kdgraph.persistence import LoadError, UntrustedFileError, from_bytes

        try:
            loaded = from_bytes(content, f"store entry {path}", shared)
        except UntrustedFileError as error:
            way_out = (
                "users who share a folder of runs can share a key: KDGRAPH_KEY_FILE=FILE names it"
            )
            self._note_once(
                "another key",
                f"{error}; it is made again, as is every other entry like it; {way_out}",
            )
            return None
        except LoadError as error:
            path.unlink(missing_ok=True)
            self.reporter.note(f"{error}; thrown away, it is made again")
            return None
        with suppress(OSError):  # another user's entry: it looks unused then
            os.utime(path)
        return StageResult(
            loaded.value,
            Cost(**loaded.metadata["cost"]),
            loaded.metadata["warnings"],
            from_store=True,
            entry=path,
        )

    def _store(
        self, stage: str, path: Path, result: StageResult, shared: Mapping[str, Any]
    ) -> StageResult:
        """Write a result and return it with its entry.

        Without an entry, and with a note, if a part of the value cannot be saved.
        """
        from kdgraph.persistence import SaveError, UntrustedFileError, key_problem_message, to_bytes
        from kdgraph.signing import current_key

        if (key := current_key()).problem:
            line = (
                f"{key_problem_message(key)}; later commands make again what this one stores, and"
                " have to trust its models"
            )
            self._note_once("no key", line)
        metadata = {"cost": asdict(result.cost), "warnings": list(result.warnings)}
        try:
            content = to_bytes(result.value, shared, metadata, self.trusted)
        except (SaveError, UntrustedFileError) as error:
            models = " and no model of the run is kept" if stage in ("fit", "calibrate") else ""
            self.reporter.note(
                f"what {stage} made cannot be saved, so it is made again next time{models}: {error}"
            )
            return result
        write_atomically(path, content)
        return replace(result, entry=path)

    def _note_once(self, subject: str, line: str) -> None:
        """Report a note on many entries once in this process: a sweep reads thousands."""
        if (self.root.absolute(), subject) not in _noted:
            _noted.add((self.root.absolute(), subject))
            self.reporter.note(line)


def trusted_packages(nodes: Mapping[str, Any]) -> list[str]:
    """Return the packages that a config names, for classes and for image models.

    An image model's factory stands for itself if its package has a list of what may be read.
    """
    targets = _values_of(nodes, "_target_")
    names = {name.partition(".")[0] for name in targets} - set(_LISTED_PACKAGES)
    for model in set(_values_of(nodes, "model")) - {"resnet20"}:  # kdgraph's own
        package = re.split("[.:]", model)[0] if _IMPORT_PATH.fullmatch(model) else "transformers"
        names.add(model if package in _LISTED_PACKAGES else package)
    return sorted(names | set(_names_of_fitted(nodes.get("parent") or {})))


def _names_of_fitted(parent: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a fitted parent imports: its functions, and pickle if it is trusted."""
    if parent.get("trust") is True:
        yield "pickle"
    for key in ("path", "object"):
        if ":" in str(parent.get(key)) and _IMPORT_PATH.fullmatch(str(parent[key])):
            yield str(parent[key])


def _values_of(node: Any, key: str) -> Iterator[str]:
    for name, value in node.items() if isinstance(node, Mapping) else ():
        if name == key and isinstance(value, str):
            yield value
        yield from _values_of(value, key)
