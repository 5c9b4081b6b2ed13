"""Names of settings and text of numbers, as tables print them.

Only runs that repeat one setting may be averaged, so settings that differ get different names: of
two settings with one name, each gets the keys of the config in which they differ.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kdgraph.config import method_label
from kdgraph.results.origins import content_digests
from kdgraph.results.records import (
    MODEL_COMPONENTS,
    NO_VALUE,
    FinishedRun,
    calibration_mode,
    component_name,
    config_value,
    flatten_config,
    holds_rows_out,
    method_name,
    post_hoc_names,
    uses_paper_protocol,
    value_text,
)
from kdgraph.wording import significant, with_spread

MISSING = "–"
"""Cell without a number."""
MARK = " ◂"
"""Mark behind the best number on a terminal; in files the cell is bold instead."""
NOISE = 1e-9
"""Relative difference up to which two numbers are the same.

It is far above what floating point and the order of a sum leave open, and far below what a metric
can show. It is relative so that a target in other units has the same ties.
"""
DIMENSIONLESS_UNITS = (None, "nats", "rows")
"""Units of metrics whose numbers do not change with the unit of the target."""
METHOD_GROUPS = ("preprocess", *MODEL_COMPONENTS)
PARENT_GROUPS = ("preprocess", "parent")
ON_ALL_ROWS = "on all rows"
"""Distinguishes parents that were fitted on all rows from those whose calibration rows were not."""
REPETITION_KEYS = ("fold",)
"""Keys of a data set that repeat a run on other rows of it, as a seed does."""
Repetition = tuple[int, ...]
"""Seed, and the fold if there is one."""
# Key of a parent's setting that no config has.
_ROWS = "rows"


@dataclass(frozen=True)
class NamedRun:
    """A run with the names that tables give it, which distinguish settings of the same name."""

    finished: FinishedRun
    dataset: str
    method: str
    parent: str
    repetition: Repetition
    is_parent: bool  # nothing was fitted after the parent; the run has no method of its own

    @property
    def record(self) -> dict[str, Any]:
        """Record of the run."""
        return self.finished.record


def tie_scale(unit: str | None) -> float:
    """Return 1 for numbers without a dimension and 0 for others.

    In a unit, such as that of y, any number may be small.
    """
    return 1.0 if unit in DIMENSIONLESS_UNITS else 0.0


def drop_noise(value: float, unit: str | None) -> float:
    """Return 0 for what floating point leaves of a difference of fractions, else the number.

    >>> drop_noise(1e-17, None), drop_noise(1e-17, "units of y")
    (0.0, 1e-17)
    """
    return 0.0 if abs(value) <= NOISE * tie_scale(unit) else value


def is_tie(first: float, second: float, unit: str | None) -> bool:
    """Return True if two values of a metric differ by floating-point noise alone.

    >>> is_tie(0.1 + 0.2, 0.3, None), is_tie(1e-7, 2e-7, "units of y"), is_tie(1e-17, 2e-17, None)
    (True, False, True)
    """
    return abs(first - second) <= NOISE * max(abs(first), abs(second), tie_scale(unit))


def format_value(value: float | None, unit: str | None = None, digits: int = 3) -> str:
    """Return a value of a metric as text, or a dash for None.

    Counts of rows have no decimals, and one if they are a mean.

    >>> format_value(0.05), format_value(None), format_value(-1.0), format_value(294_123.4)
    ('0.050', '–', '-1.000', '294,123')
    >>> format_value(31.0, "rows"), format_value(31.25, "rows"), format_value(1e-17)
    ('31', '31.2', '0.000')
    >>> format_value(1.2345e-7, "units of y")
    '1.23e-07'
    """
    if value is None:
        return MISSING
    if unit == "rows":
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return significant(drop_noise(value, unit), digits)


def format_mean(value: float, deviation: float, unit: str | None = None, digits: int = 3) -> str:
    """Return a mean with its standard deviation as text.

    >>> format_mean(0.318, 0.0123), format_mean(31.25, 2.5, "rows"), format_mean(0.3, 1e-17)
    ('0.318 ± 0.012', '31.2 ± 2.5', '0.300 ± 0.000')
    """
    if unit == "rows":
        return f"{format_value(value, unit)} ± {format_value(deviation, unit)}"
    spread = 0.0 if deviation <= NOISE * abs(value) else drop_noise(deviation, unit)
    return with_spread(drop_noise(value, unit), spread, digits)


def format_distinct(
    values: Mapping[str, float | None], unit: str | None = None, digits: int = 3
) -> dict[str, str]:
    """Return numbers as text with as many digits as it takes to see that they differ.

    >>> format_distinct({"parent": 0.05021, "calibrated": 0.05018})
    {'parent': '0.05021', 'calibrated': '0.05018'}
    """
    texts: dict[str, str] = {}
    for more in range(digits, digits + 4):
        texts = {name: format_value(value, unit, more) for name, value in values.items()}
        if len(set(texts.values())) > 1:
            break
    return texts


def number_range(numbers: Sequence[int]) -> str:
    """Return increasing whole numbers as text, three or more consecutive ones by their ends.

    >>> number_range([0, 1, 2]), number_range([0, 1]), number_range([0, 2, 3])
    ('0–2', '0, 1', '0, 2, 3')
    """
    is_consecutive = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"{numbers[0]}–{numbers[-1]}" if is_consecutive else ", ".join(map(str, numbers))


def repetition_text(repetition: Repetition) -> str:
    """Return ``3``, or ``3/0`` for seed 3 and fold 0."""
    return "/".join(map(str, repetition))


def name_runs(runs: Sequence[FinishedRun]) -> list[NamedRun]:
    """Name runs, in their order, so that settings that differ have different names.

    Two settings of one method on one data set get different names. What differs between data sets
    only, as a network for images does from one for tables, is one method;
    :func:`dataset_differences` lists such differences.
    """
    records = [run.record for run in runs]
    ambiguous = _nodes_of_several_contents(records)
    datasets = _distinct_names([_dataset_setting(record, ambiguous) for record in records])
    methods, parents = (
        _distinct_names([setting(*pair) for pair in zip(records, datasets, strict=True)])
        for setting in (_method_setting, _parent_setting)
    )
    return [
        NamedRun(
            run, dataset, method, parent, _repetition(run.record), not post_hoc_names(run.record)
        )
        for run, dataset, method, parent in zip(runs, datasets, methods, parents, strict=True)
    ]


def dataset_differences(runs: Sequence[NamedRun]) -> list[str]:
    """Return a line for each method whose settings are not the same on all data sets."""
    configs: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        groups = _nodes_of(run.record, METHOD_GROUPS)
        configs.setdefault(run.method, {}).setdefault(_as_json(groups), groups)
    return [
        f"{name} differs between data sets in {', '.join(differing_keys(list(settings.values())))}"
        for name, settings in configs.items()
        if len(settings) > 1
    ]


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the dotted keys in which configs of the same groups differ.

    Where the component of a group is not the same, the group (``parent``) is listed; keys inside a
    component are compared among the configs that have the component.
    """
    keys: list[str] = []
    for group in dict.fromkeys(key for config in configs for key in config):
        nodes_by_name: dict[str, list[dict[str, Any]]] = {}
        for config in configs:
            node = config.get(group) or {}
            values = dict(flatten_config(node, f"{group}."))
            values.pop(f"{group}.name", None)
            nodes_by_name.setdefault(str(node.get("name")), []).append(values)
        keys += [group] if len(nodes_by_name) > 1 else []
        for nodes in nodes_by_name.values():
            for key in dict.fromkeys(key for node in nodes for key in node):
                if len({value_text(node.get(key, NO_VALUE)) for node in nodes}) > 1:
                    keys.append(key)
    return list(dict.fromkeys(keys))


