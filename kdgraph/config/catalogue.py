"""Catalogue of the config groups: options, their summaries, their tasks, their keys.

Everything is read from the YAML files. Nothing is composed, and no component is imported, so that
a listing of hundreds of options, or a completion in a shell, takes tenths of a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from kdgraph.config.yaml_files import (
    bases_of,
    defaults_of,
    is_option,
    load_yaml,
    option_files,
    read_text,
)
from kdgraph.errors import ConfigError

GROUPS = {
    "dataset": "the data: simulations, tables, images, text, your own files",
    "method": "parent, calibrator, gate, detector, recalibrator in one word",
    "parent": "the model that is trained first",
    "network": "the parent of methods that need a network",
    "preprocess": "encoding and scaling of columns in front of the parent",
    "calibrator": "scores → probabilities or confidences",
    "gate": "away from the training data, blend to the class prior",
    "detector": "a score of how far out of distribution a row is",
    "recalibrator": "repair of a regressor's predictive distributions",
    "conformal": "sets of classes with a guaranteed coverage",
    "ood": "what counts as out of distribution in the evaluation",
    "metrics": "what is measured, and on which rows",
    "figures": "what is drawn",
    "experiment": "sweeps: benchmarks and the tables of the papers",
}
"""Group → purpose, in the order in which a user chooses."""
TASKS = (
    "class probabilities",
    "top-label confidence",
    "local calibration",
    "groups of rows",
    "trained with outliers",
    "OOD scores",
    "regression",
)
"""Tasks of methods, in the order of a listing."""

KINDS = {
    "kdgraph.data.simulations.": "simulations, whose truth is known",
    "kdgraph.data.tables.": "tables of scikit-learn",
    "kdgraph.data.openml.": "tables of openml.org",
    "kdgraph.data.images.": "images of openml.org",
    "": "files of your own",
}
"""Beginning of a class's import path → kind of the data set, in the order of a listing."""
REPAIRED = ("any model", "groups of rows", "trees", "a network")
"""Uses of a method that ``kdg check`` compares."""
_REPAIR = re.compile(r"^# place in kdg check: (\d+), for (.*)$", re.MULTILINE)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_FILE_CLASSES = ("ArrayFile", "ImageFiles", "ScoreFile", "TableFile", "TextFile")


@dataclass(frozen=True)
class Component:
    """An option of a config group.

    Attributes
    ----------
    target : str
        Import path of its class; empty if it has none.
    node : mapping
        Its values, with those of the files that it builds on.
    """

    target: str
    node: Mapping[str, Any]

    @cached_property
    def keys(self) -> dict[str, str]:
        """Its keys with their values as YAML; those of nodes inside it with a dot."""
        keys = flat(self.node)
        return {key: keys[key] for key in keys if key not in ("name", "_target_")}


