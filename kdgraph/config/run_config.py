"""One run as data: its resolved config, its id, the label of its method and its directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kdgraph.config.compatibility import check_components
from kdgraph.config.components import ResolvedNode, given_options, resolve_option
from kdgraph.config.data_sources import file_digests
from kdgraph.config.models import RunComponents, build_components
from kdgraph.errors import ParameterError
from kdgraph.parameters import (
    CalibrationMode,
    Count,
    Protocol,
    Seed,
    annotations_of,
    check_value,
)

RECORD_SCHEMA = 11
"""Version of ``result.json``; part of the run id, so that a change of its meaning makes every run a
new one.
"""

AFTER = ("calibrator", "gate", "detector", "recalibrator", "conformal")
"""Groups of the components that are fitted after the parent, in this order; a method is a parent
with these.
"""
OPTIONAL = "conformal"
"""Group that records and ids have only where it is chosen, so that runs without it keep theirs."""
OPTIONAL_IN_DATASET = "folds"
"""The same for a key of the data set."""
COMPONENTS = ("dataset", "ood", "preprocess", "parent", *AFTER)
Logger = Literal["mlflow", "wandb"]
"""Experiment tracker that finished runs are logged to."""
AUTO = "auto"
"""Value of ``calibration`` in a config for the way that suits parent and calibrator."""
FITTED_PARENT = "kdgraph.fitted.FittedParent"
KERNEL_DENSITY_FOREST = "kdgraph.density.KernelDensityForest"
METHOD_ENDS = {"paper": "-as_in_paper"}
"""Suffix of a method's label, by protocol, so that every table shows it."""
SCIENCE = (*COMPONENTS, "metrics", "figures", "calibration", "cv", "protocol", "seed")


@dataclass(frozen=True)
class FigureOptions:
    """The config node ``figures``.

    Attributes
    ----------
    draw : mapping
        Name of a figure → its options. A figure is left out where the run lacks the rows or the
        outputs that it needs.
    formats : sequence of {"svg", "png", "pdf"}
        File formats.
    dpi : int
        Resolution of the files in dots per inch.
    """

    draw: Mapping[str, Mapping[str, Any]]
    formats: Sequence[Literal["svg", "png", "pdf"]]
    dpi: Count


@dataclass(frozen=True)
class Origin:
    """Words of a command line that a config was composed from.

    Attributes
    ----------
    overrides : what comes after ``kdg run``, without keys that decide how and where it is run.
    experiment : chosen option of the group ``experiment``, or None.
    config_dir : folder of config groups of the user (``--config-dir``), or None.

    Examples
    --------
    >>> from kdgraph.config import compose
    >>> compose(["method=isotonic", "n_jobs=1"]).origin.overrides
    ('method=isotonic',)
    """

    overrides: tuple[str, ...] = ()
    experiment: str | None = None
    config_dir: str | None = None


