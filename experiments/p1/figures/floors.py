"""Density floors of the paper's Figure 1, set by hand by its authors: one for each simulation and
parent, and another for far rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.p1.versions import version_of
from kdgraph.density.published import figure1_log_floor

# Simulation and method → the multiplier of the authors' notebooks for error and Hellinger distance.
NEAR = {
    ("gaussian_xor", "kdf"): 1e8,
    ("sinewave", "kdf"): 1e10,
    ("polynomial", "kdf"): 1e10,
    ("gaussian_xor", "kdn"): 2e8,
    ("polynomial", "kdn"): 2e8,
    ("sinewave", "kdn"): 1e10,
}
USUAL = 1e9  # Multiplier of all others, and default of the version
FAR = 1e3  # Multiplier in the panels of confidence against radius
# Keys in which these runs differ from those of ``paper/p1/simulations``: radii of far rows are in
# units of the features.
BOTH, GEODESIC = "calibrator.distance=geodesic,euclidean", "calibrator.distance=geodesic"
KDGRAPH = ("experiment=paper/p1/simulations", "method=kdf,kdn", GEODESIC, "ood.unit=feature")
FREE = ("calibrator.floor", "ood.unit")


def log_floor(dataset: str, method: str, n_train: int, far: bool = False) -> float:
    """Return the log density floor of the authors; the simulations have two features."""
    multiplier = FAR if far else NEAR.get((dataset, method), USUAL)
    return round(figure1_log_floor(n_train, 2, multiplier), 4)


def sweeps(
    methods: Iterable[str], sizes: Iterable[int], words: Sequence[str], far: bool = False
) -> list[tuple[str, ...]]:
    """Return words of ``kdg run -m`` for each floor, with further ``words`` for each.

    Floors of ``far`` rows go with radii of the features themselves, which the authors did not
    scale.
    """
    result: dict[tuple[str, int, float], list[str]] = {}
    for method in methods:
        for n_train in sizes:
            for dataset in ("spiral", "gaussian_xor", "circle", "sinewave", "polynomial"):
                result.setdefault(
                    (method, n_train, log_floor(dataset, method, n_train, far)), []
                ).append(dataset)
    more = [*words, *(["ood.unit=feature"] if far else [])]
    return [
        (
            "experiment=paper/p1/simulations",
            f"method=paper/p1/{method}_august",
            f"dataset={','.join(datasets)}",
            f"dataset.n_train={n_train}",
            f"calibrator.floor={floor}",
            *more,
        )
        for (method, n_train, floor), datasets in result.items()
    ]


def smoke() -> list[tuple[str, ...]]:
    """Return the sweeps of Figure 1 at scale smoke: near and far rows of the spiral."""
    words = (
        *("experiment=paper/p1/simulations", "seed=0,1", "dataset=spiral"),
        *("method=paper/p1/kdf_august", "dataset.n_train=1000", GEODESIC),
    )
    far = f"calibrator.floor={log_floor('spiral', 'kdf', 1000, True)}"
    return [words, (*words, far, "ood.unit=feature")]


def workstation() -> list[tuple[str, ...]]:
    """Return the sweeps of five seeds; the paper's figure has no number below 1,000 rows."""
    five, sizes = "seed=range(0,5)", [50, 100, 500, 1000, 10000]
    return [
        *sweeps(["kdf"], sizes, [five, BOTH]),
        *sweeps(["kdf"], [1000], [five, BOTH], far=True),
        *sweeps(["kdn"], sizes, [five, BOTH]),
        *sweeps(["kdn"], [1000], [five, GEODESIC], far=True),
        (*KDGRAPH, five, "dataset.n_train=1000"),
    ]


def paper() -> list[tuple[str, ...]]:
    """Return the sweeps of ten seeds."""
    ten, methods = "seed=range(0,10)", ["kdf", "kdn"]
    return [
        *sweeps(methods, [1000, 10000], [ten, BOTH]),
        *sweeps(methods, [1000], [ten, BOTH, "ood.n=1000"], far=True),
        (*KDGRAPH, ten, "dataset.n_train=1000,10000"),
    ]


def is_near(config: Mapping[str, Any]) -> bool:
    """Return whether a run has the floor of the near panels; no floor is the usual one."""
    return _has(config, far=False)


def is_far(config: Mapping[str, Any]) -> bool:
    """Return whether a run has the floor and the radii of the panels of far rows."""
    return _has(config, far=True) and config["ood"].get("unit") == "feature"


def _has(config: Mapping[str, Any], far: bool) -> bool:
    dataset, calibrator = config["dataset"], config["calibrator"]
    if version_of(calibrator) != "figure1":
        return False
    method = calibrator["name"].removesuffix("_figure1")
    wanted = log_floor(dataset["name"], method, dataset["n_train"], far)
    if calibrator["floor"] is not None:
        return calibrator["floor"] == wanted
    return not far and wanted == _unsaid(dataset["n_train"])


def _unsaid(n_train: int) -> float:
    return round(figure1_log_floor(n_train, 2), 4)
