"""Fits of one run on workers of Dask, for a table that one machine takes long for.

Inside of :meth:`FitWorkers.run`, joblib sends tasks to the workers instead of threads of this
process: the trees of a forest are fitted there, training rows are encoded by the trees, and the
class masses around rows are counted. Every task is a function of what it is sent, and its result is
put where it belongs, so that the numbers are those of this machine to the bit.

Rows that joblib sends to one worker are lost with it. A stage that has lost them is fitted again; a
stage is stored when it has ended, so that nothing of it can be half done.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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
def dask_client(
    address: str | None, n_workers: int, *, allowed_failures: int | None = None
) -> Iterator[Any]:
    """Yield a client of Dask: of the scheduler at ``address``, or of workers of this machine.

    These have one thread each, and end with the block.

    Parameters
    ----------
    address : str or None
        Address of a scheduler; None for workers of this machine.
    n_workers : int
        Workers of this machine.
    allowed_failures : int or None
        How often they may repeat a task that was lost; None for Dask's default.

    Raises
    ------
    ValueError, OSError
        No such address, or no scheduler or workers there.
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
    # Tasks of joblib carry what they compute with, such as trees.
    settings: dict[str, Any] = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    if allowed_failures is not None:
        settings["distributed.scheduler.allowed-failures"] = allowed_failures
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
        client = stack.enter_context(
            Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        )
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        yield client
    finally:
        # A scheduler that is gone does not accept the end of the connection either.
        with suppress(Exception):
            stack.close()


class FitWorkers:
    """Workers of Dask that do what the stages of one run send to joblib.

    Parameters
    ----------
    fit_on : str or None
        Address of a scheduler, "dask" for workers of this machine, or None: stages then run in this
        process.
    n_jobs : int
        Workers of this machine; -1 for one for each core.
    reporter : ProgressReporter
        Receives a note where workers are lost.
    """

    def __init__(self, fit_on: str | None, n_jobs: int, reporter: ProgressReporter) -> None:
        self.fit_on, self.n_jobs, self.reporter = fit_on, n_jobs, reporter
        self._stack = ExitStack()
        self._client: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the connection, and the workers of this machine."""
        self._stack.close()

    def run(self, stage: Callable[[], Result]) -> Result:
        """Return the result of a stage, a function that may be called again.

        Raises
        ------
        UsageError
            The workers cannot be reached.
        RunFailed
            The scheduler was lost, or all workers, or some in each of the attempts.
        """
        if self.fit_on is None:
            return stage()
        for attempt in range(MAX_ATTEMPTS):
            client = self._connect()
            try:
                with parallel_config(backend="dask", client=client):
                    return stage()
            except Exception as error:  # noqa: BLE001 - any: what a lost cluster raises differs
                self._check_loss(client, error)
            if attempt < MAX_ATTEMPTS - 1:
                self.reporter.note("a worker was lost in a fit, which begins again")
        raise RunFailed(
            f"workers of Dask were lost in {MAX_ATTEMPTS} attempts at one stage: out of memory, or"
            " killed; the same command begins with it, fit_on=null fits in one process"
        )

    def _check_loss(self, client: Any, error: Exception) -> None:
        """Return if workers were lost and others are there; raise an error otherwise.

        It is ``error`` itself where no worker was lost.
        """
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        resume = "the same command goes on from the stages that are done"
        if client.status != "running":
            lost = f"the scheduler of Dask at {self.fit_on} has ended, or the connection to it"
            raise RunFailed(f"{lost}; {resume}") from error
        is_loss = isinstance(error, KilledWorker | FutureCancelledError)
        # joblib itself waits for a while where there is no worker.
        if is_loss or isinstance(error, TimeoutError):
            try:
                client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            except TimeoutError:
                raise RunFailed(f"no worker of Dask at {self.fit_on} is left; {resume}") from error
        if not is_loss:
            raise error

    def _connect(self) -> Any:
        """Return the client; the first call connects, or starts the workers."""
        if self._client is None:
            address = None if self.fit_on == "dask" else self.fit_on
            try:
                self._client = self._stack.enter_context(
                    dask_client(address, effective_n_jobs(self.n_jobs))
                )
            # Any: the engine has many kinds for what cannot be reached.
            except Exception as error:
                raise UsageError(
                    f"fit_on={self.fit_on}: no workers of Dask there"
                    f" ({one_line(error)[:200]}); fit_on=dask starts workers on this machine,"
                    " fit_on=null fits in one process"
                ) from error
        return self._client
