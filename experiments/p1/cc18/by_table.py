"""Figures 5 to 8: the numbers of single tables, where their curves end.

Each panel of these figures has the curves of one table: error and ECE against the rows that train,
and mean confidence against the radius of a sphere. Judged is the last point of each curve, of a
parent and of its kernel density method with geodesic distances; the authors stored their numbers.

Far away the confidence of a kernel density method is the largest share of a class among its
training rows, to all digits. The authors' code for far rows draws its splits without strata, and so
does ``paper/p1/cc18_far``; but there a third of the rows that learn calibrates other methods, and
the largest of random shares is larger on average among fewer rows. What the authors' splits have is
computed beside (:func:`shares_of_random_splits`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common.published import read_published
from experiments.p1.cc18.archive import FAR, GEODESIC, numbers_below
from experiments.p1.cc18.published import NAMES, PAPER, methods_of, published_numbers
from experiments.p1.cc18.published import measured as measured_of_figure2
from kdgraph.config import compose
from kdgraph.errors import DataNotAvailable
from kdgraph.runner import stages

BY_TABLE = "Figures 5 to 8"  # Item of these numbers in ``published.csv``
# Largest relative difference between the largest sample of a table here and the stored one: splits
# here have a few rows more or less, and a part of a table has far fewer.
AS_LARGE = 0.1
LAST_RADIUS = 5.0
# Title of ``shares_of_random_splits`` beside the numbers that it explains.
SHARE = "largest share of a class, splits without strata"
N_SPLITS = 10  # Repetitions of the authors' code
_KEYS = ["dataset", "metric", "method", "radius"]


def measured(folder: Path) -> pd.DataFrame:
    """Return :func:`numbers_by_table` of the runs below a folder, and of its archive."""
    return numbers_by_table(numbers_below(folder))


def measured_figures(folder: Path) -> pd.DataFrame:
    """Return the numbers of Figure 2 and of Figures 5 to 8, which are of the same runs."""
    return pd.concat([measured_of_figure2(folder), measured(folder)], ignore_index=True)


def numbers_by_table(numbers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return error and ECE of the largest sample and the mean confidence at radius 5.

    Error and ECE are of one version of the authors' code, confidence is of another. Rows are
    jackknifed over seeds. Tables whose largest sample is not that of the paper are left out.
    """
    shared = read_published(PAPER.parent).query("item == @BY_TABLE")[_KEYS]
    parts = [_ends(numbers[version], version) for version in (GEODESIC, FAR)]
    rows = pd.concat(parts, ignore_index=True).merge(shared, on=_KEYS)
    return _jackknifed(rows).assign(item=BY_TABLE, ood=None, variant="")


def shares_of_random_splits() -> pd.DataFrame:
    """Return the largest share of a class among training rows, for splits without strata.

    The authors' code for far rows shuffles the rows of a table and keeps a third of them as test
    rows, behind networks at most 1,000. A table that cannot be loaded is left out.
    """
    shared = read_published(PAPER.parent).query(
        "item == @BY_TABLE and metric == 'mmc' and method in ('kdf geodesic', 'kdn geodesic')"
    )
    rows = []
    for name, group in shared.groupby("dataset"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of features, which are not used
                splits = stages.split(compose([f"dataset=cc18/{name}"]).dataset, 0)
        except DataNotAvailable:
            continue
        y = np.concatenate([splits.train.y, splits.calibration.y, splits.test.y])
        for row in group.to_dict("records"):
            n_test = len(y) // 3 if row["method"] == "kdf geodesic" else min(1000, len(y) // 3)
            place = {key: row[key] for key in _KEYS}
            rows += [
                {**place, "seed": s, "value": largest_share(y, n_test, s)} for s in range(N_SPLITS)
            ]
    shares = pd.DataFrame(rows, columns=[*_KEYS, "seed", "value"])
    return _jackknifed(shares).assign(item=BY_TABLE, ood=None, variant=SHARE)


def largest_share(y: np.ndarray, n_test: int, seed: int) -> float:
    """Return the largest share of a class among the rows that a random test part leaves."""
    train = np.random.default_rng(seed).permutation(y)[n_test:]
    return float(np.bincount(train).max() / len(train))


def _jackknifed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each number over seeds, without a seed, and that without each seed."""
    # A mean without one of n values is (sum − value) / (n − 1); of one seed it is the value itself.
    by = rows.groupby(_KEYS, dropna=False).value
    n, total = by.transform("size"), by.transform("sum")
    without = ((total - rows.value) / (n - 1)).where(n > 1, rows.value)
    return pd.concat(
        [by.mean().reset_index().assign(seed=None), rows.assign(value=without)], ignore_index=True
    )


def _ends(numbers: pd.DataFrame, version: str) -> pd.DataFrame:
    numbers = numbers[numbers.parent.isin(NAMES)].dropna(subset="openml")
    largest = numbers.groupby(["parent", "dataset"]).learn.transform("max")
    stored = published_numbers().groupby("openml").learn.max()
    alike = (numbers.learn / numbers.openml.map(stored) - 1).abs() <= AS_LARGE
    if version == FAR:
        at_end = (numbers.metric == "mmc") & (numbers["at"] == LAST_RADIUS)
    else:
        at_end = numbers.metric.isin(["error", "ece_by_edges"]) & numbers["at"].isna()
    ends = numbers[at_end & alike & (numbers.learn == largest)]
    title = _published_methods(version)
    named = [title.get(key) for key in zip(ends.parent, ends.method, strict=True)]
    ends = ends.assign(method=named, radius=ends["at"]).dropna(subset="method")
    return ends[[*_KEYS, "seed", "value"]]


def _published_methods(version: str) -> dict[tuple[str, str], str]:
    return {
        (parent, recorded): name
        for parent in NAMES
        for name, recorded in methods_of(parent, version)
        if recorded == "parent" or recorded.startswith(("kdf", "kdn"))
    }
