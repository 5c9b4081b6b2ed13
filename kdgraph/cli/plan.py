"""Command ``kdg plan``: list what a command would run; nothing is run or fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdgraph.cli.arguments import CommandParser, OverrideParser
from kdgraph.wording import print_note

if TYPE_CHECKING:
    from kdgraph.config import Job, Plan
    from kdgraph.results.estimate import RunTimes


def main(arguments: list[str]) -> int:
    """Print the plan and return the exit code."""
    args = parser().parse(arguments)
    from kdgraph.runner.plan import check_jobs, plan_runs

    planned = plan_runs(args.overrides, multirun=args.multirun, config_dir=args.config_dir)
    check_jobs(planned, [job for job in planned.jobs if job.known is None])
    from kdgraph.report.plan_table import UNFINISHED_STATES, PlannedRun, plan_table
    from kdgraph.report.terminal import show, terminal_width
    from kdgraph.results.export import wrap_line
    from kdgraph.runner.availability import by_reason, find_missing

    states = {job: _state(job, planned.force) for job in planned.jobs}
    absent = find_missing(job for job, state in states.items() if state in UNFINISHED_STATES)
    times = _times(planned)
    runs = []
    for job, state in states.items():
        dataset, method = job.run_dir.parts[-3:-1]
        if state != "done" and job.run_dir.name in absent:
            state = "not at hand"
        holds_out = job.config.division == "held_out"
        sizes = (
            times.sizes(job.config.dataset, holds_out=holds_out)
            if state in UNFINISHED_STATES
            else None
        )
        runs.append(PlannedRun(dataset, method, state, sizes))
    show(plan_table(runs, times, _n_parallel(planned), terminal_width()))
    for reason, names in by_reason(absent.values()).items():
        line = f"not at hand: {', '.join(names)} ({reason})"
        print("\n".join(wrap_line(line, terminal_width())))
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    return OverrideParser(
        "plan",
        "List what 'kdg run' with the same arguments would run, by method: how many runs are"
        " done, failed and to do, which data are missing, and how long the rest may take, judged"
        " by finished runs. Nothing is run or fetched.",
        examples=[
            "kdg plan -m dataset=spiral,circle method=kdf,isotonic seed='range(0,5)'",
            "kdg plan experiment=bench/simulations",
        ],
    )


def _state(job: Job, force: bool) -> str:
    from kdgraph.runner.run_dir import RunDir

    folder = RunDir(job.run_dir)
    if folder.is_running:
        return "running"
    if not force and folder.record():
        return "done"
    if damage := folder.damage():
        print_note(damage)
    return "failed" if folder.versions.failure else "to do"


def _times(planned: Plan) -> RunTimes:
    from kdgraph.errors import UsageError
    from kdgraph.results.estimate import RunTimes
    from kdgraph.results.records import find_runs

    try:
        return RunTimes(
            run.record for run in find_runs(planned.out, note=lambda line: None, outdated=True)
        )
    except UsageError:  # no folder yet, or no run in it
        return RunTimes([])


def _n_parallel(planned: Plan) -> int:
    from joblib import effective_n_jobs

    return effective_n_jobs(planned.base.hydra.launcher.get("n_jobs", 1)) if planned.parallel else 1
