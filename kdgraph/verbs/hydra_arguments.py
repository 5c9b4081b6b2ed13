"""What the verbs that take a config share: Hydra's flags, the plan of a command line, the folders of configs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.errors import ConfigError, UsageError

if TYPE_CHECKING:
    import argparse

    from kdgraph.config import Plan


def hydra_arguments(arguments: list[str]) -> argparse.Namespace:
    """Hydra's own flags and the overrides, in any order; ``flags`` is everything but the overrides."""
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    args = parser.parse_intermixed_args(arguments)
    if args.config_path or args.config_name or args.experimental_rerun:
        raise UsageError("kdg has one primary config; add your own groups with --config-dir DIR")
    args.flags = [argument for argument in arguments if argument not in args.overrides]
    return args


def planned_by(args: argparse.Namespace) -> Plan:
    """Every job that the arguments ask for, composed; keys are checked."""
    from kdgraph.config import plan

    return plan(args.overrides, multirun=args.multirun, config_dir=args.config_dir)


def check_jobs(planned: Plan, before: set[str]) -> None:
    """All jobs are checked before the first one runs; one that is done was checked when it ran."""
    from kdgraph.config import check

    for job in planned.jobs:
        if job.config.run_id not in before:
            check(job.config)


def config_folders(config_dir: str | None) -> list[Path]:
    """Ours, and behind it the user's."""
    from kdgraph.config import conf_dir

    if config_dir and not Path(config_dir).is_dir():
        raise ConfigError(f"--config-dir must be a folder of config groups, got '{config_dir}', which is no folder")
    return [conf_dir(), *([Path(config_dir)] if config_dir else [])]


def _refuse(message: str) -> Any:
    raise UsageError(f"{message}; 'kdg --help' lists the options")
