"""Records of runs on tables as a runner would have written them, with the numbers that a test asks
for.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

RADII = (0.5, 1.0, 1.5, 2.0, 5.0)
USUAL = {
    "error": 0.1,
    "nll": 0.3,
    "ece": 0.05,
    "mce": 0.2,
    "oce": dict.fromkeys(RADII, 0.2),
    "mmc": dict.fromkeys(RADII, 0.7),
}
Record = dict[str, Any]


@pytest.fixture
def record() -> Callable[..., Record]:
    """A record; ``values`` and ``of_parent`` are its numbers where they differ from the usual, of
    spheres by radius.
    """

    def make(
        dataset="a",
        method="kdf",
        *,
        parent="random_forest",
        seed=0,
        learn=100,
        k="auto",
        distance=None,
        of_parent=None,
        values=None,
        openml=None,
        prior=(0.5, 0.3, 0.2),
        nll=None,
    ) -> Record:
        calibrator = method.removeprefix("gated_")
        source = {} if openml is None else {"source": "openml", "id": openml}
        return {
            "config": {
                "dataset": {"name": dataset},
                "calibrator": {"name": calibrator, "k": k, "distance": distance},
                "seed": seed,
            },
            "dataset": {
                "name": dataset,
                "n_train": learn - 30,
                "n_calibration": 30,
                "prior": list(prior),
                "source": source,
            },
            "parent": parent,
            "calibrator": calibrator,
            "gate": "density" if method.startswith("gated_") else "none",
            "seed": seed,
            "method": method,
            "learnt": {"calibrator": {} if nll is None else {"calibration_nll": nll}},
            "metrics": [
                *_entries("parent", USUAL | (of_parent or {})),
                *_entries("calibrated", USUAL | (values or {})),
            ],
        }

    return make


@pytest.fixture
def study(record) -> Callable[..., list[Record]]:
    """Runs of three methods on five tables with two seeds, all with different numbers."""

    def make(sizes=(400,), parents=("random_forest",)) -> list[Record]:
        rng = np.random.default_rng(0)
        records = []
        for i, learn, parent, seed in product(range(5), sizes, parents, range(2)):
            of_parent = {"error": 0.1 + 0.01 * i, "nll": 0.5, "ece": 0.1, "ece_by_edges": 0.09}
            for method in (
                "isotonic",
                "gated_isotonic",
                "kdf" if parent == "random_forest" else "kdn",
            ):
                values: Record = {
                    name: value * rng.uniform(0.5, 1.4) for name, value in of_parent.items()
                }
                values["oce"] = dict.fromkeys(RADII, 0.4 if method == "isotonic" else 0.01)
                more = {
                    "parent": parent,
                    "seed": seed,
                    "learn": learn,
                    "of_parent": of_parent,
                    "values": values,
                }
                records.append(record(f"set {i}", method, **more))
        return records

    return make


def _entries(of: str, numbers: Record) -> list[Record]:
    entries = []
    for metric, value in numbers.items():
        if isinstance(value, dict):
            sphere = {"of": of, "metric": metric, "on": "ood", "ood": "sphere"}
            entries += [
                {**sphere, "value": number, "params": {"radius": radius}}
                for radius, number in value.items()
            ]
        else:
            entries.append(
                {
                    "of": of,
                    "metric": metric,
                    "value": value,
                    "on": "test",
                    "ood": None,
                    "params": {},
                }
            )
    return entries
