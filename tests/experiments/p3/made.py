"""Records as runs leave them, with numbers that are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Value = Callable[[str, str], float]
"""Set (None of test rows) and metric → its value."""


def record(
    dataset: str,
    method: str,
    seed: int,
    sets: list[str],
    value: Value,
    config: dict[str, Any] | None = None,
    n_train: int = 100,
) -> dict:
    """A record of a detector; TOOD's has a threshold of .9 and says that its numbers are of sets.
    Numbers of the parent are 7.
    """
    of_sets = {"n_of": "rows in sets of 100"} if method.startswith("tood") else {}
    entries = []
    for name in [None, *sets]:
        for metric in ("auroc" if name else "error", "mean_ood_score"):
            where = {"metric": metric, "on": "ood" if name else "test", "ood": name}
            entries.append({**where, "of": "parent", "value": 7.0})
            entries.append(
                {
                    **where,
                    "of": "calibrated",
                    "value": value(name or "", metric),
                    **(of_sets if metric != "error" else {}),
                }
            )
    learnt = {"detector": {"offset": 0.9}}
    rows = {"name": dataset, "n_train": n_train, "n_calibration": 100, "n_test": 100}
    return {
        "dataset": rows,
        "method": method,
        "seed": seed,
        "config": config or {},
        "learnt": learnt,
        "metrics": entries,
    }


def rows_of(table: str) -> list[list[str]]:
    """Cells of a table of markdown, without its head."""
    cells = [
        [cell.strip() for cell in each.strip("|").split("|")]
        for each in table.splitlines()
        if each.startswith("|")
    ]
    return cells[2:]
