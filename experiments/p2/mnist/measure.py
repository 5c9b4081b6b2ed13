"""Calibrators fitted on test set 1 of many ensembles, and measured on both test sets, class by
class (Salamon et al., Appendix).

Ensembles are measured in parts of :data:`PART`, a file each; a part that is there is not measured
again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator

from experiments.p2.mnist.pool import Combine, Pool
from kdgraph.calibration.top_label import (
    ClassPrecision,
    CumulativeConfidence,
    HistogramBinning,
    KernelDensityConfidence,
    TemperatureScaling,
    TopLabelCalibrator,
)
from kdgraph.metrics import TopLabel, ece, nll_top
from kdgraph.parents import PrecomputedScores

Make = Callable[[Any], TopLabelCalibrator]

TEMPERATURES: dict[str, Make] = {  # Methods of Figure 18
    "STS": lambda parent: TemperatureScaling(parent, by_class=False),
    "CSTS": lambda parent: TemperatureScaling(parent, by_class=True),
    "TSwA": lambda parent: TemperatureScaling(parent, by_class=False, awards=True),
    "CSTSwA": lambda parent: TemperatureScaling(parent, by_class=True, awards=True),
}
BANDWIDTHS: dict[str, Make] = {  # Methods of Figure 19
    "KDE(b_mon)": lambda parent: KernelDensityConfidence(parent, bandwidth="b_mon"),
    "KDE(b_mon2)": lambda parent: KernelDensityConfidence(parent, bandwidth="b_mon2"),
    "KDE(b_mon4)": lambda parent: KernelDensityConfidence(parent, bandwidth="b_mon4"),
    "KDE(b_opt)": lambda parent: KernelDensityConfidence(parent, bandwidth="b_opt"),
}
METHODS: dict[str, Make] = {
    **TEMPERATURES,
    **BANDWIDTHS,
    "histogram": HistogramBinning,
    "CwOC": lambda parent: CumulativeConfidence(parent, theta="best"),
    "Conf1": ClassPrecision,
}
UNCALIBRATED = "uncalibrated"
ALL = "all"  # Class of all rows
MEMBERS = 10
PART = 20  # Ensembles in a file

Measured = dict[str, Any]


def measure(pool: Pool, ensembles: int, combine: Combine, *, n_jobs: int = 1) -> Iterator[str]:
    """Measure the ensembles of a pool that were not measured; yield a line for each part."""
    from joblib import Parallel, delayed

    folder = _folder(pool, combine)
    folder.mkdir(exist_ok=True)
    missing = [start for start in range(0, ensembles, PART) if not _part(folder, start).exists()]
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from parallel(delayed(_measure_part)(pool, combine, start) for start in missing)


def measured(pool: Pool, ensembles: int, combine: Combine) -> pd.DataFrame:
    """Return ``ensemble, method, test_set, class, metric, value``; a class may be "all"."""
    folder = _folder(pool, combine)
    result = pd.concat(
        [pd.read_parquet(_part(folder, start)) for start in range(0, ensembles, PART)],
        ignore_index=True,
    )
    return result[result.ensemble < ensembles]


def members_of(ensemble: int, networks: int) -> np.ndarray:
    """Return Int[10], the members of an ensemble, drawn without replacement by its number."""
    return np.sort(
        np.random.default_rng([networks, ensemble]).choice(networks, MEMBERS, replace=False)
    )


def fitted(make: Make, proba: np.ndarray, y: np.ndarray) -> TopLabelCalibrator:
    """Return a calibrator that is fitted to the rows Float[n, K] with their labels Int[n]."""
    parent = FrozenEstimator(PrecomputedScores().fit(proba))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of classes without a curve: the tables count them by the bandwidths that are missing
        return make(parent).fit(proba, y, X_calibration=proba, y_calibration=y)


def measure_ensemble(
    proba: dict[str, np.ndarray], labels: dict[str, np.ndarray]
) -> Iterator[Measured]:
    """Yield the numbers of every method, fitted on the first set, on both sets."""
    for name, make in METHODS.items():
        model = fitted(make, proba["1"], labels["1"])
        for test_set, rows in proba.items():
            top_label = TopLabel.from_proba(rows)
            confidence = TopLabel(
                top_label.predicted, model.predict_confidence(rows), top_label.n_classes
            )
            yield from (
                {"method": name, "test_set": test_set, **e}
                for e in errors(confidence, labels[test_set])
            )
        if isinstance(model, KernelDensityConfidence):
            for k, curve in enumerate(model.curves_):
                value = curve["bandwidth"].item() if curve else np.nan
                place = {"method": name, "test_set": "1", "class": str(k)}
                yield {**place, "metric": "bandwidth", "value": value}
    for test_set, rows in proba.items():
        yield from (
            {"method": UNCALIBRATED, "test_set": test_set, **entry}
            for entry in errors(TopLabel.from_proba(rows), labels[test_set])
        )


def errors(top_label: TopLabel, y: np.ndarray) -> Iterator[Measured]:
    """Return binary NLL, ECE1 and ECE2 (l1 and l2, 15 bins) by predicted class, and of all rows."""
    groups = {str(k): top_label.predicted == k for k in range(top_label.n_classes or 0)} | {
        ALL: np.ones(len(top_label), dtype=bool)
    }
    for name, rows in groups.items():
        if not rows.any():
            continue
        own, right = top_label[rows], y[rows]
        result = {
            "NLL": nll_top(right, own),
            "ECE1": ece(right, own),
            "ECE2": ece(right, own, norm="l2"),
        }
        yield from ({"class": name, "metric": m, "value": value} for m, value in result.items())


def _measure_part(pool: Pool, combine: Combine, start: int) -> str:
    from threadpoolctl import threadpool_limits

    result = []
    with threadpool_limits(1):
        for ensemble in range(start, start + PART):
            proba = pool.ensemble(members_of(ensemble, pool.size), combine)
            result += [{"ensemble": ensemble, **e} for e in measure_ensemble(proba, pool.labels)]
    path = _part(_folder(pool, combine), start)
    part = path.with_suffix(".part")
    pd.DataFrame(result).to_parquet(part, index=False)
    part.replace(path)
    return f"{path}: ensembles {start} to {start + PART - 1}"


def _folder(pool: Pool, combine: Combine) -> Path:
    """Return the folder of one size of a pool, which decides the members of an ensemble."""
    return pool.folder / f"{combine}_of_{pool.size}"


def _part(folder: Path, start: int) -> Path:
    return folder / f"from_{start:04}.parquet"
