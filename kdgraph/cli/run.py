"""Command ``kdg run``: check all jobs, run those that are not done, print the results."""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.cli.arguments import INTERRUPTED, UNUSABLE, CommandParser, OverrideParser
from kdgraph.errors import (
    CannotWrite,
    ConfigError,
    DataNotAvailable,
    KdgError,
    RunFailed,
    UsageError,
)
from kdgraph.wording import counted, first_line, printable

if TYPE_CHECKING:
    from kdgraph.config import Job, Plan
    from kdgraph.runner.availability import MissingData
    from kdgraph.runner.monitoring import ProgressReporter
    from kdgraph.runner.sweep import Outcome

_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


def main(arguments: list[str]) -> int:
    """Run the jobs of the arguments and return the exit code."""
    args = parser().parse(arguments)
    if args.config_path or args.config_name or args.experimental_rerun:
        raise UsageError("kdg has one primary config; add your own groups with --config-dir DIR")
    _check_views(args)
    if args.hydra_help:
        return _print_with_hydra(["--hydra-help"])
    planned = plan_runs(args)
    if args.cfg or args.info:
        return _print_with_hydra(arguments)
    from kdgraph.report.terminal import report_progress
    from kdgraph.runner.tracking import check_tracker

    # The first config refuses a value of ``logger`` that is none, also where all runs are done.
    logger = None if planned.base.get("logger") is None else planned.jobs[0].config.logger
    check_tracker(logger)
    with report_progress() as reporter:
        result = run_plan(planned, reporter)
    code = _print_outcomes(result.outcomes, planned, result.before, args)
    print_missing_data(result.absent)
    if logger is not None and not _log_outcomes(logger, result.outcomes):
        code = code or 1
    return code or (0 if result.outcomes else DataNotAvailable.exit_code)


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = OverrideParser(
        "run",
        "Run one config, or a sweep over many: split the data, fit the parent, calibrate, evaluate,"
        " draw. Data sets are fetched first. A run is done once: the same config gives the same"
        " directory, outputs/DATASET/METHOD/ID, and the same command resumes what was interrupted.",
        notes="force=true repeats what is done, fail_fast=true ends a sweep at its first failure,"
        " n_jobs=2 limits the cores, save=false keeps no models. Runs of a sweep go side by side:"
        " hydra.launcher.n_jobs=4, or hydra/launcher=submitit_slurm on a cluster. A table of"
        " yours is dataset=table dataset.path=FILE dataset.target=COLUMN; the column that"
        " dataset.split_column names divides its rows into train, calibration and test.",
        examples=[
            "kdg run dataset=digits method=kdf parent.n_estimators=100",
            "kdg run -m dataset=spiral,circle method=kdf,isotonic seed='range(0,5)'",
        ],
        exit_codes={
            0: "every run is done whose data can be had; the others are listed",
            1: "a run failed; its directory has the traceback in error.txt",
            2: UNUSABLE,
            130: INTERRUPTED,
        },
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the record (of a sweep: the list of records) and nothing else",
    )
    hydra = parser.add_argument_group("views of Hydra, which run nothing")
    hydra.add_argument("--cfg", choices=("job", "hydra", "all"), help="print the composed config")
    hydra.add_argument(
        "--resolve", action="store_true", help="with --cfg: resolve interpolations (${...})"
    )
    hydra.add_argument("-p", "--package", metavar="KEY", help="with --cfg: print this node only")
    hydra.add_argument(
        "--info",
        nargs="?",
        const="all",
        choices=_INFO,
        help=f"print how the config is composed: {', '.join(_INFO)}",
        metavar="WHAT",
    )
    hydra.add_argument("--hydra-help", action="store_true", help="print the help of Hydra")
    # Options of Hydra that replace the primary config have an error of their own.
    parser.add_argument("--config-path", "-cp", help=argparse.SUPPRESS)
    parser.add_argument("--config-name", "-cn", help=argparse.SUPPRESS)
    parser.add_argument("--experimental-rerun", help=argparse.SUPPRESS)
    return parser


def _check_views(args: argparse.Namespace) -> None:
    """Raise UsageError for options that Hydra's views do not take together."""
    views = [name for name in ("cfg", "info", "hydra_help") if getattr(args, name)]
    options = [f"--{name.replace('_', '-')}" for name in views]
    if len(options) > 1:
        raise UsageError(f"{' and '.join(options)} are two views; give one of them")
    if options and (args.multirun or args.json):
        other = "--multirun" if args.multirun else "--json"
        raise UsageError(f"{options[0]} shows one config and runs nothing; leave out {other}")
    if (args.resolve or args.package) and not args.cfg:
        option = "--resolve" if args.resolve else "--package"
        raise UsageError(f"{option} needs --cfg job")


