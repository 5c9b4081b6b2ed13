"""Runs in processes of this machine, of loky's executor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any

from joblib import cpu_count
from joblib.externals.loky import ProcessPoolExecutor, process_executor
from joblib.parallel import ParallelBackendBase

from kdgraph.config import Job, Plan
from kdgraph.runner.launchers.launcher import LaunchedRun, Launcher
from kdgraph.runner.locks import exit_with, process_identity, release_all_locks
from kdgraph.runner.monitoring import ProgressReporter

IDLE_SECONDS = 300
"""Processes serve the next sweep of this process, too, unless it comes later."""
# Not the reusable executor of joblib, which is of a class of its own and shared with every other
# call of joblib in this process.
_kept: dict[int, ProcessPoolExecutor] = {}


class LocalProcesses(Launcher):
    """Processes of loky's executor, which ends all of them where one is lost; others then start.

    They end with this process, whatever ends it, from their start on.
    """

    is_local, losses = True, (BrokenExecutor,)

    def __init__(self, planned: Plan, n_runs: int, reporter: ProgressReporter) -> None:
        super().__init__(planned, n_runs, reporter)
        self.capacity, self.place = self.n_workers, f", {self.n_workers} at a time"

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Keep the processes for the next sweep, unless the block was interrupted."""
        if isinstance(error, KeyboardInterrupt):
            end_processes(kill=True)

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> list[Future[str | None]]:
        """Return the future of each run."""
        return [self._submit_one(task, job) for job in jobs]

    def _submit_one(self, task: LaunchedRun, job: Job) -> Future[str | None]:
        while True:
            try:
                return _executor(self.n_workers).submit(task, job.config)
            # A process has died just now.
            except (BrokenExecutor, process_executor.ShutdownExecutorError):
                _kept.clear()

    def wait(self, futures: Sequence[Future[str | None]]) -> None:
        """Wait until a run ends."""
        wait(futures, return_when=FIRST_COMPLETED)


def _executor(n_workers: int) -> ProcessPoolExecutor:
    """Return the executor that serves all sweeps of this process with so many workers."""
    if n_workers not in _kept:
        _kept.clear()
        # Numerical libraries would take all cores in each process.
        threads = str(max(1, cpu_count() // n_workers))
        _kept[n_workers] = ProcessPoolExecutor(
            n_workers,
            timeout=IDLE_SECONDS,
            initializer=_start_worker,
            initargs=(process_identity(),),
            env={v: os.environ.get(v, threads) for v in ParallelBackendBase.MAX_NUM_THREADS_VARS},
        )
    return _kept[n_workers]


def end_processes(*, kill: bool = False) -> None:
    """End the processes that wait for another sweep; ``kill`` those too that do a run."""
    while _kept:
        _, executor = _kept.popitem()
        executor.shutdown(wait=True, kill_workers=kill)


def _start_worker(main_process: Mapping[str, Any]) -> None:
    exit_with(main_process, release_all_locks)
    # joblib restarts a process that grows by 300 MB after its first job, which torch and numba do
    # when they are imported.
    process_executor._MAX_MEMORY_LEAK_SIZE = int(4e9)
