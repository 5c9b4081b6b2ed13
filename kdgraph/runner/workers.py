"""Runs as tasks on the workers of Dask or Ray, of a cluster or of this machine.

The maintained release of Hydra's launcher for Ray needs a later Hydra, and there is none for Dask.
Both would compose each job's config again on its worker; here a task carries its checked config.

The engines notice a worker that dies, and take no other run with it. What they do about it differs,
by version and by the settings of a cluster, so a run whose worker was lost comes back to this
process: it is tried once more when the others have ended, alone, as it may have been the one that
used up the memory.

Workers read and write the run directories and the store themselves, on a file system that they
share with this process. Only failures travel back, in one line.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from joblib import cpu_count

from kdgraph.config import Job, Plan, RunConfig
from kdgraph.errors import UsageError
from kdgraph.runner.fit_workers import CONNECT_SECONDS, dask_client
from kdgraph.runner.locks import exit_with, process_identity, release_all_locks
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import one_line
from kdgraph.wording import counted

TASK_POLL_SECONDS = 0.2
HEAD_POLL_SECONDS = 3
"""How often a head of Ray is looked at."""
HEAD_SILENCE_SECONDS = 20
"""How long a head may accept no connection; some are started again after a fault."""
OBJECT_STORE_BYTES = 80 * 2**20
"""Ray's smallest store of objects: what travels is a config and a line."""
LOST_TWICE = "its worker was lost twice; out of memory, or killed"


class WorkerLost(Exception):
    """The process that did a run has ended before it."""


class ClusterLost(Exception):
    """Nothing is run any more: the scheduler is gone, or all that it had."""


@dataclass(frozen=True)
class WorkerTask:
    """Function of a task, which an engine pickles.

    Attributes
    ----------
    attempt : callable
        Does one run.
    main_process : dict or None
        Identity of the process that waits, if the worker is to end with it; None for a worker of a
        cluster.
    """

    attempt: Callable[[RunConfig], Exception | None]
    main_process: Mapping[str, Any] | None

    def __call__(self, config: RunConfig) -> str | None:
        """Do the run; return its failure in one line."""
        if self.main_process:
            exit_with(self.main_process, release_all_locks)
        error = self.attempt(config)
        return one_line(error) if error else None


class Workers(ABC):
    """Workers of an engine, which do runs while the block lasts.

    Parameters
    ----------
    address : str or None
        Address of a cluster; None for workers of this machine, which end with the block.
    n_jobs : int
        Workers of this machine.
    cores : int
        Cores of a run.
    """

    name: str

    def __init__(self, address: str | None, n_jobs: int, cores: int) -> None:
        self.address, self.n_jobs, self.cores = address, n_jobs, cores

    def __enter__(self) -> Self:
        """Connect to the cluster, or start the workers.

        Raises
        ------
        UsageError
            There is no such cluster, or it has no workers that can do runs.
        """
        try:
            self._start()
        except UsageError:
            self._close()
            raise
        # Any: an engine has many kinds for what cannot be reached.
        except Exception as error:
            self._close()
            where = f"at {self.address}" if self.address else "on this machine"
            raise UsageError(
                f"no workers of {self.name} {where} ({one_line(error)[:200]});"
                " hydra.launcher.address=… names a cluster, null starts workers here"
            ) from error
        return self

    def __exit__(self, *error: object) -> None:
        """End the connection, and the workers of this machine."""
        self._close()

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    @abstractmethod
    def submit(self, task: WorkerTask, config: RunConfig) -> Any:
        """Return the future of a run, which begins as soon as a worker is free."""

    @abstractmethod
    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Wait a moment, and return the futures of the runs that have ended or are lost."""

    @abstractmethod
    def result(self, future: Any) -> str | None:
        """Return the failure of a run that has ended, in one line.

        Raises
        ------
        WorkerLost
            Its worker ended before it.
        ClusterLost
            The cluster did.
        """

    @abstractmethod
    def cancel(self, futures: Sequence[Any]) -> None:
        """Take runs out of the queue; those that have begun end where the engine can do that."""


class DaskWorkers(Workers):
    """Workers of Dask, which run one task at a time.

    A run changes the folder and the numerical threads of its process, and records its warnings, so
    two of them cannot share one.
    """

    name = "Dask"

    def _start(self) -> None:
        self._stack = ExitStack()
        # A lost run comes back here at once.
        self._client = self._stack.enter_context(
            dask_client(self.address, self.n_jobs, allowed_failures=0)
        )
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        if threaded := [worker for worker in workers.values() if worker["nthreads"] > 1]:
            raise UsageError(
                f"workers of Dask must have one thread each for runs, got {len(threaded)} with"
                f" more; dask worker {self.address} --nthreads 1 --nworkers N starts such ones"
            )

    def _close(self) -> None:
        self._stack.close()

    def submit(self, task: WorkerTask, config: RunConfig) -> Any:
        """Return the future of a run."""
        # Without a partial, the arguments would be searched for other futures.
        return self._client.submit(partial(task, config), pure=False)

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Return the futures that have ended."""
        # What a run returns is kept by its worker until it is read. Where that worker has ended,
        # the future is "lost" until another one has read it again, from the run directory.
        ended = [future for future in futures if future.status not in ("pending", "lost")]
        if not ended:
            time.sleep(TASK_POLL_SECONDS)
        return ended

    def result(self, future: Any) -> str | None:
        """Return the failure of a run, or raise that its worker or the cluster was lost."""
        from distributed import KilledWorker

        if future.status == "cancelled":  # by the client itself, without its scheduler
            raise ClusterLost("its scheduler has ended, or the connection to it")
        try:
            return future.result(timeout=CONNECT_SECONDS)
        except (KilledWorker, TimeoutError) as error:  # died, or does not hand the result over
            raise WorkerLost from error

    def cancel(self, futures: Sequence[Any]) -> None:
        """Take runs out of the queue; those that have begun go on on the workers of a cluster."""
        with suppress(Exception):
            self._client.cancel(list(futures), force=True)


