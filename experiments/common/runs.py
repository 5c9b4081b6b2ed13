"""Records of finished runs that are points of an experiment."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from kdgraph.config import conf_dir, plan

Record = dict[str, Any]


def runs_of(experiment: str, folder: Path, free: Sequence[str] = ()) -> list[Record]:
    """Return the records below ``folder`` that are points of an experiment, in order.

    A record holds the experiment and the overrides that it was made with: it is a point if no
    override is of another key than those that the experiment sweeps, ``seed``, ``figures`` and
    ``free`` (to draw from smaller runs: "parent.hidden"). A run that other words have made is a
    point if its id is one of the experiment's. Swept numbers may have other values than the
    experiment's, data sets and methods may not. Records are shared between calls, so not to be
    changed.
    """
    records = [_read(p, p.stat().st_mtime_ns) for p in sorted(folder.glob("*/*/*/result.json"))]
    swept, keys = _swept(experiment), {"seed", "figures", *free}
    points, others = set[str](), list[Record]()
    for record in records:
        if record["experiment"] != experiment:
            others.append(record)
        elif all(_is_of_sweep(word, swept, keys) for word in record["overrides"]):
            points.add(record["run_id"])
    # Composing an experiment takes seconds, so only where a run may have been made by other words.
    if others:
        points |= {record["run_id"] for record in others} & _run_ids(experiment)
    return [record for record in records if record["run_id"] in points]


@cache
def _read(path: Path, modified: int) -> Record:
    return json.loads(path.read_text())


def _is_of_sweep(override: str, swept: Mapping[str, str], keys: Collection[str]) -> bool:
    """Return whether an override chooses the experiment, or a point of its sweep."""
    key, _, value = override.lstrip("+").partition("=")
    if key in ("experiment", *keys) or any(key.startswith(f"{free}.") for free in keys):
        return True
    is_number = "." in key
    return key in swept and (is_number or value in _values(swept[key]))


@cache
def _run_ids(experiment: str) -> frozenset[str]:
    return frozenset(job.config.run_id for job in plan([f"experiment={experiment}"]).jobs)


def numbers_on_test(
    records: Iterable[Record],
    name_of: Callable[[Record, str], str | None],
    key_of: Callable[[Record], Hashable] = lambda record: record["seed"],
) -> Iterator[tuple[Record, str, str, float]]:
    """Yield record, model, metric and value of the numbers on test rows.

    Runs share parents, so that a number counts once for each model, metric and key, which
    identifies rows and parent. ``name_of`` returns the name of the "parent" or "calibrated" model
    of a record, or None to leave it out.
    """
    # Runs of several methods have the same parent, whose numbers are in the record of each.
    known = set()
    for record in records:
        for entry in record["metrics"]:
            if entry["on"] != "test" or entry["value"] is None:
                continue
            name = name_of(record, entry["of"])
            key = name, key_of(record), entry["metric"]
            if name is not None and key not in known:
                known.add(key)
                yield record, name, entry["metric"], entry["value"]


def expected(experiment: str) -> int:
    """Return the number of runs of an experiment."""
    return int(np.prod([len(_values(values)) for values in _swept(experiment).values()]))


def swept_numbers(experiment: str) -> list[str]:
    """Return the swept keys that are no groups of the config."""
    return [key for key in _swept(experiment) if "." in key or key == "seed"]


@cache
def _swept(experiment: str) -> Mapping[str, str]:
    """Return the values that an experiment and those that it is built on sweep, by key."""
    node = yaml.safe_load((conf_dir() / "experiment" / f"{experiment}.yaml").read_text())
    included = (str(entry).partition("@")[0] for entry in node.get("defaults", []))
    bases = (
        _swept(n.removeprefix("/experiment/")) for n in included if n.startswith("/experiment/")
    )
    own = node.get("hydra", {}).get("sweeper", {}).get("params", {})
    return {key: values for swept in (*bases, own) for key, values in swept.items()}


def _values(swept: str) -> list[str]:
    if str(swept).startswith("range("):
        return [str(value) for value in range(*map(int, swept[len("range(") : -1].split(",")))]
    return [value.strip() for value in str(swept).split(",")]
