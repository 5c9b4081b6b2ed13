"""The command that does a run again: the fewest overrides found that compose to the config in its
record.

A record has the resolved config, not the words that led to it. They are found in two parts, which
many runs share: those of the data set, and those of everything else. Every second part is composed
by Hydra behind a first one and compared with the record before it is believed, and so is every
first part but those of data sets whose YAML files need nothing but merging.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.config import AFTER, METHOD_ENDS, run_id
from kdgraph.config.composer import Composer
from kdgraph.errors import ConfigError
from kdgraph.quoting import as_value
from kdgraph.report.page.overrides import differences, same
from kdgraph.report.page.yaml_nodes import chosen_by, options_like, read_node
from kdgraph.results.records import COMPONENTS

ALONE = ("ood", "preprocess", "metrics", "figures")
"""Groups whose options are chosen one by one; ``method`` chooses those of :data:`PARTS` together,
and names the directory of the run.
"""
NOT_FOUND = (
    "no overrides were found that compose to this config with the YAML files of this version"
)
Words = tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """How to do a run again.

    Attributes
    ----------
    words : what comes after ``kdg run``, but the seed, in which the runs of a setting differ; empty
    if nothing was found.
    note : what a reader must know before relying on it; "" if nothing.
    """

    words: Words
    note: str = ""


@dataclass(frozen=True)
class _Composed:
    """Nodes of a config as JSON would have them, and the label that names the directory."""

    nodes: Mapping[str, Any]
    label: str


@dataclass(frozen=True)
class _Part:
    """Words, and what the config is after them (of a data set that chooses nothing for other
    groups: after those of any such).
    """

    words: Words
    then: _Composed


class Commands:
    """Finds commands; what one run taught serves the next.

    Parameters
    ----------
    config_dir : the user's own config groups, which the command then names.
    """

    def __init__(self, config_dir: str | Path | None = None) -> None:
        self.composer = Composer(config_dir)
        self.prefix: Words = () if config_dir is None else ("--config-dir", str(config_dir))
        groups = ("dataset", "network", "method", *COMPONENTS, *ALONE)
        self.options = {group: self.composer.options(group) for group in groups}
        self.composed: dict[Words, _Composed | None] = {}
        self.data: dict[str, _Part | None] = {}
        self.rest: dict[str, _Part | None] = {}
        self.after_any: _Composed | None = None

    def of(self, record: Mapping[str, Any]) -> Command:
        """The command for one record."""
        config, label = record["config"], str(record["method"])
        dataset = _key(config["dataset"])
        if dataset not in self.data:
            self.data[dataset] = self._dataset_part(config["dataset"])
        if first := self.data[dataset]:
            if config["protocol"] != first.then.nodes["protocol"]:
                first = _Part((*first.words, f"protocol={config['protocol']}"), first.then)
            for wanted in (label, None):
                if rest := self._rest(first, config, wanted):
                    return Command(
                        (*self.prefix, *first.words, *rest.words), _note(record, rest.then.label)
                    )
        return Command((), NOT_FOUND)

    def _dataset_part(self, node: Mapping[str, Any]) -> _Part | None:
        options = self._options("dataset", node)
        for option in options:
            there = read_node(tuple(self.composer.folders), f"dataset/{option}")
            if there and there.alone and len(options) == 1:
                words = (f"dataset={option}", *differences(there.values, node, "dataset."))
                self.after_any = self.after_any or self._compose(words)
                if self.after_any:
                    return _Part(words, self.after_any)
        return self._fewest(((f"dataset={option}",) for option in options), {"dataset": node}, None)

    def _rest(self, first: _Part, config: Mapping[str, Any], label: str | None) -> _Part | None:
        """The words behind those of the data set; they lead to ``label``, unless it is None."""
        nodes = {name: config[name] for name in (*COMPONENTS, *ALONE, "protocol")}
        # where it starts from: what the data set chooses for other groups (images: a network)
        key = _key(
            [nodes, label, {name: first.then.nodes[name] for name in nodes}, first.then.label]
        )
        if key not in self.rest:
            self.rest[key] = self._find_rest(first, nodes, label)
        return self.rest[key]

    def _find_rest(self, first: _Part, nodes: Mapping[str, Any], label: str | None) -> _Part | None:
        methods = self._fewest(
            self._methods(first, nodes, label),
            {name: nodes[name] for name in COMPONENTS},
            label,
            first.words,
        )
        parts = [methods]
        for group in ALONE if methods else ():
            choices = (
                ()
                if same(first.then.nodes[group], nodes[group])
                else self._choices(group, nodes[group])
            )
            parts.append(self._fewest((*choices, ()), {group: nodes[group]}, None, first.words))
        if None in parts:
            return None
        words = tuple(word for part in parts if part for word in part.words)
        whole = self._compose((*first.words, *words))
        return _Part(words, whole) if whole and _leads_to(whole, nodes, label) else None

    def _fewest(
        self,
        candidates: Iterable[Words],
        want: Mapping[str, Any],
        label: str | None,
        after: Words = (),
    ) -> _Part | None:
        """The shortest of the candidates behind ``after``, completed by single values; of equally
        short ones the first.

        Parameters
        ----------
        candidates : of the words that choose options.
        want : nodes of some groups.
        label : that the words have to lead to, or None.
        after : words that stand before them, and that are no part of the result.
        """
        best: _Part | None = None
        for words in candidates:
            if best and len(words) >= len(best.words):
                continue
            whole = (
                (*after, *words) if self._preset(label) else self._completed((*after, *words), want)
            )
            composed = whole and self._compose(whole)
            if whole and isinstance(composed, _Composed) and _leads_to(composed, want, label):
                found = whole[len(after) :]
                best = best if best and len(best.words) <= len(found) else _Part(found, composed)
        return best

    def _completed(self, words: Words, want: Mapping[str, Any]) -> Words | None:
        """``words`` and what is still missing; a name that follows from another value (a table's
        from its path) is left to follow.
        """
        composed = self._compose(words)
        if composed is None:
            return None
        missing = tuple(
            value
            for name in want
            for value in differences(composed.nodes[name], want[name], f"{name}.")
        )
        fewer = tuple(value for value in missing if not re.match(r"\w+\.name=", value))
        without = self._compose((*words, *fewer)) if fewer != missing else None
        return (
            (*words, *fewer) if without and _leads_to(without, want, None) else (*words, *missing)
        )

    def _preset(self, label: str | None) -> str | None:
        """The preset of this label, if it is one's."""
        name = (label or "").removesuffix(METHOD_ENDS["paper"])
        return name if name in self.options["method"] else None

    def _methods(
        self, first: _Part, nodes: Mapping[str, Any], label: str | None
    ) -> Iterator[Words]:
        """A preset leads to its own name only if its nodes are untouched; other labels come from
        the parts.
        """
        if preset := self._preset(label):
            yield (f"method={preset}",)
            yield from (
                (f"network={name}", f"method={preset}") for name in self._networks(nodes["parent"])
            )
            return
        yield from self._presets(nodes)
        there = {group for group in COMPONENTS if same(first.then.nodes[group], nodes[group])}
        parts = (
            [(), *(() if group in there else self._choices(group, nodes[group]))]
            for group in COMPONENTS
        )
        yield from (
            words
            for choice in itertools.product(*parts)
            if (words := tuple(word for part in choice for word in part))
        )

    def _choices(self, group: str, node: Mapping[str, Any]) -> Iterator[Words]:
        """Options of a group that may lead to the node, with and without its name: ``ood=dataset``
        needs ``ood.name``.

        Where a file needs no more than merging the values that it lacks stand behind it, and the
        option that lacks the fewest comes first, so that Hydra composes it and no other.
        """
        whole: list[Words] = []
        others: list[Words] = []
        for option in self._options(group, node):
            there = read_node(tuple(self.composer.folders), f"{group}/{option}")
            if there and there.alone:
                whole.append((f"{group}={option}", *differences(there.values, node, f"{group}.")))
                continue
            others.append((f"{group}={option}",))
            if "name" in node and node["name"] != option:
                others.append((f"{group}={option}", f"{group}.name={as_value(node['name'])}"))
        yield from sorted(whole, key=len)
        yield from others

    def _options(self, group: str, node: Mapping[str, Any]) -> list[str]:
        return options_like(self.composer.folders, group, self.options[group], dict(node))

    def _presets(self, nodes: Mapping[str, Any]) -> Iterator[Words]:
        """Presets that choose the same parts, whose values may be others."""
        like = {group: self._options(group, nodes[group]) for group in COMPONENTS}
        networks = self._networks(nodes["parent"])
        for preset in self.options["method"]:
            chosen = {
                **dict.fromkeys(AFTER, "none"),
                **chosen_by(self.composer.folders, f"method/{preset}"),
            }
            if any(chosen[group] not in like[group] for group in AFTER):
                continue
            if chosen.get("parent") == "${network}":
                yield from ((f"network={name}", f"method={preset}") for name in networks)
            elif chosen.get("parent") in like["parent"]:
                yield (f"method={preset}",)

    def _networks(self, parent: Mapping[str, Any]) -> list[str]:
        """Networks like the parent, one that is the same first."""
        likely = [
            name for name in self._options("parent", parent) if name in self.options["network"]
        ]
        nodes = {name: read_node(tuple(self.composer.folders), f"parent/{name}") for name in likely}
        return sorted(
            likely, key=lambda name: not same((node := nodes[name]) and node.values, parent)
        )

    def _compose(self, words: Words) -> _Composed | None:
        """What the words compose to; None where they do not compose."""
        if words not in self.composed:
            try:
                with self.composer.errors_in_one_line():
                    config = self.composer.run_config(words, of_many=True)
                self.composed[words] = _Composed(
                    json.loads(json.dumps(config.science(), default=str)), config.method
                )
            except ConfigError:
                self.composed[words] = None
        return self.composed[words]


def _leads_to(composed: _Composed, want: Mapping[str, Any], label: str | None) -> bool:
    return label in (None, composed.label) and all(
        same(composed.nodes[name], want[name]) for name in want
    )


def _note(record: Mapping[str, Any], label: str) -> str:
    """What differs from the record all the same."""
    if run_id(record["config"]) != record["run_id"]:
        return (
            "a file that it reads is not here or has changed, or kdgraph has changed: the run gets"
            " another id"
        )
    if label != record["method"]:
        return (
            f"{record['method']} has other settings in this version: the run goes to the folder"
            f" {label}, and its numbers may differ"
        )
    return ""


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