@dataclass(frozen=True)
class _Setting:
    """A setting that needs a name."""

    name: str  # used alone if it is enough
    family: Hashable  # same for settings that could be taken for each other
    context: Hashable  # data set within which they must be distinguished
    config: Mapping[str, Any]  # groups that make the setting
    always: bool = False  # the differing keys belong to the name even where names differ
    named: Collection[str] = ()  # keys that the name contains already


def _distinct_names(settings: Sequence[_Setting]) -> list[str]:
    """Return names, with the differing keys of their family where one name has two settings.

    The keys are of all contexts of a family, so that a method has the same name on every data set.
    """
    # Settings of many runs consist of the same nodes, of which each combination is written once.
    written: dict[tuple[tuple[str, int], ...], str] = {}
    texts = []
    for setting in settings:
        nodes = tuple((group, id(node)) for group, node in setting.config.items())
        if nodes not in written:
            written[nodes] = _as_json(setting.config)
        texts.append(written[nodes])
    contexts: dict[tuple[Hashable, Hashable], dict[str, _Setting]] = {}
    for setting, text in zip(settings, texts, strict=True):
        contexts.setdefault((setting.family, setting.context), {}).setdefault(text, setting)
    keys: dict[Hashable, dict[str, None]] = {}
    ambiguous: set[tuple[Hashable, str]] = set()
    for (family, _), by_text in contexts.items():
        if len(by_text) == 1:
            continue
        differing = differing_keys([setting.config for setting in by_text.values()])
        keys.setdefault(family, {}).update(dict.fromkeys(differing))
        names = [setting.name for setting in by_text.values()]
        ambiguous |= {
            (family, setting.name)
            for setting in by_text.values()
            if setting.always or names.count(setting.name) > 1
        }
    full_names: dict[tuple[str, Hashable, str], str] = {}
    for setting, text in zip(settings, texts, strict=True):
        key = setting.name, setting.family, text
        if key not in full_names:
            is_ambiguous = (setting.family, setting.name) in ambiguous
            named_keys = [
                key
                for key in (keys.get(setting.family, {}) if is_ambiguous else ())
                if key not in setting.named
            ]
            full_names[key] = " ".join([setting.name, *_key_values(setting.config, named_keys)])
    return [
        full_names[setting.name, setting.family, text]
        for setting, text in zip(settings, texts, strict=True)
    ]


