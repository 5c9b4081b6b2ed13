"""Numbers of finished runs as a table: metric, rows, and the average pairwise Hamming distance of a
mean score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.frames import where
from experiments.common.runs import Record

IN = "in distribution"  # Set of test rows
# Metric added for each mean score of TOOD: the mean over rows of their APHD, which is the threshold
# less the score.
APHD = "aphd"
DETECTED = "calibrated"  # Model of the numbers in a record: the whole method, not its parent alone


def table_of(records: Iterable[Record], keys: Sequence[str] = ()) -> pd.DataFrame:
    """Return each number of the detector: dataset, method, seed, keys of config, set, metric."""
    return pd.DataFrame(row for record in records for row in _rows(record, keys))


def _rows(record: Record, keys: Sequence[str]) -> Iterable[dict[str, Any]]:
    shared = {
        "dataset": record["dataset"]["name"],
        "method": record["method"],
        "seed": record["seed"],
    }
    shared |= {key.rpartition(".")[2]: _value(record["config"], key) for key in keys}
    offset = (record.get("learnt") or {}).get("detector", {}).get("offset", np.nan)
    for entry in record["metrics"]:
        if entry["of"] != DETECTED or entry["value"] is None:
            continue
        result = {**shared, "set": entry["ood"] or IN, "metric": entry["metric"]}
        result["value"] = entry["value"]
        yield result
        if entry["metric"] == "mean_ood_score" and "n_of" in entry:
            yield {**result, "metric": APHD, "value": offset - entry["value"]}


def _value(config: Any, key: str) -> Any:
    for name in key.split("."):
        config = config[name]
    return config


def by_seed(frame: pd.DataFrame, metric: str, at: str, **values: Any) -> tuple[list, np.ndarray]:
    """Return the values of the column ``at``, and Float[s, v] of the seeds that have all."""
    rows = where(frame, metric=metric, **values)
    wide = rows.pivot(index="seed", columns=at, values="value").dropna()
    return list(wide.columns), wide.to_numpy(float)
