"""What must be the same behind numbers that stand under one name: the content of files, the rows,
the libraries.

A table names a run by its config. A config names files, whose content may change, and nothing in it
names the versions of libraries: what is compared here is what a record holds of both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.config import Read
from kdgraph.errors import KdgError
from kdgraph.wording import counted, some

Record = Mapping[str, Any]
NO_NUMBERS = ("python", "matplotlib", "hydra-core")
"""Of the versions in a record, those that decide no number."""
_DIGITS = 8
"""Of a digest, as far as names have it."""


class PresentFiles:
    """The files that records name, as they are now; each is read once, and only if its size or its
    time is not as it was.
    """

    def __init__(self) -> None:
        self._changed: dict[tuple[Any, ...], bool] = {}

    def changed(self, record: Record) -> list[str]:
        """Return the paths of what a run was made of that has other content now; of what is gone
        nothing can be said.
        """
        return [read["path"] for read in record["reads"].values() if self._has_changed(read)]

    def _has_changed(self, read: Mapping[str, Any]) -> bool:
        key = (read["target"], read["key"], read["path"], read["stamp"], read["sha256"])
        if key not in self._changed:
            self._changed[key] = _has_changed(Read(*key[:3]), read["stamp"], read["sha256"])
        return self._changed[key]


def _has_changed(read: Read, stamp: str, digest: str) -> bool:
    try:
        return bool(read.files()) and read.stamp() != stamp and read.digest() not in (None, digest)
    except (KdgError, OSError):  # its class is not importable here, or the file is not readable
        return False


def contents(record: Record, prefix: str = "") -> str:
    """Return the first digits of the digests of what a run has read; "" where it has read no file.

    Parameters
    ----------
    record : of the run.
    prefix : ``ood.`` or ``outliers.``; "": of the data set.
    """
    found = {
        key: read
        for key, read in record["reads"].items()
        if (key.startswith(prefix) if prefix else "." not in key)
    }
    return ",".join(read["sha256"][:_DIGITS] for _, read in sorted(found.items()))


def hidden_differences(records: Sequence[Record]) -> list[str]:
    """Return a line on each thing behind the numbers of these runs that their names do not show and
    that is not the same for all.
    """
    return [*_different_rows(records), *_different_versions(records)]


def _different_rows(records: Sequence[Record]) -> list[str]:
    """Runs of one data set and one seed whose rows are not the same, though their configs are."""
    rows: dict[tuple[str, ...], set[str]] = {}
    for record in records:
        data = json.dumps(record["config"]["dataset"], sort_keys=True, default=str)
        key = (str(record["dataset"]["name"]), str(record["seed"]), data, contents(record))
        rows.setdefault(key, set()).add(str(record["dataset"]["fingerprint"]))
    names = dict.fromkeys(
        f"{name} seed {seed}" for (name, seed, *_), prints in rows.items() if len(prints) > 1
    )
    if not names:
        return []
    return [
        f"runs of one name saw different rows, on {some(list(names), 3)}: compare none of them;"
        " force=true runs each again"
    ]


def _different_versions(records: Sequence[Record]) -> list[str]:
    lines = []
    for name in dict.fromkeys(
        name for record in records for name in record["versions"] if name not in NO_NUMBERS
    ):
        runs = Counter(
            str(record["versions"][name]) for record in records if name in record["versions"]
        )
        if len(runs) > 1:
            counts = [f"{version} ({counted(n, 'run')})" for version, n in sorted(runs.items())]
            lines.append(f"{name} {', '.join(counts)}")
    if not lines:
        return []
    return [
        f"versions differ between runs: {'; '.join(lines)}; force=true runs them again with those"
        " of this machine"
    ]
