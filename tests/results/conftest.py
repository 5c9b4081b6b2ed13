"""Records as a runner would have written them, with the settings and numbers that a test gives
for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kdgraph.config import RECORD_SCHEMA
from kdgraph.results.records import FinishedRun
from kdgraph.runner.files import add_checksum
from kdgraph.runner.store import CODE_SCHEMA
from tests.results.about_metrics import about_metrics

Record = dict[str, Any]
OPTIONS = {"nll": {"clip": 1e-6}, "ece": {"bins": 15, "strategy": "uniform", "norm": "l1"}}


def entry(key: str, of: str, value: float | None, rows: int) -> Record:
    """``ece``, ``hellinger@grid``, ``oce@sphere:radius=2``: one item of ``metrics``."""
    metric, _, place = key.partition("@")
    name, _, params = place.partition(":")
    on = (place or "test") if place in ("", "grid", "calibration") else "ood"
    words = dict(word.split("=") for word in params.split(",") if word)
    values = {key: float(number) for key, number in words.items()}
    stderr = None if metric == "ece" or value is None else 0.01
    return {
        "metric": metric,
        "of": of,
        "on": on,
        "ood": name if on == "ood" else None,
        "params": values,
        "value": value,
        "stderr": stderr,
        "n": rows,
    }


def make_record(
    dataset="spiral",
    method="kdf",
    *,
    seed=0,
    values=None,
    of_parent=None,
    parent="random_forest",
    calibrator=None,
    gate="none",
    detector="none",
    recalibrator="none",
    protocol="strict",
    config=None,
    schema=RECORD_SCHEMA,
    fingerprint=None,
    test_fingerprint=None,
    rows=(100, 30),
    prior=(0.6, 0.4),
    simulated=True,
    reads=None,
) -> Record:
    """A record. ``values`` and ``of_parent`` are its numbers by measure; ``config`` are dotted keys
    that are not as usual.
    """
    calibrator = calibrator or method
    target = "kdgraph.data.simulations.Spiral" if simulated else "kdgraph.data.tables.File"
    science = {
        "dataset": {"name": dataset, "_target_": target, "n_train": 100},
        "ood": {
            "name": "sphere",
            "_target_": "kdgraph.data.ood.Sphere",
            "radii": [1, 2, 5],
            "n": 50,
            "draw": "uniform",
        },
        "preprocess": {"name": "default", "_target_": "kdgraph.parents.Preprocess"},
        "parent": {
            "name": parent,
            "_target_": f"a.{parent}",
            "n_estimators": 500,
            "max_depth": None,
        },
        "calibrator": {
            "name": calibrator,
            "_target_": f"a.{calibrator}",
            "alpha": 0.005,
            "robust": True,
            "layers": [200, 200],
        },
        **{
            part: {"name": name}
            for part, name in (
                ("gate", gate),
                ("detector", detector),
                ("recalibrator", recalibrator),
            )
        },
        "metrics": {"test": {}, "calibration": {}, "ood": {}, "grid": {}},
        "figures": {"draw": []},
        "protocol": protocol,
        "seed": seed,
    }
    of_calibrated = (
        {"error": 0.1, "nll": 0.3, "ece": 0.05, "oce@sphere:radius=2": 0.0}
        if values is None
        else values
    )
    of_parent = dict.fromkeys(of_calibrated, 0.2) if of_parent is None else of_parent
    entries = [
        entry(key, of, value, 40 if key.partition("@")[2] == "" else 50)
        for of, numbers in (("parent", of_parent), ("calibrated", of_calibrated))
        for key, value in numbers.items()
    ]
    for metric in entries:
        science["metrics"][metric["on"]].setdefault(
            metric["metric"], dict(OPTIONS.get(metric["metric"], {}))
        )
    for key, value in (config or {}).items():
        node: Any = science
        *path, last = key.split(".")
        for part in path:
            node = node[part]
        node[last] = value
    text = json.dumps([science, method, dataset], sort_keys=True)
    return {
        "schema": schema,
        "code": CODE_SCHEMA,
        "reads": reads or {},
        "run_id": hashlib.sha256(text.encode()).hexdigest()[:8],
        "dataset": {
            "name": dataset,
            "fingerprint": fingerprint or f"{dataset} {seed}",
            "test_fingerprint": test_fingerprint or f"{dataset} {seed}",
            "n_train": rows[0],
            "n_calibration": rows[1],
            "n_test": 40,
            "n_features": 2,
            "classes": list(range(len(prior or ()))),
            "prior": list(prior) if prior else None,
            "source": {},
        },
        **{
            part: science[part]["name"]
            for part in ("parent", "calibrator", "gate", "detector", "recalibrator")
        },
        "method": method,
        "protocol": protocol,
        "seed": seed,
        "config": science,
        "overrides": [f"dataset={dataset}", f"method={method}", f"seed={seed}"],
        "experiment": None,
        "config_dir": None,
        "metrics": entries,
        "about_metrics": about_metrics(metric["metric"] for metric in entries),
        "ood_sets": [],
        "learnt": {},
        "files": {"predictions": "predictions.parquet", "tables": {}, "figures": [], "sha256": {}},
        "warnings": [],
        "from_store": [],
        "versions": {},
        "git": None,
        "host": {},
        "seconds": {"fit": 1.25, "evaluate": 0.5},
        "peak_memory_mb": {"fit": 200.0, "evaluate": 150.0},
    }


@pytest.fixture
def record() -> Callable[..., Record]:
    return make_record


@pytest.fixture
def as_runs() -> Callable[[Iterable[Record]], list[FinishedRun]]:
    """Records as they are found, in the given order."""
    return lambda records: [
        FinishedRun(Path("outputs", r["dataset"]["name"], r["method"], r["run_id"]), r)
        for r in records
    ]


def write(folder: Path, records: Iterable[Record]) -> Path:
    """Write records where runs would, below ``folder / outputs``, which is returned."""
    for each in records:
        run = folder / "outputs" / each["dataset"]["name"] / each["method"] / each["run_id"]
        run.mkdir(parents=True)
        (run / "result.json").write_bytes(add_checksum(each))
    return folder / "outputs"


@pytest.fixture
def outputs(tmp_path) -> Callable[[Iterable[Record]], Path]:
    """Write records and return the folder."""
    return lambda records: write(tmp_path, records)
