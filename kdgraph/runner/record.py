"""``result.json``: the record of a run, the interface of everything that comes after it.

Its last key is a checksum of all before it (:func:`kdgraph.runner.files.add_checksum`). NaN and
infinity are null. Its keys are:

``schema``
    :data:`~kdgraph.config.RECORD_SCHEMA`.
``code``
    Version of each stage (:data:`~kdgraph.runner.store.CODE_SCHEMA`).
``run_id``
    8 hex digits.
``overrides``, ``experiment``, ``config_dir``
    Arguments of ``kdg run`` that repeat the run, without keys that decide how and where it is run;
    the chosen option of that group, or null; the folder of the user's config groups, or null.
``reads``
    Key of a source → the file or folder that it reads, with a digest of the content.
``dataset``
    {name, fingerprint, test_fingerprint (of the test rows alone), n_train, n_calibration, n_test,
    n_features, n_categorical, missing_fraction (of the training values), shape (of a row), classes,
    prior (null in regression), source (origin of the rows)}.
``parent``, ``calibrator``, ``gate``, ``detector``, ``recalibrator``, ``method``
    Names; and ``conformal``, if the run predicts sets of classes.
``protocol``
    "held_out", or "paper" if a component may have been fitted on test rows or on OOD rows.
``seed``, ``config``
    The seed, and the science part of the config, resolved.
``metrics``
    List of {metric, value, of: "parent" | "calibrated", on: "test" | "calibration" (in sample: the
    components after the parent were fitted on these rows, but with protocol "paper") | "grid" |
    "ood", ood, params, n, stderr}; with in_distribution: true if a family of OOD sets meets the
    training data; with n_of: "sets of 20 rows" if ``n`` counts those and not rows.
``about_metrics``
    Name → {label, better: "lower" | "higher" | null, and, if the metric has them, unit, detects:
    true}, of the config's metrics and tables: a user's own metric is understood without its code.
``ood_sets``
    List of {name, n, source: origin of the rows, and changes of them}, of those from other data.
``learnt``
    Component after the parent → summary of what was fitted.
``files``
    {predictions, tables (name → file), figures, model (empty if none is saved), sha256 (of
    predictions and tables, by name)}.
``store``
    Stage → name of its entry in the store.
``seconds``, ``peak_memory_mb``
    Cost by stage, at the time when the stage ran.
``warnings``
    List of {stage, message}, at the time when the stage ran.
``from_store``
    Stages whose results this run read from the store.
``versions``, ``git``, ``host``
    Versions of libraries; {commit, dirty} or null; {name, system, cpus}.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kdgraph.config import RECORD_SCHEMA, RunConfig
from kdgraph.config.data_sources import reads
from kdgraph.data.dataset import Splits
from kdgraph.metrics import about
from kdgraph.runner.store import CODE_SCHEMA, StageResult, installed_version, trusted_packages

LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "numba", "torch"),
    *("pandas", "matplotlib", "hydra-core"),
)


def make_record(
    config: RunConfig,
    splits: Splits,
    stages: Mapping[str, StageResult],
    learnt: Mapping[str, Any],
    files: Mapping[str, Any],
    entries: Mapping[str, str],
) -> dict[str, Any]:
    """Return the record as JSON-safe values.

    ``stages`` are in the order in which they ran, and ``evaluate`` has the metrics. ``learnt`` maps
    components after the parent to summaries of what was fitted, ``files`` has the names of files in
    the run's directory, ``entries`` those in the store by stage.
    """
    return json_safe(
        {
            "schema": RECORD_SCHEMA,
            "code": CODE_SCHEMA,
            "run_id": config.run_id,
            "overrides": config.origin.overrides,
            "experiment": config.origin.experiment,
            "config_dir": config.origin.config_dir,
            "reads": reads(config.science()),
            "dataset": _dataset(config, splits),
            "parent": config.parent["name"],
            **{group: node["name"] for group, node in config.after.items()},
            "method": config.method,
            "method_options": config.method_options,
            "protocol": config.protocol,
            "seed": config.seed,
            "config": config.science(),
            "metrics": stages["evaluate"].value.metrics,
            "about_metrics": {
                key: about(key, node)
                for names in config.measures.values()
                for key, node in names.items()
            },
            "ood_sets": stages["evaluate"].value.ood_sets,
            "learnt": learnt,
            "files": files,
            "store": entries,
            "seconds": {name: round(result.cost.seconds, 4) for name, result in stages.items()},
            "peak_memory_mb": {
                name: round(result.cost.peak_memory_mb, 1) for name, result in stages.items()
            },
            "warnings": [
                {"stage": name, "message": text}
                for name, result in stages.items()
                for text in result.warnings
            ],
            "from_store": [name for name, result in stages.items() if result.from_store],
            "versions": library_versions(trusted_packages(config.science())),
            "git": git_state(),
            "host": host_info(),
        }
    )


def _dataset(config: RunConfig, splits: Splits) -> dict[str, Any]:
    return {
        "name": config.dataset["name"],
        "fingerprint": splits.rows_fingerprint or splits.fingerprint,
        "test_fingerprint": splits.test_fingerprint or splits.test.fingerprint,
        "n_train": len(splits.train.y),
        "n_calibration": len(splits.calibration.y),
        "n_test": len(splits.test.y),
        "n_features": math.prod(splits.train.X.shape[1:]),
        "n_categorical": int(splits.train.is_categorical.sum()),
        "missing_fraction": (
            float(np.isnan(splits.train.X).mean()) if splits.train.has_missing else 0.0
        ),
        "shape": splits.train.X.shape[1:],
        "classes": splits.train.classes.tolist(),
        "prior": None if splits.prior is None else splits.prior.tolist(),
        "source": splits.train.facts,
    }


def json_safe(value: Any) -> Any:
    """Return ``value`` in plain Python numbers, lists and dicts; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_safe(value.tolist())
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def library_versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return name → version of kdgraph, Python, :data:`LIBRARIES` and ``packages``.

    Packages that are not installed are left out.
    """
    import kdgraph

    versions = {"kdgraph": kdgraph.__version__, "python": platform.python_version()}
    for name in (*LIBRARIES, *packages):
        if number := installed_version(name):
            versions[name] = number
    return versions


@cache
def git_state() -> dict[str, Any] | None:
    """Return ``{commit, dirty}`` of the checkout that kdgraph runs from.

    None if it runs from an installed package. It is read once in a process, which reads the code
    once too.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    commit, status = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain")
    return None if status is None else {"commit": commit, "dirty": bool(status)}


def host_info() -> dict[str, Any]:
    """Return ``{name, system, cpus}`` of this machine."""
    return {
        "name": platform.node(),
        "system": platform.platform(terse=True),
        "cpus": os.cpu_count(),
    }


def _git(root: Path, *arguments: str) -> str | None:
    try:
        process = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):  # no git, no commit yet, another user's folder
        return None
    return process.stdout.strip()