class RayWorkers(Workers):
    """Workers of Ray, each a process that runs one task at a time."""

    name = "Ray"

    def _start(self) -> None:
        if self.address is None:
            _require_token()
        import ray

        logging.getLogger("ray").setLevel(logging.ERROR)
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self.address is None:
            options |= {
                "num_cpus": self.n_jobs * self.cores,
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
            }
        elif self.address != "auto":
            _connect(self.address)  # Ray itself tries for a minute, and writes on stderr what
        # Ray puts a handler of its own in the place of the one that unwinds a command.
        handler = signal.getsignal(signal.SIGTERM)
        try:
            # Without an address Ray would join any cluster that it finds on this machine.
            ray.init(address=self.address or "local", **options)
        finally:
            signal.signal(signal.SIGTERM, handler)
        self._call = ray.remote(num_cpus=self.cores, max_retries=0)(_call)
        self._head = ray.get_runtime_context().gcs_address
        self._checked_at = time.monotonic()
        self._silent_since: float | None = None

    def _close(self) -> None:
        import ray

        with suppress(Exception):
            ray.shutdown()

    def submit(self, task: WorkerTask, config: RunConfig) -> Any:
        """Return the future of a run."""
        return self._call.remote(task, config)

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Return the futures that have ended."""
        import ray

        ended = ray.wait(list(futures), num_returns=len(futures), timeout=0)[0]
        if not ended:
            # Not in ray.wait, which makes a plain KeyboardInterrupt of SIGTERM.
            time.sleep(TASK_POLL_SECONDS)
            self._check_head()
        return ended

    def _check_head(self) -> None:
        """Raise ClusterLost if the head has not accepted a connection for a while.

        Ray would end this process without a word on the runs, after a minute.
        """
        now = time.monotonic()
        if now - self._checked_at < HEAD_POLL_SECONDS:
            return
        self._checked_at = now
        try:
            _connect(self._head)
        except OSError as error:
            self._silent_since = self._silent_since or now
            if now - self._silent_since > HEAD_SILENCE_SECONDS:
                raise ClusterLost(f"its head at {self._head} does not respond") from error
        else:
            self._silent_since = None

    def result(self, future: Any) -> str | None:
        """Return the failure of a run, or raise that its worker or the cluster was lost."""
        import ray
        from ray import exceptions

        try:
            return ray.get(future, timeout=CONNECT_SECONDS)
        except (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
        ) as error:
            raise WorkerLost from error
        except exceptions.RayTaskError as error:
            raise error.cause from error
        except exceptions.RayError as error:
            raise ClusterLost(str(error).partition(". ")[0]) from error

    def cancel(self, futures: Sequence[Any]) -> None:
        """End the runs, with the processes of those that have begun."""
        import ray

        for future in futures:
            with suppress(Exception):
                ray.cancel(future, force=True)


def _require_token() -> None:
    """Have the workers of this machine refuse whoever does not know a token of this process.

    Ray listens on all interfaces, and runs what it is sent. From 2.52 on it can require a token,
    and from 2.59 on it does for workers of one machine; with a token in the environment, which its
    processes inherit, none is stored in the user's home. What a user has set stays.
    """
    if "ray" not in sys.modules:  # it reads the mode when it is imported, and its processes later
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _connect(address: str) -> None:
    """Raise OSError unless ``host:port`` accepts a connection."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if not port.isdigit():
        raise OSError("an address of Ray is host:port, or auto")
    socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()


def _call(task: WorkerTask, config: RunConfig) -> str | None:
    return task(config)


