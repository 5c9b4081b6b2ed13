"""Words that tables and notes share: what is missing, what is best, numbers that follow each
other.

Values of metrics as text, and when two of them are the same: with what floating point leaves
open, and in any unit.

Runs by data set, method and repetition. Settings that differ are told apart by name: only what
repeats one setting may be averaged.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kdgraph.config import method_label
from kdgraph.results.origins import contents
from kdgraph.results.records import (
    COMPONENTS,
    NO_VALUE,
    FinishedRun,
    config_value,
    flatten_config,
    post_hoc_names,
    uses_paper_protocol,
    value_text,
)
from kdgraph.wording import significant, with_spread

MISSING = "–"
"""Stands where there is no number."""
MARK = " ◂"
"""Stands behind the best; in files the cell is bold instead."""


def number_range(numbers: Sequence[int]) -> str:
    """Return increasing whole numbers, none of them twice, three or more in a row by their ends.

    >>> numbered([0, 1, 2]), numbered([0, 1]), numbered([0, 2, 3])
    ('0–2', '0, 1', '0, 2, 3')
    """
    together = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"{numbers[0]}–{numbers[-1]}" if together else ", ".join(map(str, numbers))


NOISE = 1e-9
"""Numbers of which the larger has this share more than the smaller are the same: far above what
floating point and the order of a sum
leave open, far below what a metric can show. A tie is relative, so that a target in other units has
the same ties.
"""
DIMENSIONLESS = (None, "nats", "rows")
"""Units of metrics whose numbers do not change with the unit of the target."""


def tie_scale(unit: str | None) -> float:
    """Return 1 for numbers without a dimension, and 0 for those in a unit, such as that of y, in
    which any number may be small.
    """
    return 1.0 if unit in DIMENSIONLESS else 0.0


def format_value(value: float | None, unit: str | None = None, digits: int = 3) -> str:
    """Write a value of a metric, or a dash where there is none; of rows no decimals, or one where
    it is their mean.

    >>> number(0.05), number(None), number(-1.0), number(294_123.4)
    ('0.050', '–', '-1.000', '294,123')
    >>> number(31.0, "rows"), number(31.25, "rows"), number(1.2345e-7, "units of y"), number(1e-17)
    ('31', '31.2', '1.23e-07', '0.000')
    """
    if value is None:
        return MISSING
    if unit == "rows":
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return significant(drop_noise(value, unit), digits)


def format_mean(value: float, deviation: float, unit: str | None = None, digits: int = 3) -> str:
    """Write a mean with its standard deviation.

    >>> mean_number(0.318, 0.0123), mean_number(31.25, 2.5, "rows"), mean_number(0.3, 1e-17)
    ('0.318 ± 0.012', '31.2 ± 2.5', '0.300 ± 0.000')
    """
    if unit == "rows":
        return f"{format_value(value, unit)} ± {format_value(deviation, unit)}"
    spread = 0.0 if deviation <= NOISE * abs(value) else drop_noise(deviation, unit)
    return with_spread(drop_noise(value, unit), spread, digits)


def drop_noise(value: float, unit: str | None) -> float:
    """Return a number, or 0 where it is what floating point left of a difference of shares; in a
    unit any number may be small.

    >>> without_dust(1e-17, None), without_dust(1e-17, "units of y")
    (0.0, 1e-17)
    """
    return 0.0 if abs(value) <= NOISE * tie_scale(unit) else value


def is_tie(first: float, second: float, unit: str | None) -> bool:
    """Return whether floating-point noise alone tells two values of a metric apart.

    >>> is_tie(0.1 + 0.2, 0.3, None), is_tie(1e-7, 2e-7, "units of y"), is_tie(1e-17, 2e-17, None)
    (True, False, True)
    """
    return abs(first - second) <= NOISE * max(abs(first), abs(second), tie_scale(unit))


def format_distinct(
    values: Mapping[str, float | None], unit: str | None = None, digits: int = 3
) -> dict[str, str]:
    """Write two numbers of which one is marked with as many digits as it takes to see why.

    >>> numbers_apart({"parent": 0.05021, "calibrated": 0.05018})
    {'parent': '0.05021', 'calibrated': '0.05018'}
    """
    texts: dict[str, str] = {}
    for more in range(digits, digits + 4):
        texts = {name: format_value(value, unit, more) for name, value in values.items()}
        if len(set(texts.values())) > 1:
            break
    return texts


METHOD_GROUPS = ("preprocess", *COMPONENTS)
PARENT_GROUPS = ("preprocess", "parent")
REPETITION_KEYS = ("fold",)
"""Keys of a data set that repeat a run on other rows of it, as a seed does."""
Repetition = tuple[int, ...]
"""Seed, and fold where there is one."""


@dataclass(frozen=True)
class NamedRun:
    """A run by the names that a table gives it.

    Attributes
    ----------
    found : its record.
    dataset, method, parent : names, with the config keys that tell them from another setting of the
    same name.
    repetition : seed, and fold where there is one.
    is_parent : whether nothing comes after the parent, so that the run has no method of its own.
    """

    found: FinishedRun
    dataset: str
    method: str
    parent: str
    repetition: Repetition
    is_parent: bool

    @property
    def record(self) -> dict[str, Any]:
        """Its record."""
        return self.found.record


@dataclass(frozen=True)
class _Setting:
    """What is to be named: ``name`` where it is enough, its config, who could be mistaken for it
    (``family``) and where (``context``).
    """

    name: str
    family: Hashable
    context: Hashable
    config: Mapping[str, Any]
    always: bool = False

    @property
    def text(self) -> str:
        return json.dumps(self.config, sort_keys=True, default=str)


def name_runs(found: Sequence[FinishedRun]) -> list[NamedRun]:
    """Name all runs, in the same order.

    Two settings of one method on one data set get names apart. What differs between data sets only,
    as a network for images does from one for tables, is one method all the same;
    :func:`dataset_differences` says so.
    """
    records = [one.record for one in found]
    several = _several_contents(records)
    datasets = _names([_dataset(record, several) for record in records])
    methods = _names(
        [_method(record, dataset) for record, dataset in zip(records, datasets, strict=True)]
    )
    parents = _names(
        [_parent(record, dataset) for record, dataset in zip(records, datasets, strict=True)]
    )
    return [
        NamedRun(
            one, dataset, method, parent, _repetition(one.record), not post_hoc_names(one.record)
        )
        for one, dataset, method, parent in zip(found, datasets, methods, parents, strict=True)
    ]


def repetition_text(repetition: Repetition) -> str:
    """``3``, or ``3/0`` of seed 3 and fold 0."""
    return "/".join(map(str, repetition))


def dataset_differences(runs: Sequence[NamedRun]) -> list[str]:
    """A line for each method whose settings are not the same on all data sets."""
    configs: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        part = {group: run.record["config"][group] for group in METHOD_GROUPS}
        configs.setdefault(run.method, {}).setdefault(
            json.dumps(part, sort_keys=True, default=str), part
        )
    return [
        f"{name} differs between data sets in {', '.join(differing_keys(list(of.values())))}"
        for name, of in configs.items()
        if len(of) > 1
    ]


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Dotted keys in which configs of the same groups differ; a group alone (``parent``) where the
    component is another one.

    The keys inside a component are compared among configs that have the same one there.
    """
    keys: list[str] = []
    for group in dict.fromkeys(key for config in configs for key in config):
        of_name: dict[str, list[dict[str, Any]]] = {}
        for config in configs:
            node = config.get(group) or {}
            inner = {
                key: value
                for key, value in flatten_config(node, f"{group}.")
                if key != f"{group}.name"
            }
            of_name.setdefault(str(node.get("name")), []).append(inner)
        keys += [group] if len(of_name) > 1 else []
        for nodes in of_name.values():
            inside = dict.fromkeys(key for node in nodes for key in node)
            keys += [
                key
                for key in inside
                if len({value_text(node.get(key, NO_VALUE)) for node in nodes}) > 1
            ]
    return list(dict.fromkeys(keys))


