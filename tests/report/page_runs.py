"""Run directories with records whose configs were composed, so that commands can be found for them;
the numbers are made up.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kdgraph.config import RECORD_SCHEMA, compose, run_id
from kdgraph.runner.files import add_checksum
from kdgraph.runner.store import CODE_SCHEMA
from tests.results.about_metrics import about_metrics

Record = dict[str, Any]
TEST = ("error", "nll", "ece", "mmc")
RADII = (1.0, 2.0, 5.0)
VALUES = (0.1, 0.3, 0.05, 0.9)
OF_PARENT = (0.3, 0.5, 0.25, 0.95)


@cache
def _composed(overrides: tuple[str, ...]) -> tuple[Record, str]:
    config = compose([*overrides, "ood.radii=[1,2,5]"])
    science = json.loads(json.dumps(config.science()))
    science["metrics"] = {
        "test": {name: science["metrics"]["test"][name] for name in TEST},
        "ood": {"mmc": {}, "oce": {}},
        "grid": {},
    }
    return science, config.method


def make_record(
    *overrides: str,
    seed: int = 0,
    values: Sequence[float] = VALUES,
    of_parent: Sequence[float] = OF_PARENT,
    **more: Any,
) -> Record:
    """A record of the run that the overrides lead to.

    Parameters
    ----------
    values, of_parent : error, NLL, ECE and mean confidence on test rows, of the calibrated model
    and of its parent.
    more : keys of the record that are not as usual.
    """
    science, method = copy.deepcopy(_composed(overrides))
    science["seed"] = seed
    metrics = []
    for name, before, after in zip(TEST, of_parent, values, strict=True):
        metrics += [_entry(name, "parent", before), _entry(name, "calibrated", after)]
    for radius in RADII:
        metrics += [
            _entry("mmc", of, value, radius) for of, value in (("parent", 0.9), ("calibrated", 0.6))
        ]
        metrics += [
            _entry("oce", of, value, radius) for of, value in (("parent", 0.4), ("calibrated", 0.0))
        ]
    return {
        "schema": RECORD_SCHEMA,
        "code": CODE_SCHEMA,
        "reads": {},
        "run_id": run_id(science),
        "dataset": {
            "name": science["dataset"]["name"],
            "fingerprint": "0123456789abcdef",
            "n_train": 1000,
            "n_calibration": 430,
            "n_test": 100,
            "n_features": 2,
            "n_categorical": 0,
            "missing_fraction": 0.0,
            "shape": [2],
            "classes": [0, 1],
            "prior": [0.5, 0.5],
            "source": {},
        },
        **{
            part: science[part]["name"]
            for part in ("parent", "calibrator", "gate", "detector", "recalibrator")
        },
        "method": method,
        "protocol": science["protocol"],
        "seed": seed,
        "config": science,
        "overrides": [*overrides, "ood.radii=[1,2,5]", f"seed={seed}"],
        "experiment": None,
        "config_dir": None,
        "metrics": metrics,
        "about_metrics": about_metrics((*TEST, "oce")),
        "ood_sets": [],
        "learnt": {"calibrator": {"k": 3}},
        "files": {"predictions": "predictions.parquet", "tables": {}, "figures": [], "sha256": {}},
        "seconds": {"fit": 1.25, "evaluate": 0.5},
        "peak_memory_mb": {"fit": 200.0, "evaluate": 150.0},
        "warnings": [],
        "from_store": [],
        "versions": {"kdgraph": "0.1.0", "python": "3.11.7"},
        "git": {"commit": "0" * 40, "dirty": False},
        "host": {"name": "here", "system": "Linux", "cpus": 2},
        **more,
    }


def write(out: Path, records: Iterable[Record]) -> Path:
    """Write each record where its run would be; returns ``out``."""
    for record in records:
        folder = out / record["dataset"]["name"] / record["method"] / record["run_id"]
        folder.mkdir(parents=True)
        (folder / "result.json").write_bytes(add_checksum(record))
    return out


def _entry(metric: str, of: str, value: float | None, radius: float | None = None) -> Record:
    params = {} if radius is None else {"radius": radius}
    stderr = None if metric == "ece" else 0.0125
    where = {
        "on": "test" if radius is None else "ood",
        "ood": None if radius is None else "sphere",
        "params": params,
    }
    return {"metric": metric, "of": of, **where, "value": value, "stderr": stderr, "n": 100}