def plan_runs(args: argparse.Namespace) -> Plan:
    """Return every job of the parsed arguments.

    Jobs of a sweep have the run directory that the index knows from an earlier composition.
    """
    from kdgraph.config import plan
    from kdgraph.runner.index import Index

    planned = plan(args.overrides, multirun=args.multirun, config_dir=args.config_dir)
    if not planned.multirun:
        return planned
    planned = planned.with_run_dirs(Index.of(planned).known())
    for job in planned.jobs:
        if job.known is None:
            with _naming_job(job, planned):
                _ = job.config  # composes it
    return planned


@contextmanager
def _naming_job(job: Job, planned: Plan) -> Iterator[None]:
    """Add the values of a job to an error of its config, unless the first job has the same.

    Of a sweep over methods, for example, one may have no parameter of that name.
    """
    try:
        yield
    except ConfigError as error:
        values = [f"{key}={value}" for key, value in job.swept.items()]
        if job is planned.jobs[0] or all(value in str(error) for value in values):
            raise
        raise type(error)(f"{error} (run {' '.join(values)})") from error


def check_jobs(planned: Plan, jobs: Sequence[Job]) -> None:
    """Check the config of each job before the first one runs, and index the plan.

    A job that is done was checked when it ran, so it need not be among ``jobs``.
    """
    from kdgraph.config import check
    from kdgraph.runner.index import Index

    for job in jobs:
        with _naming_job(job, planned):
            check(job.config)
    Index.of(planned).remember(job for job in planned.jobs if job.known is None)


@dataclass(frozen=True)
class PlanResult:
    """Result of the jobs of a plan, in its order.

    Attributes
    ----------
    outcomes : sequence of Outcome
        Outcomes of the jobs that could be started.
    before : set of Job
        Jobs that were done before.
    absent : mapping of str to MissingData
        Run id → data that are not available.
    """

    outcomes: Sequence[Outcome]
    before: set[Job]
    absent: Mapping[str, MissingData]


def run_plan(planned: Plan, reporter: ProgressReporter) -> PlanResult:
    """Check all jobs, fetch their data, and run those that are not done.

    Raises
    ------
    KdgError
        If a config cannot be run, or the data of the only job are not available.
    """
    from kdgraph.runner.availability import fetch_all
    from kdgraph.runner.run_dir import RunDir
    from kdgraph.runner.sweep import Outcome, launch

    todo, records = _split_by_record(planned, reporter.note)
    for job in records:
        RunDir(job.run_dir).break_stale_lock()
    if todo:
        reporter.begin(f"checking {counted(len(todo), 'run')}")
    check_jobs(planned, todo)
    _make_folders(todo)
    reporter.begin("data")
    absent = fetch_all(todo, reporter.note)
    if absent and not planned.multirun:
        raise next(iter(absent.values())).error
    ended = launch(
        planned, [job for job in todo if job.config.run_id not in absent], len(records), reporter
    )
    outcomes = [*ended, *(Outcome(job, record) for job, record in records.items())]
    position = {job: k for k, job in enumerate(planned.jobs)}
    return PlanResult(
        sorted(outcomes, key=lambda outcome: position[outcome.job]), set(records), absent
    )


def print_missing_data(absent: Mapping[str, MissingData]) -> None:
    """Print a line on stderr for each reason why data are missing."""
    from kdgraph.runner.availability import by_reason

    for reason, names in by_reason(absent.values()).items():
        line = f"not runnable: {', '.join(names)} ({reason})"
        print(f"kdg: {printable(line)}", file=sys.stderr)


def _split_by_record(
    planned: Plan, note: Callable[[str], None]
) -> tuple[list[Job], dict[Job, dict[str, Any]]]:
    """Return the jobs to do, and the records of those that are done; ``force`` does all of them.

    A damaged record counts as none, and ``note`` gets a line on it. For a single run, predictions
    and tables are compared with the record too, and the run is made again where one of them has
    changed; for a sweep, whose files may be gigabytes, they are not.
    """
    from kdgraph.runner.run_dir import ASIDE, RunDir

    records: dict[Job, dict[str, Any]] = {}
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
            records[job] = record
        elif damage := folder.damage():
            note(damage)
    return [job for job in planned.jobs if job not in records], records


def _make_folders(todo: Sequence[Job]) -> None:
    from kdgraph.runner.files import DISK_FULL, check_writable

    for out in {job.config.out for job in todo}:
        try:
            check_writable(Path(out))
        except CannotWrite as error:
            reason = error.__cause__
            if not isinstance(reason, OSError) or reason.errno in DISK_FULL:
                raise
            raise UsageError(
                f"out must be a folder that files can be written to, got '{out}'"
                f" ({reason.strerror})"
            ) from error


def _print_outcomes(
    outcomes: Sequence[Outcome], planned: Plan, before: set[Job], args: argparse.Namespace
) -> int:
    """Print records or tables, then failures; return the exit code."""
    done = [(outcome.job, outcome.record) for outcome in outcomes if outcome.record]
    failed = [outcome for outcome in outcomes if not outcome.record]
    if failed and not planned.multirun:
        _raise_failure(failed[0])
    if args.json:
        import json

        records = [record for _, record in done]
        print(json.dumps(records if planned.multirun else records[0], indent=1, ensure_ascii=False))
    elif done:
        _print_tables(done, planned, before)
    if failed:
        options = ["--config-dir", args.config_dir] if args.config_dir else []
        _print_failures(
            failed, len(outcomes), options, planned.launching if planned.is_remote else ()
        )
    return 1 if failed else 0


