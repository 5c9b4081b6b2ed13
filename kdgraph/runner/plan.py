"""The runs of a plan: composed or known from an earlier one, checked, and run where not done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.config import Job, Plan, check, plan
from kdgraph.errors import CannotWrite, ConfigError, UsageError
from kdgraph.runner.availability import MissingData, fetch_all
from kdgraph.runner.files import DISK_FULL, check_writable
from kdgraph.runner.index import Index
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import ASIDE, RunDir
from kdgraph.runner.sweep import Outcome, launch
from kdgraph.wording import counted


def plan_runs(
    overrides: Sequence[str], *, multirun: bool = False, config_dir: str | None = None
) -> Plan:
    """Return every job of the overrides; raise ConfigError if one of them cannot be composed.

    Jobs of a sweep have the run directory that the index knows from an earlier composition.
    """
    planned = plan(overrides, multirun=multirun, config_dir=config_dir)
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

    A job that is done was checked when it ran, so it need not be among ``jobs``. Jobs that differ
    by the seed alone are checked once: no component is built with it.
    """
    checked: set[str] = set()
    for job in jobs:
        with _naming_job(job, planned):
            if (options := job.config.options_but_seed) not in checked:
                check(job.config)
                checked.add(options)
    Index.of(planned).remember(job for job in planned.jobs if job.known is None)


@dataclass(frozen=True)
class PlanResult:
    """Result of the jobs of a plan.

    ``outcomes`` are those of the jobs that could be started, in the order of the plan, ``before``
    the jobs that were done before. ``absent`` maps run ids to data that are not available.
    """

    outcomes: Sequence[Outcome]
    before: set[Job]
    absent: Mapping[str, MissingData]


def run_plan(planned: Plan, reporter: ProgressReporter) -> PlanResult:
    """Check all jobs, fetch their data, and run those that are not done.

    A config that cannot be run raises KdgError, and so do absent data of the only job.
    """
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


def _split_by_record(
    planned: Plan, note: Callable[[str], None]
) -> tuple[list[Job], dict[Job, dict[str, Any]]]:
    """Return the jobs to do, and the records of those that are done; ``force`` does all of them.

    A damaged record counts as none, and ``note`` gets a line on it. For a single run, predictions
    and tables are compared with the record too, and the run is made again where one of them has
    changed; for a sweep, whose files may be gigabytes, they are not.
    """
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