def _names(settings: Sequence[_Setting]) -> list[str]:
    texts = [setting.text for setting in settings]
    groups: dict[tuple[Hashable, Hashable], dict[str, _Setting]] = {}
    for setting, text in zip(settings, texts, strict=True):
        groups.setdefault((setting.family, setting.context), {}).setdefault(text, setting)
    keys: dict[Hashable, dict[str, None]] = {}
    shared: set[tuple[Hashable, str]] = set()
    for (family, _), of in groups.items():
        if len(of) > 1:
            keys.setdefault(family, {}).update(
                dict.fromkeys(differing_keys([setting.config for setting in of.values()]))
            )
            names = [setting.name for setting in of.values()]
            shared |= {(family, s.name) for s in of.values() if s.always or names.count(s.name) > 1}
    made: dict[tuple[str, Hashable, str], str] = {}
    for setting, text in zip(settings, texts, strict=True):
        if (setting.name, setting.family, text) not in made:
            told = keys.get(setting.family, {}) if (setting.family, setting.name) in shared else {}
            made[setting.name, setting.family, text] = " ".join(
                [setting.name, *_words(setting.config, told)]
            )
    return [
        made[setting.name, setting.family, text]
        for setting, text in zip(settings, texts, strict=True)
    ]


def _words(config: Mapping[str, Any], keys: Mapping[str, None]) -> list[str]:
    values = {key: config_value({"config": config}, key) for key in keys}
    return [
        f"{key.removeprefix('dataset.')}={value_text(value)}"
        for key, value in values.items()
        if value is not NO_VALUE
    ]


