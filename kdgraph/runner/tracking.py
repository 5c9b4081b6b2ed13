"""Finished runs in an experiment tracker: MLflow or Weights & Biases.

A tracker is fed from the record of a run after it is stored, by the process that prints the table,
so that it takes no part in a computation and no worker of a sweep needs it. What a tracker has is
noted beside the record; the same command logs only what is not noted, also of runs that were done
without a tracker, or while it could not be reached.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kdgraph.containment import LeadsOutside, path_inside
from kdgraph.errors import UsageError
from kdgraph.extras import is_installed, needs_library
from kdgraph.runner.files import file_checksum, write_atomically
from kdgraph.runner.run_dir import RECORD

LOGGED = "logged.json"
"""File of a run's directory: destination → checksum of the record that was logged there."""
EXPERIMENT = "kdgraph"
"""Experiment of MLflow, or project of Weights & Biases, if the environment names no other."""
_MAX_PARAM = 500
"""Characters of a parameter that every MLflow takes."""


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
    destination, log_run = _TRACKERS[name](out)
    n_logged = 0
    for run_dir, record in runs:
        checksum = str(file_checksum(run_dir / RECORD))  # the run is done, so it has a record
        logged = _read_logged(run_dir)
        if logged.get(destination) == checksum:
            continue
        log_run(run_dir, record, checksum)
        content = json.dumps(logged | {destination: checksum}, indent=1)
        write_atomically(run_dir / LOGGED, content.encode())
        n_logged += 1
    return destination, n_logged


