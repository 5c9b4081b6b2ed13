"""Records of many runs in one file, so that a command over all of them parses each record once.

The index is ``<out>/.sweeps/records-<digest>``: records that were parsed and checked, with the
inode, time and size of their files. It is read back as it was written, without a check, so that it
counts only with the signature of this user's key; the format (:mod:`marshal`) runs no code. Losing
an index costs time and nothing else.

Records of a study differ in a few values. What they share is one object for all of them, in memory
and in the index: ten thousand records are ten thousand times their numbers, and a few configs.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kdgraph.config import RECORD_SCHEMA
from kdgraph.errors import KdgError
from kdgraph.runner.files import write_atomically
from kdgraph.runner.store import CODE_SCHEMA
from kdgraph.signing import current_key

FEWEST_NEW = 100
"""Records that must be new for an index to be written; fewer take a twentieth of a second."""
_FORMAT = 1
"""Changes with the checks of a record, too: those in an index are not checked again."""
INDEX = b"kdgraph index of records"
"""Kind of the file, for its signature."""
_NAME, _DIGITS = "records-", 64

Stamp = tuple[int, int, int, int]
"""Inode, size, time of the content and time of the inode of a file."""


class MetricRows(Sequence[Mapping[str, Any]]):
    """The numbers of a record: what they measure, which many records share, and their values.

    As a sequence it has the items of ``metrics`` in a record.

    >>> row = {"metric": "error", "of": "parent", "n": 10}
    >>> numbers = MetricRows.of([{**row, "value": 0.2, "stderr": 0.1}])
    >>> numbers.rows, numbers.values, numbers[0] == {**row, "value": 0.2, "stderr": 0.1}
    (({'metric': 'error', 'of': 'parent', 'n': 10},), (0.2,), True)
    """

    __slots__ = ("rows", "stderrs", "values")

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        values: Sequence[float | None],
        stderrs: Sequence[float | None],
    ) -> None:
        self.rows, self.values, self.stderrs = rows, values, stderrs

    @classmethod
    def of(cls, metrics: Sequence[Mapping[str, Any]]) -> MetricRows:
        """Return the items of ``metrics`` in a record, or what was made of them, as this."""
        if isinstance(metrics, cls):
            return metrics
        own = ("value", "stderr")
        return cls(
            tuple({k: v for k, v in entry.items() if k not in own} for entry in metrics),
            tuple(entry["value"] for entry in metrics),
            tuple(entry["stderr"] for entry in metrics),
        )

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        return {**self.rows[i], "value": self.values[i], "stderr": self.stderrs[i]}

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row, value, stderr in zip(self.rows, self.values, self.stderrs, strict=True):
            yield {**row, "value": value, "stderr": stderr}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class RecordIndex:
    """Records below one folder, of the index and of files that were read since."""

    def __init__(self, out: str | Path) -> None:
        self._start = len(str(Path(out)))
        version = f"{_FORMAT} {RECORD_SCHEMA} {CODE_SCHEMA} {sys.implementation.cache_tag}"
        digest = hashlib.sha256(version.encode()).hexdigest()[:16]
        self.path = Path(out, ".sweeps", f"{_NAME}{digest}")
        self._known = _read(self.path)
        self._seen: dict[str, tuple[Stamp, dict[str, Any]]] = {}
        self._n_new = 0
        self._parts = _SharedParts()

    def find(self, path: str, status: os.stat_result) -> dict[str, Any] | None:
        """Return the record of a file, if that is as it was when it was read."""
        key = path[self._start :]
        known = self._known.get(key)
        if known is None or known[0] != _stamp(status):
            return None
        self._seen[key] = known
        return known[1]

    def add(self, path: str, status: os.stat_result, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record that was read and checked, with what it shares with others.

        ``status`` is of the file before it was read: if it is replaced meanwhile, it is read again.
        """
        shared = self._parts.share_record(record)
        self._seen[path[self._start :]] = _stamp(status), shared
        self._n_new += 1
        return shared

    def save(self) -> None:
        """Write the records that were found or added, if enough of them are new.

        A full disk, another user's folder, or no key of this user: an index saves time and nothing
        else.
        """
        if self._n_new < FEWEST_NEW:
            return
        entries = []
        for key, (stamp, record) in self._seen.items():
            shared = self._parts.share_record(record)
            numbers = shared.pop("metrics")
            entries.append((key, stamp, shared, (numbers.rows, numbers.values, numbers.stderrs)))
        payload = marshal.dumps(entries)
        with suppress(OSError, KdgError):
            if not (signing := current_key()).problem:
                for other in self.path.parent.glob(f"{_NAME}*"):
                    other.unlink(missing_ok=True)
                signature = signing.digest(_checksum(payload), INDEX)
                write_atomically(self.path, signature.encode() + payload)


class _SharedParts:
    """Parts of records, of which equal ones are replaced by one object."""

    def __init__(self) -> None:
        self._parts: dict[bytes, Any] = {}

    def share_record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record whose parts are those of earlier ones, where these are equal."""
        parts = {
            key: {name: self._share(node) for name, node in value.items()}
            if key == "config"
            else self._share(value)
            for key, value in record.items()
            if key != "metrics"
        }
        numbers = MetricRows.of(record["metrics"])
        rows = self._share(numbers.rows)
        return {**parts, "metrics": MetricRows(rows, numbers.values, numbers.stderrs)}

    def _share(self, part: Any) -> Any:
        # Version 2 of the format writes equal parts as equal bytes, whatever they share inside:
        # equal to the types of their numbers, and to the order of their keys.
        return self._parts.setdefault(marshal.dumps(part, 2), part)


def _read(path: Path) -> dict[str, tuple[Stamp, dict[str, Any]]]:
    """Return key → stamp and record of an index; none of one that this user did not write."""
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    signature, payload = content[:_DIGITS], memoryview(content)[_DIGITS:]
    with suppress(KdgError):
        if current_key().verify(_checksum(payload), signature.decode("latin-1"), INDEX):
            return {
                key: (stamp, {**record, "metrics": MetricRows(*numbers)})
                for key, stamp, record, numbers in marshal.loads(payload)
            }
    return {}


def _checksum(payload: bytes | memoryview) -> bytes:
    return hashlib.sha256(payload).digest()


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
