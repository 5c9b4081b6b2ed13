"""Numbers of finished runs on tables, by table, method and seed, in one file.

Statistics of Figure 2 are over many tables, so the values by seed that other studies keep do not
suffice to add a table or a seed later, or to compute the statistic again. This file does, and it
outlives the folders of runs. It lies in a folder of runs (:func:`archive_path`), where it counts as
the runs that it is of, and beside a page of results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common.claims import computed_path
from experiments.common.frames import where
from experiments.common.runs import Record, runs_of
from experiments.p1.cc18.records import (
    AUTHORS,
    EUCLIDEAN,
    KDGRAPH_METHODS,
    KEY,
    frame,
    key_of,
    method_of,
)

# Versions of the authors' code: that of October 2023 for error and ECE, and that of August 2023 for
# the columns of confidence; and the title of kdgraph's method.
GEODESIC, FAR, OWN = "geodesic", "far", "kdgraph's variant"
VERSIONS = (GEODESIC, EUCLIDEAN, OWN, FAR)
DIGITS = 6  # Significant digits of a stored number; the papers print at most four
# Largest difference between two values of one parent, which are rounded and may have been predicted
# on two machines.
SAME = 1e-4
_ON_TEST = ("error", "nll", "ece", "mce", "ece_by_edges", "prior")
_ON_SPHERES = ("mmc", "oce", "prior")
_METRICS = {
    GEODESIC: _ON_TEST,
    EUCLIDEAN: _ON_TEST,
    OWN: (*_ON_TEST, *_ON_SPHERES),
    FAR: _ON_SPHERES,
}
_FIT = [name for name in KEY if name != "method"]
_WHERE = [*KEY, "metric", "at"]
_COLUMNS = [*_WHERE, "openml", "value", "commit"]


def archive_path(folder: Path) -> Path:
    """Return the path of the file in a folder of runs."""
    return computed_path(folder, "p1_figure2")


def numbers_below(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the numbers of all runs of Figure 2 below a folder, and of its archive, by version.

    A run replaces the archived numbers of the same table, method and seed.
    """
    near = runs_of("paper/p1/cc18", folder, free=["calibrator.distance", "dataset.n_calibration"])
    result = by_version(near, runs_of("paper/p1/cc18_far", folder))
    path = archive_path(folder)
    for archive in (path, folder / path.name):
        result = joined(result, read(archive)) if archive.exists() else result
    return result


def by_version(near: Iterable[Record], far: Sequence[Record] = ()) -> dict[str, pd.DataFrame]:
    """Return the numbers of records of ``paper/p1/cc18`` and of ``…_far`` by version.

    Euclidean distances were run at one size with seeds of their own, and kdgraph's method is
    calibrated out of bag, on a forest of all rows: neither may take a table or a seed from the
    others.
    """
    # Only methods of one version enter a statistic, so that it has the tables and seeds of all.
    groups: dict[str, list[Record]] = {version: [] for version in VERSIONS}
    for record in near:
        method = method_of(record)
        version = EUCLIDEAN if method.endswith(EUCLIDEAN) else GEODESIC
        groups[OWN if method in KDGRAPH_METHODS.values() else version].append(record)
    groups[FAR] = list(far)
    return {version: _numbers(records, version) for version, records in groups.items()}


def at_largest(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers at the largest sample of each table and parent, which most seeds have."""
    largest = numbers.groupby(["parent", "dataset"]).learn.transform("max")
    return numbers[numbers.learn == largest]


def with_complete_seeds(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of complete seeds, those with the most runs of a parent.

    Leaving out a seed that some tables do not have would leave their part of a statistic as it is,
    and its standard error would be too small.
    """
    if numbers.empty:
        return numbers
    runs = numbers[KEY].drop_duplicates().groupby(["parent", "seed"]).size()
    complete = runs[runs == runs.groupby("parent").transform("max")].index
    return numbers[pd.MultiIndex.from_frame(numbers[["parent", "seed"]]).isin(complete)]


def as_in_figure2(numbers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return error and ECE of the first version and far rows of the second, by one method name."""
    near, far = (with_complete_seeds(numbers[version]) for version in (GEODESIC, FAR))
    if far.empty:
        return near
    second = {f"{method}_figure1": AUTHORS[parent] for parent, method in KDGRAPH_METHODS.items()}
    far = far[far.metric != "prior"].replace({"method": second})
    return pd.concat([near, far], ignore_index=True)


def joined(
    runs: Mapping[str, pd.DataFrame], archived: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Return the numbers of runs, and those archived ones that they do not replace."""
    return {version: _joined(runs[version], archived[version]) for version in VERSIONS}


def to_rows(numbers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row for each version, table, method and seed, and a column for each number."""
    frames = []
    for version, rows in numbers.items():
        if rows.empty:
            continue
        at = rows["at"].map(lambda radius: "" if np.isnan(radius) else f"@{radius:g}")
        index = ["version", *KEY, "openml", "commit"]
        long = rows.assign(
            version=version, column=rows.metric + at, openml=rows.openml.astype("Int64")
        )
        frames.append(long.set_index([*index, "column"]).value.unstack("column").reset_index())
    if not frames:
        return pd.DataFrame(columns=["version", *KEY, "openml", "commit"])
    return pd.concat(frames, ignore_index=True)


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return the numbers by version of a file with the rows of :func:`to_rows`."""
    rows = pd.read_csv(path, dtype={"commit": str, "openml": float}).astype({"dataset": str})
    index = ["version", *KEY, "openml", "commit"]
    long = rows.melt(id_vars=index, var_name="column").dropna(subset="value")
    name = long.column.str.partition("@")
    long = long.assign(metric=name[0], at=pd.to_numeric(name[2]), commit=long.commit.fillna(""))
    return {
        version: long.loc[long.version == version, _COLUMNS].reset_index(drop=True)
        for version in VERSIONS
    }


def _numbers(records: Sequence[Record], version: str) -> pd.DataFrame:
    numbers = frame(records)
    wanted = numbers.metric.isin(_METRICS[version])
    commits = {tuple(key_of(record).values()): _commit(record) for record in records}
    numbers = numbers[wanted].dropna(subset="value")
    return numbers.assign(
        value=[float(f"{value:.{DIGITS}g}") for value in numbers.value],
        commit=[commits.get(key, "") for key in numbers[KEY].itertuples(index=False, name=None)],
    ).reindex(columns=_COLUMNS)


def _joined(runs: pd.DataFrame, archived: pd.DataFrame) -> pd.DataFrame:
    if runs.empty or archived.empty:
        return archived if runs.empty else runs
    parents = (
        where(numbers, method="parent", metric="error").set_index(_FIT).value
        for numbers in (runs, archived)
    )
    # A parent with another error than the archived one is another fit, on other rows or with other
    # settings: archived methods on it would be compared with a parent that is not theirs.
    now, before = pd.Series.align(*parents, join="inner")
    other_fit = now.index[(now - before).abs() > SAME]
    stored = archived[~pd.MultiIndex.from_frame(archived[_FIT]).isin(other_fit)]
    replaced = pd.MultiIndex.from_frame(runs[KEY].drop_duplicates())
    stored = stored[~pd.MultiIndex.from_frame(stored[KEY]).isin(replaced)]
    return pd.concat([stored, runs], ignore_index=True)


def _commit(record: Record) -> str:
    """Return the commit that a run was made with, and a plus sign if there were changes."""
    git = record.get("git") or {}
    return f"{git['commit'][:12]}{'+' if git.get('dirty') else ''}" if git.get("commit") else ""
