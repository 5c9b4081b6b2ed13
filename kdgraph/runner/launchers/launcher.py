"""The interface of the engines that do many runs: submit them, and wait for those that end.

A task carries its checked config, so that nothing is composed a second time, and writes the run
directory and the store itself. The result of a run is the record in its directory, whatever was
lost on the way; what comes back from an engine is a failure in one line at most.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from joblib import cpu_count
from omegaconf import OmegaConf

from kdgraph.config import Job, Plan, RunConfig
from kdgraph.errors import UsageError
from kdgraph.runner.locks import exit_with, release_all_locks
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run import attempt
from kdgraph.runner.run_dir import one_line
from kdgraph.wording import counted


class WorkerLost(Exception):
    """The process that did a run has ended before it; ``failure`` is that of a run lost twice."""

    def __init__(self, reason: str = "", failure: str = "") -> None:
        super().__init__(reason)
        self.failure = failure


class EngineLost(Exception):
    """Nothing is run any more: the scheduler is gone, or all that it had."""


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
        error = self.attempt(config)
        return one_line(error) if error else None

    def attempt(self, config: RunConfig) -> Exception | None:
        """Do the run, and return its failure."""
        if self.main_process:
            exit_with(self.main_process, release_all_locks)
        os.chdir(self.folder)  # the process may be left from a sweep of another folder
        if self.stop_file and self.stop_file.exists():
            return None
        error = attempt(replace(config, n_jobs=self.cores), QuietReporter())
        if error and self.stop_file:
            with suppress(OSError):  # on a full disk the other runs fail too
                self.stop_file.parent.mkdir(parents=True, exist_ok=True)
                self.stop_file.touch()
        return error


class QuietReporter(ProgressReporter):
    """Reporter of a run among others, which wait for each other's fits as a matter of course."""

    def waiting(self, line: str) -> None:
        """Do nothing."""


class Launcher(ABC):
    """Engine that does runs while the block lasts; the node of Hydra's launcher has its options."""

    capacity: int | None = None
    """Runs that are submitted at a time, each of the others when one has ended; None for all."""
    batch_size: int | None = None
    """Runs that are submitted before all of them have ended; None for all."""
    is_local: bool = False
    """True if the processes are to end with this one."""
    retries_alone: ClassVar[bool] = True
    """True if a lost run is tried again when the others have ended, alone, as it may have been the
    one that used up the memory; otherwise it is submitted again at once.
    """

    def __init__(self, planned: Plan, n_runs: int, reporter: ProgressReporter) -> None:
        self.node: Any = OmegaConf.to_container(planned.base.hydra.launcher, resolve=True)
        self.planned, self.n_runs, self.reporter = planned, n_runs, reporter
        cores = self.node.get("cpus_per_task")
        self.cores = 1 if cores is None else cores
        if not isinstance(self.cores, int) or self.cores < 1:
            raise UsageError(f"hydra.launcher.cpus_per_task must be at least 1, got {cores}")

    def message(self) -> str:
        """Return how many runs go where."""
        cores = "one core each" if self.cores == 1 else f"{self.cores} cores each"
        return f"{counted(self.n_runs, 'run')}{self._place()}, {cores}"

    def _place(self) -> str:
        return f" through {self.node['_target_'].rpartition('.')[2]}"

    def way_out(self, error: str) -> str:
        """Return what to do where nothing can be submitted."""
        return "hydra/launcher=joblib runs on this machine, basic one after the other"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:  # noqa: B027
        """End what was started for the block."""

    @abstractmethod
    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> Sequence[Any]:
        """Return the future of each run."""

    @abstractmethod
    def has_ended(self, future: Any) -> bool:
        """Return whether a run has ended or is lost."""

    @abstractmethod
    def failure(self, future: Any) -> str | None:
        """Return the failure of a run that has ended, in one line, as far as it came back.

        Raise WorkerLost if its process ended before it, and EngineLost if the engine did.
        """

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait a moment, or until a run ends; raise EngineLost if none can end any more."""
        # Not in an engine's own wait, some of which make a plain KeyboardInterrupt of SIGTERM.
        time.sleep(0.2)

    def cancel(self, futures: Sequence[Any], error: KeyboardInterrupt) -> None:  # noqa: B027
        """End the runs, or take them out of the queue, because of an interruption."""


class Workers(Launcher):
    """Workers of a cluster at an address, or of this machine, which end with the block.

    A worker of this machine gets its next run when it is idle: engines give out more, and count
    what waits for a worker as lost with it.
    """

    name: ClassVar[str]

    def __init__(self, planned: Plan, n_runs: int, reporter: ProgressReporter) -> None:
        super().__init__(planned, n_runs, reporter)
        self.address = self.node.get("address")
        if not isinstance(self.address, str | None):
            raise UsageError(f"hydra.launcher.address must be text or null, got {self.address}")
        n_jobs = self.node["n_jobs"]
        if n_jobs < 0:
            n_jobs = max(1, (cpu_count() + 1 + n_jobs) // self.cores)
        self.n_jobs, self.n_workers = n_jobs, min(n_jobs, n_runs)
        self.is_local = self.address is None
        self.capacity = self.n_workers if self.is_local else None

    def _place(self) -> str:
        if self.address:
            return f" on the workers of {self.name} at {self.address}"
        return f" on {counted(self.n_workers, 'worker')} of {self.name} on this machine"

    def __enter__(self) -> Self:
        """Connect to the cluster, or start the workers; raise UsageError if there are none."""
        try:
            self._start()
        # Any: an engine has many kinds for what cannot be reached.
        except Exception as error:
            self.__exit__()
            if isinstance(error, UsageError):
                raise
            where = f"at {self.address}" if self.address else "on this machine"
            raise UsageError(
                f"no workers of {self.name} {where} ({one_line(error)[:200]});"
                " hydra.launcher.address=… names a cluster, null starts workers here"
            ) from error
        return self

    def _start(self) -> None:
        """Connect to the cluster, or start the workers."""
