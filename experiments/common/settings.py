"""Settings of runs: numbers of rows and other keys in which they differ, and those of presets
beside the settings that a paper prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
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

    A value is a key of the record, or of the config of the first run of its words: dotted, with
    positions in lists; or one of :data:`DERIVED`. ``items`` are those of which settings are wanted;
    None: all.
    """
    for node in yaml.safe_load((folder / "settings.yaml").read_text(encoding="utf-8")):
        values = Values(vars(first_config(*node["words"].split())) if record is None else record)
        places = [place for place in node["places"] if items is None or place[0] in items]
        if not places or not values.meet(node.get("when", {})):
            continue
        for item, dataset, method in places:
            for metric, name in node["values"].items():
                if (value := values[name]) is not None:
                    place = {"item": item, "dataset": dataset, "method": method}
                    yield {**place, "metric": metric, "value": float(value)}


@dataclass(frozen=True)
class Values:
    """Values of a record or of a config by dotted key, None for a missing one, and derived ones."""

    groups: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        if name in DERIVED:
            return DERIVED[name](self)
        node: Any = self.groups
        for key in name.split("."):
            if isinstance(node, Mapping):
                node = node.get(key)
            elif node is not None:
                node = node[int(key)]
        return node

    def meet(self, conditions: Mapping[str, Any]) -> bool:
        """Return whether each value is the wanted one; true and false are those of Python."""
        return all(
            bool(self[name]) is wanted if isinstance(wanted, bool) else self[name] == wanted
            for name, wanted in conditions.items()
        )

    @property
    def rows(self) -> int:
        """Return the number of rows of all roles."""
        return sum(self[f"dataset.{size}"] for size in ("n_train", "n_calibration", "n_test"))

    def percent_of_rows(self, size: str) -> float:
        """Return the rows of one role in percent of all."""
        return 100 * self[f"dataset.{size}"] / self.rows


OFFICIAL_MNIST = 60_000  # Official training rows, of which test set 1 of Salamon et al. is taken
# Settings that are no key of a record, by their names in ``settings.yaml``.
DERIVED: Mapping[str, Callable[[Values], float | bool | None]] = {
    "rows": lambda of: of.rows,
    "training percent": lambda of: of.percent_of_rows("n_train"),
    "calibration percent": lambda of: of.percent_of_rows("n_calibration"),
    "test percent": lambda of: of.percent_of_rows("n_test"),
    "percent that fit": lambda of: 100 * (1 - float(of["dataset.n_calibration"])),
    "half of training rows": lambda of: of["dataset.n_train"] / 2,
    "noise variance": lambda of: of["dataset.noise_std"] ** 2,
    "shorter side": lambda of: min(of["dataset.sides"]),
    "longer side": lambda of: max(of["dataset.sides"]),
    "shortest axis": lambda of: min(of["ood.axes"]),
    "longest axis": lambda of: max(of["ood.axes"]),
    "bins between edges": lambda of: of["metrics.test.ece_by_edges.edges"] - 1,
    "most levels": lambda of: of["parent.max_depth"] or np.inf,
    "layers": lambda of: len(of["parent.hidden"]),
    "layers of network": lambda of: len(of["config.parent.hidden"]),
    "units of a layer": lambda of: np.mean(of["config.parent.hidden"]),
    "layers are alike": lambda of: len(set(of["config.parent.hidden"])) == 1,
    "group features": lambda of: len(of["config.dataset.group"]),
    "classes": lambda of: len(of["dataset.classes"]),
    "percent that density learns": lambda of: (
        100 - 100 * of["config.recalibrator.validation_fraction"]
    ),
    "percent that validate density": lambda of: 100 * of["config.recalibrator.validation_fraction"],
    "mnist training rows": lambda of: OFFICIAL_MNIST - of["dataset.n_calibration"],
    "mnist steps": lambda of: (
        of["parent.max_epochs"] * of["mnist training rows"] / of["parent.batch_size"]
    ),
}


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
