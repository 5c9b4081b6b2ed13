"""One run as data: its resolved config, its id, its label and its directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kdgraph.config.components import given_options
from kdgraph.config.data_sources import file_digests
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Seed, check_value

RECORD_SCHEMA = 10
"""Version of ``result.json``; part of the run id, so that a change of its meaning makes every run a
new one.
"""

AFTER = ("calibrator", "gate", "detector", "recalibrator")
"""What is fitted after the parent, in this order; a method is a parent with these."""
COMPONENTS = ("dataset", "ood", "preprocess", "parent", *AFTER)
Protocol = Literal["held_out", "paper"]
"""held_out: nothing that is fitted sees a test row, or one out of distribution. paper: methods
whose paper shows them such see them.
"""
METHOD_ENDS = {"paper": "-as_in_paper"}
"""What the label of a method ends in, by protocol, so that every table says it."""
SCIENCE = (*COMPONENTS, "metrics", "figures", "protocol", "seed")
PLAIN = {
    "protocol": Protocol,
    "seed": Seed,
    "n_jobs": int,
    "force": bool,
    "fail_fast": bool,
    "save": bool,
    "out": str,
    "post_report": str | None,
}


@dataclass(frozen=True)
class FigureOptions:
    """What is drawn, and as which files.

    Attributes
    ----------
    draw : name of a figure → its options; one that the run does not have the rows or answers for is
    left out.
    formats, dpi : of the files.
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
    """

    overrides: tuple[str, ...] = ()
    experiment: str | None = None
    config_dir: str | None = None


@dataclass(frozen=True)
class RunConfig:
    """One run, resolved. Components, metrics, figures and ``seed`` are the science; the rest says
    how and where to run it.

    Attributes
    ----------
    dataset, ood, preprocess, parent, calibrator, gate, detector, recalibrator : component nodes
    (``name``, ``_target_``, parameters).
    metrics, figures : what to measure and what to draw.
    method : label of the parent and of what is fitted after it; see :func:`method_label`.
    protocol : which rows methods are fitted with; see :data:`Protocol`.
    n_jobs : cores for the kernels; never changes a number.
    force : run again what is done.
    fail_fast : of a sweep, start no run once one has failed.
    save : keep the models in the run's directory.
    out : where runs and the store are.
    post_report : of a sweep, a function of its records whose text is printed after the table, such as
        measured beside published numbers.
    origin : the words that it was composed from; two configs are equal whatever words led to them.
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
    post_report: str | None = None
    method: str = ""
    origin: Origin = field(default=Origin(), compare=False)

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
        """Rows ("test", "calibration", "ood", "grid") → key → options, as
        :func:`~kdgraph.metrics.select_metric` reads them.
        """
        asked = {on: wanted or {} for on, wanted in self.metrics.items() if on != "spaces"}
        return {
            on: {name: given_options(node) for name, node in wanted.items()}
            for on, wanted in asked.items()
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
        """The part of the config that decides the numbers and the pictures."""
        return {name: getattr(self, name) for name in SCIENCE}

    @cached_property
    def run_id(self) -> str:
        """8 hex digits: a hash of :meth:`science`, and of its files as they are when it is asked
        for first.
        """
        return run_id(self.science(), self.files)

    @cached_property
    def files(self) -> dict[str, str]:
        """Digest of each file that rows are read from, as it is when it is asked for first."""
        return file_digests(self.science())

    @property
    def run_dir(self) -> Path:
        """``<out>/<dataset>/<method>/<run_id>``."""
        return Path(self.out) / str(self.dataset["name"]) / self.method / self.run_id


def run_id(science: Mapping[str, Any], files: Mapping[str, str] | None = None) -> str:
    """8 hex digits: a hash of the science part of a resolved config, of the files that it names,
    and of the record's schema.

    ``files`` are digests of :func:`~kdgraph.config.data_sources.file_digests`; None: of the files as
    they are now.
    """
    part = {name: science[name] for name in SCIENCE}
    digests = file_digests(part) if files is None else files
    text = json.dumps({**part, "schema": RECORD_SCHEMA, **digests}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def method_label(
    nodes: Mapping[str, Any], preset: str | None, preset_nodes: Mapping[str, Any]
) -> str:
    """The last part of ``preset`` if parent and what is fitted after it are in ``nodes`` as in
    ``preset_nodes``, else their names.

    These are ``<parent>-<calibrator>[-<gate>]…``. Every table shows it, so it says too where a
    method was fitted on test rows, as its paper does.
    """
    end = METHOD_ENDS.get(str(nodes.get("protocol")), "")
    if preset and all(nodes[part] == preset_nodes[part] for part in ("parent", *AFTER)):
        return preset.rpartition("/")[2] + end
    names = [str((nodes[part] or {}).get("name", "none")) for part in AFTER]
    after = [name for name in names if name != "none"] or ["none"]
    return "-".join([str((nodes["parent"] or {}).get("name", "none")), *after]) + end
