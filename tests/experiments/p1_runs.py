"""Runs of the paper's simulations as a runner would have written them; the numbers are made up."""

from __future__ import annotations

import json
from pathlib import Path

SIMULATIONS = "paper/p1/simulations"


def record_of(config, error: float) -> dict:
    def entry(of, metric, value, on="test", ood=None, params=None):
        return {
            "of": of,
            "metric": metric,
            "value": value,
            "on": on,
            "ood": ood,
            "params": params or {},
        }

    at_prior = {0.0: 0.9, 1.0: 0.8, 2.0: 0.508, 3.0: 0.5}
    far = [
        entry("calibrated", "mmc", value, "ood", "sphere", {"radius": radius})
        for radius, value in at_prior.items()
    ]
    more = [
        entry("calibrated", metric, value)
        for metric, value in (("nll", 2 * error), ("ece", error / 2))
    ]
    far += [
        entry("calibrated", "oce", value, "ood", "sphere", {"radius": radius})
        for radius, value in ((1.5, 0.01), (2.0, 0.0))
    ]
    return {
        "run_id": config.run_id,
        "overrides": list(config.origin.overrides),
        "experiment": config.origin.experiment,
        "config": config.science(),
        "dataset": {
            "name": config.dataset["name"],
            "n_features": 2,
            "n_train": config.dataset["n_train"],
            "prior": [0.5, 0.5],
        },
        "parent": config.parent["name"],
        "calibrator": config.calibrator["name"],
        "gate": config.gate["name"],
        "seed": config.seed,
        "method": config.method,
        "metrics": [
            entry("parent", "error", 0.25),
            entry("calibrated", "error", error),
            *more,
            *far,
        ],
    }


def write(folder: Path, config, error: float = 0.1) -> None:
    run = folder / config.dataset["name"] / config.method / config.run_id
    run.mkdir(parents=True, exist_ok=True)
    (run / "result.json").write_text(json.dumps(record_of(config, error)))