def _node(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in record["config"]["dataset"].items()
        if key not in REPETITION_KEYS
    }


def _several_contents(records: Sequence[Mapping[str, Any]]) -> set[str]:
    """Nodes of data sets, as text, whose files had more than one content: their names do not tell
    these apart.
    """
    found: dict[str, set[str]] = {}
    for record in records:
        if content := contents(record):
            found.setdefault(json.dumps(_node(record), sort_keys=True, default=str), set()).add(
                content
            )
    return {node for node, of in found.items() if len(of) > 1}


def _dataset(record: Mapping[str, Any], several: Collection[str]) -> _Setting:
    node, name = _node(record), str(record["dataset"]["name"])
    if several and json.dumps(node, sort_keys=True, default=str) in several:
        node["content"] = contents(record)
    return _Setting(name, name, None, {"dataset": node})


def _method(record: Mapping[str, Any], dataset: str) -> _Setting:
    """A preset's name says its settings, ``<parent>-<calibrator>`` does not; every name says where
    it was fitted on test rows.
    """
    family = (record["protocol"], *(str(record[part]) for part in COMPONENTS))
    composed = record["method"] == method_label(record["config"], None, {})
    also = ("ood",) if uses_paper_protocol(record) else ()  # which may have been fitted by them
    config = {group: record["config"][group] for group in (*METHOD_GROUPS, *also)} | _of_outliers(
        record
    )
    return _Setting(str(record["method"]), family, dataset, config, always=composed)


def _parent(record: Mapping[str, Any], dataset: str) -> _Setting:
    config = {group: record["config"][group] for group in PARENT_GROUPS} | _of_outliers(record)
    return _Setting(str(record["parent"]), record["parent"], dataset, config)


def _of_outliers(record: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the files whose rows a network trains with as outliers, as a group of its
    own.
    """
    content = contents(record, "outliers.")
    return {"outliers": {"content": content}} if content else {}


def _repetition(record: Mapping[str, Any]) -> Repetition:
    fold = record["config"]["dataset"].get("fold")
    return (record["seed"],) if fold is None else (record["seed"], fold)
