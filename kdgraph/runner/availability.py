"""Whether the rows of a run are on this machine, asked and seen to before any run starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kdgraph.config import Job
from kdgraph.config.components import Node, build, parameters_of, target_of
from kdgraph.config.data_sources import sources_of_outliers
from kdgraph.data.openml.client import offline, unavailability_reason
from kdgraph.errors import DataNotAvailable


@dataclass(frozen=True)
class MissingData:
    """Data that a run needs and that cannot be had here: the name of the data set, why, and the
    error that says so in one line.
    """

    name: str
    reason: str
    error: DataNotAvailable = field(compare=False)


def fetch_all(jobs: Iterable[Job], tell: Callable[[str], None]) -> dict[str, MissingData]:
    """Fetch what the jobs need and is not here, each data set once, in this process: none of the
    caches may be written by two.

    Parameters
    ----------
    jobs : whose config is checked.
    tell : gets a line before anything is fetched.

    Returns
    -------
    dict
        Run id → what is absent, of the jobs that cannot run.

    Raises
    ------
    DataError : if something is here and cannot be used.
    """
    known: dict[str, MissingData | None] = {}
    absent: dict[str, MissingData] = {}
    for job in jobs:
        for node in _nodes(job):
            key = _key(node)
            if key not in known:
                known[key] = _fetch(node, tell)
            if found := known[key]:
                absent.setdefault(job.config.run_id, found)
    return absent


def sources(jobs: Iterable[Job]) -> list[tuple[str, Any]]:
    """Name and source of each data set that the jobs need and that may have to be fetched, each of
    them once.
    """
    nodes = {_key(node): node for job in jobs for node in _nodes(job)}
    built = [(str(node["name"]), build(node)) for node in nodes.values()]
    return [(name, source) for name, source in built if hasattr(source, "prefetch")]


def not_here(jobs: Iterable[Job]) -> dict[str, MissingData]:
    """The same without asking any network: run id → what a run would have to fetch first, or cannot
    have.
    """
    with offline():
        return fetch_all(jobs, lambda line: None)


def by_reason(absent: Iterable[MissingData]) -> dict[str, list[str]]:
    """Why → names of the data sets, each once, in the order in which they were met."""
    found: dict[str, list[str]] = {}
    for each in dict.fromkeys(absent):
        found.setdefault(each.reason, []).append(each.name)
    return found


def _nodes(job: Job) -> tuple[Node, ...]:
    return job.config.dataset, job.config.ood, *sources_of_outliers(job.config.science())


def _fetch(node: Node, tell: Callable[[str], None]) -> MissingData | None:
    source = build(node)
    if not hasattr(source, "prefetch"):
        return None
    try:
        source.prefetch(tell)
    except DataNotAvailable as error:
        return MissingData(str(node["name"]), unavailability_reason(error), error)
    return None


def _key(node: Node) -> str:
    """What decides the rows: the class and its parameters, not how many of them are used."""
    target = target_of(node)
    known = {"_target_", *(parameters_of(target) if target else ())}
    return json.dumps(
        {key: value for key, value in node.items() if key in known}, sort_keys=True, default=str
    )
