"""Differences behind numbers of one name: contents of files, rows, versions of libraries.

A table names a run by its config. A config names files, whose content may change, and does not
contain the versions of libraries. Both are in the record and are compared here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.config.data_sources import Read, recorded_read
from kdgraph.errors import KdgError
from kdgraph.wording import counted, some

Record = Mapping[str, Any]
IRRELEVANT_VERSIONS = ("python", "matplotlib", "hydra-core")
"""Libraries of a record that do not change any number."""
_DIGEST_DIGITS = 8
"""Digits of a digest in names."""


class PresentFiles:
    """Files that records name, as they are now; read if size or time differ from the record."""

    def __init__(self) -> None:
        self._changed: dict[tuple[Any, ...], bool] = {}

    def changed(self, record: Record) -> list[str]:
        """Return the paths of a run's files whose content has changed.

        Files that do not exist any more are not listed: their content is unknown.
        """
        return [read["path"] for read in record["reads"].values() if self._has_changed(read)]

    def _has_changed(self, read: Mapping[str, Any]) -> bool:
        key = (read["target"], read["key"], read["path"], read["stamp"], read["sha256"])
        if key not in self._changed:
            of_record = recorded_read(*key[:3])
            self._changed[key] = _has_changed(of_record, read["stamp"], read["sha256"])
        return self._changed[key]


def content_digests(record: Record, prefix: str = "") -> str:
    """Return the first digits of the digests of a run's files; "" without files.

    The prefix "ood." or "outliers." chooses those of OOD sets or of training outliers, "" those of
    the data set.
    """
    reads = {
        key: read
        for key, read in record["reads"].items()
        if (key.startswith(prefix) if prefix else "." not in key)
    }
    return ",".join(read["sha256"][:_DIGEST_DIGITS] for _, read in sorted(reads.items()))


def hidden_differences(records: Sequence[Record]) -> list[str]:
    """Return a line for each difference between runs that their names do not show."""
    return [*_different_rows(records), *_different_versions(records)]


def _has_changed(read: Read, stamp: str, digest: str) -> bool:
    try:
        return bool(read.files()) and read.stamp() != stamp and read.digest() not in (None, digest)
    except (KdgError, OSError):  # its class cannot be imported, or the file cannot be read
        return False


def _different_rows(records: Sequence[Record]) -> list[str]:
    """Return a line about runs of one data set and seed with the same config and other rows.

    Methods divide the rows that do not test otherwise: a gate needs training rows behind a model
    that was fitted elsewhere, and a calibrator there needs none. So all runs must have the same
    test rows, and those with the same numbers of training and calibration rows the same of these.
    """
    fingerprints: dict[tuple[Any, ...], set[str]] = {}
    for record in records:
        rows = record["dataset"]
        node = json.dumps(record["config"]["dataset"], sort_keys=True, default=str)
        key = (str(rows["name"]), int(record["seed"]), node, content_digests(record))
        division = (rows["n_train"], rows["n_calibration"])
        fingerprints.setdefault((*key, division), set()).add(str(rows["fingerprint"]))
        if "test_fingerprint" in rows:
            fingerprints.setdefault((*key, "test"), set()).add(rows["test_fingerprint"])
    differ = {(name, seed) for (name, seed, *_), found in fingerprints.items() if len(found) > 1}
    if not differ:
        return []
    names = [f"{name} seed {seed}" for name, seed in sorted(differ)]
    return [
        f"runs of one name saw different rows, on {some(names, 3)}: compare none of them;"
        " force=true runs each again"
    ]


def _different_versions(records: Sequence[Record]) -> list[str]:
    differences = []
    libraries = dict.fromkeys(name for record in records for name in record["versions"])
    for name in libraries:
        if name in IRRELEVANT_VERSIONS:
            continue
        runs = Counter(
            str(record["versions"][name]) for record in records if name in record["versions"]
        )
        if len(runs) > 1:
            counts = [f"{version} ({counted(n, 'run')})" for version, n in sorted(runs.items())]
            differences.append(f"{name} {', '.join(counts)}")
    if not differences:
        return []
    return [
        f"versions differ between runs: {'; '.join(differences)}; force=true runs them again with"
        " those of this machine"
    ]