def _key_values(config: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    values = {key: config_value({"config": config}, key) for key in keys}
    return [
        value if key == f"parent.{_ROWS}" else f"{key.removeprefix('dataset.')}={value_text(value)}"
        for key, value in values.items()
        if value is not NO_VALUE
    ]


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _dataset_node(record: Mapping[str, Any]) -> dict[str, Any]:
    node = record["config"]["dataset"]
    return {key: value for key, value in node.items() if key not in REPETITION_KEYS}


def _nodes_of_several_contents(records: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return nodes of data sets, as text, whose files had more than one content."""
    contents: dict[str, set[str]] = {}
    for record in records:
        if content := content_digests(record):
            contents.setdefault(_as_json(_dataset_node(record)), set()).add(content)
    return {node for node, of_node in contents.items() if len(of_node) > 1}


def _dataset_setting(record: Mapping[str, Any], ambiguous: Collection[str]) -> _Setting:
    node, name = _dataset_node(record), str(record["dataset"]["name"])
    if ambiguous and _as_json(node) in ambiguous:
        node["content"] = content_digests(record)
    return _Setting(name, name, None, {"dataset": node})


def _nodes_of(record: Mapping[str, Any], groups: Sequence[str]) -> dict[str, Any]:
    return {group: record["config"][group] for group in groups if group in record["config"]}


def _method_setting(record: Mapping[str, Any], dataset: str) -> _Setting:
    """Return the setting of a method.

    The name of a preset with changed options stands for its settings; ``<parent>-<calibrator>``
    does not. With the paper protocol, the choice of OOD rows, to which a method may be fitted,
    belongs to it.
    """
    family = (record["protocol"], *(component_name(record, part) for part in MODEL_COMPONENTS))
    is_composed = record["method"] == method_label(record["config"], None, {})
    groups = (*METHOD_GROUPS, *(("ood",) if uses_paper_protocol(record) else ()))
    config = _nodes_of(record, groups) | _outlier_group(record)
    if calibration_mode(record) == "cross_fit":
        config["calibration"] = {"cv": record["config"].get("cv")}
    return _Setting(
        method_name(record),
        family,
        dataset,
        config,
        always=is_composed,
        named=record.get("method_options") or (),
    )


def _parent_setting(record: Mapping[str, Any], dataset: str) -> _Setting:
    config = {group: record["config"][group] for group in PARENT_GROUPS} | _outlier_group(record)
    if not holds_rows_out(record):
        config["parent"] = {**config["parent"], _ROWS: ON_ALL_ROWS}
    return _Setting(str(record["parent"]), record["parent"], dataset, config)


def _outlier_group(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the files of training outliers, as a group."""
    content = content_digests(record, "outliers.")
    return {"outliers": {"content": content}} if content else {}


def _repetition(record: Mapping[str, Any]) -> Repetition:
    fold = record["config"]["dataset"].get("fold")
    return (record["seed"],) if fold is None else (record["seed"], fold)
