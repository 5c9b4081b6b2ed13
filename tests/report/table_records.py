"""Records of runs for tables, written by hand."""

from __future__ import annotations

from kdgraph.report.sweep_table import SweepRun
from tests.results.about_metrics import about_metrics


def entry(metric, of, value, on="test", ood=None, **params):
    return {
        "metric": metric,
        "of": of,
        "on": on,
        "ood": ood,
        "params": params,
        "value": value,
        "n": 10,
        "stderr": None,
    }


def of_both(metric, parent, calibrated, *where, **params):
    return [
        entry(metric, "parent", parent, *where, **params),
        entry(metric, "calibrated", calibrated, *where, **params),
    ]


METRICS = {
    "test": {
        "error": {},
        "ece": {"bins": 15, "norm": "l1"},
        "mmc_wrong": {},
        "coverage": {"level": 0.9},
        "my_score": {"k": 3},
    },
    "ood": {"mmc": {}, "fpr95": {"positive": "id"}},
}


def record(
    seed=0, method="kdf", calibrated=0.1, parent=0.2, gate="none", metrics=None, parts=None, **more
):
    usual = [
        *of_both("error", parent, calibrated),
        *of_both("ece", 0.0502, 0.0498),
        *of_both("mmc_wrong", None, 0.5),
    ]
    for radius, (a, b) in {0.5: (0.9, 0.8), 2.0: (0.8, 0.5), 5.0: (0.4, 0.62)}.items():
        usual += of_both("mmc", a, b, "ood", "sphere", radius=radius)
    entries = usual if metrics is None else metrics
    tables = more.get("files", {}).get("tables", {})
    parts = {
        "parent": "forest",
        "calibrator": method,
        "gate": gate,
        "detector": "none",
        "recalibrator": "none",
    } | (parts or {})
    protocol = more.get("protocol", "strict")
    return {
        "run_id": "1cb9f0a2",
        "code": {},
        "reads": {},
        "dataset": {
            "name": "spiral",
            "fingerprint": "f",
            "n_train": 1000,
            "n_calibration": 430,
            "n_test": 1000,
            "n_features": 2,
            "classes": [0, 1],
            "prior": [0.5, 0.5],
            **more.pop("dataset", {}),
        },
        **parts,
        "method": method,
        "protocol": protocol,
        "seed": seed,
        "overrides": ["dataset=spiral"],
        "experiment": None,
        "config_dir": None,
        "config": {
            "dataset": {},
            "ood": {},
            "preprocess": {},
            **{part: {} for part in parts},
            "metrics": METRICS,
            "protocol": protocol,
        },
        "metrics": entries,
        "about_metrics": about_metrics([*(item["metric"] for item in entries), *tables]),
        "ood_sets": [],
        "learnt": {},
        "warnings": [],
        "versions": {},
        "git": None,
        "host": {},
        "files": {
            "predictions": "predictions.parquet",
            "tables": {},
            "figures": ["figures/a.svg", "figures/a.png", "figures/b.svg"],
        },
        "seconds": {"split": 0.01, "fit": 1.1},
        "peak_memory_mb": {"fit": 1.0},
        "from_store": ["fit"],
        **more,
    }


def detection_run(seed=0, **more):
    """A detector on a classifier: its predictions of test rows are its parent's."""
    metrics = [*of_both("error", 0.1, 0.1)]
    for i, name in enumerate(("kmnist", "noise")):
        metrics += of_both("mmc", 0.9, 0.9, "ood", name) + of_both(
            "auroc", 0.7 + i / 10, 0.9 + i / 20, "ood", name
        )
        metrics += of_both("fpr95", 0.5, 0.25, "ood", name)
    return record(
        seed,
        "tood",
        metrics=metrics,
        parts={"calibrator": "none", "detector": "tood", "parent": "extra_trees"},
        **more,
    )


def regression_run(seed=0, method="global_pit", **more):
    """A recalibrated regressor: there are no classes."""
    metrics = [
        *of_both("rmse", 12_345.6, 12_345.6),
        *of_both("mse_mean", 0.5, 0.4),
        *of_both("coverage", 0.81, 0.9),
    ]
    metrics += [
        *of_both("interval_score", 3.0, 2.5),
        *of_both("crps", 0.25, 0.24),
        *of_both("pit_ks", 0.09, 0.01),
    ]
    data = {"name": "tran20", "classes": [], "prior": None}
    parts = {"calibrator": "none", "recalibrator": "global_pit", "parent": "linear"}
    return record(seed, method, metrics=metrics, dataset=data, parts=parts, **more)


def several_sets(detector="none", **more):
    """Three kinds of rows out of distribution; the last is a family of one."""
    metrics = [*of_both("error", 0.1, 0.1)]
    for i, (name, params) in enumerate(
        (("near", {}), ("shifted", {"scale": 1.5}), ("sphere", {"radius": 2.0}))
    ):
        metrics += of_both("mmc", 0.9, 0.5 + i / 10, "ood", name, **params) + of_both(
            "auroc", 0.7, 0.65 + i / 20, "ood", name, **params
        )
        metrics += of_both("fpr95", 0.5, 0.25, "ood", name, **params)
    return record(metrics=metrics, parts={"detector": detector}, **more)


def in_sample(**more):
    metrics = [
        *of_both("error", 0.2, 0.1),
        *of_both("error", 0.2, 0.1, "calibration"),
        *of_both("ece", 0.06, 0.05),
    ]
    return record(
        metrics=[
            *metrics,
            *of_both("ece", 0.06, 0.01, "calibration"),
            *of_both("my_score", 0.1, 0.1),
        ],
        **more,
    )


def warned(seed, *messages):
    return SweepRun(
        record(seed, warnings=[{"stage": "fit", "message": message} for message in messages])
    )
