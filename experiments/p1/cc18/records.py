"""Runs on many tables as data frames: numbers, means over seeds, and a row for each table and
method.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from experiments.common.runs import Record
from experiments.common.titles import titles

PARENTS = {"random_forest": "random forest", "mlp": "network"}  # Parent of a run → title
# Suffix of kernel density methods with Euclidean distances. The others have those of their preset:
# geodesic in "kdf_reference" and "kdf_paper", scaled in "kdf".
EUCLIDEAN = "euclidean"
METHODS = titles("p1", "cc18.records")[
    "methods"
]  # Calibrator of a run, with its gate → title, in the order of tables
# Method that is chosen for each table and seed; see ``experiments.p1.cc18.claims``.
CHOICE = "gate_on_best"
# kdgraph's kernel density method on each parent.
KDGRAPH_METHODS = {"random_forest": "kdf", "mlp": "kdn"}
# The paper's method on each parent, in the authors' code of October 2023.
AUTHORS = {parent: f"{method}_reference" for parent, method in KDGRAPH_METHODS.items()}
# ECE as the authors' code has it for networks and KDN; "ece_by_edges" has 10 edges, for all else.
MORE_EDGES = "ece_by_15_edges"
ON_TEST = ["error", "nll", "ece", "mce", "ece_by_edges", MORE_EDGES]
ON_SPHERES = ["oce", "mmc"]
KEY = ["dataset", "learn", "parent", "method", "seed"]
# Largest difference of a parent's values in two runs: it is the same fit, perhaps predicted on
# another machine.
SAME = 1e-9


class Inconsistent(Exception):
    """Runs that cannot be in one table."""


@dataclass(frozen=True)
class Tables:
    """Means over seeds of runs on one parent, at one sample size for each table."""

    parent: str
    # a row for each table, method and seed, a column for each number: oce@1.5, prior
    runs: pd.DataFrame
    learn: dict[str, int]  # table → rows that fit and calibrate
    openml: dict[str, int]  # table → its number on OpenML
    left_out: dict[str, str]  # table → why

    @cached_property
    def values(self) -> pd.DataFrame:
        """Return means over seeds by table and method."""
        return self.runs.groupby(["dataset", "method"]).mean()

    @property
    def seeds(self) -> pd.Series:
        """Return the number of seeds of each table."""
        return self.runs.reset_index().groupby("dataset").seed.nunique()

    @property
    def methods(self) -> list[str]:
        """Return the methods in the order of :data:`METHODS`, the parent first."""
        return sorted(self.values.index.unique("method"), key=order)

    @property
    def datasets(self) -> list[str]:
        """Return the tables in alphabetical order."""
        return sorted(self.values.index.unique("dataset"))

    @property
    def radii(self) -> list[float]:
        """Return the radii of the spheres, from 1 on."""
        return sorted(
            r
            for r in (float(name[4:]) for name in self.values if name.startswith("oce@"))
            if r >= 1
        )

    def column(self, name: str) -> pd.DataFrame:
        """Return a row for each table, a column for each method; NaN without the number."""
        values = (
            self.values[name] if name in self.values else pd.Series(np.nan, index=self.values.index)
        )
        return values.unstack("method")[self.methods]


def kernel_method(result: Tables) -> str:
    """Return the authors' method if it was run, of either version, else kdgraph's."""
    own_method = KDGRAPH_METHODS[result.parent]
    published = (AUTHORS[result.parent], f"{own_method}_figure1")
    return next((name for name in published if name in result.methods), own_method)


def order(method: str) -> tuple[int, str]:
    """Return the place of a method in tables."""
    return list(METHODS).index(method) if method in METHODS else len(METHODS), method


def label(method: str, parent: str = "") -> str:
    """Return the title of a method; the parent's own name if it is given."""
    if method == "parent" and parent:
        return PARENTS.get(parent, parent)
    return METHODS.get(method, method.replace("_", " "))


def frame(records: Iterable[Record]) -> pd.DataFrame:
    """Return each number of each run: :data:`KEY`, ``openml, metric, at, value``; a parent once.

    ``at`` is the radius of a sphere, NaN on test rows; but the confidence of test rows, ``mmc``, is
    at 0, as in the published figures. The metric ``prior`` is the largest share of a class.
    """
    records = list(records)
    _check_one_each(records)
    rows = [row for record in records for row in _rows(record)]
    if not rows:
        return pd.DataFrame(columns=[*KEY, "openml", "metric", "at", "value"])
    everything = pd.DataFrame(rows)
    columns = [*KEY, "metric", "at"]
    groups = everything.groupby(columns, dropna=False).value
    spread = groups.max() - groups.min()
    if (spread > SAME).any():
        dataset, learn, parent, _, seed, metric, _ = spread.idxmax()
        which = f"the {PARENTS.get(parent, parent)} on {dataset}, {learn} rows, seed {seed},"
        raise Inconsistent(
            f"{which} has two values of {metric}, so it was fitted or tested in"
            " two settings; keep the runs of one of them"
        )
    return everything.drop_duplicates(columns, ignore_index=True)


