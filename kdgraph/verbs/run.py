"""``kdg run``: check all jobs, run them, tell."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.errors import KdgError, NotAtHand, RunFailed, UsageError
from kdgraph.verbs.hydra_arguments import check_jobs, hydra_arguments, planned_by

if TYPE_CHECKING:
    from kdgraph.config import Job, Plan
    from kdgraph.runner.launch import Outcome


def main(arguments: list[str]) -> int:
    """Run what the arguments say and return the exit code."""
    as_json = "--json" in arguments
    args = hydra_arguments([a for a in arguments if a != "--json"])
    rest = [*args.flags, *args.overrides]
    if args.shell_completion or args.hydra_help:
        from kdgraph.runner.launch import with_hydra

        with_hydra(rest)
        return 0
    planned = planned_by(args)
    from kdgraph.report.terminal import watching
    from kdgraph.runner.at_hand import by_reason, fetch_all
    from kdgraph.runner.launch import launch, with_hydra

    if args.help or args.cfg or args.info:
        with_hydra(rest)
        return 0
    before = {job.config.run_id for job in planned.jobs if job.config.done and not job.config.force}
    check_jobs(planned, before)
    _make_folders(planned)
    todo = [job for job in planned.jobs if job.config.run_id not in before]
    if planned.multirun and not args.multirun:  # an experiment that is a sweep by itself, whose values may be swept over once more
        rest = ["--multirun", *rest]
    with watching() as watch:
        watch.begin("data")
        absent = fetch_all(todo, watch.note)
        if absent and not planned.multirun:
            raise next(iter(absent.values())).error
        outcomes = launch(planned, rest, watch, skipped=frozenset(absent))
    code = _tell(outcomes, planned, before, as_json)
    for reason, names in by_reason(absent.values()).items():
        print(f"kdg: not runnable: {', '.join(names)} ({reason})", file=sys.stderr)
    return code or (0 if outcomes else NotAtHand.exit_code)


def _make_folders(planned: Plan) -> None:
    for out in {job.config.out for job in planned.jobs}:
        try:
            Path(out).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"out must be a folder that files can be written to, got '{out}' ({error.strerror})") from error


def _tell(outcomes: Sequence[Outcome], planned: Plan, before: set[str], as_json: bool) -> int:
    """Print records or tables, then failures; returns the exit code."""
    done = [(outcome.job, outcome.record) for outcome in outcomes if outcome.record]
    failed = [outcome for outcome in outcomes if not outcome.record]
    if failed and not planned.multirun:
        _raise(failed[0])
    if as_json:
        import json

        records = [record for _, record in done]
        print(json.dumps(records if planned.multirun else records[0], indent=1, ensure_ascii=False))
    elif done:
        _print_tables(done, planned.multirun, before)
    if failed:
        print(f"kdg: {len(failed)} of {len(outcomes)} runs failed; they are tried again next time:", file=sys.stderr)
        for outcome in failed:
            print(f"  {outcome.job.config.run_dir}/error.txt   {outcome.failure}", file=sys.stderr)
    return 1 if failed else 0


def _print_tables(done: Sequence[tuple[Job, Any]], multirun: bool, before: set[str]) -> None:
    from kdgraph.report.terminal import show

    if not multirun:
        from kdgraph.report.run_table import run_table

        ((job, record),) = done
        show(run_table(record, str(job.config.run_dir), before=job.config.run_id in before))
        return
    from kdgraph.report.sweep_table import Done, sweep_table, sweep_warnings

    runs = [Done(record, job.swept) for job, record in done]
    show(sweep_table(runs))
    if said := sweep_warnings(runs):
        show("\n" + said)
    found = sum(job.config.run_id in before for job, _ in done)
    show(f"\n{len(done)} runs in {done[0][0].config.out}" + (f", {found} of them done before" if found else ""))


def _raise(outcome: Outcome) -> None:
    """The failure of a single run as an error of ours."""
    if isinstance(outcome.error, KdgError):
        raise outcome.error
    trace = outcome.job.config.run_dir / "error.txt"
    raise RunFailed(f"the run failed: {outcome.failure}" + (f" (traceback in {trace})" if trace.exists() else "")) from outcome.error
