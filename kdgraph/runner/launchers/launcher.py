"""Many runs through the engine that the config's launcher names, and the interface of engines.

A run carries its checked config, so that nothing is composed a second time, and writes its
directory and the store itself. Its result is the record in its directory, whatever was lost on the
way; what comes back from an engine is a failure in one line at most. Cores are shared at one level,
by the runs: the kernels of each get one, or what a cluster gives it.
"""

from __future__ import annotations

import os
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

from joblib import cpu_count
from omegaconf import OmegaConf

from kdgraph.config import Job, Plan, RunConfig
from kdgraph.config.planning import LAUNCHERS, SUBMITIT
from kdgraph.errors import UsageError
from kdgraph.runner.locks import break_stale_lock, exit_with, process_identity, release_all_locks
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run import attempt
from kdgraph.runner.run_dir import LOCK_FILE, RunDir, one_line
from kdgraph.runner.store import LOCK_SUFFIX, STORE_FOLDER
from kdgraph.wording import counted

HAND_OVER_SECONDS = 20
"""For so long an engine may take to return what a run that has ended returned."""
CLEAN_UP_SECONDS = 3.0


class WorkerLost(Exception):
    """The process that did a run has ended before it; ``failure`` is that of a run lost twice."""

    def __init__(self, reason: Exception | str, failure: str = "") -> None:
        super().__init__(reason if isinstance(reason, str) else one_line(reason)[:150])
        self.failure = failure


class EngineLost(Exception):
    """Nothing is run any more: the scheduler is gone, or all that it had."""


_Ends = dict[Job, WorkerLost | str | None]
"""Run → its failure, the loss of its worker, or None."""


@dataclass(frozen=True)
class LaunchedRun:
    """Function that does one run of many, in a process of its own; engines pickle it."""

    cores: int
    folder: Path
    """Folder of the command, where relative paths start."""
    stop_file: Path | None = None
    """A file that exists once a run has failed and no other is to start."""
    main_process: Mapping[str, Any] | None = None
    """Identity of the process that waits, if this one is to end with it."""

    def __call__(self, config: RunConfig) -> str | None:
        """Do the run, and return its failure in one line."""
        if self.main_process:
            exit_with(self.main_process, release_all_locks)
        os.chdir(self.folder)  # the process may be left from a sweep of another folder
        if self.stop_file and self.stop_file.exists():
            return None
        error = self.attempt(replace(config, n_jobs=self.cores))
        if error and self.stop_file:
            with suppress(OSError):  # on a full disk the other runs fail too
                self.stop_file.touch()
        return one_line(error) if error else None

    def attempt(self, config: RunConfig) -> Exception | None:
        """Do the run, and return its failure."""
        return attempt(config, QuietReporter())


class QuietReporter(ProgressReporter):
    """Reporter of a run among others, which wait for each other's fits as a matter of course."""

    def waiting(self, line: str) -> None:
        """Do nothing."""


