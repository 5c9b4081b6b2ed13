"""Finished runs in an experiment tracker: MLflow or Weights & Biases.

A tracker is fed from the record of a run after it is stored, by the process that prints the table,
so that it takes no part in a computation and no worker of a sweep needs it. What a tracker has is
noted beside the record; the same command logs only what is not noted, also of runs that were done
without a tracker, or while it could not be reached.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.containment import LeadsOutside, path_inside
from kdgraph.errors import UsageError
from kdgraph.extras import is_installed, needs_library
from kdgraph.runner.files import file_checksum
from kdgraph.runner.run_dir import RECORD

LOGGED = "logged.txt"
"""File of a run's directory: lines with the checksum of a record, and where that was logged."""
EXPERIMENT = "kdgraph"
"""Experiment of MLflow, or project of Weights & Biases, if the environment names no other."""
IDENTITY = ("run_id", "method", "parent", "protocol", "git", "host", "versions")
"""Keys of a record that identify a run and repeat it, beside its data set and overrides."""


def check_tracker(name: str | None) -> None:
    """Raise UsageError, with the extra to install, for a tracker whose package is absent."""
    if name is not None and not is_installed(name):
        raise UsageError(needs_library(f"logger={name}", name))


def log_runs(name: str, runs: Sequence[tuple[Path, Mapping[str, Any]]]) -> tuple[str, int]:
    """Log finished runs to ``mlflow`` or ``wandb``; return the place, and how many are logged now.

    The tracker's own environment variables choose the place. Without them files are written beside
    the runs, and nothing is sent over a network.

    Parameters
    ----------
    name : {"mlflow", "wandb"}
        The tracker.
    runs : sequence of (Path, mapping)
        Directory and record of each run; those that the tracker has are left out.
    """
    if not runs:
        return "", 0
    out = runs[0][0].parents[2].resolve()  # <out>/<dataset>/<method>/<run_id>
    place, log = _TRACKERS[name](out)
    n_logged = 0
    for folder, record in runs:
        note, checksum = folder / LOGGED, str(file_checksum(folder / RECORD))
        line = f"{checksum} {place}"
        if not note.exists() or line not in note.read_text(errors="replace").splitlines():
            log(_entry(folder, record, checksum))
            with note.open("a") as file:
                file.write(f"{line}\n")
            n_logged += 1
    return place, n_logged