def tables(numbers: pd.DataFrame, parent: str) -> Tables:
    """Return runs on one parent at each table's largest sample, as far as all methods have them.

    A method that fewer than half of the tables have is left out.
    """
    own = numbers[numbers.parent == parent]
    own = own[own.learn == own.groupby("dataset").learn.transform("max")]
    # Tests are over the tables that all methods have: a method on a few tables would cost the
    # others most of theirs.
    on = own.groupby("method").dataset.nunique()
    methods = list(on[2 * on >= own.dataset.nunique()].index)
    complete, left_out = _complete(own[own.method.isin(methods)], methods)
    column = complete.metric + complete["at"].map(
        lambda radius: "" if np.isnan(radius) else f"@{radius:g}"
    )
    runs = complete.assign(column=column).pivot_table(
        index=["dataset", "method", "seed"], columns="column", values="value"
    )
    far = [name for name in runs if name.startswith("oce@") and float(name[4:]) > 1]
    if far:
        runs["oce"] = runs[far].mean(axis=1)
    openml = (
        complete.dropna(subset="openml").groupby("dataset").openml.first().astype(int).to_dict()
    )
    return Tables(
        parent, runs, complete.groupby("dataset").learn.first().to_dict(), openml, left_out
    )


def parents_of(numbers: pd.DataFrame) -> list[str]:
    """Return the parents in the order of :data:`PARENTS`."""
    return [parent for parent in PARENTS if parent in set(numbers.parent)]


def method_of(record: Record) -> str:
    """Return the name of the calibrator, with ``gated_`` before it if there is a gate.

    A kernel density method whose distance, as used, is not that of its preset has it in its name.
    """
    # Candidates of the choice among calibrators depend on the parent; the choice is one method.
    calibrator = record["calibrator"].removesuffix("_on_network")
    config = record["config"]["calibrator"]
    family, _, preset = calibrator.partition("_")
    if family in ("kdf", "kdn"):
        fitted = record["learnt"].get("calibrator") or {}
        usual = "geodesic" if preset in ("reference", "paper", "figure1") else "scaled"
        distance = fitted.get("distance") or config.get("distance") or usual
        if distance != usual and preset != "whitened":
            calibrator = f"{calibrator}_{distance}"
    return calibrator if record["gate"] == "none" else f"gated_{calibrator}"


def _complete(numbers: pd.DataFrame, methods: Sequence[str]) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return rows of tables and seeds that all methods have, and what the other tables lack."""
    having = numbers.groupby(["dataset", "seed"]).method.nunique()
    full = having[having == len(methods)].index
    stored = numbers[pd.MultiIndex.from_frame(numbers[["dataset", "seed"]]).isin(full)]
    missing = {}
    for dataset in sorted(set(numbers.dataset) - set(stored.dataset)):
        lacking = sorted(set(methods) - set(numbers[numbers.dataset == dataset].method), key=order)
        missing[dataset] = (
            "no run of " + ", ".join(map(label, lacking))
            if lacking
            else "no seed that all methods have"
        )
    return stored, missing


def _rows(record: Record) -> Iterable[Record]:
    about, source = record["dataset"], record["dataset"].get("source") or {}
    keys = key_of(record)
    shared = {
        **keys,
        "openml": source.get("id") if source.get("source") == "openml" else None,
        "at": np.nan,
    }
    own = (record["learnt"].get("calibrator") or {}).get("calibration_nll")
    if own is not None:
        yield {**shared, "metric": "calibration_nll", "value": own}
    for method in ("parent", keys["method"]):
        yield {**shared, "method": method, "metric": "prior", "value": max(about["prior"])}
    for entry in record["metrics"]:
        on_test = entry["on"] == "test" and entry["metric"] in (*ON_TEST, "mmc")
        at = 0.0 if on_test and entry["metric"] == "mmc" else entry["params"].get("radius", np.nan)
        if on_test or (entry["ood"] == "sphere" and entry["metric"] in ON_SPHERES and at >= 1):
            method = "parent" if entry["of"] == "parent" else keys["method"]
            value = np.nan if entry["value"] is None else entry["value"]
            row = {**shared, "method": method, "at": at, "value": value}
            if not entry["metric"].startswith("ece_by"):
                yield {**row, "metric": entry["metric"]}
            elif (entry["metric"] == MORE_EDGES) == _has_more_edges(keys["parent"], method):
                yield {**row, "metric": "ece_by_edges"}


def _has_more_edges(parent: str, method: str) -> bool:
    """Return whether the authors' code measures the ECE of a method between 15 edges."""
    return parent == "mlp" and (method == "parent" or method.startswith("kdn"))


def key_of(record: Record) -> Record:
    """Return the key of a run, :data:`KEY` → value."""
    about = record["dataset"]
    parent = (
        "mlp" if record["parent"].endswith("mlp") else record["parent"]
    )  # those of other widths have longer names
    values = (
        about["name"],
        about["n_train"] + about["n_calibration"],
        parent,
        method_of(record),
        record["seed"],
    )
    return dict(zip(KEY, values, strict=True))


def _check_one_each(records: Sequence[Record]) -> None:
    by_key: dict[tuple, Record] = {}
    for record in records:
        key = tuple(key_of(record).values())
        if key in by_key:
            differing = sorted(_differing(by_key[key]["config"], record["config"]))
            dataset, learn, parent, method, seed = key
            which = (
                f"{label(method)} on {PARENTS.get(parent, parent)},"
                f" {dataset}, {learn} rows, seed {seed}"
            )
            raise Inconsistent(
                f"two runs of {which}, which differ in"
                f" {', '.join(differing) or 'nothing'}; keep one of them"
            )
        by_key[key] = record


def _differing(each: Record, other: Record, prefix: str = "") -> Iterable[str]:
    for key in {*each, *other}:
        a, b = each.get(key), other.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            yield from _differing(a, b, f"{prefix}{key}.")
        elif json.dumps(a, sort_keys=True) != json.dumps(b, sort_keys=True):
            yield prefix + key
