"""From the words of a command line to the checked config of each run.

Its modules contain:

- overrides as Hydra parses them, and the points of a sweep, in :mod:`kdgraph.config.overrides`;
- what Hydra composes of them over the YAML files of ``conf/`` in :mod:`kdgraph.config.composer`,
  kept for the life of a process in :mod:`kdgraph.config.compositions`, and the jobs of a command
  line in :mod:`kdgraph.config.planning`;
- one run's config as data, its id and its label, in :mod:`kdgraph.config.run_config`, and the
  files that it reads in :mod:`kdgraph.config.data_sources`;
- the components that its nodes describe in :mod:`kdgraph.config.components`, the model of them in
  :mod:`kdgraph.config.models`, and whether they go together in :mod:`kdgraph.config.compatibility`;
- the checks before a run starts, in their order, in :mod:`kdgraph.config.checks`;
- errors of Hydra and of YAML in one line in :mod:`kdgraph.config.messages`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kdgraph.config.checks import check
from kdgraph.config.run_config import (
    AFTER,
    COMPONENTS,
    METHOD_ENDS,
    OPTIONAL,
    PLAIN,
    RECORD_SCHEMA,
    SCIENCE,
    Origin,
    RunConfig,
    method_label,
    method_options,
    run_id,
)

if TYPE_CHECKING:
    from kdgraph.config.composer import conf_dir
    from kdgraph.config.planning import Job, Plan, compose, plan

__all__ = [
    "AFTER",
    "COMPONENTS",
    "METHOD_ENDS",
    "OPTIONAL",
    "PLAIN",
    "RECORD_SCHEMA",
    "SCIENCE",
    "Job",
    "Origin",
    "Plan",
    "RunConfig",
    "check",
    "compose",
    "conf_dir",
    "method_label",
    "method_options",
    "plan",
    "run_id",
]

_NEED_HYDRA = {
    "Job": "planning",
    "Plan": "planning",
    "compose": "planning",
    "conf_dir": "composer",
    "plan": "planning",
}


def __getattr__(name: str) -> Any:
    """Import what needs Hydra on first use: reading the records of finished runs needs none."""
    if name in _NEED_HYDRA:
        return getattr(import_module(f"kdgraph.config.{_NEED_HYDRA[name]}"), name)
    raise AttributeError(f"module 'kdgraph.config' has no attribute {name!r}")