def _print_failures(
    failed: Sequence[Outcome], n_runs: int, options: Sequence[str], launching: Sequence[str]
) -> None:
    """Print on stderr why each run failed, and the command that repeats it."""
    started = [outcome for outcome in failed if outcome.started]
    again = (
        "it again, and this runs it alone"
        if len(started) == 1
        else "them again, and these run one alone"
    )
    print(
        f"kdg: {len(started)} of {counted(n_runs, 'run')} failed; the same command tries {again}:",
        file=sys.stderr,
    )
    for outcome in started:
        trace = outcome.job.run_dir / "error.txt"
        print(f"  {outcome.failure}" + (f"   {trace}" if trace.exists() else ""), file=sys.stderr)
        print(
            f"    kdg run {shlex.join([*options, *outcome.job.overrides, *launching])}",
            file=sys.stderr,
        )
    if len(started) < len(failed):
        left = len(failed) - len(started)
        print(
            f"kdg: {counted(left, 'run')} {'was' if left == 1 else 'were'} not started"
            " (fail_fast=true)",
            file=sys.stderr,
        )


def _print_tables(done: Sequence[tuple[Job, Any]], planned: Plan, before: set[Job]) -> None:
    from kdgraph.report.terminal import show, terminal_width

    if not planned.multirun:
        from kdgraph.report.run_table import run_table

        ((job, record),) = done
        show(run_table(record, str(job.run_dir), terminal_width(), before=job in before))
        return
    from kdgraph.report.sweep_table import SweepRun, sweep_table, sweep_warnings
    from kdgraph.results.origins import hidden_differences

    runs = [SweepRun(record, job.swept) for job, record in done]
    show(sweep_table(runs, terminal_width()))
    if warnings := sweep_warnings(runs):
        show("\n" + warnings)
    n_before = sum(job in before for job, _ in done)
    for line in hidden_differences([record for _, record in done]):
        show(f"\n{line}")
    if (function := planned.base.get("post_report")) is not None:
        show("\n" + _post_report(str(function), [record for _, record in done]))
    show(
        f"\n{counted(len(done), 'run')} in {done[0][0].run_dir.parents[2]}"
        + (f", {n_before} of them done before" if n_before else "")
    )


def _post_report(path: str, records: Sequence[Any]) -> str:
    """Return the text of the function that the config's ``post_report`` names.

    The function is in experiments/ of a checkout; where it cannot be imported, as with an installed
    wheel, the text is a line that names it.
    """
    from kdgraph.config.components import target_of
    from kdgraph.errors import ConfigError

    try:
        function = target_of({"_target_": path}, "post_report")
    except ConfigError:
        return (
            f"what was published stands in a checkout of kdgraph, which has {path}; run kdg there"
            " to see it beside these runs"
        )
    return function(records)


def _log_outcomes(logger: str, outcomes: Sequence[Outcome]) -> bool:
    """Log the finished runs to a tracker, with a line on stderr; return False if it failed."""
    from kdgraph.runner.tracking import log_runs

    done = [(outcome.job.run_dir, outcome.record) for outcome in outcomes if outcome.record]
    try:
        destination, n_logged = log_runs(logger, done)
    except Exception as error:  # noqa: BLE001 - any of a library or its server
        print(
            f"kdg: logger={logger}: {first_line(error)}; the runs are stored, and the same command"
            " logs them",
            file=sys.stderr,
        )
        return False
    if done:
        n_before = len(done) - n_logged
        before = f", {n_before} of them before" if n_before else ""
        print(f"kdg: {counted(len(done), 'run')} logged{before}: {destination}", file=sys.stderr)
    return True


def _raise_failure(outcome: Outcome) -> None:
    """Raise the failure of a single run, with the file of its traceback."""
    if isinstance(outcome.error, KdgError):
        raise outcome.error
    trace = outcome.job.run_dir / "error.txt"
    raise RunFailed(
        f"the run failed: {outcome.failure}"
        + (f" (traceback in {trace})" if trace.exists() else "")
    ) from outcome.error


def _print_with_hydra(arguments: Sequence[str]) -> int:
    """Print a view of Hydra's on the config, and return its exit code.

    It is captured first: the log of Hydra prints a traceback for each line where a reader such as
    ``head`` ends early.
    """
    import hydra

    from kdgraph.config import conf_dir

    code = 0
    with _argv(["kdg run", *arguments]), redirect_stdout(io.StringIO()) as text:
        try:
            hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(
                lambda config: None
            )()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    print(text.getvalue(), end="")
    return code


@contextmanager
def _argv(argv: list[str]) -> Iterator[None]:
    """Replace ``sys.argv``, which is what ``hydra.main`` parses, inside the block."""
    before, sys.argv = sys.argv, argv
    try:
        yield
    finally:
        sys.argv = before
