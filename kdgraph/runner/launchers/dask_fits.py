"""Fits of one run on workers of Dask, for a table that one machine takes long for.

The trees of a forest are fitted there, training rows are encoded by the trees, and the class masses
around rows are counted. Every task is a function of what it is sent, and its result is put where it
belongs, so that the numbers are those of this machine to the bit.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from joblib import effective_n_jobs, parallel_config

from kdgraph.errors import RunFailed, UsageError
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import one_line

Result = TypeVar("Result")

CONNECT_SECONDS = 20
"""For so long a cluster may not respond, or have no worker yet."""
MAX_ATTEMPTS = 3
"""A stage that has lost workers in so many attempts is given up."""


@contextmanager
def dask_client(address: str | None, n_workers: int, *, allowed_failures: int = 3) -> Iterator[Any]:
    """Yield a client of the scheduler at ``address``, or else of workers of this machine.

    These have one thread each, end with the block, and repeat a task that was lost as often as is
    allowed.
    """
    from dask.config import set as set_dask
    from distributed import Client, LocalCluster

    # A process that fits is a command's or a worker's own, so that levels stay as they are set.
    for name in list(logging.root.manager.loggerDict):  # each has a level of its own
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    if address is not None and not re.search(r"^inproc://|:\d+/?$", address):
        # A client that fails to begin would write a traceback when it is deleted.
        raise ValueError("an address of Dask is tcp://host:port")
    settings = {
        "distributed.scheduler.allowed-failures": allowed_failures,
        # Tasks of joblib carry what they compute with, such as trees.
        "distributed.admin.large-graph-warning-threshold": "1TB",
    }
    stack = ExitStack()
    try:
        stack.enter_context(set_dask(settings))
        scheduler: Any = address or stack.enter_context(
            LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                memory_limit=0,  # the machine's, as for processes of joblib
                dashboard_address="127.0.0.1:0",  # None takes port 8787 all the same
                scheduler_kwargs={"dashboard": False},
                host="127.0.0.1",
                silence_logs=logging.CRITICAL,
            )
        )
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        stack.enter_context(client)
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        yield client
    finally:
        with suppress(OSError):  # a scheduler that is gone does not accept the end either
            stack.close()


@dataclass
class FitWorkers:
    """Workers that do what the stages of one run send to joblib, instead of threads.

    Rows that joblib sends to one worker are lost with it. The stage is then fitted again; it is
    stored when it has ended, so that nothing of it can be half done.
    """

    fit_on: str | None
    """Address of a scheduler, "dask" for workers of this machine, or None for this process."""
    n_jobs: int
    """Workers of this machine; -1 for one for each core."""
    reporter: ProgressReporter
    client: Any = None
    stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        """Connect to the cluster, or start the workers; raise UsageError if there are none."""
        if self.fit_on is not None:
            address = None if self.fit_on == "dask" else self.fit_on
            try:
                workers = dask_client(address, effective_n_jobs(self.n_jobs))
                self.client = self.stack.enter_context(workers)
            except (OSError, RuntimeError, ValueError) as error:
                raise UsageError(
                    f"fit_on={self.fit_on}: no workers of Dask there ({one_line(error)[:200]});"
                    " fit_on=dask starts workers on this machine, fit_on=null fits in one process"
                ) from error
        return self

    def __exit__(self, *raised: object) -> None:
        """End the connection, and the workers of this machine."""
        self.stack.close()

    def run(self, stage: Callable[[], Result]) -> Result:
        """Return the result of a stage, a function that may be called again.

        RunFailed is raised if the scheduler was lost, or all workers, or some in each attempt.
        """
        if self.fit_on is None:
            return stage()
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        place = f"of Dask at {self.fit_on}"
        resume = "the same command goes on from the stages that are done"
        for attempt in range(MAX_ATTEMPTS):
            if attempt > 0:
                self.reporter.note("a worker was lost in a fit, which begins again")
            try:
                with parallel_config(backend="dask", client=self.client):
                    return stage()
            # Any: those of the stage, and of a scheduler that ends, which have many kinds.
            except Exception as error:
                if self.client.status != "running":
                    lost = f"the scheduler {place} has ended, or the connection to it"
                    raise RunFailed(f"{lost}; {resume}") from error
                is_loss = isinstance(error, KilledWorker | FutureCancelledError)
                # joblib itself raises a TimeoutError where there is no worker for a while.
                if (is_loss or isinstance(error, TimeoutError)) and not self._has_workers():
                    raise RunFailed(f"no worker {place} is left; {resume}") from error
                if not is_loss:
                    raise
        raise RunFailed(
            f"workers {place} were lost in {MAX_ATTEMPTS} attempts at one stage: out of memory, or"
            f" killed; {resume}, fit_on=null fits in one process"
        )

    def _has_workers(self) -> bool:
        try:
            self.client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            return False
        return True
