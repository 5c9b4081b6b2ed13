"""Runs in parallel: processes of joblib, jobs of submitit, tasks of Dask or Ray, other launchers.

Cores are shared at one level, by the jobs: the kernels of each get one, or what a cluster gives a
job.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.types import HydraContext
from joblib import Parallel, delayed, effective_n_jobs
from omegaconf import DictConfig, OmegaConf

from kdgraph.config import Job, Plan, RunConfig
from kdgraph.errors import UsageError
from kdgraph.runner.cluster import run_through_submitit
from kdgraph.runner.locks import break_stale_lock, exit_with, process_identity, release_all_locks
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run import attempt
from kdgraph.runner.run_dir import LOCK_FILE, RunDir, one_line
from kdgraph.runner.store import LOCK_SUFFIX, STORE_FOLDER
from kdgraph.runner.workers import run_on_workers, worker_message
from kdgraph.wording import counted

CLEAN_UP_SECONDS = 3.0
StartJobs = Callable[[Sequence[Job]], Sequence[str | None]]
"""Starts jobs and waits; returns the failure of each in one line, as far as its process did."""


def run_in_parallel(
    planned: Plan, todo: Sequence[Job], reporter: ProgressReporter
) -> dict[Path, str]:
    """Run the jobs, each to its end, through the launcher that the config names.

    The content of a run directory counts for more than what this returns: a process may be lost,
    and another one may finish its run.

    Parameters
    ----------
    planned : Plan
        Names the launcher.
    todo : sequence of Job
        Checked jobs.
    reporter : ProgressReporter
        Receives notes.

    Returns
    -------
    dict
        Run directory → failure in one line, as far as the processes returned any.
    """
    launcher: Any = planned.base.hydra.launcher
    cores = int(launcher.get("cpus_per_task") or 1)
    workers = worker_message(launcher, len(todo)) if planned.on_workers else None
    reporter.note(workers or _start_message(launcher, len(todo), cores))
    stop_file = (
        planned.out.resolve() / ".sweeps" / f"failed-{uuid.uuid4().hex[:8]}"
        if planned.fail_fast
        else None
    )
    attempt_job = JobAttempt(cores, Path.cwd(), stop_file)
    try:
        if planned.on_workers:
            return run_on_workers(planned, todo, attempt_job, reporter)
        if planned.is_remote:
            return run_through_submitit(planned, todo, attempt_job, reporter)
        start = (
            _joblib_start(launcher, attempt_job)
            if _is_joblib(launcher)
            else _launcher_start(planned, todo, attempt_job)
        )
        size = max(1, int(planned.base.hydra.sweeper.get("max_batch_size") or len(todo)))
        return _run_batches(start, todo, size, reporter)
    except KeyboardInterrupt:
        _break_locks_of_ended_processes(todo)
        raise
    finally:
        if stop_file:
            stop_file.unlink(missing_ok=True)


def _break_locks_of_ended_processes(todo: Sequence[Job]) -> None:
    """Remove the locks of processes that ended with this one, in run directories and the store.

    They were killed a moment ago, so this looks again for a while; the locks of processes that live
    on stay.
    """
    run_locks = [job.run_dir / LOCK_FILE for job in todo]
    stores = {Path(job.config.out) / STORE_FOLDER for job in todo}
    deadline = time.monotonic() + CLEAN_UP_SECONDS
    while locks := [
        path
        for path in (
            *run_locks,
            *(path for store in stores for path in store.glob(f"*/*{LOCK_SUFFIX}")),
        )
        if path.exists()
    ]:
        for path in locks:
            break_stale_lock(path)
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)


def _run_batches(
    start: StartJobs, todo: Sequence[Job], size: int, reporter: ProgressReporter
) -> dict[Path, str]:
    """Start all jobs, ``size`` at a time, and again those that are left when a process dies.

    A process that dies, out of memory for instance, ends all that run in parallel. Of the jobs that
    had begun then, one is to blame. They are started again at the end, each alone, so that it takes
    no other with it.
    """
    failures: dict[Path, str] = {}

    def start_batches(jobs: Sequence[Job]) -> None:
        for first in range(0, len(jobs), size):
            batch = jobs[first : first + size]
            for job, failure in zip(batch, start(batch), strict=False):
                if failure:
                    failures[job.run_dir] = failure

    before = {job.run_dir: RunDir(job.run_dir).versions for job in todo}
    left, interrupted = list(todo), list[Job]()
    while left:
        try:
            start_batches(left)
            break
        # Any: each launcher has its own; the run directories show which jobs were lost.
        except Exception as error:
            not_ended = [job for job in left if RunDir(job.run_dir).versions == before[job.run_dir]]
            begun = [job for job in not_ended if (job.run_dir / LOCK_FILE).exists()]
            if len(not_ended) == len(left) and not begun:
                reason = f"the launcher could not start anything ({one_line(error)})"
                raise UsageError(
                    f"{reason}; hydra/launcher=joblib runs on this machine, basic one after the"
                    " other"
                ) from error
            interrupted += begun
            left = [job for job in not_ended if job not in begun]
            reporter.note(
                f"a process was lost ({one_line(error)[:150]}); what was at work is tried again,"
                f" each run alone: {len(begun)}"
            )
    for job in interrupted:
        # Any: a process that is lost again; its run directory shows it.
        with suppress(Exception):
            start_batches([job])
    return failures


def _joblib_start(launcher: DictConfig, attempt_job: JobAttempt) -> StartJobs:
    """Return a function that runs jobs in processes of joblib.

    Hydra's own launcher would compose every job's config again in its process. The processes end
    with this one, whatever ends it, from their start on.
    """
    options = cast("dict[str, Any]", OmegaConf.to_container(launcher, resolve=True))
    del options["_target_"]
    for name in ("pre_dispatch", "batch_size", "max_nbytes"):  # whole numbers are text in the node
        with suppress(TypeError, ValueError):
            options[name] = int(options[name])
    options |= {
        "backend": "loky",
        "initializer": _start_worker,
        "initargs": (process_identity(),),
    }

    def start(jobs: Sequence[Job]) -> list[str | None]:
        tasks = (delayed(_failure_of)(attempt_job, job.config) for job in jobs)
        return cast("list[str | None]", Parallel(**options)(tasks))

    return start


def _start_worker(main_process: Mapping[str, Any]) -> None:
    """Prepare a process of joblib."""
    from joblib.externals.loky import process_executor

    exit_with(main_process, release_all_locks)
    # joblib restarts a process that grows by 300 MB after its first job, which torch and numba do
    # when they are imported.
    process_executor._MAX_MEMORY_LEAK_SIZE = int(4e9)


def _failure_of(attempt_job: JobAttempt, config: RunConfig) -> str | None:
    """Do a run, and return its failure in one line."""
    error = attempt_job(config)
    return one_line(error) if error else None


def _launcher_start(planned: Plan, todo: Sequence[Job], attempt_job: JobAttempt) -> StartJobs:
    """Return a function that runs jobs through another plugin's launcher of Hydra."""
    numbers = {job: number for number, job in enumerate(todo)}
    task = LauncherTask([job.config for job in todo], attempt_job)
    context = HydraContext(
        config_loader=planned.composer.loader,
        callbacks=cast("Any", _NoCallbacks()),
    )
    launcher = Plugins.instance().instantiate_launcher(
        hydra_context=context, task_function=cast("Any", task), config=planned.base
    )

    def start(jobs: Sequence[Job]) -> list[str | None]:
        failures: list[str | None] = []
        # A launcher numbers its jobs one after the other, and a task finds its config by number.
        for first, last in _consecutive([numbers[job] for job in jobs]):
            batch = todo[first:last]
            returned = launcher.launch([job.overrides for job in batch], initial_job_idx=first)
            results = [*(returned or ()), *[None] * len(batch)][: len(batch)]
            failures += [_returned_failure(result) for result in results]
        return failures

    return start


