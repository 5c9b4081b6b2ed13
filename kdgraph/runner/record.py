"""``result.json``: the record of a run, the interface of everything that comes after it.

It is sealed (:mod:`kdgraph.runner.sealed`): its last key is a checksum of all before it.

Keys: ``schema``, ``code`` (version of each stage, :data:`~kdgraph.runner.store.CODE_SCHEMA`),
``run_id``, ``overrides`` (what comes after ``kdg run`` to repeat the run, without keys that decide
how and where it is run), ``experiment`` (chosen option of that group, or null), ``config_dir`` (folder
of the user's config groups, or null), ``reads`` (key of a source → the file or folder that it reads, with a digest of the
content), ``dataset`` {name, fingerprint, n_train, n_calibration, n_test, n_features, n_categorical,
missing_share (of the training values), shape (of a row), classes, prior (null in regression),
source (where the rows come from)}, ``parent``, ``calibrator``,
``gate``, ``detector``, ``recalibrator``, ``method`` (names), ``protocol`` ("held_out", or "paper"
where something may have been fitted on test rows, or by those out of distribution), ``seed``,
``config`` (the science part, resolved), ``metrics`` (list of {metric, value, of: "parent" |
"calibrated", on: "test" | "calibration" (in sample: rows that what comes after the parent was
fitted on, but with protocol "paper") | "grid" | "ood", ood, params, n, stderr}; with
in_distribution: true where a family of out-of-distribution sets meets the training data; with n_of:
"sets of 20 rows" where ``n`` counts those and not rows), ``about_metrics`` (name → {label, better:
"lower" | "higher" | null, and where it has them unit, detects: true}, of the config's metrics and
tables: a metric of the user's own is understood without it), ``ood_sets`` (list of {name, n,
source: where the rows come from and what was done to them}, of those that come from elsewhere),
``learnt`` (by part after the parent), ``files`` {predictions, tables (name → file), figures, model:
empty where none is kept, sha256: of predictions and tables, by name}, ``store`` (entry of each
stage there), ``seconds`` and ``peak_memory_mb`` by stage (of when the stage was done), ``warnings``
(list of {stage, message}, likewise), ``from_store`` (stages that this run found done),
``versions``, ``git`` {commit, dirty} or null, ``host``. NaN and infinity are null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from kdgraph.config import RECORD_SCHEMA, RunConfig, reads
from kdgraph.data.dataset import Splits
from kdgraph.metrics import about
from kdgraph.runner import provenance
from kdgraph.runner.model_dir import trusted_packages
from kdgraph.runner.store import CODE_SCHEMA, Made


def make_record(
    config: RunConfig,
    splits: Splits,
    stages: Mapping[str, Made],
    learnt: Mapping[str, Any],
    files: Mapping[str, Any],
    entries: Mapping[str, str],
) -> dict[str, Any]:
    """The record as JSON-safe values.

    Parameters
    ----------
    stages : in the order in which they ran; ``evaluate`` has the metrics.
    learnt : what calibrator and gate say of themselves.
    files : names in the run's directory.
    entries : of the stages in the store.
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
            "seconds": {name: round(made.cost.seconds, 4) for name, made in stages.items()},
            "peak_memory_mb": {
                name: round(made.cost.peak_memory_mb, 1) for name, made in stages.items()
            },
            "warnings": [
                {"stage": name, "message": text}
                for name, made in stages.items()
                for text in made.warnings
            ],
            "from_store": [name for name, made in stages.items() if made.from_store],
            "versions": provenance.versions(trusted_packages(config.science())),
            "git": provenance.git(),
            "host": provenance.host(),
        }
    )


def _dataset(config: RunConfig, splits: Splits) -> dict[str, Any]:
    return {
        "name": config.dataset["name"],
        "fingerprint": splits.fingerprint,
        "n_train": len(splits.train.y),
        "n_calibration": len(splits.calibration.y),
        "n_test": len(splits.test.y),
        "n_features": math.prod(splits.train.X.shape[1:]),
        "n_categorical": int(splits.train.is_categorical.sum()),
        "missing_share": (
            float(np.isnan(splits.train.X).mean()) if splits.train.has_missing else 0.0
        ),
        "shape": splits.train.X.shape[1:],
        "classes": splits.train.classes.tolist(),
        "prior": None if splits.prior is None else splits.prior.tolist(),
        "source": splits.train.facts,
    }


def json_safe(value: Any) -> Any:
    """``value`` with plain Python numbers, lists and dicts only; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_safe(value.tolist())
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
