"""Numbers of records as a data frame, with the keys of Figures 1, 3 and 4: data, rows, dimensions,
parent, variant, distance.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.runs import Record
from experiments.p1.versions import version_of


def frame(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row for each metric of each record; a parent counts once."""
    rows = [_row(record, entry) for record in records for entry in record["metrics"]]
    if not rows:
        return pd.DataFrame()
    everything = pd.DataFrame(rows)
    columns = ["dataset", "n_train", "n_dims", "parent", "variant", "model", "seed", "metric"]
    columns += ["on", "ood", "param", "at"]
    return everything.drop_duplicates(columns, ignore_index=True)


def _row(record: Record, entry: Record) -> dict[str, Any]:
    of_parent = entry["of"] == "parent"
    calibrator = record["config"]["calibrator"]
    (param, at), *_ = [*entry["params"].items(), (None, np.nan)]
    return {
        "dataset": record["dataset"]["name"],
        # Rows that fit. Out of bag these are those that would calibrate too, so that a parent
        # fitted to them does not count as that of another method's fewer rows.
        "n_train": record["dataset"]["n_train"],
        "n_dims": record["dataset"]["n_features"],
        "parent": record["parent"],
        "variant": "" if of_parent else version_of(calibrator),
        "model": "parent" if of_parent else calibrator.get("distance") or "default",
        "seed": record["seed"],
        **{key: entry[key] for key in ("metric", "on", "ood")},
        **{"param": param, "at": at},
        "id": bool(entry.get("in_distribution")),
        "value": np.nan if entry["value"] is None else entry["value"],
        "prior": max(record["dataset"]["prior"]),
    }