def flat_config(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a run by dotted key, such as ``parent.n_estimators``.

    Examples
    --------
    >>> flat_config({"config": {"seed": 0, "parent": {"name": "mlp", "hidden": [8, 8]}, "ood": {}}})
    {'seed': 0, 'parent.name': 'mlp', 'parent.hidden': [8, 8]}
    """

    def walk(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in node.items():
            if isinstance(value, Mapping):
                yield from walk(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    return dict(walk(record["config"], ""))


def flat_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a run by name: model, rows and metric, separated by slashes.

    Standard errors have the same name with ``_stderr``; values that do not exist are left out.

    Examples
    --------
    >>> ece = {"metric": "ece", "of": "calibrated", "on": "test", "value": 0.1, "stderr": 0.02}
    >>> far = {"on": "ood", "ood": "sphere", "params": {"radius": 2.0}, "stderr": None}
    >>> missing = ece | {"metric": "mce", "value": None, "stderr": None}
    >>> metrics = [ece, ece | far | {"metric": "oce"}, missing]
    >>> record = {"metrics": metrics, "seconds": {"fit": 1.5}}
    >>> flat_metrics(record)["calibrated/test/ece"]
    0.1
    >>> list(flat_metrics(record))[1:]
    ['calibrated/test/ece_stderr', 'calibrated/ood/sphere/radius=2/oce', 'seconds/fit']
    """
    numbers: dict[str, float] = {}
    for row in record["metrics"]:
        params = [
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in (row.get("params") or {}).items()
        ]
        parts = [row["of"], row["on"], *([row["ood"]] if row.get("ood") else []), *params]
        name = "/".join([*parts, row["metric"]])
        for suffix, value in (("", row["value"]), ("_stderr", row.get("stderr"))):
            if isinstance(value, int | float) and math.isfinite(value):
                numbers[name + suffix] = float(value)
    return numbers | {f"seconds/{stage}": float(s) for stage, s in record["seconds"].items()}


def _description(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what identifies a run and repeats it."""
    git = record.get("git") or {}
    return {
        "run_id": str(record["run_id"]),
        "dataset": str(record["dataset"]["name"]),
        "method": str(record["method"]),
        "parent": str(record["parent"]),
        "protocol": str(record["protocol"]),
        "overrides": " ".join(record["overrides"]),
        "commit": str(git.get("commit", "")),
        "host": str(record["host"].get("name", "")),
        **{f"version_{name}": str(number) for name, number in record["versions"].items()},
    }


def _files(run_dir: Path, record: Mapping[str, Any]) -> list[Path]:
    """Return the files to keep with a run: record, tables and figures, but no model.

    Nothing that lies elsewhere goes to a tracker, whatever a record names.
    """
    files = record["files"]
    paths = [run_dir / RECORD]
    for name in (*files["tables"].values(), *files["figures"]):
        with suppress(LeadsOutside):
            paths.append(path_inside(run_dir, name))
    return [path for path in paths if path.is_file()]


def _title(record: Mapping[str, Any]) -> str:
    return f"{record['dataset']['name']} {record['method']} seed {record['seed']}"


def _read_logged(run_dir: Path) -> dict[str, str]:
    try:
        logged = json.loads((run_dir / LOGGED).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none, or none that can be read: the run is logged again
        return {}
    return logged if isinstance(logged, dict) else {}


_LogRun = Callable[[Path, Mapping[str, Any], str], None]


def _mlflow(out: Path) -> tuple[str, _LogRun]:
    """Return the place of MLflow's runs, and a function that logs one.

    Without a tracking URI in the environment they are files in ``<out>/.mlruns``.
    """
    # MLflow reports its use to its makers unless this is set, and new versions refuse a folder of
    # files, which they maintain but do not extend, unless that is allowed.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = importlib.import_module("mlflow")
    uri = os.environ.get("MLFLOW_TRACKING_URI") or (out / ".mlruns").as_uri()
    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    client = mlflow.MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    experiment_id = client.create_experiment(experiment) if found is None else found.experiment_id
    entities = mlflow.entities

    def log_run(run_dir: Path, record: Mapping[str, Any], checksum: str) -> None:
        tags = {f"kdgraph.{name}": value for name, value in _description(record).items()}
        tags["kdgraph.checksum"] = checksum
        run = client.create_run(experiment_id, tags=tags, run_name=_title(record)).info
        params = [
            entities.Param(_mlflow_name(key), str(value)[:_MAX_PARAM])
            for key, value in flat_config(record).items()
        ]
        metrics = [
            entities.Metric(_mlflow_name(name), value, run.start_time, 0)
            for name, value in flat_metrics(record).items()
        ]
        client.log_batch(run.run_id, metrics=metrics, params=params)
        for path in _files(run_dir, record):
            folder = path.relative_to(run_dir).parent.as_posix()
            client.log_artifact(run.run_id, str(path), None if folder == "." else folder)
        client.set_terminated(run.run_id)

    return f"mlflow {uri} {experiment}", log_run


def _mlflow_name(name: str) -> str:
    """Return a name with the characters that MLflow takes: ``radius=2`` becomes ``radius:2``."""
    return re.sub(r"[^\w\-./: ]", "_", name.replace("=", ":"))


def _wandb(out: Path) -> tuple[str, _LogRun]:
    """Return the place of the runs of Weights & Biases, and a function that logs one.

    Without a mode in the environment they are offline, in ``<out>/.wandb``, for ``wandb sync``.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # to its makers
    wandb = importlib.import_module("wandb")
    mode = os.environ.get("WANDB_MODE") or "offline"
    project = os.environ.get("WANDB_PROJECT") or EXPERIMENT
    folder = Path(os.environ.get("WANDB_DIR") or out / ".wandb")
    folder.mkdir(parents=True, exist_ok=True)

    def log_run(run_dir: Path, record: Mapping[str, Any], checksum: str) -> None:
        run = wandb.init(
            project=project,
            name=_title(record),
            id=f"{record['run_id']}-{checksum[:8]}",  # a second logging replaces the first
            config=flat_config(record) | {"kdgraph": _description(record)},
            group=str(record["dataset"]["name"]),
            tags=[str(record["method"])[:64]],
            dir=str(folder),
            mode=mode,
            reinit="finish_previous",
            settings=wandb.Settings(silent=True, console="off", save_code=False),
        )
        try:
            run.summary.update(flat_metrics(record))
            # Copies in the folder of the run, as a link to a file would break with its source.
            for path in _files(run_dir, record):
                copy = Path(run.dir) / "run" / path.relative_to(run_dir)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
                run.save(str(copy), base_path=run.dir, policy="now")
        finally:
            run.finish()

    return f"wandb {mode} {project} {folder / 'wandb'}", log_run


_TRACKERS: dict[str, Callable[[Path], tuple[str, _LogRun]]] = {"mlflow": _mlflow, "wandb": _wandb}
