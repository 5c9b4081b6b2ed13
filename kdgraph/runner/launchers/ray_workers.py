"""Runs as tasks on workers of Ray, of a cluster or of this machine.

Hydra's launcher for Ray would need a later Hydra.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from kdgraph.config import Job
from kdgraph.runner.launchers.dask_fits import CONNECT_SECONDS
from kdgraph.runner.launchers.launcher import EngineLost, LaunchedRun, WorkerLost, Workers

HEAD_POLL_SECONDS = 3
HEAD_SILENCE_SECONDS = 20
"""How long a head may accept no connection; some are started again after a fault."""
OBJECT_STORE_BYTES = 80 * 2**20
"""Ray's smallest store of objects: what travels is a config and a line."""


class RayWorkers(Workers):
    """Workers of Ray, each a process that runs one task at a time, and ends with the client."""

    name = "Ray"

    def start(self) -> None:
        """Start Ray's own processes, too, where there is no cluster."""
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self.address is None:
            _require_token()
            options |= {
                "num_cpus": self.n_workers * self.cores,
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
            }
        elif self.address != "auto":
            _connect(self.address)  # Ray itself tries for a minute, and writes on stderr what
        import ray

        self._ray = ray
        self.stack.callback(ray.shutdown)
        logging.getLogger("ray").setLevel(logging.ERROR)
        # Ray puts a handler of its own in the place of the one that unwinds a command.
        handler = signal.getsignal(signal.SIGTERM)
        try:
            # Without an address Ray would join any cluster that it finds on this machine.
            ray.init(address=self.address or "local", **options)
        finally:
            signal.signal(signal.SIGTERM, handler)
        self._call = ray.remote(num_cpus=self.cores, max_retries=0)(LaunchedRun.__call__)
        self._head = ray.get_runtime_context().gcs_address
        self._checked_at = self._responded_at = time.monotonic()

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> list[Any]:
        """Return the future of each run."""
        return [self._call.remote(task, job.config) for job in jobs]

    def has_ended(self, future: Any) -> bool:
        """Return whether a run has ended or is lost."""
        return bool(self._ray.wait([future], timeout=0)[0])

    def failure(self, future: Any) -> str | None:
        """Return the failure of a run, or raise that its worker or the cluster was lost."""
        from ray import exceptions as errors

        try:
            return self._ray.get(future, timeout=CONNECT_SECONDS)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            raise WorkerLost(error) from error
        except errors.RayTaskError as error:
            raise error.cause from error
        except errors.RayError as error:
            raise EngineLost(str(error).partition(". ")[0]) from error

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait a moment; raise EngineLost if the head has not accepted a connection for a while.

        Ray would end this process without a word on the runs, after a minute.
        """
        super().wait(futures)
        now = time.monotonic()
        if now - self._checked_at < HEAD_POLL_SECONDS:
            return
        self._checked_at = now
        try:
            _connect(self._head)
        except OSError as error:
            if now - self._responded_at > HEAD_SILENCE_SECONDS:
                raise EngineLost(f"its head at {self._head} does not respond") from error
        else:
            self._responded_at = now


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