class Catalogue:
    """Options of the config groups in some folders.

    Of two files of the same name in the folders the first counts, as in Hydra. ``groups`` maps
    groups to options to files, sorted by name; files that others only build on (``_table``) are
    left out.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    @cached_property
    def groups(self) -> dict[str, dict[str, Path]]:
        """Group → option → file; Hydra's own groups, such as its launchers, have another form."""
        groups: dict[str, dict[str, Path]] = {}
        for folder in self.folders:
            for path in option_files(folder):
                group, *option = path.relative_to(folder).with_suffix("").parts
                if option and group != "hydra" and not path.stem.startswith("_"):
                    groups.setdefault(group, {}).setdefault("/".join(option), path)
        order = {group: k for k, group in enumerate(GROUPS)}
        names = sorted(groups, key=lambda group: (order.get(group, len(order)), group))
        return {group: dict(sorted(groups[group].items())) for group in names}

    @cached_property
    def defaults(self) -> dict[str, str]:
        """Group → option that is chosen without any override."""
        path = self.folders[0] / "config.yaml"
        entries = defaults_of(path) if path.is_file() else ()
        return {
            str(group): str(option)
            for entry in entries
            if isinstance(entry, dict)
            for group, option in entry.items()
            if group in self.groups and option is not None
        }

    def file(self, path: str) -> Path | None:
        """Return the file of ``group/option``, private ones (``parent/_acet``) too."""
        candidates = (folder / f"{path}.yaml" for folder in self.folders)
        return next(filter(is_option, candidates), None)

    def task(self, group: str, option: str) -> str:
        """Return the task of a method or a calibrator, one of :data:`TASKS`.

        The task follows from the components that the preset chooses: from the class of its
        calibrator, and from what else is fitted after the parent.
        """
        chosen = {group: option} if group != "method" else self.method_choices(option)
        if "_regression" in chosen or chosen.get("recalibrator", "none") != "none":
            return "regression"
        components = {name: self.component(name, choice) for name, choice in chosen.items()}
        keys = [key for component in components.values() for key in component.keys]
        if any(key.endswith("exposure._target_") for key in keys):
            return "trained with outliers"
        if chosen.get("detector", "none") != "none":
            return "OOD scores"
        calibrator = components.get("calibrator", Component("", {}))
        if calibrator.target.endswith(".GroupWise") or calibrator.keys.get("kernel") == "group":
            return "groups of rows"
        if ".top_label." in calibrator.target:
            return "top-label confidence"
        if ".local." in calibrator.target:
            return "local calibration"
        return "class probabilities"

    def kind(self, dataset: str) -> str:
        """Return the kind of a data set, one of the values of :data:`KINDS`."""
        target = self.component("dataset", dataset).target
        if target.endswith(_FILE_CLASSES):
            return KINDS[""]
        return next(kind for beginning, kind in KINDS.items() if target.startswith(beginning))

    def method_choices(self, preset: str) -> dict[str, str]:
        """Return the options that a method chooses, by group; empty for an unknown one."""
        path = self.file(f"method/{preset}")
        chosen: dict[str, str] = {}
        for entry in defaults_of(path) if path else ():
            if isinstance(entry, dict):
                for key, option in entry.items():
                    group = str(key).removeprefix("override ").lstrip("/")
                    # Methods that need a network differ in nothing that the task depends on.
                    chosen[group] = str(option).replace("${network}", "mlp")
            else:
                chosen[str(entry)] = ""
        return chosen

    def repairs(self) -> dict[str, str]:
        """Return the methods that ``kdg check`` compares, in their order, and what each is for.

        A line in the file of the method has both: ``# place in kdg check: 8, for trees``. Another
        word than one of :data:`REPAIRED` raises ConfigError.
        """
        places: list[tuple[int, str, str]] = []
        for method, path in self.groups.get("method", {}).items():
            if match := _REPAIR.search(read_text(path)):
                if match[2] not in REPAIRED:
                    raise ConfigError(
                        f"{path}: a method in kdg check is for one of {', '.join(REPAIRED)}, got"
                        f" '{match[2]}'"
                    )
                places.append((int(match[1]), method, match[2]))
        return {method: use for _, method, use in sorted(places)}

    def component(self, group: str, option: str) -> Component:
        """Return an option's class and keys; empty where there is no such option."""
        path = self.file(f"{group}/{option}")
        return read_component(path, self.folders) if path else Component("", {})

    def summaries(self, choices: Mapping[str, str]) -> dict[str, str]:
        """Return the summary of the chosen option of each group, where it has one."""
        files = {group: self.file(f"{group}/{option}") for group, option in choices.items()}
        summaries = {group: first_comment(path) for group, path in files.items() if path}
        return {group: text for group, text in summaries.items() if text}

    def openml_ids(self) -> dict[str, int]:
        """Return the number of OpenML by option of the group ``dataset``, where it has one.

        It is an ``id`` of the file, or of the file that it builds on.
        """
        files = {
            path.relative_to(folder).with_suffix("").as_posix(): path
            for folder in self.folders
            for path in option_files(folder / "dataset")
        }
        ids = {
            name.removeprefix("dataset/"): _openml_id(path, files)
            for name, path in sorted(files.items())
        }
        return {name: number for name, number in ids.items() if number is not None}


def first_comment(path: Path) -> str:
    """Return the first comment that is no directive to Hydra; empty if there is none."""
    for line in read_text(path).splitlines():
        if line.startswith("#") and "@package" not in line:
            return line.lstrip("# ").strip()
    return ""


def read_component(path: Path, folders: Sequence[Path]) -> Component:
    """Read the file of an option, with the files that it builds on.

    Parameters
    ----------
    path : Path
        File of an option.
    folders : sequence of Path
        Folders of config groups, for bases such as ``/parent/mlp``.
    """
    node = _node(path, folders)
    targets = (value for key, value in flat(node).items() if key.endswith("_target_"))
    target = node["_target_"] if "_target_" in node else next(targets, "")
    return Component(target or "", node)


def _node(path: Path, folders: Sequence[Path]) -> dict[str, Any]:
    node: dict[str, Any] = {}
    for base_path, package in bases_of(path, folders):
        base = _node(base_path, folders)
        for key in reversed(package.split(".")[:-1]):
            base = {key: base}
        node = _merged(node, base)
    return _merged(node, keys_of(path))


def _merged(node: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping merged into another, as Hydra does; any other value replaces one."""
    merged = dict(node)
    for key, value in other.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = _merged(old, value)
        merged[key] = value
    return merged


def keys_of(path: Path) -> dict[str, Any]:
    """Return the keys of the file of an option, without its defaults list."""
    return {key: value for key, value in load_yaml(path).items() if key != "defaults"}


def flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the values of a nested mapping as YAML in one line, by dotted key."""
    values: dict[str, str] = {}
    for key, value in node.items():
        values |= (
            flat(value, f"{prefix}{key}.")
            if isinstance(value, Mapping) and value
            else {f"{prefix}{key}": as_yaml(value)}
        )
    return values


def as_yaml(value: Any) -> str:
    """Return a value as YAML in one line, lists and mappings in brackets."""
    text = yaml.dump(
        [value], Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=1_000_000,
        sort_keys=False,
    )  # fmt: skip
    return text.strip()[1:-1]


def _openml_id(path: Path, files: Mapping[str, Path]) -> int | None:
    number = load_yaml(path).get("id")
    if isinstance(number, int):
        return number
    for entry in defaults_of(path):
        base = str(entry).partition("@")[0]
        file = files.get(base.lstrip("/") if base.startswith("/") else f"dataset/{base}")
        if file and file != path and (number := _openml_id(file, files)) is not None:
            return number
    return None
