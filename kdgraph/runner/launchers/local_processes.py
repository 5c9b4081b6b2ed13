"""Runs in processes of this machine, of loky's executor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import fields
from typing import Any

from joblib import cpu_count
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import ShutdownExecutorError
from joblib.parallel import ParallelBackendBase

from kdgraph.config import Job, Plan
from kdgraph.errors import UsageError
from kdgraph.runner.launchers.launcher import LaunchedRun, WorkerLost, Workers
from kdgraph.runner.locks import exit_with, process_identity, release_all_locks
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import one_line

IDLE_SECONDS = 300
"""Processes serve the next sweep of this process, too, unless it comes later."""


class LocalProcesses(Workers):
    """Processes of loky's executor, which ends all of them where one is lost; another one starts.

    They end with this process, whatever ends it, from their start on. Hydra's own launcher would
    compose every run's config again in its process; of its options, ``n_jobs`` is of use for runs.
    """

    name = "joblib"

    def __init__(self, planned: Plan, n_runs: int, reporter: ProgressReporter) -> None:
        from hydra_plugins.hydra_joblib_launcher.config import JobLibLauncherConf

        super().__init__(planned, n_runs, reporter)
        unused = {field.name: field.default for field in fields(JobLibLauncherConf)}
        for name, value in self.node.items():
            if name not in ("_target_", "n_jobs") and value != unused.get(name):
                raise UsageError(
                    f"hydra.launcher.{name} has no effect on runs, got {value};"
                    " hydra.launcher.n_jobs is the number of runs at a time"
                )

    def _place(self) -> str:
        return f", {self.n_workers} at a time"

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> list[Future[str | None]]:
        """Return the future of each run."""
        return [self._submit_one(task, job) for job in jobs]

    def _submit_one(self, task: LaunchedRun, job: Job) -> Future[str | None]:
        # Numerical libraries would take all cores in each process.
        threads = dict.fromkeys(
            ParallelBackendBase.MAX_NUM_THREADS_VARS, str(max(1, cpu_count() // self.n_jobs))
        ) | {ParallelBackendBase.TBB_ENABLE_IPC_VAR: "1"}
        env = tuple((name, os.environ.get(name, value)) for name, value in threads.items())
        while True:
            try:
                return _executor(self.n_workers, env).submit(task, job.config)
            except (BrokenExecutor, ShutdownExecutorError):  # a process has died just now
                _kept.clear()

    def has_ended(self, future: Future[str | None]) -> bool:
        """Return whether a run has ended or is lost."""
        return future.done()

    def failure(self, future: Future[str | None]) -> str | None:
        """Return the failure of a run, or raise that its process was lost."""
        try:
            return future.result()
        except BrokenExecutor as error:
            raise WorkerLost(one_line(error)[:150]) from error

    def wait(self, futures: Sequence[Future[str | None]]) -> None:
        """Wait until a run ends."""
        wait(futures, return_when=FIRST_COMPLETED)

    def cancel(self, futures: Sequence[Any], error: KeyboardInterrupt) -> None:
        """End the processes."""
        end_processes(kill=True)


# Not the reusable executor of joblib, which is of a class of its own and shared with every other
# call of joblib in this process.
_kept: dict[tuple[Any, ...], ProcessPoolExecutor] = {}


def _executor(n_workers: int, env: tuple[tuple[str, str], ...]) -> ProcessPoolExecutor:
    """Return the executor that serves all sweeps of this process with so many workers."""
    key = (n_workers, env, os.getpid())
    if key not in _kept:
        _kept.clear()
        _kept[key] = ProcessPoolExecutor(
            n_workers,
            timeout=IDLE_SECONDS,
            initializer=_start_worker,
            initargs=(process_identity(),),
            env=dict(env),
        )
    return _kept[key]


def end_processes(*, kill: bool = False) -> None:
    """End the processes that wait for another sweep; ``kill`` those too that do a run."""
    while _kept:
        _, executor = _kept.popitem()
        executor.shutdown(wait=True, kill_workers=kill)


def _start_worker(main_process: Mapping[str, Any]) -> None:
    """Prepare a process."""
    from joblib.externals.loky import process_executor

    exit_with(main_process, release_all_locks)
    # joblib restarts a process that grows by 300 MB after its first job, which torch and numba do
    # when they are imported.
    process_executor._MAX_MEMORY_LEAK_SIZE = int(4e9)
