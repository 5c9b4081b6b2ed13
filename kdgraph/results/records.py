"""Records of finished runs: what they contain, how they are read, and filters that choose them.

A filter is ``key=value[,value…]`` or ``key!=value[,value…]``: ``dataset=spiral,circle``,
``method!=refit``, ``dataset.n_train=1000``, ``dataset=mfeat_*``. A key is one of ``dataset method
parent calibrator gate detector recalibrator conformal ood preprocess`` (names), ``seed``, or a
dotted key of the config, such as ``protocol``. Several values are alternatives, several filters
must all hold. A value is compared as text in which ``*`` and ``?`` match anything, and as a number
if both are numbers; true, false and null are written so. A run without the key fails ``=`` and
passes ``!=``.
"""

from __future__ import annotations

import gc
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from kdgraph.config import AFTER, METHOD_ENDS, OPTIONAL, RECORD_SCHEMA
from kdgraph.config.messages import unknown_key
from kdgraph.errors import UsageError, did_you_mean
from kdgraph.results.origins import PresentFiles, hidden_differences
from kdgraph.results.record_index import RecordIndex
from kdgraph.runner.files import ChecksumError
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.record_shape import MODEL_COMPONENTS
from kdgraph.runner.run_dir import (
    RECORD,
    RecordShapeError,
    is_current,
    load_old_record,
    load_record,
)
from kdgraph.wording import counted, some

PAPER_PROTOCOL = "(paper protocol)"
"""Mark behind the names of methods that ran with ``protocol=paper``."""
PAPER_PROTOCOL_NOTE = (
    "fitted on test rows, or by the rows out of distribution, where the method's paper does so"
    " (protocol=paper), so that its numbers are no estimate for new rows"
)
"""Caution that goes with the numbers of such runs."""

RunTask = Literal["classification", "detection", "regression"]

FILTER_NAMES = ("dataset", "method", "parent", *AFTER, "ood", "preprocess", "seed")
"""Keys of filters besides those of the config."""
NO_VALUE = object()
"""Value of a key that a run does not have."""
_MOST_NAMED = 12


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its directory and its record."""

    path: Path
    record: dict[str, Any]


@dataclass(frozen=True)
class Filter:
    """Condition on a name or a dotted key of the config: one of the values, or none of them."""

    key: str
    values: tuple[str, ...]
    wanted: bool

    def passes(self, record: Mapping[str, Any]) -> bool:
        """Return True if a run satisfies the condition."""
        value = config_value(record, self.key)
        matches = value is not NO_VALUE and any(_matches(value, text) for text in self.values)
        return matches == self.wanted


def component_name(record: Mapping[str, Any], component: str) -> str:
    """Return the name of one of :data:`MODEL_COMPONENTS` of the model, or "none"."""
    return str(record.get(component, "none") if component == OPTIONAL else record[component])


def post_hoc_names(record: Mapping[str, Any]) -> list[str]:
    """Return the names of what was fitted after the parent; none for a run of the parent alone.

    >>> components = {"calibrator": "isotonic", "gate": "density", "detector": "none"}
    >>> post_hoc_names({"parent": "random_forest", **components, "recalibrator": "none"})
    ['isotonic', 'density']
    """
    names = [component_name(record, component) for component in AFTER]
    return [name for name in names if name != "none"]


def component_chain(record: Mapping[str, Any]) -> str:
    """Return ``random_forest → isotonic → density gate``.

    A gate has the name of the quantity that it thresholds, so the word "gate" follows it.
    """
    names = [
        f"{record[component]} gate" if component == "gate" else component_name(record, component)
        for component in MODEL_COMPONENTS
        if component == "parent" or component_name(record, component) != "none"
    ]
    return " → ".join(names)


def uses_paper_protocol(record: Mapping[str, Any]) -> bool:
    """Return True if something may have been fitted on test rows or on OOD rows."""
    return record["protocol"] == "paper"


def method_name(record: Mapping[str, Any]) -> str:
    """Return the method as tables name it, with the options that its preset does not have.

    >>> method_name({"method": "pit-as_in_paper", "protocol": "paper"})
    'pit (paper protocol)'
    >>> options = {"parent.n_estimators": 100}
    >>> method_name({"method": "kdf", "method_options": options, "protocol": "strict"})
    'kdf (parent.n_estimators=100)'
    """
    name, options = str(record["method"]), record.get("method_options") or {}
    end = ""
    if uses_paper_protocol(record):
        name, end = name.removesuffix(METHOD_ENDS["paper"]), f" {PAPER_PROTOCOL}"
    values = " ".join(f"{key}={value_text(value)}" for key, value in options.items())
    return (f"{name} ({values})" if values else name) + end


def calibration_mode(record: Mapping[str, Any]) -> str:
    """Return the source of the outputs that calibrated a run: held_out, oob or cross_fit.

    >>> calibration_mode({"config": {"calibration": "oob"}})
    'oob'
    """
    return str(record["config"].get("calibration", "held_out"))


def holds_rows_out(record: Mapping[str, Any]) -> bool:
    """Return whether the parent of a run was fitted without the calibration rows.

    Prediction sets always have calibration rows of their own.

    >>> holds_rows_out({"config": {"calibration": "oob"}})
    False
    """
    return calibration_mode(record) == "held_out" or OPTIONAL in record["config"]


def run_task(record: Mapping[str, Any]) -> RunTask:
    """Return the task of a run: regression without classes, detection with a detector."""
    if not record["dataset"]["classes"]:
        return "regression"
    return "classification" if record["detector"] == "none" else "detection"


def parse_filter(word: str) -> Filter:
    """Read a filter.

    >>> parse_filter("dataset!=spiral,circle")
    Filter(key='dataset', values=('spiral', 'circle'), wanted=False)
    """
    match = re.fullmatch(r"([\w.]+)(!?=)(.+)", word, re.DOTALL)
    if not match:
        raise UsageError(f"a filter is key=value[,value…] or key!=value, got '{word}'")
    key, sign, values = match.groups()
    # Commas in brackets belong to a list.
    alternatives = [part.strip() for part in re.split(r",(?![^\[]*\])", values)]
    return Filter(key, tuple(alternatives), sign == "=")


def config_value(record: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key of the config, the name of a group, or :data:`NO_VALUE`."""
    if key in ("method", "seed"):
        return record[key]
    if key == OPTIONAL:
        return component_name(record, key)
    value: Any = record["config"]
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return NO_VALUE
        value = value[part]
    return value["name"] if isinstance(value, Mapping) and "name" in value else value


