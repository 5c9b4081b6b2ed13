"""Settings of the presets beside those that Dey et al. print.

A setting that no preset has, such as the machine of Appendix B, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import pandas as pd

from experiments.common.settings import Setting, first_config, setting_of
from kdgraph.config import RunConfig

_SIMULATION = (
    "experiment=paper/p1/simulations",
    *("dataset.n_train=1000", "calibrator.distance=geodesic"),
)
_TABLE = ("experiment=paper/p1/cc18", "dataset=cc18/letter", "dataset.log_share=1")
_SHAPES = ("experiment=paper/p1/shapes",)


def settings() -> pd.DataFrame:
    """Return a row for each setting with the keys of ``published.csv``, with one value."""
    rows = [
        {"item": item, "dataset": dataset, "metric": metric, "method": method, "value": value}
        for source in (_of_simulations, _of_tables, _of_shapes, _of_parents)
        for item, dataset, metric, method, value in source()
    ]
    return pd.DataFrame(rows).assign(ood=None, n_train=None, radius=None, seed=0, variant="")


_Row = tuple[str, str | None, str, str | None, float]


def _values(config: RunConfig, values: Mapping[str, Setting]) -> Iterator[tuple[str, float]]:
    for metric, value in values.items():
        yield metric, float(value(config))


_PLANAR: Mapping[str, Mapping[str, Setting]] = {
    "gaussian_xor": {
        "standard deviation, class 0": setting_of("dataset", "noise_std"),
        "standard deviation, class 1": setting_of("dataset", "noise_std"),
    },
    "spiral": {"variance of the noise": setting_of("dataset", "noise_std", power=2)},
    "circle": {
        "radius, class 0": setting_of("dataset", "radii", 0),
        "radius, class 1": setting_of("dataset", "radii", 1),
        "variance of the noise": setting_of("dataset", "noise_std", power=2),
    },
    "sinewave": {"variance of the noise": setting_of("dataset", "noise_std", power=2)},
    "polynomial": {
        "exponent, class 0": setting_of("dataset", "exponents", 0),
        "exponent, class 1": setting_of("dataset", "exponents", 1),
        "variance of the noise": setting_of("dataset", "noise_std", power=2),
    },
}


def _of_simulations() -> Iterator[_Row]:
    for dataset, values in _PLANAR.items():
        config = first_config(*_SIMULATION, "method=paper/p1/kdf_august", f"dataset={dataset}")
        for metric, value in _values(config, values):
            yield "Appendix C", dataset, metric, None, value
    config = first_config(*_SIMULATION, "method=paper/p1/kdf_august", "dataset=spiral")
    far = {
        "training rows of the far field": setting_of("dataset", "n_train"),
        "rows at a radius": setting_of("ood", "n"),
    }
    for metric, value in _values(config, far):
        yield "Section 5.1.1", "simulations", metric, None, value
    yield (
        "Figure 4, caption",
        "trunk",
        "features of Trunk",
        None,
        setting_of("dataset", "n_dims")(
            first_config("experiment=paper/p1/posteriors", "dataset=trunk", "method=kdf")
        ),
    )


def _of_tables() -> Iterator[_Row]:
    near = first_config(*_TABLE, "method=kdf_reference")
    test = near.metrics["test"]
    yield "Section 5", "cc18", "bins of MCE", None, float(test["ece_by_edges"]["edges"] - 1)
    share = 100 * (1 - float(near.dataset["n_calibration"]))
    yield "Section 5", "cc18 and cifar10", "share of rows that fit (%)", None, share
    far = first_config("experiment=paper/p1/cc18_far", "dataset=cc18/letter", "method=sigmoid")
    spheres = {
        "rows at a radius": setting_of("ood", "n"),
        "smallest radius": setting_of("ood", "radii", 0),
        "largest radius": setting_of("ood", "radii", -1),
    }
    for metric, value in _values(far, spheres):
        yield "Section 5.1.2", "cc18", metric, None, value


def _of_shapes() -> Iterator[_Row]:
    config = first_config(*_SHAPES)
    both = {
        "radius of circles": setting_of("dataset", "radius"),
        "shorter side of rectangles": lambda config: min(config.dataset["sides"]),
        "longer side of rectangles": lambda config: max(config.dataset["sides"]),
    }
    only = {
        "images of circles": lambda config: config.dataset["n_train"] / 2,
        "images of rectangles": lambda config: config.dataset["n_train"] / 2,
        "intensity of objects": setting_of("dataset", "intensity"),
        "intensity in distribution": setting_of("dataset", "intensity"),
        "shortest axis": lambda config: min(config.ood["axes"]),
        "longest axis": lambda config: max(config.ood["axes"]),
        "fixed axis": setting_of("ood", "radius"),
    }
    for metric, value in _values(config, both):
        yield "Figure 3, caption", "shapes", metric, None, value
    for metric, value in _values(config, {**both, **only}):
        yield "Section 5.2.1", "shapes", metric, None, value


def _of_parents() -> Iterator[_Row]:
    simulated = partial(first_config, *_SIMULATION, "dataset=spiral")
    forest = {
        "n_estimators": setting_of("parent", "n_estimators"),
        "max_depth": lambda config: config.parent["max_depth"] or float("inf"),
        "min_samples_leaf": setting_of("parent", "min_samples_leaf"),
    }
    for metric, value in _values(simulated("method=paper/p1/kdf_august"), forest):
        yield "Table 2", None, metric, "RF and KDF", value
    network = {
        "number of hidden layers": lambda config: len(config.parent["hidden"]),
        "nodes per hidden layer": setting_of("parent", "hidden", 0),
        "learning rate": setting_of("parent", "learning_rate"),
    }
    for metric, value in _values(simulated("method=paper/p1/kdn_august"), network):
        yield "Table 3", None, metric, "RELU-net and KDN", value
