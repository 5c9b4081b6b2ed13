"""Settings of runs: numbers of rows and other keys in which they differ, and those of presets
beside the settings that a paper prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from experiments.common.markdown import counted_noun
from experiments.common.runs import Record
from kdgraph.config import RunConfig, plan
from kdgraph.data.sizes import SplitSizes

Setting = Callable[[RunConfig], float]  # Configuration of a run → one of its settings

SIZES = [field.name for field in fields(SplitSizes)]  # Keys of a data set for numbers of rows
_ROLES = {"n_train": "training row", "n_calibration": "calibration row", "n_test": "test row"}
_OTHER = {"seed", "metrics", "figures"}  # what is measured, and how often


def by_size(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return records by their numbers of rows in words, the fewest training rows first."""
    by_sizes: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        dataset = record["config"].get("dataset", {})
        by_sizes[str([dataset.get(key) for key in SIZES])].append(record)
    groups: dict[str, list[Record]] = defaultdict(list)
    for group in sorted(
        by_sizes.values(), key=lambda group: max(record["dataset"]["n_train"] for record in group)
    ):
        groups[
            ", ".join(
                counted_noun((record["dataset"][key] for record in group), role)
                for key, role in _ROLES.items()
            )
        ] += group
    return dict(groups)


def trains_otherwise(record: Record) -> bool:
    """Return whether the network of a run is trained with outliers or with MMCE in its loss.

    It is then a method, not the parent that the other methods of the experiment share.
    """
    parent = record.get("config", {}).get("parent") or {}
    return bool(parent.get("exposure")) or parent.get("loss") == "mmce"


def differing_settings(
    records: Sequence[Record], alike: Sequence[Hashable], parts: Collection[str] | None = None
) -> list[str]:
    """Return settings, "parent.max_epochs=3", in which records of one line of a table differ.

    Seeds, numbers of rows, metrics, figures and the device do not count. ``alike`` has the line of
    every record, ``parts`` the groups of the config that count (None: all).
    """
    chosen = (
        {name: node for name, node in record["config"].items() if parts is None or name in parts}
        for record in records
    )
    values = [dict(_settings(config)) for config in chosen]
    groups: dict[Hashable, list[Mapping[str, str]]] = defaultdict(list)
    for own, group in zip(values, alike, strict=True):
        groups[group].append(own)
    return [
        ", ".join(
            f"{key}={value}"
            for key, value in own.items()
            if any(other.get(key) != value for other in groups[group])
        )
        for own, group in zip(values, alike, strict=True)
    ]


def first_config(*words: str) -> RunConfig:
    """Return the configuration of the first run of a sweep, of seed 0."""
    return plan([*words, "seed=0"], multirun=True).jobs[0].config


def setting_of(group: str, key: str, at: int | None = None, power: int = 1) -> Setting:
    """Return a function that reads a key of a group of a configuration, or a position in its list.

    The value is raised to ``power``: 2 for the variance of a standard deviation.
    """

    def read(config: RunConfig) -> float:
        value: Any = getattr(config, group)[key]
        return float(value if at is None else value[at]) ** power

    return read


def _settings(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield dotted key and value of every leaf of a config."""
    if not isinstance(node, Mapping):
        yield ".".join(path), str(node)
        return
    for key, value in node.items():
        if (
            key != "device"
            and not (path == () and key in _OTHER)
            and not (path == ("dataset",) and key in SIZES)
        ):
            yield from _settings(value, (*path, str(key)))
