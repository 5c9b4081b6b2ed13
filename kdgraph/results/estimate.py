"""Estimated duration of runs, from the seconds of finished runs and their numbers of rows.

The model is simple: the seconds of a stage are proportional to the rows of that stage. It starts
from the closest finished run: of the same data set and method, else of the method, else of the data
set, and among these from those with the most similar number of rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from statistics import mean
from typing import Any

from kdgraph.data.openml.cache import announced_row_count
from kdgraph.data.sizes import RoleSizes, SplitSizes
from kdgraph.errors import KdgError
from kdgraph.results.names import REPETITION_KEYS
from kdgraph.results.records import holds_rows_out

SIMULATIONS = "kdgraph.data.simulations."
"""Beginning of the ``_target_`` of data sets that draw any number of rows."""


@dataclass(frozen=True)
class Estimate:
    """Estimated seconds of a run, and the finished runs that the estimate rests on."""

    seconds: float
    n_runs: int
    rows: int  # that those runs fit and calibrate
    scaled_to: int | None = None  # rows of the estimated run if they are not the same
    differs_in: str = ""  # "data set" or "method" if those runs have another


@dataclass(frozen=True)
class _Reference:
    """A finished run: its rows, and the seconds of its stages."""

    sizes: RoleSizes
    n_ood: int
    seconds: Mapping[str, float]
    from_store: frozenset[str]

    @property
    def learn_rows(self) -> int:
        return self.sizes.train + self.sizes.calibration

    def scaled_seconds(self, sizes: RoleSizes | None) -> float:
        """Return the seconds of a run with other rows, or with the same rows.

        With the same rows, stages that were in the store will cost the next run nothing.
        """
        if sizes is None or sizes == self.sizes:
            own = (s for stage, s in self.seconds.items() if stage not in self.from_store)
            return sum(own)
        learn_rows = sizes.train + sizes.calibration
        ratios = {
            "split": sizes.total / max(self.sizes.total, 1),
            "fit": sizes.train / max(self.sizes.train, 1),
            "cross_fit": sizes.train / max(self.sizes.train, 1),
            "calibrate": learn_rows / max(self.learn_rows, 1),
            "evaluate": (sizes.test + self.n_ood) / max(self.sizes.test + self.n_ood, 1),
        }
        return sum(seconds * ratios.get(stage, 1.0) for stage, seconds in self.seconds.items())


class RunTimes:
    """Durations of finished runs, from their records."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._references: dict[tuple[str | None, str | None], list[_Reference]] = {}
        self._sizes: dict[str, RoleSizes] = {}
        self._estimates: dict[tuple[str, str, RoleSizes | None], Estimate | None] = {}
        for record in records:
            data, method = record["dataset"], str(record["method"])
            dataset = str(data["name"])
            sizes = RoleSizes(data["n_train"], data["n_calibration"], data["n_test"])
            reference = _Reference(
                sizes,
                sum(ood_set["n"] for ood_set in record["ood_sets"]),
                record["seconds"],
                frozenset(record["from_store"]),
            )
            for key in ((dataset, method), (None, method), (dataset, None)):
                self._references.setdefault(key, []).append(reference)
            if holds_rows_out(record):
                self._sizes[_node_key(record["config"]["dataset"])] = sizes

    def sizes(self, node: Mapping[str, Any], *, holds_out: bool = True) -> RoleSizes | None:
        """Return the rows of each role for the node of a data set, without reading its rows.

        If no calibration rows are held out, they train. The result is None if the number of rows is
        not known before they are read.
        """
        key = _node_key(node)
        sizes = self._sizes[key] if key in self._sizes else _sizes_by_config(key)
        if sizes is None or holds_out:
            return sizes
        return RoleSizes(sizes.train + sizes.calibration, 0, sizes.test)

    def estimate(
        self, dataset: str, method: str, sizes: RoleSizes | None = None
    ) -> Estimate | None:
        """Return the estimated duration of a run; without its rows, nothing is scaled.

        It is None if no run of the data set or the method is finished.
        """
        key = dataset, method, sizes
        if key not in self._estimates:
            self._estimates[key] = self._closest(*key)
        return self._estimates[key]

    def _closest(self, dataset: str, method: str, sizes: RoleSizes | None) -> Estimate | None:
        keys = {"": (dataset, method), "data set": (None, method), "method": (dataset, None)}
        closest = (name for name, key in keys.items() if key in self._references)
        if (differs_in := next(closest, None)) is None:
            return None
        candidates = self._references[keys[differs_in]]
        if sizes is not None:
            target = math.log(max(sizes.total, 1))

            def distance(reference: _Reference) -> float:
                return abs(math.log(max(reference.sizes.total, 1)) - target)

            smallest = min(map(distance, candidates))
            candidates = [c for c in candidates if distance(c) <= smallest + 1e-9]
        seconds = mean(candidate.scaled_seconds(sizes) for candidate in candidates)
        rows = round(mean(candidate.learn_rows for candidate in candidates))
        scaled_to = None
        if sizes is not None and any(candidate.sizes != sizes for candidate in candidates):
            scaled_to = sizes.train + sizes.calibration
        return Estimate(seconds, len(candidates), rows, scaled_to, differs_in)


def _node_key(node: Mapping[str, Any]) -> str:
    """Return the node of a data set as text, without what changes between repetitions."""
    repeated = {key: value for key, value in node.items() if key not in REPETITION_KEYS}
    return json.dumps(repeated, sort_keys=True, default=str)


@cache
def _sizes_by_config(node_key: str) -> RoleSizes | None:
    """Return the rows of each role as far as the config and the cache of OpenML contain them."""
    node = json.loads(node_key)
    try:
        sizes = SplitSizes(**{f.name: node.get(f.name) for f in fields(SplitSizes)})
        name, target = str(node.get("name")), str(node.get("_target_"))
        if target.startswith(SIMULATIONS):
            return sizes.of_simulation(name)
        n_rows = announced_row_count(node["id"]) if isinstance(node.get("id"), int) else None
        official = node.get("official")
        if official and n_rows in (None, sum(official)):
            return sizes.of_roles(name, RoleSizes(official[0], 0, official[1]))
        return None if n_rows is None else sizes.of_table(name, n_rows)
    except (KdgError, TypeError, ValueError):  # the run itself explains what is wrong
        return None