def flatten_config(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of everything in a config that is not a mapping."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flatten_config(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def refuse_unknown_filters(filters: Iterable[Filter], records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError, with the closest one, unless some run has each key and value."""
    for condition in filters:
        values = (config_value(record, condition.key) for record in records)
        texts = sorted({value_text(value) for value in values if value is not NO_VALUE})
        if not texts:
            keys = (key for record in records for key, _ in flatten_config(record["config"]))
            raise unknown_key(condition.key, {*FILTER_NAMES, *keys})
        for wanted in condition.values if condition.wanted else ():
            if not any(_matches(text, wanted) for text in texts):
                others = f"; they have {', '.join(texts)}" if len(texts) <= _MOST_NAMED else ""
                hint = did_you_mean(wanted, texts, others)
                raise UsageError(f"no run has {condition.key}={wanted}{hint}")


def value_text(value: Any) -> str:
    """Return a value as it is written in a filter.

    >>> [value_text(value) for value in (True, None, 0.5, [200, 200], "spiral")]
    ['true', 'null', '0.5', '[200,200]', 'spiral']
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(value_text, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{value_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def find_runs(
    out: str | Path,
    filters: Sequence[str] = (),
    note: Callable[[str], None] | None = None,
    *,
    outdated: bool = False,
) -> list[FinishedRun]:
    """Return every finished run below a folder that passes all filters.

    They are sorted by data set, method, seed and id. Records of another schema or of earlier code,
    incomplete and damaged ones are left out, and so are, unless ``outdated``, runs of files whose
    content has changed since. ``note`` receives a line about what is left out, and one about
    differences behind the runs; by default they are printed on stderr.

    UsageError is raised if ``out`` is not a folder, a filter cannot be read or has an unknown key,
    or no run passes.
    """
    if not Path(out).is_dir():
        raise UsageError(f"--out must be a folder with runs, got '{out}', which is no folder")
    conditions = [parse_filter(word) for word in filters]
    note = note or ProgressReporter().note
    reader = _RecordReader(out)
    with pause_garbage_collection():
        reader.read()
        passing = [
            run
            for run in reader.runs
            if all(condition.passes(run.record) for condition in conditions)
        ]
        runs = passing if outdated else _without_outdated(passing, out, note)
    if left_out := reader.left_out():
        note(f"left out of {out}: {left_out}")
    if not reader.runs:
        raise no_finished_run(out)
    if not passing:
        refuse_unknown_filters(conditions, [run.record for run in reader.runs])
        n_runs = counted(len(reader.runs), "run")
        raise UsageError(f"of {n_runs} in '{out}' none has {' '.join(filters)}")
    if not runs:
        chosen = f"{counted(len(passing), 'run')} in '{out}'" + (
            f" with {' '.join(filters)}" if filters else ""
        )
        raise UsageError(
            f"of {chosen} none is of its files as they are now; run them again, or see them with"
            " --outdated"
        )
    for line in hidden_differences([run.record for run in runs]):
        note(line)
    return sorted(runs, key=_sort_key)


def no_finished_run(out: str | Path) -> UsageError:
    """Return the error for a folder without a finished run."""
    return UsageError(
        f"no finished run in '{out}'; make one with 'kdg run', or name another folder with --out"
    )


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off for a block that creates many objects and drops none.

    It would visit all records again and again, which takes a third of the time of reading them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _matches(value: Any, wanted: str) -> bool:
    text = value_text(value)
    if text == wanted.replace(" ", "") or fnmatchcase(text, wanted):
        return True
    try:
        # As floats, whole numbers from 2^53 on would equal their neighbours.
        return Decimal(text) == Decimal(wanted)
    except ArithmeticError:
        return False


def _without_outdated(
    runs: Sequence[FinishedRun], out: str | Path, note: Callable[[str], None]
) -> list[FinishedRun]:
    files, current = PresentFiles(), []
    changed_paths: dict[str, None] = {}
    for run in runs:
        paths = files.changed(run.record)
        changed_paths.update(dict.fromkeys(paths))
        if not paths:
            current.append(run)
    if changed_paths:
        names = some([Path(path).name for path in changed_paths], 3)
        note(
            f"left out of {out}: {counted(len(runs) - len(current), 'run')} of an earlier content"
            f" of {names}; --outdated shows them too, under names of their own"
        )
    return current


def _sort_key(run: FinishedRun) -> tuple[str, str, int, str]:
    record = run.record
    return (
        str(record["dataset"]["name"]),
        str(record["method"]),
        int(record["seed"]),
        str(record["run_id"]),
    )


def _version_text(schema: Any) -> str:
    """Return the schema of a record that was not checked, which may be any value."""
    is_version = type(schema) is int and 0 <= schema < 1000
    return str(schema) if is_version else "unknown"


class _RecordReader:
    """Reader of a folder: records that can be used, and the others by the reason."""

    def __init__(self, out: str | Path) -> None:
        self.out, self.index = out, RecordIndex(out)
        self.runs: list[FinishedRun] = []
        self.schemas: list[str] = []
        self.n_earlier_code = 0
        self.malformed: list[str] = []
        self.damaged: list[Path] = []
        self.unreadable: list[str] = []

    def read(self) -> None:
        """Read the records below the folder.

        Hidden folders, such as the store, and the insides of run directories are skipped. Links are
        followed, once each, unless they lead to what is read anyway, such as a folder above.
        """
        followed = [os.path.realpath(self.out)]
        folders = [str(Path(self.out))]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as scan:
                    entries = list(scan)
            except PermissionError:
                self.unreadable.append(folder)
                continue
            if any(entry.name == RECORD for entry in entries):
                self._read(os.path.join(folder, RECORD))
                continue
            for entry in entries:
                # not entry.is_dir(), which raises where links lead in a circle
                if entry.name.startswith(".") or not os.path.isdir(entry.path):
                    continue
                if entry.is_symlink():
                    target, above = os.path.realpath(entry.path), os.path.realpath(folder)
                    if Path(above).is_relative_to(target) or any(
                        Path(target).is_relative_to(root) for root in followed
                    ):
                        continue
                    followed.append(target)
                folders.append(entry.path)
        self.index.save()

    def _read(self, path: str) -> None:
        content, status = b"", None
        try:
            status = os.stat(path)
            # neither a folder nor a pipe, which would be waited for, for ever
            if stat.S_ISREG(status.st_mode):
                if (record := self.index.find(path, status)) is not None:
                    self.runs.append(FinishedRun(Path(path).parent, record))
                    return
                content = Path(path).read_bytes()
        except FileNotFoundError:  # it was removed meanwhile
            pass
        except PermissionError:
            self.unreadable.append(path)
            return
        try:
            record = load_record(content)
        except ChecksumError:
            if (earlier := load_old_record(content)) is None:
                self.damaged.append(Path(path))
            else:
                self.schemas.append(_version_text(earlier["schema"]))
        except RecordShapeError as error:
            self.malformed.append(f"{path}: {error}")
        else:
            if is_current(record) and status is not None:
                record = self.index.add(path, status, record)
                self.runs.append(FinishedRun(Path(path).parent, record))
            elif record.get("schema") == RECORD_SCHEMA:
                self.n_earlier_code += 1
            else:
                self.schemas.append(_version_text(record.get("schema")))

    def left_out(self) -> str:
        """Return a description of what cannot be used; "" if everything can."""
        parts = []
        if self.schemas:
            parts.append(
                f"{counted(len(self.schemas), 'run')} of another version (schema"
                f" {', '.join(sorted(set(self.schemas)))}; this kdgraph reads {RECORD_SCHEMA})"
            )
        if self.n_earlier_code:
            parts.append(
                f"{counted(self.n_earlier_code, 'run')} of other code than this kdgraph's; the"
                " same kdg run makes them again"
            )
        if self.malformed:
            parts.append(
                f"{counted(len(self.malformed), 'run')} whose {RECORD} is not as a run writes it"
                f" ({some(sorted(self.malformed), 2)}); the same kdg run makes them again"
            )
        if self.damaged:
            paths = some(sorted(str(path) for path in self.damaged), 2)
            parts.append(
                f"{counted(len(self.damaged), 'run')} whose {RECORD} is damaged ({paths}); the same"
                " kdg run makes them again"
            )
        if self.unreadable:
            parts.append(
                f"what you may not read ({some(self.unreadable, 2)}); its owner can let you with"
                f" 'chmod -R a+rX {self.out}'"
            )
        return "; ".join(parts)
