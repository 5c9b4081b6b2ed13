"""Command ``kdg run``: check all jobs, run those that are not done, print the results."""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from kdgraph.cli.arguments import CommandParser, OverrideParser
from kdgraph.errors import ConfigError, DataNotAvailable, KdgError, RunFailed, UsageError
from kdgraph.wording import counted, first_line, print_note

if TYPE_CHECKING:
    from kdgraph.config import Job, Plan
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
    from kdgraph.runner.plan import plan_runs, run_plan

    planned = plan_runs(args.overrides, multirun=args.multirun, config_dir=args.config_dir)
    if args.cfg or args.info:
        return _print_with_hydra(arguments, args.config_dir)
    from kdgraph.report.terminal import print_missing_data, report_progress
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
        done="every run is done whose data can be had; the others are listed",
        fails="a run failed; its directory has the traceback in error.txt",
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
    started = [outcome for outcome in failed if outcome.started]
    again = (
        "it again, and this runs it alone"
        if len(started) == 1
        else "them again, and these run one alone"
    )
    print_note(
        f"{len(started)} of {counted(n_runs, 'run')} failed; the same command tries {again}:"
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
        were = "was" if left == 1 else "were"
        print_note(f"{counted(left, 'run')} {were} not started (fail_fast=true)")


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
        print_note(
            f"logger={logger}: {first_line(error)}; the runs are stored, and the same command logs"
            " them"
        )
        return False
    if done:
        n_before = len(done) - n_logged
        before = f", {n_before} of them before" if n_before else ""
        print_note(f"{counted(len(done), 'run')} logged{before}: {destination}")
    return True


def _raise_failure(outcome: Outcome) -> None:
    if isinstance(outcome.error, KdgError):
        raise outcome.error
    trace = outcome.job.run_dir / "error.txt"
    raise RunFailed(
        f"the run failed: {outcome.failure}"
        + (f" (traceback in {trace})" if trace.exists() else "")
    ) from outcome.error


def _print_with_hydra(arguments: Sequence[str], config_dir: str | None = None) -> int:
    """Print a view of Hydra's on the config, and return its exit code.

    It is captured first: the log of Hydra prints a traceback for each line where a reader such as
    ``head`` ends early.
    """
    import hydra

    from kdgraph.config import conf_dir
    from kdgraph.config.hydra_files import registered_presets

    code = 0
    with (
        registered_presets(config_dir),
        _argv(["kdg run", *arguments]),
        redirect_stdout(io.StringIO()) as text,
    ):
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
