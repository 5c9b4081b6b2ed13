"""Whether a record has everything that a record has, so that what reads it need not ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdgraph.errors import UsageError
from kdgraph.results.parts import PARTS

OF_RUN = (
    "run_id",
    "code",
    "reads",
    *PARTS,
    "method",
    "protocol",
    "seed",
    "ood_sets",
    "learnt",
    "seconds",
    "peak_memory_mb",
)
OF_RUN += (
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
WITHIN = {
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
    "config": ("dataset", "ood", "preprocess", *PARTS, "metrics", "protocol"),
    "files": ("predictions", "tables", "figures"),
}
OF_ENTRY = ("metric", "of", "on", "ood", "params", "value", "stderr", "n")
"""Of each item of ``metrics``."""


def lacking(record: Mapping[str, Any]) -> str | None:
    """The first key that is not there (``dataset.prior``), or None.

    >>> lacking({"run_id": "1cb9f0a2"})
    'code'
    """
    for key in OF_RUN:
        if key not in record:
            return key
    for key, inner in WITHIN.items():
        for name in inner:
            if not isinstance(record[key], Mapping) or name not in record[key]:
                return f"{key}.{name}"
    wanted = set(OF_ENTRY)
    for entry in record["metrics"]:
        if not entry.keys() >= wanted:
            return f"metrics.{next(name for name in OF_ENTRY if name not in entry)}"
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
    if key := lacking(record):
        raise UsageError(f"{run_dir}/result.json lacks '{key}'; force=true runs it again")
