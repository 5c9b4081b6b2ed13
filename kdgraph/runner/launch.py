"""The jobs of a plan, each to its end: in this process, or wherever the launcher of Hydra that the
config names starts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.config import Job, Plan
from kdgraph.errors import CannotWrite
from kdgraph.persistence.archive import current_key
from kdgraph.runner.files import check_writable
from kdgraph.runner.run import attempt
from kdgraph.runner.rundir import Ended, RunDir, one_line
from kdgraph.runner.side_by_side import side_by_side
from kdgraph.runner.watch import Watch

LOST = "its process ended before it did; out of memory, or killed"
NOT_STARTED = "not started: another run failed, and fail_fast=true"


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with a record, or with a failure in one line; ``error`` is the exception
    where it is known.
    """

    job: Job
    record: dict[str, Any] | None
    failure: str | None = None
    error: Exception | None = None

    @property
    def started(self) -> bool:
        """False if ``fail_fast`` ended the sweep before it."""
        return self.failure != NOT_STARTED


def launch(planned: Plan, todo: Sequence[Job], n_done: int, watch: Watch) -> list[Outcome]:
    """Run the jobs, whatever becomes of the others, and read their records.

    Parameters
    ----------
    planned : says how to launch.
    todo : checked jobs.
    n_done : how many more of the sweep were done before.
    watch : told of progress.

    Raises
    ------
    UnusableKey
        If ``KDGRAPH_KEY_FILE`` names a file that holds no key for models.
    """
    if todo:
        # one that cannot be used ends the sweep before its first run, and jobs elsewhere find one
        # that is there
        current_key()
    before = {job.run_dir: RunDir(job.run_dir).ended for job in todo}
    errors: Mapping[Path, Exception | str] = {}
    if todo and (planned.is_remote or (planned.parallel and len(todo) > 1)):
        errors = side_by_side(planned, todo, n_done, watch)
    else:
        errors = _one_after_the_other(planned, todo, watch)
    return [_outcome(planned, job, errors.get(job.run_dir), before[job.run_dir]) for job in todo]


def _one_after_the_other(planned: Plan, todo: Sequence[Job], watch: Watch) -> dict[Path, Exception]:
    errors: dict[Path, Exception] = {}
    for place, job in enumerate(todo, 1):
        count = f"{place}/{len(todo)}  " if planned.multirun else ""
        watch.begin(
            f"{count}{job.config.dataset['name']} → {job.config.method}  seed {job.config.seed}"
        )
        if error := attempt(job.config, watch):
            errors[job.run_dir] = error
            if planned.fail_fast:
                break
    return errors


def _outcome(planned: Plan, job: Job, error: Exception | str | None, before: Ended) -> Outcome:
    """Read from the files how a job ended, and where they lack it, from what came back from its
    process.

    A record that was there before is as good where it was not to be replaced: another command may
    have finished the run just now.
    """
    folder = RunDir(job.run_dir)
    is_it = folder.ended.record is not None and not (
        planned.force and folder.ended.record == before.record
    )
    if not isinstance(error, Exception) and is_it and (record := folder.record()):
        return Outcome(job, record)
    if folder.ended.failure not in (None, before.failure):
        return Outcome(job, None, folder.failure(), error if isinstance(error, Exception) else None)
    if isinstance(error, Exception):
        return Outcome(job, None, one_line(error), error)
    if error:  # error.txt could not be written, or the job never got as far
        return Outcome(job, None, error)
    return Outcome(job, None, NOT_STARTED if planned.fail_fast else _why_lost(job))


def _why_lost(job: Job) -> str:
    """Return why a process may have ended that left nothing: a full disk leaves it no place to
    write down that the disk is full.
    """
    try:
        check_writable(job.run_dir.parent)
    except CannotWrite as error:
        return f"its process ended before it did; {error}"
    return LOST
