"""Data sets that runs need: fetched before any run starts, or listed as missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kdgraph.config import Job
from kdgraph.config.components import Node, build, parameters_of, target_of
from kdgraph.config.data_sources import sources_of_outliers
from kdgraph.errors import DataNotAvailable


@dataclass(frozen=True)
class MissingData:
    """Data that a run needs and that this machine can neither read nor fetch, and why."""

    name: str
    reason: str
    error: DataNotAvailable = field(compare=False)


def fetch_all(jobs: Iterable[Job], report: Callable[[str], None]) -> dict[str, MissingData]:
    """Fetch the data sets of the checked jobs that are not on this machine, each once.

    All in this process, because no cache may be written by two. ``report`` receives a line before
    anything is fetched. Returns run id → missing data, of the jobs that cannot run. Raises
    DataError where data are on this machine and cannot be used.
    """
    missing_by_key: dict[str, MissingData | None] = {}
    missing_by_run: dict[str, MissingData] = {}
    for job in jobs:
        for node in _nodes(job):
            key = _key(node)
            if key not in missing_by_key:
                missing_by_key[key] = _fetch(node, report)
            if missing := missing_by_key[key]:
                missing_by_run.setdefault(job.config.run_id, missing)
    return missing_by_run


def sources(jobs: Iterable[Job]) -> list[tuple[str, Any]]:
    """Return name and source of each data set of the jobs that may have to be fetched, once."""
    nodes = {_key(node): node for job in jobs for node in _nodes(job)}
    built = [(str(node["name"]), build(node)) for node in nodes.values()]
    return [(name, source) for name, source in built if hasattr(source, "prefetch")]


def find_missing(jobs: Iterable[Job]) -> dict[str, MissingData]:
    """Return run id → what a run would have to fetch first, or cannot have; without a network."""
    from kdgraph.data.openml.client import offline

    with offline():
        return fetch_all(jobs, lambda line: None)


def by_reason(missing: Iterable[MissingData]) -> dict[str, list[str]]:
    """Return reason → names of the data sets, each once, in the order of their first occurrence."""
    names: dict[str, list[str]] = {}
    for data in dict.fromkeys(missing):
        names.setdefault(data.reason, []).append(data.name)
    return names


def _nodes(job: Job) -> tuple[Node, ...]:
    return job.config.dataset, job.config.ood, *sources_of_outliers(job.config.science())


def _fetch(node: Node, report: Callable[[str], None]) -> MissingData | None:
    source = build(node)
    if not hasattr(source, "prefetch"):
        return None
    try:
        source.prefetch(report)
    except DataNotAvailable as error:
        from kdgraph.data.openml.client import unavailability_reason

        return MissingData(str(node["name"]), unavailability_reason(error), error)
    return None


def _key(node: Node) -> str:
    """Return what decides the rows: the class and its parameters, not how many are used."""
    target = target_of(node)
    parameters = {"_target_", *(parameters_of(target) if target else ())}
    return json.dumps(
        {key: value for key, value in node.items() if key in parameters},
        sort_keys=True,
        default=str,
    )
