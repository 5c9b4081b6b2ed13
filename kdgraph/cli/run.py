"""``kdg run``: check all jobs, run them, tell."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.cli.hydra_arguments import check_jobs, hydra_arguments, planned_by, split_by_record
from kdgraph.errors import CannotWrite, DataNotAvailable, KdgError, RunFailed, UsageError
from kdgraph.wording import counted

if TYPE_CHECKING:
    import argparse

    from kdgraph.config import Job, Plan
    from kdgraph.runner.availability import MissingData
    from kdgraph.runner.monitoring import ProgressReporter
    from kdgraph.runner.sweep import Outcome


def main(arguments: list[str]) -> int:
    """Run what the arguments say and return the exit code."""
    args = hydra_arguments([a for a in arguments if a != "--json"])
    args.json = "--json" in arguments
    rest = [*args.flags, *args.overrides]
    if args.shell_completion or args.hydra_help:
        from kdgraph.runner.sweep import with_hydra

        with_hydra(rest)
        return 0
    planned = planned_by(args)
    from kdgraph.report.terminal import report_progress
    from kdgraph.runner.sweep import with_hydra

    if args.help or args.cfg or args.info:
        with_hydra(rest)
        return 0
    with report_progress() as watch:
        done = carried_out(planned, watch)
    code = _tell(done.outcomes, planned, done.before, args)
    tell_absent(done.absent)
    return code or (0 if done.outcomes else DataNotAvailable.exit_code)


@dataclass(frozen=True)
class CarriedOut:
    """How the jobs of a plan ended, in its order.

    Attributes
    ----------
    outcomes : of all that could be started.
    before : those that were done already.
    absent : run id → what is not at hand.
    """

    outcomes: Sequence[Outcome]
    before: set[Job]
    absent: Mapping[str, MissingData]


def carried_out(planned: Plan, watch: ProgressReporter) -> CarriedOut:
    """Check all jobs, fetch their data, run what is not done.

    Raises
    ------
    KdgError
        A config cannot be run, or the only job's data are not at hand.
    """
    from kdgraph.runner.availability import fetch_all
    from kdgraph.runner.run_dir import RunDir
    from kdgraph.runner.sweep import Outcome, launch

    todo, found = split_by_record(planned, watch.note)
    for job in found:
        RunDir(job.run_dir).break_stale_lock()
    watch.begin(f"checking {len(todo):,} runs")
    check_jobs(planned, todo)
    _make_folders(todo)
    watch.begin("data")
    absent = fetch_all(todo, watch.note)
    if absent and not planned.multirun:
        raise next(iter(absent.values())).error
    ended = launch(
        planned, [job for job in todo if job.config.run_id not in absent], len(found), watch
    )
    outcomes = [*ended, *(Outcome(job, record) for job, record in found.items())]
    place = {job: place for place, job in enumerate(planned.jobs)}
    return CarriedOut(sorted(outcomes, key=lambda outcome: place[outcome.job]), set(found), absent)


def tell_absent(absent: Mapping[str, MissingData]) -> None:
    """A line for each reason, on stderr."""
    from kdgraph.runner.availability import by_reason

    for reason, names in by_reason(absent.values()).items():
        print(f"kdg: not runnable: {', '.join(names)} ({reason})", file=sys.stderr)


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


def _tell(
    outcomes: Sequence[Outcome], planned: Plan, before: set[Job], args: argparse.Namespace
) -> int:
    """Print records or tables, then failures; returns the exit code."""
    done = [(outcome.job, outcome.record) for outcome in outcomes if outcome.record]
    failed = [outcome for outcome in outcomes if not outcome.record]
    if failed and not planned.multirun:
        _raise(failed[0])
    if args.json:
        import json

        records = [record for _, record in done]
        print(json.dumps(records if planned.multirun else records[0], indent=1, ensure_ascii=False))
    elif done:
        _print_tables(done, planned, before)
    if failed:
        flags = ["--config-dir", args.config_dir] if args.config_dir else []
        _tell_failures(failed, len(outcomes), flags, planned.launching if planned.is_remote else ())
    return 1 if failed else 0


def _tell_failures(
    failed: Sequence[Outcome], n_runs: int, flags: Sequence[str], launching: Sequence[str]
) -> None:
    """Why, where the traceback is, and the command that runs it alone; on stderr."""
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
            f"    kdg run {shlex.join([*flags, *outcome.job.overrides, *launching])}",
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
    if said := sweep_warnings(runs):
        show("\n" + said)
    found = sum(job in before for job, _ in done)
    for line in hidden_differences([record for _, record in done]):
        show(f"\n{line}")
    if (place := planned.base.get("post_report")) is not None:
        show("\n" + _post_report(str(place), [record for _, record in done]))
    show(
        f"\n{counted(len(done), 'run')} in {done[0][0].run_dir.parents[2]}"
        + (f", {found} of them done before" if found else "")
    )


def _post_report(place: str, records: Sequence[Any]) -> str:
    """Return the text of the config's ``post_report`` about the records; a line that names the
    function where it cannot be imported, as with an installed wheel.
    """
    from kdgraph.config.components import target_of
    from kdgraph.errors import ConfigError

    try:
        function = target_of({"_target_": place}, "post_report")
    except ConfigError:
        return (
            f"what was published stands in a checkout of kdgraph, which has {place}; run kdg there"
            " to see it beside these runs"
        )
    return function(records)


def _raise(outcome: Outcome) -> None:
    """The failure of a single run as an error of ours."""
    if isinstance(outcome.error, KdgError):
        raise outcome.error
    trace = outcome.job.run_dir / "error.txt"
    raise RunFailed(
        f"the run failed: {outcome.failure}"
        + (f" (traceback in {trace})" if trace.exists() else "")
    ) from outcome.error
