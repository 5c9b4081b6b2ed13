"""Runs as tasks on workers of Dask, of a cluster or of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kdgraph.config import Job
from kdgraph.errors import UsageError
from kdgraph.runner.launchers.dask_fits import dask_client
from kdgraph.runner.launchers.launcher import EngineLost, LaunchedRun, Workers


class DaskWorkers(Workers):
    """Workers of Dask, which run one task at a time.

    A run changes the folder and the numerical threads of its process, and records its warnings, so
    two of them cannot share one. Runs that have not begun leave the queue with the client; those
    that have go on on the workers of a cluster.
    """

    name = "Dask"

    def start(self) -> None:
        """Connect, with lost runs to come back at once."""
        from distributed import KilledWorker

        client = dask_client(self.address, self.n_workers, allowed_failures=0)
        self._client = self.stack.enter_context(client)
        # A worker that does not hand its result over is lost, too.
        self.losses = (KilledWorker, TimeoutError)
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        if threaded := [worker for worker in workers.values() if worker["nthreads"] > 1]:
            raise UsageError(
                f"workers of Dask must have one thread each for runs, got {len(threaded)} with"
                f" more; dask worker {self.address} --nthreads 1 --nworkers N starts such ones"
            )

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> list[Any]:
        """Return the future of each run."""
        # Without a partial, the arguments would be searched for other futures.
        return [self._client.submit(partial(task, job.config), pure=False) for job in jobs]

    def failure(self, future: Any) -> str | None:
        """Return the failure of a run, or raise that its worker or the cluster was lost."""
        # A result whose worker has ended before it was read makes a future "lost", which is not
        # "done", until another worker has read it again, from the run directory.
        if future.status == "cancelled":  # by the client itself, without its scheduler
            raise EngineLost("its scheduler has ended, or the connection to it")
        return super().failure(future)