def dotted(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nested mappings by dotted key.

    >>> dotted({"seed": 0, "parent": {"name": "mlp", "hidden": [8, 8]}, "ood": {}})
    {'seed': 0, 'parent.name': 'mlp', 'parent.hidden': [8, 8]}
    """
    values: dict[str, Any] = {}
    for key, value in node.items():
        inner = dotted(value).items() if isinstance(value, Mapping) else None
        values |= {key: value} if inner is None else {f"{key}.{k}": v for k, v in inner}
    return values


def flat_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a run by name: model, rows and metric, separated by slashes.

    Standard errors have the same name with ``_stderr``; values that do not exist are left out.

    >>> far = {"metric": "oce", "of": "calibrated", "on": "ood", "ood": "sphere"}
    >>> row = far | {"params": {"radius": 2.0}, "value": 0.1, "stderr": 0.02}
    >>> list(flat_metrics({"metrics": [row], "seconds": {"fit": 1.5}}))[1:]
    ['calibrated/ood/sphere/radius=2/oce', 'calibrated/ood/sphere/radius=2/oce_stderr']
    """
    numbers = {f"seconds/{stage}": seconds for stage, seconds in record["seconds"].items()}
    for row in record["metrics"]:
        params = [
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in (row.get("params") or {}).items()
        ]
        parts = [row["of"], row["on"], row.get("ood"), *params, row["metric"]]
        name = "/".join(part for part in parts if part)
        numbers |= {name: row["value"], f"{name}_stderr": row.get("stderr")}
    return {k: float(v) for k, v in numbers.items() if v is not None and math.isfinite(v)}


@dataclass(frozen=True)
class _Entry:
    """Parts of a run's record by flat names, and files by theirs, as trackers take them."""

    title: str
    checksum: str
    tags: dict[str, str]
    params: dict[str, Any]
    metrics: dict[str, float]
    files: dict[str, Path]


def _entry(folder: Path, record: Mapping[str, Any], checksum: str) -> _Entry:
    dataset, files = record["dataset"]["name"], {RECORD: folder / RECORD}
    for name in (*record["files"]["tables"].values(), *record["files"]["figures"]):
        with suppress(LeadsOutside):  # nothing that lies elsewhere, whatever a record names
            files[name] = path_inside(folder, name)
    tags = {"dataset": dataset, "overrides": " ".join(record["overrides"])}
    return _Entry(
        f"{dataset} {record['method']} seed {record['seed']}",
        checksum,
        {k: str(v) for k, v in (tags | dotted({key: record[key] for key in IDENTITY})).items()},
        dotted(record["config"]),
        flat_metrics(record),
        {name: path for name, path in files.items() if path.is_file()},
    )


_Log = Callable[[_Entry], None]


def _mlflow(out: Path) -> tuple[str, _Log]:
    """Return the place of MLflow's runs, files in ``out`` by default, and a function that logs."""
    # MLflow reports its use to its makers unless this is set, and new versions refuse a folder of
    # files, which they maintain but do not extend, unless that is allowed.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = importlib.import_module("mlflow")
    uri = os.environ.get("MLFLOW_TRACKING_URI") or (out / ".mlruns").as_uri()
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    client = mlflow.MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(name)
    experiment = client.create_experiment(name) if found is None else found.experiment_id

    def log(entry: _Entry) -> None:
        tags = {f"kdgraph.{k}": v for k, v in (entry.tags | {"checksum": entry.checksum}).items()}
        run = client.create_run(experiment, tags=tags, run_name=entry.title).info
        metric, param = mlflow.entities.Metric, mlflow.entities.Param
        client.log_batch(
            run.run_id,
            [metric(_mlflow_name(k), v, run.start_time, 0) for k, v in entry.metrics.items()],
            # Every MLflow takes 500 characters.
            [param(_mlflow_name(k), str(v)[:500]) for k, v in entry.params.items()],
        )
        for file, path in entry.files.items():
            client.log_artifact(run.run_id, str(path), file.rpartition("/")[0])
        client.set_terminated(run.run_id)

    return f"mlflow {uri} {name}", log


def _mlflow_name(name: str) -> str:
    """Return a name with the characters that MLflow takes: ``radius=2`` becomes ``radius:2``."""
    return re.sub(r"[^\w\-./: ]", "_", name.replace("=", ":"))


def _wandb(out: Path) -> tuple[str, _Log]:
    """Return the place of the runs, offline in ``out`` by default, and a function that logs."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # to its makers
    wandb = importlib.import_module("wandb")
    mode = os.environ.get("WANDB_MODE") or "offline"
    project = os.environ.get("WANDB_PROJECT") or EXPERIMENT
    folder = Path(os.environ.get("WANDB_DIR") or out / ".wandb")
    folder.mkdir(parents=True, exist_ok=True)

    def log(entry: _Entry) -> None:
        run = wandb.init(
            project=project,
            name=entry.title,
            id=f"{entry.tags['run_id']}-{entry.checksum[:8]}",  # logged again, it is replaced
            config=entry.params | {"kdgraph": entry.tags},
            group=entry.tags["dataset"],
            tags=[entry.tags["method"][:64]],
            dir=str(folder),
            mode=mode,
            reinit="finish_previous",
            settings=wandb.Settings(silent=True, console="off", save_code=False),
        )
        try:
            run.summary.update(entry.metrics)
            # Copies in the folder of the run, as a link to a file would break with its source.
            for file, path in entry.files.items():
                copy = Path(run.dir) / "run" / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
                run.save(str(copy), base_path=run.dir, policy="now")
        finally:
            run.finish()

    return f"wandb {mode} {project} {folder / 'wandb'}", log


_TRACKERS: dict[str, Callable[[Path], tuple[str, _Log]]] = {"mlflow": _mlflow, "wandb": _wandb}
