"""Many runs through the launcher that the config names.

Cores are shared at one level, by the runs: the kernels of each get one, or what a cluster gives it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from kdgraph.config import Job, Plan
from kdgraph.config.planning import LAUNCHERS, SUBMITIT
from kdgraph.errors import UsageError
from kdgraph.runner.launchers.launcher import EngineLost, LaunchedRun, Launcher, WorkerLost
from kdgraph.runner.locks import break_stale_lock, process_identity
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import LOCK_FILE, RunDir, one_line
from kdgraph.runner.store import LOCK_SUFFIX, STORE_FOLDER
from kdgraph.wording import counted

CLEAN_UP_SECONDS = 3.0


def launcher_of(planned: Plan, n_runs: int, reporter: ProgressReporter) -> Launcher:
    """Return the launcher that the config names."""
    target = str(planned.base.hydra.launcher["_target_"])
    if target.startswith(SUBMITIT):
        target = f"{LAUNCHERS}submitit_jobs.SubmititJobs"
    elif target.endswith("JoblibLauncher"):
        target = f"{LAUNCHERS}local_processes.LocalProcesses"
    elif not target.startswith(LAUNCHERS):
        target = f"{LAUNCHERS}hydra_plugin.HydraPlugin"
    module, _, name = target.rpartition(".")
    return getattr(import_module(module), name)(planned, n_runs, reporter)


def run_in_parallel(
    planned: Plan, todo: Sequence[Job], reporter: ProgressReporter
) -> dict[Path, str]:
    """Do the runs, each whatever becomes of the others, and return failures by run directory.

    The content of a run directory counts for more than what this returns: a process may be lost,
    and another one may finish its run.

    Raises
    ------
    UsageError
        Nothing can be started.
    """
    launcher = launcher_of(planned, len(todo), reporter)
    reporter.note(launcher.message())
    stop_file = (
        planned.out.resolve() / ".sweeps" / f"failed-{uuid.uuid4().hex[:8]}"
        if planned.fail_fast
        else None
    )
    main_process = process_identity() if launcher.is_local else None
    runs = _Runs(launcher, LaunchedRun(launcher.cores, Path.cwd(), stop_file, main_process), todo)
    size = int(planned.base.hydra.sweeper.get("max_batch_size") or launcher.batch_size or len(todo))
    try:
        with launcher:
            return runs.run(size)
    except KeyboardInterrupt:
        _break_locks_of_ended_processes(todo)
        raise
    finally:
        if stop_file:
            stop_file.unlink(missing_ok=True)


class _Runs:
    """Runs through a launcher, and their failures in one line."""

    def __init__(self, launcher: Launcher, task: LaunchedRun, todo: Sequence[Job]) -> None:
        self.launcher, self.task, self.todo = launcher, task, todo
        self.failures: dict[Path, str] = {}
        self.before = {job.run_dir: RunDir(job.run_dir).versions for job in todo}

    def run(self, batch_size: int) -> dict[Path, str]:
        """Do all runs, and those again, alone, that lost their worker; return the failures."""
        lost: dict[Job, WorkerLost] = {}
        try:
            for first in range(0, len(self.todo), batch_size):
                lost |= self._run_together(self.todo[first : first + batch_size])
            if lost:
                reason = next((f" ({loss})" for loss in lost.values() if str(loss)), "")
                self.launcher.reporter.note(
                    f"{counted(len(lost), 'run')} lost a worker{reason}; each is tried again, alone"
                )
            for job in lost:
                if self._run_together([job]):
                    reason = RunDir(job.run_dir).reason_of_loss()
                    self.failures[job.run_dir] = f"its worker was lost twice; {reason}"
        except EngineLost as error:
            # The run directories show which of them are done all the same.
            reason = f"the cluster was lost: {error}"
            self.failures = {job.run_dir: reason for job in self.todo} | self.failures
        return self.failures

    def _run_together(self, jobs: Sequence[Job]) -> dict[Job, WorkerLost]:
        """Do the runs, add their failures, and return those to try again alone."""
        launcher = self.launcher
        waiting, submitted_again = list(jobs), set[Job]()
        open_runs: dict[Job, object] = {}
        lost: dict[Job, WorkerLost] = {}
        try:
            while waiting or open_runs:
                n_free = (launcher.capacity or len(jobs)) - len(open_runs)
                begin, waiting = waiting[:n_free], waiting[n_free:]
                if begin:
                    open_runs |= zip(begin, self._submit(begin), strict=True)
                ended = [job for job, future in open_runs.items() if launcher.has_ended(future)]
                for job in ended:
                    try:
                        failure = launcher.failure(open_runs.pop(job))
                    except WorkerLost as loss:
                        failure = None
                        if launcher.retries_alone:
                            lost[job] = loss
                        elif job in submitted_again:
                            failure = loss.failure
                        else:
                            launcher.reporter.note(f"{loss}; it is submitted again")
                            submitted_again.add(job)
                            waiting.append(job)
                    except EngineLost:
                        raise
                    except Exception as error:  # noqa: BLE001 - any: a worker cannot read the task
                        failure = f"its worker could not begin it ({one_line(error)})"
                    if failure:
                        self.failures[job.run_dir] = failure
                if not ended:
                    launcher.wait(list(open_runs.values()))
                elif lost and not open_runs and not any(map(self._has_begun, self.todo)):
                    raise self._cannot_start(next(iter(lost.values())))
        except KeyboardInterrupt as error:
            launcher.cancel(list(open_runs.values()), error)
            raise
        return lost

    def _submit(self, jobs: Sequence[Job]) -> Sequence[object]:
        try:
            return self.launcher.submit(self.task, jobs)
        # Any: sbatch, submitit and others raise many kinds, RuntimeError among them.
        except Exception as error:
            raise self._cannot_start(error) from error

    def _cannot_start(self, error: Exception) -> UsageError:
        is_loss = isinstance(error, WorkerLost)
        reason = str(error) or "all workers were lost" if is_loss else one_line(error)
        way_out = self.launcher.way_out(reason)
        return UsageError(f"the launcher could not start anything ({reason}); {way_out}")

    def _has_begun(self, job: Job) -> bool:
        is_changed = RunDir(job.run_dir).versions != self.before[job.run_dir]
        return is_changed or (job.run_dir / LOCK_FILE).exists()


def _break_locks_of_ended_processes(todo: Sequence[Job]) -> None:
    """Remove the locks of processes that ended with this one, in run directories and the store.

    They were killed a moment ago, so this looks again for a while; the locks of processes that live
    on stay.
    """
    stores = {Path(job.config.out) / STORE_FOLDER for job in todo}
    deadline = time.monotonic() + CLEAN_UP_SECONDS
    while time.monotonic() < deadline:
        locks = [path for job in todo if (path := job.run_dir / LOCK_FILE).exists()]
        locks += [path for store in stores for path in store.glob(f"*/*{LOCK_SUFFIX}")]
        if not locks:
            return
        for path in locks:
            break_stale_lock(path)
        time.sleep(0.1)