@dataclass(frozen=True)
class RunConfig:
    """One run, resolved.

    Components, metrics, figures, protocol and seed decide its numbers and pictures; the rest how
    and where it is run.

    Attributes
    ----------
    dataset, ood, preprocess, parent, calibrator, gate, detector, recalibrator, conformal : mapping
        Nodes of components: ``name``, ``_target_``, parameters. Records of runs without sets have
        no ``conformal``.
    metrics, figures : mapping
        Metrics and figures, with their options.
    method : str
        Label of the parent and of what is fitted after it; see :func:`method_label`.
    method_options : mapping
        Options in which these differ from the label's preset; see :func:`method_options`.
    calibration : {"held_out", "oob", "cross_fit"}
        Rows and outputs that calibrate; see :data:`~kdgraph.parameters.CalibrationMode`. A config
        may have "auto": "oob" for a kernel density forest without groups, else "held_out".
    cv : int
        Number of folds of ``calibration=cross_fit``; with 1, 30 % of the rows calibrate, and the
        parent is fitted on all rows in the end.
    protocol : {"strict", "paper"}
        Rows that methods are fitted with; see :data:`~kdgraph.parameters.Protocol`.
    seed : int
        Seed of every random number of the run.
    n_jobs : int
        Number of cores, -1 for all; never changes a number.
    fit_on : str or None
        Address of a scheduler of Dask whose workers fit, "dask" for workers of this machine; None
        to fit in the process of the run. Never changes a number.
    force : bool
        Repeat a finished run.
    fail_fast : bool
        Start no more runs of a sweep once one has failed.
    save : bool
        Keep the models in the run's directory for ``kdg predict``, as links to the store.
    out : str
        Folder of runs and of the store.
    post_report : str or None
        Import path of a function of a sweep's records, whose text is printed after the table, such
        as published numbers compared with measured ones.
    logger : {"mlflow", "wandb"} or None
        Experiment tracker that gets the finished runs, offline unless its environment variables
        name a server; see :mod:`kdgraph.runner.tracking`.
    origin : Origin
        Words that it was composed from. Configs with other words are equal.

    Examples
    --------
    >>> from kdgraph.config import compose
    >>> config = compose(["dataset=digits", "method=gated_isotonic"])
    >>> config.method, config.gate["name"], config.protocol, str(config.out)
    ('gated_isotonic', 'density', 'strict', 'outputs')
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
    conformal: Mapping[str, Any] = field(default_factory=lambda: {"name": "none", "_target_": None})
    calibration: CalibrationMode = "held_out"
    cv: Count = 5
    protocol: Protocol = "strict"
    seed: Seed = 0
    n_jobs: int = -1
    fit_on: str | None = None
    force: bool = False
    fail_fast: bool = False
    save: bool = True
    out: str = "outputs"
    post_report: str | None = None
    logger: Logger | None = None
    method: str = ""
    method_options: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = field(default=Origin(), compare=False)

    def __post_init__(self) -> None:
        for key, annotation in PLAIN.items():
            check_value(key, getattr(self, key), annotation)
        if self.n_jobs == 0:
            raise ParameterError("n_jobs must be a number of cores, or -1 for all of them, got 0")

    @property
    def after(self) -> dict[str, Mapping[str, Any]]:
        """Group → node of what is fitted after the parent."""
        return {group: getattr(self, group) for group in AFTER if group in self.science()}

    def resolved(self, group: str) -> ResolvedNode:
        """Return the node of a group with its class, which is imported on first access."""
        if group not in self._resolved:
            self._resolved[group] = resolve_option(group, getattr(self, group))
        return self._resolved[group]

    @cached_property
    def components(self) -> RunComponents:
        """The components, built and checked on first access; KdgError if they do not go together.

        No stage fits them.
        """
        components = build_components(
            {group: self.resolved(group) for group in COMPONENTS},
            self.after,
            has_grid=bool(self.metrics.get("grid")),
            calibration=self.calibration,
            protocol=self.protocol,
        )
        check_components(components)
        return components

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without classes and components, which another process makes itself."""
        made = {"_resolved", "components"}
        return {name: value for name, value in vars(self).items() if name not in made}

    @cached_property
    def _resolved(self) -> dict[str, ResolvedNode]:
        return {}

    @property
    def has_sets(self) -> bool:
        """True if the run predicts conformal sets, for which calibration rows are held out."""
        return self.conformal["_target_"] is not None

    @property
    def division(self) -> CalibrationMode:
        """How the rows are divided: "held_out" if some calibrate that are not training rows."""
        return "held_out" if self.has_sets else self.calibration

    @cached_property
    def measures(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Options of :func:`~kdgraph.metrics.select_metric` by rows and by key.

        Rows are "test", "calibration", "ood" and "grid".
        """
        return {
            on: {name: given_options(node) for name, node in (nodes or {}).items()}
            for on, nodes in self.metrics.items()
            if on != "spaces"
        }

    @property
    def spaces(self) -> dict[str, Mapping[str, Any]]:
        """Name → node of each feature map that metrics may measure in."""
        return dict(self.metrics.get("spaces") or {})

    @cached_property
    def drawn(self) -> dict[str, dict[str, Any]]:
        """Figure → its options."""
        return {name: given_options(node) for name, node in self.figures["draw"].items()}

    def science(self) -> dict[str, Any]:
        """Return the part of the config that decides the numbers and the pictures."""
        parts = {name: getattr(self, name) for name in SCIENCE if name != OPTIONAL or self.has_sets}
        dataset = {
            name: value
            for name, value in self.dataset.items()
            if name != OPTIONAL_IN_DATASET or value is not None
        }
        return {**parts, "dataset": dataset}

    @property
    def options_but_seed(self) -> str:
        """Text that two configs share if they differ by the seed alone, or in how they are run."""
        return json.dumps({**self.science(), "seed": None}, sort_keys=True, default=str)

    @cached_property
    def run_id(self) -> str:
        """8 hex digits: a hash of :meth:`science`, and of its files as they are on first access."""
        return run_id(self.science(), self.files)

    @cached_property
    def files(self) -> dict[str, str]:
        """Digest of each file that rows are read from, as it is on first access."""
        return file_digests(self.science())

    @cached_property
    def run_dir(self) -> Path:
        """``<out>/<dataset>/<method>/<run_id>``."""
        return Path(self.out) / str(self.dataset["name"]) / self.method / self.run_id


_STRUCTURED = {*COMPONENTS, "metrics", "figures", "method", "method_options", "origin"}
PLAIN = {key: kind for key, kind in annotations_of(RunConfig).items() if key not in _STRUCTURED}
"""Key of the config with a single value → its annotation."""


def run_id(science: Mapping[str, Any], files: Mapping[str, str] | None = None) -> str:
    """Return the id of a run: 8 hex digits.

    It is a hash of the science part of a resolved config, of the files that it names, and of the
    record's schema.

    Parameters
    ----------
    science : mapping with the keys of :data:`SCIENCE`, but :data:`OPTIONAL` where it is chosen.
    files : digests of :func:`~kdgraph.config.data_sources.file_digests`; None: of the files as they
        are now.

    Examples
    --------
    >>> from kdgraph.config import compose
    >>> config = compose(["dataset=spiral"])
    >>> run_id(config.science()) == config.run_id == compose(["n_jobs=1"]).run_id
    True
    >>> run_id(compose(["seed=1"]).science()) == config.run_id
    False
    """
    part = {name: science[name] for name in SCIENCE if name in science}
    digests = file_digests(part) if files is None else files
    text = json.dumps({**part, "schema": RECORD_SCHEMA, **digests}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def calibration_way(nodes: Mapping[str, Any]) -> str:
    """Return how a run is calibrated: "held_out", "oob" or "cross_fit".

    "auto" is "oob" for the kernel density forest of this package behind a forest with bootstrap
    samples, and "held_out" for everything else. It is "held_out" too if rows of one group stay
    together (``dataset.split_groups``), of which a bootstrap sample draws some.

    Parameters
    ----------
    nodes : mapping
        Key → node or value, of a config.
    """
    way = str(nodes.get("calibration", AUTO))
    if way != AUTO:
        return way
    parent, calibrator, dataset = (
        nodes.get(group) or {} for group in ("parent", "calibrator", "dataset")
    )
    is_kdf = str(calibrator.get("_target_")) == KERNEL_DENSITY_FOREST
    has_groups = dataset.get("split_groups") is not None
    return "oob" if is_kdf and parent.get("bootstrap") is True and not has_groups else "held_out"


def method_label(
    nodes: Mapping[str, Any], preset: str | None, preset_nodes: Mapping[str, Any]
) -> str:
    """Return the label of a method.

    It is the last part of the preset's name if parent and what is fitted after it are the same
    components in ``nodes`` as in ``preset_nodes``, whatever their options, else
    ``<parent>-<calibrator>[-<gate>]…``. Every table shows it, so it has a suffix where a method was
    fitted on test rows, as in its paper, and where it was calibrated in another way than its preset
    prescribes: ``kdf-cross_fit``.

    Examples
    --------
    >>> from kdgraph.config import compose
    >>> nodes = compose(["method=gated_isotonic", "calibration=cross_fit"]).science()
    >>> method_label(nodes, None, {})
    'random_forest-isotonic-density-cross_fit'
    >>> method_label(nodes, "gated_isotonic", nodes)
    'gated_isotonic'
    """
    is_preset = bool(preset) and _components(nodes) == _components(preset_nodes)
    usual = preset_nodes.get("calibration", AUTO) if is_preset else AUTO
    way = calibration_way(nodes)
    end = "" if way == calibration_way({**nodes, "calibration": usual}) else f"-{way}"
    end += METHOD_ENDS.get(str(nodes.get("protocol")), "")
    if preset and is_preset:
        return preset.rpartition("/")[2] + end
    names = [str((nodes.get(part) or {}).get("name", "none")) for part in AFTER]
    after = [name for name in names if name != "none"] or ["none"]
    return "-".join([str((nodes["parent"] or {}).get("name", "none")), *after]) + end


def method_options(nodes: Mapping[str, Any], preset_nodes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in which a method differs from its preset, by dotted key.

    None of them is one whose components differ, which :func:`method_label` names.

    Examples
    --------
    >>> from kdgraph.config import compose
    >>> preset, changed = compose([]), compose(["parent.n_estimators=100", "calibrator.k=2"])
    >>> method_options(changed.science(), preset.science())
    {'parent.n_estimators': 100, 'calibrator.k': 2}
    """
    if _components(nodes) != _components(preset_nodes):
        return {}
    options: dict[str, Any] = {}
    for part in ("parent", *AFTER):
        node, usual = nodes.get(part) or {}, preset_nodes.get(part) or {}
        options |= {
            f"{part}.{key}": node.get(key)
            for key in dict.fromkeys([*node, *usual])
            if node.get(key) != usual.get(key)
        }
    return options


def _components(nodes: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return name and target of parent and what is fitted after it; "none" where nothing is."""
    parts = [nodes.get(part) or {} for part in ("parent", *AFTER)]
    return [(part.get("name", "none"), part.get("_target_")) for part in parts]