def _consecutive(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive numbers, as first and last + 1.

    >>> _consecutive([0, 1, 2, 5, 7, 8])
    [(0, 3), (5, 6), (7, 9)]
    """
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1] = ranges[-1][0], number + 1
        else:
            ranges.append((number, number + 1))
    return ranges


def _returned_failure(result: Any) -> str | None:
    """Return the failure that a launcher's ``JobReturn`` contains, if it contains one."""
    if getattr(result, "status", None) is not JobStatus.COMPLETED:
        return None
    return result.return_value if isinstance(result.return_value, str) else None


class _NoCallbacks:
    """Hydra's callbacks of a job, without effect: kdgraph's config has none."""

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Do nothing."""

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class LauncherTask:
    """Function that a launcher of Hydra calls in each of its processes.

    Attributes
    ----------
    configs : sequence of RunConfig
        Checked configs by the number of the job. The composed config that the launcher passes is
        not used.
    attempt_job : JobAttempt
        Does a run.
    """

    configs: Sequence[RunConfig]
    attempt_job: JobAttempt

    def __call__(self, composed: DictConfig) -> str | None:
        """Do the run of this job, and return its failure in one line."""
        return _failure_of(self.attempt_job, self.configs[HydraConfig.get().job.num])


@dataclass(frozen=True)
class JobAttempt:
    """Function that does one run of many, in a process of its own.

    Attributes
    ----------
    n_jobs : int
        Cores of a job.
    folder : Path
        Folder of the command, where relative paths start.
    stop_file : Path or None
        A file that exists once a run has failed and no other is to start.
    """

    n_jobs: int
    folder: Path
    stop_file: Path | None

    def __call__(self, config: RunConfig) -> Exception | None:
        """Do the run, and return its failure."""
        os.chdir(self.folder)  # a process of joblib may be left from a sweep of another folder
        if self.stop_file and self.stop_file.exists():
            return None
        error = attempt(replace(config, n_jobs=self.n_jobs), QuietReporter())
        if error and self.stop_file:
            with suppress(OSError):  # on a full disk the other runs fail too
                self.stop_file.parent.mkdir(parents=True, exist_ok=True)
                self.stop_file.touch()
        return error


class QuietReporter(ProgressReporter):
    """Reporter of a job among others, which wait for each other's fits as a matter of course."""

    def waiting(self, line: str) -> None:
        """Do nothing."""


def _start_message(launcher: Any, n_jobs: int, cores: int) -> str:
    cores_each = "one core each" if cores == 1 else f"{cores} cores each"
    runs = counted(n_jobs, "run")
    if _is_joblib(launcher):
        return f"{runs}, {min(n_jobs, effective_n_jobs(launcher.n_jobs))} at a time, {cores_each}"
    logs = f"; their logs are in {folder}" if (folder := launcher.get("submitit_folder")) else ""
    name = str(launcher["_target_"]).rpartition(".")[2]
    return f"{runs} through {name}, {cores_each}{logs}"


def _is_joblib(launcher: Any) -> bool:
    return str(launcher["_target_"]).endswith("JoblibLauncher")
