"""What a run's model is made of, in words: its parent, what was fitted after it, and on which
rows.

Whether a record has everything that a record has, so that what reads it need not ask.

Words that choose runs: ``dataset=spiral,circle``, ``method!=refit``, ``dataset.n_train=1000``,
``dataset=mfeat_*``.

A key is one of ``dataset method parent calibrator gate detector recalibrator ood preprocess``
(names), ``seed``, or a dotted key of the config, such as ``protocol``. Several values are
alternatives, several filters must all hold. A value is compared as text in which ``*`` and ``?``
stand for anything, and as a number if both are numbers; true, false and null are written so. A run
that has no such key fails ``=`` and passes ``!=``.

Records of finished runs: found below a folder, and chosen by what they were run with.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from kdgraph.config import AFTER, RECORD_SCHEMA
from kdgraph.config.messages import unknown_key
from kdgraph.errors import UsageError, did_you_mean
from kdgraph.results.origins import PresentFiles, hidden_differences
from kdgraph.runner.rundir import RECORD, is_current, unsealed
from kdgraph.runner.sealed import ChecksumError, check_and_load
from kdgraph.runner.watch import Watch
from kdgraph.wording import counted, some

COMPONENTS = ("parent", *AFTER)
"""Keys of a record that name a component of the model, in the order in which they are fitted."""
PAPER_PROTOCOL_NOTE = (
    "fitted on test rows, or by the rows out of distribution, where the method's paper does so"
    " (protocol=paper), so that its numbers are no estimate for new rows"
)
"""What has to be known of such a run wherever its numbers stand."""

RunTask = Literal["classification", "detection", "regression"]


def post_hoc_names(record: Mapping[str, Any]) -> list[str]:
    """Names of what was fitted after the parent; empty where the run is of the parent alone.

    >>> after({"parent": "random_forest", "calibrator": "isotonic", "gate": "density", "detector": "none", "recalibrator": "none"})
    ['isotonic', 'density']
    """
    return [str(record[part]) for part in AFTER if record[part] != "none"]


def component_chain(record: Mapping[str, Any]) -> str:
    """``random_forest → isotonic → density gate``: a gate has the name of what it looks at, so it
    is called one.
    """
    names = [
        (part, str(record[part]))
        for part in COMPONENTS
        if part == "parent" or record[part] != "none"
    ]
    return " → ".join(f"{name} gate" if part == "gate" else name for part, name in names)


def uses_paper_protocol(record: Mapping[str, Any]) -> bool:
    """Whether something may have been fitted on test rows, or by rows out of distribution."""
    return record["protocol"] == "paper"


def run_task(record: Mapping[str, Any]) -> RunTask:
    """What the run is about: a data set without classes is for regression, and a detector is what
    it measures.
    """
    if not record["dataset"]["classes"]:
        return "regression"
    return "classification" if record["detector"] == "none" else "detection"


RUN_KEYS = (
    "run_id",
    "code",
    "reads",
    *COMPONENTS,
    "method",
    "protocol",
    "seed",
    "ood_sets",
    "learnt",
    "seconds",
    "peak_memory_mb",
)
RUN_KEYS += (
    "warnings",
    "from_store",
    "versions",
    "git",
    "host",
    "dataset",
    "config",
    "files",
    "metrics",
    "about_metrics",
)
NESTED_KEYS = {
    "dataset": (
        "name",
        "fingerprint",
        "n_train",
        "n_calibration",
        "n_test",
        "n_features",
        "classes",
        "prior",
    ),
    "config": ("dataset", "ood", "preprocess", *COMPONENTS, "metrics", "protocol"),
    "files": ("predictions", "tables", "figures"),
}
METRIC_KEYS = ("metric", "of", "on", "ood", "params", "value", "stderr", "n")
"""Of each item of ``metrics``."""


def missing_key(record: Mapping[str, Any]) -> str | None:
    """The first key that is not there (``dataset.prior``), or None.

    >>> lacking({"run_id": "1cb9f0a2"})
    'code'
    """
    for key in RUN_KEYS:
        if key not in record:
            return key
    for key, inner in NESTED_KEYS.items():
        for name in inner:
            if not isinstance(record[key], Mapping) or name not in record[key]:
                return f"{key}.{name}"
    wanted = set(METRIC_KEYS)
    for entry in record["metrics"]:
        if not entry.keys() >= wanted:
            return f"metrics.{next(name for name in METRIC_KEYS if name not in entry)}"
    for name in (
        *dict.fromkeys(entry["metric"] for entry in record["metrics"]),
        *record["files"]["tables"],
    ):
        if name not in record["about_metrics"]:
            return f"about_metrics.{name}"
    return None


def refuse_incomplete(record: Mapping[str, Any], run_dir: str) -> None:
    """Raise :class:`~kdgraph.errors.UsageError` unless the record of the run in ``run_dir`` is
    whole.
    """
    if key := missing_key(record):
        raise UsageError(f"{run_dir}/result.json lacks '{key}'; force=true runs it again")


FILTER_NAMES = ("dataset", "method", "parent", *AFTER, "ood", "preprocess", "seed")
NO_VALUE = object()
_MOST_NAMED = 12


@dataclass(frozen=True)
class Filter:
    """One word: what is asked of one key.

    Attributes
    ----------
    key : a name or a dotted key.
    values : one of them is enough.
    wanted : whether it is to be one of them, or none.
    """

    key: str
    values: tuple[str, ...]
    wanted: bool

    def passes(self, record: Mapping[str, Any]) -> bool:
        """Whether a run has what is asked for."""
        value = config_value(record, self.key)
        return (
            value is not NO_VALUE and any(_is(value, text) for text in self.values)
        ) == self.wanted


def parse_filter(word: str) -> Filter:
    """Read a filter.

    >>> parse("dataset!=spiral,circle")
    Filter(key='dataset', values=('spiral', 'circle'), wanted=False)
    """
    match = re.fullmatch(r"([\w.]+)(!?=)(.+)", word, re.DOTALL)
    if not match:
        raise UsageError(f"a filter is key=value[,value…] or key!=value, got '{word}'")
    key, sign, values = match.groups()
    return Filter(key, tuple(_split(values)), sign == "=")


def config_value(record: Mapping[str, Any], key: str) -> Any:
    """What a run has for a key, or :data:`ABSENT`."""
    if key == "method" or key == "seed":
        return record[key]
    value: Any = record["config"]
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return NO_VALUE
        value = value[part]
    return value["name"] if isinstance(value, Mapping) and "name" in value else value


def flatten_config(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything in a config that is no mapping."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flatten_config(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def refuse_unknown_filters(filters: Iterable[Filter], records: Sequence[Mapping[str, Any]]) -> None:
    """Raise if a filter asks for what no run has at all: a key, or the value of a name.

    Raises
    ------
    UsageError
        One line with the nearest that there is.
    """
    for each in filters:
        there = {
            value_text(value)
            for record in records
            if (value := config_value(record, each.key)) is not NO_VALUE
        }
        if not there:
            raise unknown_key(
                each.key,
                {
                    *FILTER_NAMES,
                    *(key for record in records for key, _ in flatten_config(record["config"])),
                },
            )
        for text in each.values if each.wanted else ():
            if not any(_is(value, text) for value in there):
                known = sorted(there)
                others = f"; they have {', '.join(known)}" if len(known) <= _MOST_NAMED else ""
                raise UsageError(f"no run has {each.key}={text}{did_you_mean(text, known, others)}")


def value_text(value: Any) -> str:
    """A value as a command line would have it.

    >>> [as_text(value) for value in (True, None, 0.5, [200, 200], "spiral")]
    ['true', 'null', '0.5', '[200,200]', 'spiral']
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(value_text, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{value_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def _is(value: Any, wanted: str) -> bool:
    text = value_text(value)
    if text == wanted.replace(" ", "") or fnmatchcase(text, wanted):
        return True
    try:
        return Decimal(text) == Decimal(
            wanted
        )  # not as floats, of which one stands for many whole numbers from 2^53 on
    except ArithmeticError:
        return False


def _split(values: str) -> list[str]:
    """At the commas that are in no bracket."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", values)]


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: its directory and its record."""

    path: Path
    record: dict[str, Any]


def find_runs(
    out: str | Path,
    filters: Sequence[str] = (),
    tell: Callable[[str], None] | None = None,
    *,
    outdated: bool = False,
) -> list[FinishedRun]:
    """Return every finished run below ``out`` that passes all filters.

    Left out are records of another schema, of earlier code, without a key that all have, or not as
    they were written, and runs of files that have other content by now. ``tell`` gets a line on
    what is left out, and one on what differs behind runs that stay.

    Parameters
    ----------
    out : a folder at any level: that of all runs, of a data set, of a method, or of one run.
    filters : ``key=value[,value…]`` or ``key!=value[,value…]``; see :mod:`kdgraph.results.records`.
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
    wanted = [parse_filter(word) for word in filters]
    note = tell or Watch().note
    read = _Read()
    with pause_garbage_collection():
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
        refuse_unknown_filters(wanted, records)
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
    found: Sequence[FinishedRun], out: str | Path, note: Callable[[str], None]
) -> list[FinishedRun]:
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


def _place(found: FinishedRun) -> tuple[str, str, int, str]:
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
        self.found: list[FinishedRun] = []
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
            if (earlier := unsealed(content)) is None:
                self.damaged.append(path)
            else:
                self.schemas.append(str(earlier["schema"]))
            return
        if record.get("schema") != RECORD_SCHEMA:
            self.schemas.append(str(record.get("schema")))
        elif key := missing_key(record):
            self.missing.append(key)
        elif not is_current(record):
            self.of_earlier_code += 1
        else:
            self.found.append(FinishedRun(path.parent, record))

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
def pause_garbage_collection() -> Iterator[None]:
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
