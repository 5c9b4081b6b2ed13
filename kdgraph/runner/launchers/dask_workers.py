"""Runs as tasks on workers of Dask, of a cluster or of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from kdgraph.config import Job
from kdgraph.errors import UsageError
from kdgraph.runner.launchers.dask_fits import CONNECT_SECONDS, dask_client
from kdgraph.runner.launchers.launcher import EngineLost, LaunchedRun, WorkerLost, Workers


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
            dask_client(self.address, self.n_workers, allowed_failures=0)
        )
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        if threaded := [worker for worker in workers.values() if worker["nthreads"] > 1]:
            raise UsageError(
                f"workers of Dask must have one thread each for runs, got {len(threaded)} with"
                f" more; dask worker {self.address} --nthreads 1 --nworkers N starts such ones"
            )

    def __exit__(self, *error: object) -> None:
        """End the connection, and the workers of this machine."""
        self._stack.close()

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> list[Any]:
        """Return the future of each run."""
        # Without a partial, the arguments would be searched for other futures.
        return [self._client.submit(partial(task, job.config), pure=False) for job in jobs]

    def has_ended(self, future: Any) -> bool:
        """Return whether a run has ended or is lost."""
        # What a run returns is kept by its worker until it is read. Where that worker has ended,
        # the future is "lost" until another one has read it again, from the run directory.
        return future.status not in ("pending", "lost")

    def failure(self, future: Any) -> str | None:
        """Return the failure of a run, or raise that its worker or the cluster was lost."""
        from distributed import KilledWorker

        if future.status == "cancelled":  # by the client itself, without its scheduler
            raise EngineLost("its scheduler has ended, or the connection to it")
        try:
            return future.result(timeout=CONNECT_SECONDS)
        except (KilledWorker, TimeoutError) as error:  # died, or does not hand the result over
            raise WorkerLost from error

    def cancel(self, futures: Sequence[Any], error: KeyboardInterrupt) -> None:
        """Take runs out of the queue; those that have begun go on on the workers of a cluster."""
        with suppress(Exception):
            self._client.cancel(list(futures), force=True)