ENGINES = {"DaskWorkers": DaskWorkers, "RayWorkers": RayWorkers}
"""Class by the last word of a launcher's ``_target_``."""


def run_on_workers(
    planned: Plan,
    todo: Sequence[Job],
    attempt: Callable[[RunConfig], Exception | None],
    reporter: ProgressReporter,
) -> dict[Path, str]:
    """Do the runs on the workers of an engine, and return failures by run directory.

    Parameters
    ----------
    planned : Plan
        Names the launcher, the address of its cluster, and the resources of a run.
    todo : sequence of Job
        Checked jobs.
    attempt : callable
        Does one run, and returns its failure; is pickled.
    reporter : ProgressReporter
        Receives notes.

    Raises
    ------
    UsageError
        The cluster cannot be reached, or has no workers that can do runs.
    """
    launcher: Any = planned.base.hydra.launcher
    address, n_jobs, cores = workers_of(launcher, len(todo))
    batch_size = int(planned.base.hydra.sweeper.get("max_batch_size") or 0) or len(todo)
    task = WorkerTask(attempt, None if address else process_identity())
    engine = ENGINES[str(launcher["_target_"]).rpartition(".")[2]]
    failures: dict[Path, str] = {}
    lost: list[Job] = []
    with engine(address, n_jobs, cores) as workers:
        try:
            for first in range(0, len(todo), batch_size):
                lost += _run_together(workers, task, todo[first : first + batch_size], failures)
            if lost:
                reporter.note(
                    f"{counted(len(lost), 'run')} lost a worker; each is tried again, alone"
                )
            for job in lost:
                if _run_together(workers, task, [job], failures):
                    failures[job.run_dir] = LOST_TWICE
        except ClusterLost as error:
            # The run directories show which of them are done all the same.
            reason = f"the cluster was lost: {error}"
            failures = {job.run_dir: reason for job in todo} | failures
    return failures


def worker_message(launcher: Any, n_runs: int) -> str:
    """Return how many runs go where."""
    engine = ENGINES[str(launcher["_target_"]).rpartition(".")[2]].name
    address, n_jobs, cores = workers_of(launcher, n_runs)
    cores_each = "one core each" if cores == 1 else f"{cores} cores each"
    runs = counted(n_runs, "run")
    if address:
        return f"{runs} on the workers of {engine} at {address}, {cores_each}"
    return f"{runs} on {counted(n_jobs, 'worker')} of {engine} on this machine, {cores_each}"


def workers_of(launcher: Any, n_runs: int) -> tuple[str | None, int, int]:
    """Return the address of a launcher's cluster, its workers on this machine, and cores of a run.

    Parameters
    ----------
    launcher : mapping
        The launcher's node.
    n_runs : int
        No more workers are started.

    Raises
    ------
    UsageError
        A value of the node is no number of workers or cores, or no address.
    """
    address = launcher.get("address")
    if not isinstance(address, str | None):
        raise UsageError(f"hydra.launcher.address must be text or null, got {address}")
    cores, n_jobs = launcher.get("cpus_per_task"), launcher.get("n_jobs")
    if not isinstance(cores, int) or cores < 1:
        raise UsageError(f"hydra.launcher.cpus_per_task must be at least 1, got {cores}")
    if not isinstance(n_jobs, int) or n_jobs == 0:
        raise UsageError(
            f"hydra.launcher.n_jobs must be a number of workers, or -1 for all cores, got {n_jobs}"
        )
    if n_jobs < 0:
        n_jobs = max(1, (cpu_count() + 1 + n_jobs) // cores)
    return address, min(n_jobs, n_runs), cores


def _run_together(
    workers: Workers, task: WorkerTask, jobs: Sequence[Job], failures: dict[Path, str]
) -> list[Job]:
    """Do the runs, add their failures, and return the jobs that lost their worker.

    Workers of this machine get their next run when they are idle. Dask gives out more, and counts
    what waits for a worker as lost with it.
    """
    lost: list[Job] = []
    waiting = list(reversed(jobs))
    open_jobs: dict[Any, Job] = {}
    try:
        while waiting or open_jobs:
            while waiting and (workers.address or len(open_jobs) < workers.n_jobs):
                job = waiting.pop()
                open_jobs[workers.submit(task, job.config)] = job
            for future in workers.wait(list(open_jobs)):
                job = open_jobs.pop(future)
                try:
                    failure = workers.result(future)
                except WorkerLost:
                    lost.append(job)
                    continue
                except ClusterLost:
                    raise
                except Exception as error:  # noqa: BLE001 - any: a worker cannot read the task
                    failure = f"its worker could not begin it ({one_line(error)})"
                if failure:
                    failures[job.run_dir] = failure
    except KeyboardInterrupt:
        workers.cancel(list(open_jobs))
        raise
    return lost
