"""Runs as jobs of their own through submitit: on a SLURM cluster, or as processes of this machine.

Hydra's plugin, whose options name the resources, would submit them as well, but it waits for
results in order, raises at the first job that is lost, and forgets the ids of the others. States of
jobs come from ``squeue``, which is there wherever SLURM is; submitit reads ``sacct`` alone, which
needs accounting.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

from kdgraph.config import Job, Plan, RunConfig
from kdgraph.errors import RunFailed, Terminated
from kdgraph.runner.launchers.launcher import LaunchedRun, Launcher, WorkerLost
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import RunDir

QUEUE_POLL_SECONDS = 5.0
"""How often squeue is called at most; SLURM's controller serves all users of a cluster."""
RESULT_SECONDS = 60.0
"""A file system shared by machines may show a result so long after it was written."""
NODE_LOST = ("BOOT_FAIL", "NODE_FAIL", "PREEMPTED")
"""States of a job that its node or its neighbours ended: it may well succeed on another node."""
FAILED = (*NODE_LOST, "CANCELLED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT")
"""States of a job that will have no result."""
LATE = ("COMPLETED", "UNKNOWN")
"""States of a job whose result may still come."""


@dataclass(frozen=True)
class SubmittedRun(LaunchedRun):
    """Run of a job, which submitit pickles; it calls ``checkpoint`` before a requeue."""

    node: dict[str, Any] = field(default_factory=dict)

    def attempt(self, config: RunConfig) -> Exception | None:
        """Do the run, and return its failure."""
        from submitit import JobEnvironment
        from submitit.core.utils import UncompletedJobError

        error = super().attempt(config)
        # submitit's handler of the signal before the time limit raises it in the middle of the run
        if isinstance(error, UncompletedJobError):
            error = RunFailed(end_message(JobEnvironment(), "TIMEOUT", self.node))
            RunDir(config.run_dir).fail(error)
        return error

    def checkpoint(self, config: RunConfig) -> Any:
        """Return the function of a requeued job: the same, which finds finished stages stored."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, config)


class SubmititJobs(Launcher):
    """Jobs of SLURM, of which a lost one has no effect on the others, or processes of submitit.

    A job is submitted once more where its node was lost, and not where it was cancelled or met a
    limit, which it would meet again.
    """

    retry_capacity = None
    way_out = f"hydra.sweeper.max_batch_size=100 submits fewer at a time, {Launcher.way_out}"

    def __init__(self, planned: Plan, n_runs: int, reporter: ProgressReporter) -> None:
        super().__init__(planned, n_runs, reporter)
        self.is_local = self.node["_target_"].endswith("LocalLauncher")
        if self.is_local:
            self.capacity = self.n_workers
        else:
            settings = _output("scontrol", "show", "config")
            size = re.search(r"MaxArraySize\s*=\s*(\d+)", settings or "")
            self.batch_size = int(size[1]) if size else None
        self.place += f" (logs in {self.node['submitit_folder']})"
        self._submitted: list[Any] = []
        self._states: dict[str, tuple[str, float]] = {}  # and since when
        self._held: set[str] = set()
        self._polled_at = -QUEUE_POLL_SECONDS

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Cancel what has not ended if the block was interrupted; a local run ends with it."""
        ids = " ".join(_arrays([job for job in self._submitted if not self.has_ended(job)]))
        if not ids or self.is_local or not isinstance(error, KeyboardInterrupt):
            return
        if isinstance(error, Terminated) and error.signum == signal.SIGHUP:
            with suppress(OSError):  # the terminal is gone
                self.reporter.note(f"SLURM job {ids} stays in the queue; 'scancel {ids}' ends it")
        else:
            _output("scancel", *ids.split())
            self.reporter.note(f"SLURM job {ids} is cancelled")

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> list[Any]:
        """Submit the runs as one array, and return submitit's jobs."""
        run = SubmittedRun(**vars(task), node=self.node)
        executor = _executor(self.node, "local" if self.is_local else "slurm")
        submitted = executor.map_array(run, [job.config for job in jobs])
        self._submitted += submitted
        if not self.is_local:
            ids = " ".join(_arrays(submitted))
            self.reporter.note(
                f"submitted as SLURM job {ids}; 'squeue -j {ids}' shows it, 'scancel {ids}' ends it"
            )
        return submitted

    def has_ended(self, future: Any) -> bool:
        """Return whether a job has a result, or will have none."""
        if self.is_local:
            return future.done()
        state, since = self._states.get(future.job_id, ("PENDING", 0.0))
        is_late = state in LATE and time.monotonic() - since >= RESULT_SECONDS
        return state in FAILED or is_late or future.paths.result_pickle.exists()

    def failure(self, future: Any) -> str | None:
        """Return the failure of a job, or raise that its node was lost.

        None where the job succeeded, or where its process on this machine left no result.
        """
        if not future.paths.result_pickle.exists():
            if self.is_local:
                return None
            state, _ = self._states[future.job_id]
            failure = end_message(future, state, self.node)
            if state in NODE_LOST:
                raise WorkerLost(f"SLURM job {future.job_id}: {state}", failure)
            return failure
        error = future.exception()
        if error is None:
            return future.result()
        if "timed-out" in str(error):  # before the run began, or after it
            return end_message(future, "TIMEOUT", self.node)
        trace = str(error).rpartition("\n---")[0] or str(error)
        return f"job {future.job_id} failed: {trace.strip().splitlines()[-1]}{_log(future)}"

    def wait(self, futures: Sequence[Any]) -> None:
        """Look at SLURM's queue, now and then, and wait a moment."""
        now = time.monotonic()
        poll_seconds = max(QUEUE_POLL_SECONDS, len(futures) / 50)  # each call lists all jobs
        if not self.is_local and now - self._polled_at >= poll_seconds:
            self._polled_at = now
            if (queue := jobs_in_queue()) is not None:  # otherwise nothing is known of any job
                for job in futures:
                    self._see(job, *(queue.get(job.job_id) or (past_state(job.job_id), "")))
        time.sleep(max(1.0, len(futures) / 200))  # each look at a job is one at the file system

    def _see(self, job: Any, state: str, reason: str) -> None:
        """Keep the state of a job; note once for an array that it waits for its release."""
        if self._states.get(job.job_id, ("", 0.0))[0] != state:
            self._states[job.job_id] = state, time.monotonic()
        is_held = "held" in reason.lower() or "NeverSatisfied" in reason
        if is_held and self._held.isdisjoint(_arrays([job])):
            self._held.update(_arrays([job]))
            self.reporter.note(
                f"SLURM job {job.job_id} is held ({reason}); 'scontrol release {job.job_id}' lets"
                f" it start, 'scancel {job.job_id}' ends it"
            )


