"""Records of finished runs that are points of an experiment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from kdgraph.config import conf_dir, plan

Record = dict[str, Any]
Key = tuple[str, ...]


def runs_of(experiment: str, folder: Path, free: Sequence[str] = ()) -> list[Record]:
    """Records below ``folder`` that differ from the experiment's runs in nothing but the numbers
    that it sweeps.

    Parameters
    ----------
    experiment : its name, "paper/p1/simulations".
    folder : where the runs are, usually ``outputs``.
    free : keys that may differ too ("parent.hidden"), to draw from smaller runs.

    Returns
    -------
    list of dict
        In the order of their folders. Values of a swept number that the experiment does not name
        (more seeds, another distance) are taken with the others; swept data sets and methods are
        those of the experiment.
    """
    paths = _records(folder)
    if not paths:
        return []  # without composing anything, which takes seconds
    loose = tuple(tuple(key.split(".")) for key in (*swept_numbers(experiment), "seed", *free))
    found = [json.loads(path.read_text()) for path in paths]
    named = {("dataset",), ("dataset", "name")}.isdisjoint(loose)
    there = (
        frozenset(str(record["config"].get("dataset", {}).get("name")) for record in found)
        if named
        else None
    )
    wanted = _wanted(experiment, loose, there)
    return [record for record in found if _signature(record["config"], loose) in wanted]


def runs_of_tables(experiment: str, folder: Path, free: Sequence[str] = ()) -> list[Record]:
    """As :func:`runs_of`, of an experiment with many data sets and methods that change nothing of
    each other's config.

    Each is composed once, which takes seconds where all pairs take minutes.
    """
    paths = _records(folder)
    if not paths:
        return []
    loose = tuple(tuple(key.split(".")) for key in (*swept_numbers(experiment), "seed", *free))
    first = {key: _values(values)[0] for key, values in _swept(experiment).items()}
    datasets, others = (
        {
            _signature(_part(job.config.science(), part), loose)
            for job in plan([f"experiment={experiment}", *_words(first, without)]).jobs
        }
        for without, part in (("dataset", True), ("method", False))
    )
    found = (json.loads(path.read_text()) for path in paths)
    return [
        r
        for r in found
        if all(
            _signature(_part(r["config"], part), loose) in of
            for part, of in ((True, datasets), (False, others))
        )
    ]


@cache
def _wanted(experiment: str, loose: tuple[Key, ...], there: frozenset[str] | None) -> set[str]:
    """Signatures of its runs on data sets of these names (None: of any); composing takes seconds,
    and many questions are asked of one.
    """
    if there is None:
        return {_signature(job.config.science(), loose) for job in _one_of_each(experiment)}
    of = [choice for choice, name in _names(experiment) if name in there]
    if not of:
        return set()
    chosen = [f"dataset={','.join(of)}"] if "dataset" in _swept(experiment) else []
    return {_signature(job.config.science(), loose) for job in _one_of_each(experiment, chosen)}


@cache
def _names(experiment: str) -> list[tuple[str, str]]:
    """What is said of each data set that it sweeps, and its name in the config; no method changes
    the name, so one of them does.
    """
    first = [
        f"{key}={_values(values)[0]}"
        for key, values in _swept(experiment).items()
        if key != "dataset"
    ]
    jobs = plan([f"experiment={experiment}", *first]).jobs
    return [
        (job.swept.get("dataset", ""), str(job.config.science()["dataset"].get("name")))
        for job in jobs
    ]


def _records(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*/*/result.json"))


def expected(experiment: str) -> int:
    """How many runs the experiment has."""
    return int(np.prod([len(_values(values)) for values in _swept(experiment).values()]))


def swept_numbers(experiment: str) -> list[str]:
    """Swept keys that are no groups of the config."""
    return [key for key in _swept(experiment) if "." in key or key == "seed"]


@cache
def _swept(experiment: str) -> Mapping[str, str]:
    node = yaml.safe_load((conf_dir() / "experiment" / f"{experiment}.yaml").read_text())
    named = (str(entry).partition("@")[0] for entry in node.get("defaults", []))
    built_on = (
        _swept(name.removeprefix("/experiment/"))
        for name in named
        if name.startswith("/experiment/")
    )
    own = node.get("hydra", {}).get("sweeper", {}).get("params", {})
    return {key: values for swept in (*built_on, own) for key, values in swept.items()}


def _values(swept: str) -> list[str]:
    if str(swept).startswith("range("):
        return [str(value) for value in range(*map(int, swept[len("range(") : -1].split(",")))]
    return [value.strip() for value in str(swept).split(",")]


def _one_of_each(experiment: str, chosen: Sequence[str] = ()) -> Iterable[Any]:
    """The experiment's jobs at the first value of each swept number, and of what else is chosen:
    composing all 2,400 takes minutes.
    """
    first = [f"{key}={_values(_swept(experiment)[key])[0]}" for key in swept_numbers(experiment)]
    return plan([f"experiment={experiment}", *first, *chosen]).jobs


def _words(values: Mapping[str, str], without: str) -> list[str]:
    """What a command line would say to have these values but that of one key, which stays swept.

    Each is a sweep of one value, so that it is set after the data set is chosen, of which the key
    may be.
    """
    return [f"{key}=choice({value})" for key, value in values.items() if key != without]


def _part(science: Mapping[str, Any], is_dataset: bool) -> Mapping[str, Any]:
    """The data set's node of a config, or all the others."""
    return {key: value for key, value in science.items() if (key == "dataset") == is_dataset}


def _signature(science: Mapping[str, Any], loose: tuple[Key, ...]) -> str:
    """The config without the loose keys, as text; figures are no matter."""
    return json.dumps(
        _without({k: v for k, v in science.items() if k != "figures"}, loose),
        sort_keys=True,
        default=str,
    )


def _without(node: Any, loose: tuple[Key, ...]) -> Any:
    if not isinstance(node, Mapping):
        return node
    inner = {
        key: tuple(rest[1:] for rest in loose if rest[0] == key and len(rest) > 1) for key in node
    }
    return {key: _without(value, inner[key]) for key, value in node.items() if (key,) not in loose}
