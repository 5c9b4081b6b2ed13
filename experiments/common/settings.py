"""Runs of one experiment whose settings are not equal: how many rows they had, and what else was
set otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from experiments.common.markdown import counted_noun
from experiments.common.runs import Record
from kdgraph.data.sizes import SplitSizes

SIZES = [field.name for field in fields(SplitSizes)]
"""Keys of a data set that say how many rows there are."""
_ROLES = {"n_train": "training row", "n_calibration": "calibration row", "n_test": "test row"}
_OTHER = {"seed", "metrics", "figures"}  # what is asked for, and how often


def by_size(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records whose configs ask for equally many rows, the fewest first, under what that gave them
    in words.
    """
    asked: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        dataset = record["config"].get("dataset", {})
        asked[str([dataset.get(key) for key in SIZES])].append(record)
    found: dict[str, list[Record]] = defaultdict(list)
    for group in sorted(
        asked.values(), key=lambda group: max(record["dataset"]["n_train"] for record in group)
    ):
        found[
            ", ".join(
                counted_noun((record["dataset"][key] for record in group), role)
                for key, role in _ROLES.items()
            )
        ] += group
    return dict(found)


def trains_otherwise(record: Record) -> bool:
    """Return whether the network of a run is trained with outliers or with MMCE in its loss.

    It is then a method, not the parent that the other methods of the experiment share.
    """
    parent = record.get("config", {}).get("parent") or {}
    return bool(parent.get("exposure")) or parent.get("loss") == "mmce"


def differing_settings(
    records: Sequence[Record], alike: Sequence[Hashable], parts: Collection[str] | None = None
) -> list[str]:
    """For each record its values of those keys in which it differs from one that it is ``alike``:
    "parent.max_epochs=3".

    Parameters
    ----------
    records : of runs. Their seed, how many rows they have, what is measured and where a network
    trains do not count.
    alike : of each record, whose line of a table it would be in: that of a data set and a method,
    say.
    parts : groups of the config that count; None: all.
    """
    chosen = (
        {name: node for name, node in record["config"].items() if parts is None or name in parts}
        for record in records
    )
    values = [dict(_settings(config)) for config in chosen]
    groups: dict[Hashable, list[Mapping[str, str]]] = defaultdict(list)
    for mine, group in zip(values, alike, strict=True):
        groups[group].append(mine)
    return [
        ", ".join(
            f"{key}={value}"
            for key, value in mine.items()
            if any(other.get(key) != value for other in groups[group])
        )
        for mine, group in zip(values, alike, strict=True)
    ]


def _settings(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Dotted key and value of each leaf of a config."""
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