class Launcher(ABC):
    """Engine that does runs while the block lasts; the node of Hydra's launcher has its options.

    A block that is interrupted ends the runs, or takes them out of the queue.
    """

    is_local: bool = False
    """True if the processes are to end with this one; there are ``n_workers`` at most."""
    batch_size: int | None = None
    """Runs that are submitted before all of them have ended; None for all."""
    capacity: int | None = None
    """Runs that are submitted at a time, each of the others when one has ended; None for all."""
    retry_capacity: ClassVar[int | None] = 1
    """The same for lost runs, of which one may have used up the memory of the others."""
    way_out = "hydra/launcher=processes runs on this machine, basic one after the other"
    """Advice for the user where nothing can be submitted."""
    losses: tuple[type[Exception], ...] = ()
    """Errors of a future whose worker was lost."""

    def __init__(self, planned: Plan, n_runs: int, reporter: ProgressReporter) -> None:
        self.node: Any = OmegaConf.to_container(planned.base.hydra.launcher, resolve=True)
        self.planned, self.reporter = planned, reporter
        self.place = f" through {self.node['_target_'].rpartition('.')[2]}"
        cores = self.node.get("cpus_per_task")
        self.cores = 1 if cores is None else cores
        if not isinstance(self.cores, int) or self.cores < 1:
            raise UsageError(f"hydra.launcher.cpus_per_task must be at least 1, got {cores}")
        n_jobs = self.node.get("n_jobs", -1)
        n_jobs = n_jobs if n_jobs > 0 else max(1, (cpu_count() + 1 + n_jobs) // self.cores)
        self.n_workers = min(n_jobs, n_runs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:  # noqa: B027
        """End what was started for the block."""

    @abstractmethod
    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> Sequence[Any]:
        """Return the future of each run."""

    def has_ended(self, future: Any) -> bool:
        """Return whether a run has ended or is lost."""
        return future.done()

    def failure(self, future: Any) -> str | None:
        """Return the failure of a run that has ended, in one line, as far as it came back.

        Raise WorkerLost if its process ended before it, and EngineLost if the engine did.
        """
        try:
            return future.result(timeout=HAND_OVER_SECONDS)
        except self.losses as error:
            raise WorkerLost(error) from error

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait a moment, or until a run ends; raise EngineLost if none can end any more."""
        # Not in an engine's own wait, some of which make a plain KeyboardInterrupt of SIGTERM.
        time.sleep(0.2)


class Workers(Launcher):
    """Workers of a cluster at an address, or of this machine, which end with the block.

    A worker of this machine gets its next run when it is idle: engines give out more, and count
    what waits for a worker as lost with it.
    """

    name: ClassVar[str]

    def __init__(self, planned: Plan, n_runs: int, reporter: ProgressReporter) -> None:
        super().__init__(planned, n_runs, reporter)
        self.stack, self.address = ExitStack(), self.node["address"]
        if not isinstance(self.address, str | None):
            raise UsageError(f"hydra.launcher.address must be text or null, got {self.address}")
        self.is_local = self.address is None
        if self.is_local:
            self.capacity = self.n_workers
            self.place = f" on {counted(self.n_workers, 'worker')} of {self.name} on this machine"
        else:
            self.place = f" on the workers of {self.name} at {self.address}"

    def __enter__(self) -> Self:
        """Connect to the cluster, or start the workers; raise UsageError if there are none."""
        try:
            self.start()
        except (OSError, RuntimeError, ValueError) as error:
            self.stack.close()
            if isinstance(error, UsageError):
                raise
            where = f"at {self.address}" if self.address else "on this machine"
            raise UsageError(
                f"no workers of {self.name} {where} ({one_line(error)[:200]});"
                " hydra.launcher.address=… names a cluster, null starts workers here"
            ) from error
        return self

    @abstractmethod
    def start(self) -> None:
        """Connect to the cluster, or start the workers; ``stack`` gets what ends with the block."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """End the connection, and the workers of this machine."""
        self.stack.close()


def launcher_of(planned: Plan, n_runs: int, reporter: ProgressReporter) -> Launcher:
    """Return the launcher that the config names."""
    target = str(planned.base.hydra.launcher["_target_"])
    if target.startswith(SUBMITIT):
        target = f"{LAUNCHERS}submitit_jobs.SubmititJobs"
    elif not target.startswith(LAUNCHERS):
        target = f"{LAUNCHERS}hydra_plugin.HydraPlugin"
    module, _, name = target.rpartition(".")
    return getattr(import_module(module), name)(planned, n_runs, reporter)


def run_in_parallel(
    planned: Plan, todo: Sequence[Job], reporter: ProgressReporter
) -> dict[Path, str]:
    """Do the runs, each whatever becomes of the others, and return failures by run directory.

    The content of a run directory counts for more than what this returns: a process may be lost,
    and another one may finish its run. UsageError is raised where nothing can be started.
    """
    launcher = launcher_of(planned, len(todo), reporter)
    cores = "one core each" if launcher.cores == 1 else f"{launcher.cores} cores each"
    reporter.note(f"{counted(len(todo), 'run')}{launcher.place}, {cores}")
    stop_file = None
    if planned.fail_fast:
        stop_file = planned.out.resolve() / ".sweeps" / f"failed-{uuid.uuid4().hex[:8]}"
        stop_file.parent.mkdir(parents=True, exist_ok=True)
    main_process = process_identity() if launcher.is_local else None
    task = LaunchedRun(launcher.cores, Path.cwd(), stop_file, main_process)
    size = int(planned.base.hydra.sweeper.get("max_batch_size") or launcher.batch_size or len(todo))
    ends: _Ends = {}
    try:
        with launcher:
            for first in range(0, len(todo), size):
                _run_together(launcher, task, todo[first : first + size], ends)
            if lost := [job for job, end in ends.items() if isinstance(end, WorkerLost)]:
                runs, alone = counted(len(lost), "run"), ", alone" * bool(launcher.retry_capacity)
                reporter.note(f"{runs} lost a worker ({ends[lost[0]]}); each is tried again{alone}")
                _run_together(launcher, task, lost, ends, again=True)
    except EngineLost as error:
        for job in todo:  # the run directories show which of them are done all the same
            if not isinstance(ends.get(job), str):
                ends[job] = f"the cluster was lost: {error}"
    except KeyboardInterrupt:
        _break_locks_of_ended_processes(todo)
        raise
    finally:
        if stop_file:
            stop_file.unlink(missing_ok=True)
    for job, end in ends.items():
        if isinstance(end, WorkerLost):
            reason = RunDir(job.run_dir).reason_of_loss()
            ends[job] = end.failure or f"its worker was lost twice; {reason}"
    return {job.run_dir: str(end) for job, end in ends.items() if end}


def _run_together(
    launcher: Launcher, task: LaunchedRun, jobs: Sequence[Job], ends: _Ends, *, again: bool = False
) -> None:
    """Do runs, and enter their ends."""
    capacity = (launcher.retry_capacity if again else launcher.capacity) or len(jobs)
    waiting, open_runs = list(jobs), dict[Job, Any]()
    while waiting or open_runs:
        n_free = capacity - len(open_runs)
        begin, waiting = waiting[:n_free], waiting[n_free:]
        try:
            open_runs |= zip(begin, launcher.submit(task, begin) if begin else (), strict=True)
        # Any: sbatch, submitit and others raise many kinds, RuntimeError among them.
        except Exception as error:
            raise _cannot_start(launcher, one_line(error)) from error
        ended = [job for job, future in open_runs.items() if launcher.has_ended(future)]
        for job in ended:
            try:
                ends[job] = launcher.failure(open_runs.pop(job))
            except WorkerLost as loss:
                ends[job] = loss
            except EngineLost:
                raise
            except Exception as error:  # noqa: BLE001 - any: a worker cannot read the task
                ends[job] = f"its worker could not begin it ({one_line(error)})"
        if not ended:
            launcher.wait(list(open_runs.values()))
        elif launcher.retry_capacity and not open_runs and not any(map(_has_begun, ends.items())):
            raise _cannot_start(launcher, str(ends[ended[0]]))


def _has_begun(end: tuple[Job, WorkerLost | str | None]) -> bool:
    return not isinstance(end[1], WorkerLost) or end[0].run_dir.exists()


def _cannot_start(launcher: Launcher, reason: str) -> UsageError:
    return UsageError(f"the launcher could not start anything ({reason}); {launcher.way_out}")


def _break_locks_of_ended_processes(todo: Sequence[Job]) -> None:
    """Remove locks that were left, in run directories and the store; those of the living stay.

    Processes of an engine may end a moment after it, so this looks again for a while.
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
