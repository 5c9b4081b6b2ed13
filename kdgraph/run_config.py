"""One run as data: its resolved config, its id and its directory."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from kdgraph.components import build, check_component, check_options, is_node, options_of, target_of
from kdgraph.errors import ConfigError, ParameterError
from kdgraph.messages import unknown_key
from kdgraph.parameters import Range, annotations_of, check_value

RECORD_SCHEMA = 5
"""Version of ``result.json``; part of the run id, so that a change of its meaning makes every run a new one."""

AFTER = ("calibrator", "gate", "detector", "recalibrator")
"""What is fitted after the parent, in this order; a method is a parent with these."""
COMPONENTS = ("dataset", "ood", "preprocess", "parent", *AFTER)
Protocol = Literal["held_out", "paper"]
"""held_out: nothing that is fitted sees a test row. paper: methods whose paper fits them on test rows do as it does."""
METHOD_ENDS = {"paper": "-as_in_paper"}
"""What the label of a method ends in, by protocol, so that every table says it."""
SCIENCE = (*COMPONENTS, "metrics", "figures", "protocol", "seed")
PLAIN = {
    "protocol": Protocol,
    "seed": Annotated[int, Range(0)],
    "n_jobs": int,
    "force": bool,
    "fail_fast": bool,
    "save": bool,
    "out": str,
}


@dataclass(frozen=True)
class RunConfig:
    """One run, resolved. Components, metrics, figures and ``seed`` are the science; the rest says how and where to run it.

    Attributes
    ----------
    dataset, ood, preprocess, parent, calibrator, gate, detector, recalibrator : component nodes (``name``, ``_target_``, parameters).
    metrics, figures : what to measure and what to draw.
    method : label of the parent and of what is fitted after it; see :func:`method_label`.
    protocol : which rows methods are fitted on; see :data:`Protocol`.
    n_jobs : cores for the kernels; never changes a number.
    force : run again what is done.
    fail_fast : of a sweep, start no run once one has failed.
    save : keep the models in the run's directory.
    out : where runs and the store are.
    """

    dataset: Mapping[str, Any]
    ood: Mapping[str, Any]
    preprocess: Mapping[str, Any]
    parent: Mapping[str, Any]
    calibrator: Mapping[str, Any]
    gate: Mapping[str, Any]
    detector: Mapping[str, Any]
    recalibrator: Mapping[str, Any]
    metrics: Mapping[str, Any]
    figures: Mapping[str, Any]
    protocol: Protocol = "held_out"
    seed: int = 0
    n_jobs: int = -1
    force: bool = False
    fail_fast: bool = False
    save: bool = True
    out: str = "outputs"
    method: str = ""

    def __post_init__(self) -> None:
        for key, annotation in PLAIN.items():
            check_value(key, getattr(self, key), annotation)
        if self.n_jobs == 0:
            raise ParameterError("n_jobs must be a number of cores, or -1 for all of them, got 0")

    @property
    def after(self) -> dict[str, Mapping[str, Any]]:
        """Group → node of what is fitted after the parent."""
        return {group: getattr(self, group) for group in AFTER}

    @cached_property
    def measures(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Rows ("test", "ood", "grid") → metric → its options."""
        return {on: {name: options_of(node) for name, node in (wanted or {}).items()} for on, wanted in self.metrics.items()}

    @cached_property
    def drawn(self) -> dict[str, dict[str, Any]]:
        """Figure → its options."""
        return {name: options_of(node) for name, node in self.figures["draw"].items()}

    def science(self) -> dict[str, Any]:
        """The part of the config that decides the numbers and the pictures."""
        return {name: getattr(self, name) for name in SCIENCE}

    @property
    def run_id(self) -> str:
        """8 hex digits: a hash of :meth:`science`."""
        return run_id(self.science())

    @property
    def run_dir(self) -> Path:
        """``<out>/<dataset>/<method>/<run_id>``."""
        return Path(self.out) / str(self.dataset["name"]) / self.method / self.run_id


