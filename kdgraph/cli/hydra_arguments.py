"""What the verbs that take a config share: Hydra's flags, the plan of a command line, the folders
of configs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kdgraph.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from kdgraph.config import Job, Plan


def hydra_arguments(arguments: list[str]) -> argparse.Namespace:
    """Hydra's own flags and the overrides, in any order; ``flags`` is everything but the
    overrides.
    """
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    args = parser.parse_intermixed_args(arguments)
    if args.config_path or args.config_name or args.experimental_rerun:
        raise UsageError("kdg has one primary config; add your own groups with --config-dir DIR")
    args.flags = [argument for argument in arguments if argument not in args.overrides]
    return args


def planned_by(args: argparse.Namespace) -> Plan:
    """Every job that the arguments ask for, with the run directory of each that has been composed
    before.
    """
    from kdgraph.config import plan
    from kdgraph.runner.index import Index

    planned = plan(args.overrides, multirun=args.multirun, config_dir=args.config_dir)
    return planned.with_run_dirs(Index.of(planned).known()) if planned.multirun else planned


def split_by_record(
    planned: Plan, note: Callable[[str], None]
) -> tuple[list[Job], dict[Job, dict[str, Any]]]:
    """Return the jobs to do, and those that are done with their records; ``force`` does all of
    them.

    A record that is not as it was written is no record, and ``note`` gets a line on it. Of a single
    run, predictions and tables are compared with the record too, and the run is made again where
    one of them has changed; of a sweep, whose files may be gigabytes, they are not.
    """
    from kdgraph.runner.run_dir import ASIDE, RunDir

    found: dict[Job, dict[str, Any]] = {}
    for job in () if planned.force else planned.jobs:
        folder = RunDir(job.run_dir)
        if record := folder.record():
            if (
                not planned.multirun
                and not folder.is_running
                and (changed := folder.set_aside_changed(record))
            ):
                note(
                    f"{job.run_dir}: {', '.join(changed)} changed since the run; set aside as"
                    f" *{ASIDE}, and the run is made again"
                )
                continue
            found[job] = record
        elif damage := folder.damage():
            note(damage)
    return [job for job in planned.jobs if job not in found], found


def check_jobs(planned: Plan, jobs: Sequence[Job]) -> None:
    """All of them are composed and checked before the first one runs; one that is done was checked
    when it ran.

    Whatever of the plan had to be composed is known the next time.
    """
    from kdgraph.config import check
    from kdgraph.runner.index import Index

    for job in jobs:
        check(job.config)
    Index.of(planned).remember(job for job in planned.jobs if job.known is None)


def _refuse(message: str) -> Any:
    raise UsageError(f"{message}; 'kdg --help' lists the options")
