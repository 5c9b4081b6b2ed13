"""Settings of ours beside those that Dey et al. print, read from the presets that the runs have.

A setting that no preset has, such as the machine of Appendix B, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from kdgraph.config import RunConfig, plan

Value = Callable[[RunConfig], float]

_SIMULATION = (
    *("experiment=paper/p1/simulations", "calibrator.variant=figure1"),
    *("dataset.n_train=1000", "calibrator.distance=geodesic"),
)
_TABLE = ("experiment=paper/p1/cc18", "dataset=cc18/letter", "dataset.log_share=1")
_SHAPES = ("experiment=paper/p1/shapes",)


def settings() -> pd.DataFrame:
    """Return a row for each setting, in the terms of ``published.csv``, with one value of ours."""
    rows = [
        {"item": item, "dataset": dataset, "metric": metric, "method": method, "value": value}
        for of in (_of_simulations, _of_tables, _of_shapes, _of_parents)
        for item, dataset, metric, method, value in of()
    ]
    return pd.DataFrame(rows).assign(ood=None, n_train=None, radius=None, seed=0, variant="")


_Row = tuple[str, str | None, str, str | None, float]


def _config(*words: str) -> RunConfig:
    """Return the configuration of the first run of a sweep."""
    return plan([*words, "seed=0"], multirun=True).jobs[0].config


def _values(config: RunConfig, values: Mapping[str, Value]) -> Iterator[tuple[str, float]]:
    for metric, value in values.items():
        yield metric, float(value(config))


def _of(group: str, key: str, at: int | None = None, power: int = 1) -> Value:
    """Return a function that reads a key of a group of a configuration, or one of its entries."""

    def read(config: RunConfig) -> float:
        value: Any = getattr(config, group)[key]
        return float(value if at is None else value[at]) ** power

    return read


_PLANAR: Mapping[str, Mapping[str, Value]] = {
    "gaussian_xor": {
        "standard deviation, class 0": _of("dataset", "noise_std"),
        "standard deviation, class 1": _of("dataset", "noise_std"),
    },
    "spiral": {"variance of the noise": _of("dataset", "noise_std", power=2)},
    "circle": {
        "radius, class 0": _of("dataset", "radii", 0),
        "radius, class 1": _of("dataset", "radii", 1),
        "variance of the noise": _of("dataset", "noise_std", power=2),
    },
    "sinewave": {"variance of the noise": _of("dataset", "noise_std", power=2)},
    "polynomial": {
        "exponent, class 0": _of("dataset", "exponents", 0),
        "exponent, class 1": _of("dataset", "exponents", 1),
        "variance of the noise": _of("dataset", "noise_std", power=2),
    },
}


def _of_simulations() -> Iterator[_Row]:
    for dataset, values in _PLANAR.items():
        config = _config(*_SIMULATION, "method=kdf", f"dataset={dataset}")
        for metric, value in _values(config, values):
            yield "Appendix C", dataset, metric, None, value
    config = _config(*_SIMULATION, "method=kdf", "dataset=spiral")
    far = {
        "training rows of the far field": _of("dataset", "n_train"),
        "rows at a radius": _of("ood", "n"),
    }
    for metric, value in _values(config, far):
        yield "Section 5.1.1", "simulations", metric, None, value
    yield (
        "Figure 4, caption",
        "trunk",
        "features of Trunk",
        None,
        _of("dataset", "n_dims")(
            _config("experiment=paper/p1/posteriors", "dataset=trunk", "method=kdf")
        ),
    )


def _of_tables() -> Iterator[_Row]:
    near = _config(*_TABLE, "method=kdf_reference")
    test = near.metrics["test"]
    yield "Section 5", "cc18", "bins of MCE", None, float(test["ece_by_edges"]["edges"] - 1)
    share = 100 * (1 - float(near.dataset["n_calibration"]))
    yield "Section 5", "cc18 and cifar10", "share of rows that fit (%)", None, share
    far = _config("experiment=paper/p1/cc18_far", "dataset=cc18/letter", "method=sigmoid")
    spheres = {
        "rows at a radius": _of("ood", "n"),
        "smallest radius": _of("ood", "radii", 0),
        "largest radius": _of("ood", "radii", -1),
    }
    for metric, value in _values(far, spheres):
        yield "Section 5.1.2", "cc18", metric, None, value


def _of_shapes() -> Iterator[_Row]:
    config = _config(*_SHAPES)
    both = {
        "radius of circles": _of("dataset", "radius"),
        "shorter side of rectangles": lambda config: min(config.dataset["sides"]),
        "longer side of rectangles": lambda config: max(config.dataset["sides"]),
    }
    only = {
        "images of circles": lambda config: config.dataset["n_train"] / 2,
        "images of rectangles": lambda config: config.dataset["n_train"] / 2,
        "intensity of objects": _of("dataset", "intensity"),
        "intensity in distribution": _of("dataset", "intensity"),
        "shortest axis": lambda config: min(config.ood["axes"]),
        "longest axis": lambda config: max(config.ood["axes"]),
        "fixed axis": _of("ood", "radius"),
    }
    for metric, value in _values(config, both):
        yield "Figure 3, caption", "shapes", metric, None, value
    for metric, value in _values(config, {**both, **only}):
        yield "Section 5.2.1", "shapes", metric, None, value


def _of_parents() -> Iterator[_Row]:
    simulated = partial(_config, *_SIMULATION, "dataset=spiral")
    forest = {
        "n_estimators": _of("parent", "n_estimators"),
        "max_depth": lambda config: config.parent["max_depth"] or float("inf"),
        "min_samples_leaf": _of("parent", "min_samples_leaf"),
    }
    for metric, value in _values(simulated("method=kdf"), forest):
        yield "Table 2", None, metric, "RF and KDF", value
    network = {
        "number of hidden layers": lambda config: len(config.parent["hidden"]),
        "nodes per hidden layer": _of("parent", "hidden", 0),
        "learning rate": _of("parent", "learning_rate"),
    }
    for metric, value in _values(simulated("method=kdn"), network):
        yield "Table 3", None, metric, "RELU-net and KDN", value