def _executor(node: dict[str, Any], kind: str) -> Any:
    """Return submitit's executor with the resources that the launcher's node names."""
    import submitit
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    logging.getLogger("submitit").setLevel(logging.ERROR)  # it logs to stdout, where --json goes
    shared = {field.name for field in fields(BaseQueueConf)}
    values = {key if key in shared else f"{kind}_{key}": value for key, value in node.items()}
    folder, _ = values.pop("submitit_folder"), values.pop(f"{kind}__target_")
    retries = {key: values.pop(key) for key in list(values) if key.endswith("_max_num_timeout")}
    if kind == "slurm":
        delay = signal_delay(values["timeout_min"], values["slurm_signal_delay_s"])
        values["slurm_signal_delay_s"] = delay
    executor = submitit.AutoExecutor(folder=folder, cluster=kind, **retries)
    executor.update_parameters(**values)
    return executor


def signal_delay(timeout_min: float, seconds: float) -> int:
    """Return the seconds before the time limit at which a job gets the signal to end."""
    # SLURM sends it half a minute early: with submitit's 120 seconds, a job of 2 minutes would end
    # when it starts. So each has half of its time before.
    return max(1, min(int(seconds), int(30 * timeout_min - 30)))


def end_message(job: Any, state: str, node: dict[str, Any]) -> str:
    """Return one line about a job of submitit that ended without a result, with the way out."""
    minutes, gb = int(node.get("timeout_min") or 60), int(node.get("mem_gb") or 8)
    end, way_out = {
        "CANCELLED": ("was cancelled", ""),
        "TIMEOUT": (
            f"met its time limit of {minutes} min",
            f"; hydra.launcher.timeout_min={2 * minutes} gives it more time",
        ),
        "OUT_OF_MEMORY": (
            "ran out of memory",
            f"; hydra.launcher.mem_gb={2 * gb} requests {2 * gb} GB",
        ),
    }.get(state, (f"ended without a result (state {state})", ""))
    resume = "finished stages are kept, and the same command goes on from them"
    return f"job {job.job_id} {end}; {resume}{way_out}{_log(job)}"


def _log(job: Any) -> str:
    """Return the path of the log, which a job that never started does not have."""
    return f"; its log is {job.paths.stderr}" if job.paths.stderr.exists() else ""


def _arrays(jobs: Sequence[Any]) -> list[str]:
    """Return the ids of whole arrays, each once: 94 for the jobs 94_0 and 94_1."""
    return list(dict.fromkeys(job.job_id.partition("_")[0] for job in jobs))


def jobs_in_queue() -> dict[str, Sequence[str]] | None:
    """Return job id → state and reason, of jobs that SLURM has not forgotten; None if it fails."""
    command = ("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r")
    output = _output(*command, f"--user={os.getuid()}")
    rows = [line.strip().split("|") for line in (output or "").splitlines()]
    return None if output is None else {job: state for job, *state in rows}


def past_state(job_id: str) -> str:
    """Return the state of a job that SLURM has forgotten, such as ``TIMEOUT``, or ``UNKNOWN``."""
    command = ("sacct", "--allocations", "--noheader", "--parsable2", "--format=State")
    words = (_output(*command, f"--jobs={job_id}") or "").split()
    return words[0] if words else "UNKNOWN"  # "CANCELLED by 0"


def _output(*command: str) -> str | None:
    """Return a command's stdout; None if it is missing, fails or hangs, as while SLURM restarts."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
