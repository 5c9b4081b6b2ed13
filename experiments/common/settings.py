"""Settings of runs: numbers of rows and other keys in which they differ, and those of presets
beside the settings that a paper prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from experiments.common.markdown import counted_noun
from experiments.common.runs import Record
from kdgraph.config import RunConfig, plan
from kdgraph.data.sizes import SplitSizes

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


@cache
def first_config(*words: str) -> RunConfig:
    """Return the configuration of the first run of a sweep, of seed 0."""
    return plan([*words, "seed=0"], multirun=True).jobs[0].config


def printed_settings(
    folder: Path, record: Record | None = None, items: Collection[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield ``item, dataset, method, metric, value`` of the settings in ``settings.yaml``.

    They are expressions on a record, or on the config of the first run of their words. ``items``
    are those of which settings are wanted; None: all.
    """
    for node in yaml.safe_load((folder / "settings.yaml").read_text(encoding="utf-8")):
        groups = vars(first_config(*node["words"].split())) if record is None else record
        known = {n: _Keys(v) if isinstance(v, Mapping) else v for n, v in groups.items()}
        places = [place for place in node["places"] if items is None or place[0] in items]
        if not places or not eval(node.get("when", "True"), {}, known):
            continue
        for item, dataset, method in places:
            for metric, expression in node["values"].items():
                value = eval(expression, {}, known)
                if value is not None:
                    place = {"item": item, "dataset": dataset, "method": method}
                    yield {**place, "metric": metric, "value": float(value)}


class _Keys:
    """Keys of a mapping as attributes, None for one that is not there."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self.node = node

    def __getattr__(self, name: str) -> Any:
        value = self.node.get(name)
        return _Keys(value) if isinstance(value, Mapping) else value


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