def run_id(science: Mapping[str, Any]) -> str:
    """8 hex digits: a hash of the science part of a resolved config, of the files that it names, and of the record's schema."""
    part = {name: science[name] for name in SCIENCE}
    text = json.dumps({**part, "schema": RECORD_SCHEMA, **file_digests(part)}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def file_digests(science: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each of :func:`named_files`: other content is another run. A file that is not there has none."""
    digests = {key: digest_of(path) for key, path in named_files(science).items()}
    return {key: digest for key, digest in digests.items() if digest is not None}


def named_files(science: Mapping[str, Any]) -> dict[str, Path]:
    """The files that rows are read from (``path``, ``indices``), of the data set and of the one out of distribution."""
    nodes = {"": science["dataset"] or {}, "ood.": (science["ood"] or {}).get("source") or {}}
    return {prefix + key: Path(str(node[key])) for prefix, node in nodes.items() for key in ("path", "indices") if node.get(key)}


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file; None if it is not there. A sweep reads each version of it once."""
    return _digest(path, path.stat().st_mtime_ns) if path.is_file() else None


@lru_cache(maxsize=256)
def _digest(path: Path, modified: int) -> str:
    from kdgraph.data.tables.paths import sha256_of  # here, not above: a run that is done needs no table

    return sha256_of(path)


def method_label(nodes: Mapping[str, Any], preset: str | None, preset_nodes: Mapping[str, Any]) -> str:
    """``preset`` if parent and what is fitted after it are in ``nodes`` as in ``preset_nodes``, else ``<parent>-<calibrator>[-<gate>]…``.

    Every table shows it, so it says too where a method was fitted on test rows, as its paper does.
    """
    end = METHOD_ENDS.get(str(nodes.get("protocol")), "")
    if preset and all(nodes[part] == preset_nodes[part] for part in ("parent", *AFTER)):
        return preset + end
    names = [str((nodes[part] or {}).get("name", "none")) for part in AFTER]
    after = [name for name in names if name != "none"] or ["none"]
    return "-".join([str((nodes["parent"] or {}).get("name", "none")), *after]) + end


def check(config: RunConfig) -> None:
    """Import what the components name and check every key and value against it, in one line if something is wrong."""
    from kdgraph.data.splits import split_options

    for path in COMPONENTS:
        check_component(path, getattr(config, path), split_options() if path == "dataset" else None)
    if is_node(config.ood.get("source")):
        check_component("ood.source", config.ood["source"], split_options())
        _check_other_data(config.ood["source"], config.dataset)
    _check_metrics(config)
    _check_figures(config)


def _check_other_data(source: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
    """What is out of distribution must not be what is trained on, which can go by two names."""
    if source["name"] == dataset["name"] or (source.get("id") is not None and source["id"] == dataset.get("id")):
        what = f"ood.name={source['name']} is what dataset={dataset['name']} trains on, so its rows are in distribution"
        raise ConfigError(f"{what}; choose another: 'kdg list dataset' shows them")


def _check_metrics(config: RunConfig) -> None:
    """Every metric exists, has these options, and parent or method give what it needs; who does not has no value of it."""
    from kdgraph.metrics import METRICS, check_metric

    source = target_of(config.dataset)
    after = {group: node for group, node in config.after.items() if target_of(node) is not None}
    said = _said_by(config.parent, {}) | _said_by(config.parent, after) | {"prior"}
    inputs = {
        "test": said | {"y", "X", "groups"} | ({"truth"} if hasattr(source, "posterior") or hasattr(source, "distribution") else set()),
        "ood": said | ({"id_score"} if "ood_score" in said else set()),
        "grid": said | ({"truth"} if hasattr(source, "posterior_on_paper_grid") else set()),
    }
    for on, wanted in config.metrics.items():
        if on not in inputs:
            raise unknown_key(f"metrics.{on}", [f"metrics.{known}" for known in inputs])
        for name, node in (wanted or {}).items():
            options = options_of(node)
            try:
                check_metric(name, inputs[on], options, source=str(config.dataset["name"]))
            except ConfigError as error:
                raise ConfigError(f"metrics.{on}: {error}") from error
            check_options(f"metrics.{on}.{name}", options, annotations_of(METRICS[name]))


def _said_by(parent: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """What a model of these nodes can be asked, and what follows from it; of a function that makes one nobody knows before."""
    from kdgraph.answers import METHODS, Model

    if not inspect.isclass(target_of(parent)):
        return set(METHODS)
    model = Model(build(parent), {group: build(node, estimator=None) for group, node in after.items()})
    said = {answer for answer in METHODS if model.gives(answer)}
    return said | ({"top", "ood_score"} if model.classifies else set())


def _check_figures(config: RunConfig) -> None:
    """Every figure exists and has these options."""
    from kdgraph.figures.of_run import FigureOptions, figures

    check_options("figures", config.figures, annotations_of(FigureOptions))
    known = figures()
    for name, node in config.figures["draw"].items():
        options = options_of(node)
        if name not in known:
            raise unknown_key(f"figures.draw.{name}", [f"figures.draw.{other}" for other in known])
        kinds = {key: kind for key, kind in annotations_of(known[name]).items() if key not in ("run", "return")}
        check_options(f"figures.draw.{name}", options, kinds)
