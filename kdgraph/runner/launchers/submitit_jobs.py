"""Runs as jobs of their own through submitit: on a SLURM cluster, or as processes of this machine.

The launcher's node in Hydra's config names the resources. Hydra's plugin would submit them as well,
but it waits for results in order, raises at the first job that is lost, and forgets the ids of the
others. States of jobs come from ``squeue`` and ``scontrol``, which are there wherever SLURM is;
submitit reads ``sacct`` alone, which needs accounting.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from joblib import cpu_count

from kdgraph.config import Job, Plan, RunConfig
from kdgraph.errors import RunFailed, Terminated
from kdgraph.runner.launchers.launcher import LaunchedRun, Launcher, WorkerLost
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import RunDir, one_line

QUEUE_POLL_SECONDS = 5.0
"""How often squeue is called at most; SLURM's controller serves all users of a cluster."""
JOBS_PER_SECOND = 50
"""Open jobs for each second between two calls of squeue: each call lists all of them."""
RESULT_SECONDS = 60.0
"""A file system shared by machines may show a result so long after it was written."""
NODE_LOST = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED")
"""States of a job that its node or its neighbours ended: it may well succeed on another node."""
SECONDS_TO_END = 20.0
"""Wait for interrupted processes of this machine, which take seconds to unwind where it is busy."""


@dataclass(frozen=True)
class SubmittedTask:
    """Function of a job, which submitit pickles; it calls ``checkpoint`` before a requeue."""

    task: LaunchedRun
    node: dict[str, Any]

    def __call__(self, config: RunConfig) -> str | None:
        """Do the run; return its failure in one line."""
        from submitit import JobEnvironment
        from submitit.core.utils import UncompletedJobError

        error = self.task.attempt(config)
        # submitit's handler of the signal before the time limit raises it in the middle of the run
        if isinstance(error, UncompletedJobError):
            job = JobEnvironment()
            error = RunFailed(time_limit_message(job.job_id, self.node) + _log(job.paths))
            RunDir(config.run_dir).fail(error)
        return one_line(error) if error else None

    def checkpoint(self, config: RunConfig) -> Any:
        """Return the function of a requeued job: the same, which finds finished stages stored."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, config)


class SubmititJobs(Launcher):
    """Jobs of SLURM, of which a lost one has no effect on the others, or processes of submitit.

    A job is submitted once more where its node was lost, and not where it was cancelled or met a
    limit, which it would meet again.
    """

    retries_alone = False

    def __init__(self, planned: Plan, n_runs: int, reporter: ProgressReporter) -> None:
        super().__init__(planned, n_runs, reporter)
        self.is_local = self.node["_target_"].endswith("LocalLauncher")
        if self.is_local:
            self.capacity = cpu_count()
        else:
            self.batch_size = max_array_size()
        self._states: dict[str, str] = {}
        self._absent_since: dict[str, float] = {}
        self._reported: set[str] = set()
        self._queue_read_at = -QUEUE_POLL_SECONDS

    def message(self) -> str:
        """Return how many runs go where, and where their logs are."""
        return f"{super().message()}; their logs are in {self.node['submitit_folder']}"

    def way_out(self, error: str) -> str:
        """Return what to do where nothing can be submitted."""
        if "array" in error.lower() or "limit" in error.lower():
            return "hydra.sweeper.max_batch_size=100 submits so many at a time"
        return super().way_out(error)

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> list[Any]:
        """Submit the runs as one array, and return submitit's jobs."""
        submitted = _executor(self.node, "local" if self.is_local else "slurm").map_array(
            SubmittedTask(task, self.node), [job.config for job in jobs]
        )
        if not self.is_local:
            ids = " ".join(arrays_of(job.job_id for job in submitted))
            self.reporter.note(
                f"submitted as SLURM job {ids}; 'squeue -j {ids}' shows it, 'scancel {ids}' ends it"
            )
        return submitted

    def has_ended(self, future: Any) -> bool:
        """Return whether a job has a result, or left the queue without one."""
        if self.is_local:
            return future.done()
        return future.job_id in self._states or future.paths.result_pickle.exists()

    def failure(self, future: Any) -> str | None:
        """Return the failure of a job, or raise that its node was lost.

        None where the job succeeded, or where its process on this machine left no result.
        """
        job_id, paths = future.job_id, future.paths
        if not paths.result_pickle.exists():
            if self.is_local:
                return None
            state = self._states[job_id]
            failure = end_message(job_id, state, self.node) + _log(paths)
            if state in NODE_LOST:
                raise WorkerLost(f"SLURM job {job_id} was lost with its node ({state})", failure)
            return failure
        error = future.exception()
        if error is None:
            return future.result()
        if "timed-out" in str(error):  # before the run began, or after it
            return time_limit_message(job_id, self.node) + _log(paths)
        lines = [
            line
            for line in str(error).splitlines()
            if line.strip() and not line.startswith(("---", "You can check", "  - "))
        ]
        return f"job {job_id} failed: {lines[-1].strip()}{_log(paths)}"

    def wait(self, futures: Sequence[Any]) -> None:
        """Compare the jobs with SLURM's queue, now and then, and wait a moment."""
        poll_seconds = max(QUEUE_POLL_SECONDS, len(futures) / JOBS_PER_SECOND)
        if not self.is_local and time.monotonic() - self._queue_read_at >= poll_seconds:
            self._queue_read_at = time.monotonic()
            queue = jobs_in_queue()
            if queue is not None:  # otherwise the state of every job is unknown
                self._compare([future.job_id for future in futures], queue)
        # Each look at a job is a call to the file system.
        time.sleep(max(1.0, len(futures) / 200))

    def _compare(self, job_ids: Sequence[str], queue: Mapping[str, str]) -> None:
        """Find the jobs that left the queue, and note once that an array waits for its release."""
        now = time.monotonic()
        for job_id in job_ids:
            if job_id not in queue:
                since = self._absent_since.setdefault(job_id, now)
                state = state_of(job_id)
                if has_ended(state, now - since):
                    self._states[job_id] = state
                continue
            self._absent_since.pop(job_id, None)
            reason, array = queue[job_id], arrays_of([job_id])[0]
            is_held = "held" in reason.lower() or "NeverSatisfied" in reason
            if is_held and array not in self._reported:
                self._reported.add(array)
                self.reporter.note(
                    f"SLURM job {job_id} is held ({reason}); 'scontrol release {job_id}' lets it"
                    f" start, 'scancel {job_id}' ends it"
                )

    def cancel(self, futures: Sequence[Any], error: KeyboardInterrupt) -> None:
        """Cancel the jobs; leave them to the cluster where the connection was lost."""
        if self.is_local:
            for future in futures:
                future.cancel()
            # Those that are left then end by themselves, after this process has ended.
            deadline = time.monotonic() + SECONDS_TO_END
            while time.monotonic() < deadline and not all(future.done() for future in futures):
                time.sleep(0.1)
        elif job_ids := [future.job_id for future in futures]:
            ids = " ".join(arrays_of(job_ids))
            if isinstance(error, Terminated) and error.signum == signal.SIGHUP:
                with suppress(OSError):  # the terminal is gone
                    note = f"SLURM job {ids} stays in the queue; 'scancel {ids}' ends it"
                    self.reporter.note(note)
                return
            cancel(job_ids)
            self.reporter.note(f"SLURM job {ids} is cancelled")


def _executor(node: dict[str, Any], kind: str) -> Any:
    """Return submitit's executor with the resources that the launcher's node names."""
    import submitit
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    logging.getLogger("submitit").setLevel(logging.ERROR)  # it logs to stdout, where --json goes
    shared = {field.name for field in fields(BaseQueueConf)}
    values = {key if key in shared else f"{kind}_{key}": value for key, value in node.items()}
    folder, _ = values.pop("submitit_folder"), values.pop(f"{kind}__target_")
    if kind == "slurm":
        values["slurm_signal_delay_s"] = signal_delay(
            float(values["timeout_min"]), float(values["slurm_signal_delay_s"])
        )
    retries = {key: values.pop(key) for key in list(values) if key.endswith("_max_num_timeout")}
    executor = submitit.AutoExecutor(folder=folder, cluster=kind, **retries)
    executor.update_parameters(**values)
    return executor


def _log(paths: Any) -> str:
    """Return the path of the log, which a job that never started does not have."""
    return f"; its log is {paths.stderr}" if paths.stderr.exists() else ""


def jobs_in_queue() -> dict[str, str] | None:
    """Return job id → SLURM's reason, of each job of this user; None if squeue fails."""
    output = _output("squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i|%r")
    if output is None:
        return None
    pairs = (line.strip().partition("|") for line in output.splitlines())
    return {job: reason for job, _, reason in pairs if job}


def state_of(job_id: str) -> str:
    """Return the state of a job, such as ``TIMEOUT``; ``UNKNOWN`` where SLURM has forgotten it."""
    # scontrol shows a job for some minutes after its end.
    job = _output("scontrol", "show", "job", "--oneliner", job_id)
    if job and (state := re.search(r"\bJobState=(\w+)", job)):
        return state[1]
    account = _output(
        "sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job_id}", "--format=State"
    )
    return account.split()[0] if account and account.split() else "UNKNOWN"  # "CANCELLED by 0"


def max_array_size() -> int | None:
    """Return how many jobs an array may have, or None where SLURM does not show it."""
    config = _output("scontrol", "show", "config")
    size = config and re.search(r"MaxArraySize\s*=\s*(\d+)", config)
    return int(size[1]) if size else None


def cancel(job_ids: Iterable[str]) -> None:
    """Take jobs out of the queue, or end them."""
    _output("scancel", *arrays_of(job_ids))


def arrays_of(job_ids: Iterable[str]) -> list[str]:
    """Return the ids of whole arrays, each once.

    >>> arrays_of(["94_0", "94_1", "95"])
    ['94', '95']
    """
    return list(dict.fromkeys(job.partition("_")[0] for job in job_ids))


def has_ended(state: str, seconds_absent: float) -> bool:
    """Return False if the result of a job that has left the queue may still come."""
    if state in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED"):
        return False
    return state not in ("COMPLETED", "UNKNOWN") or seconds_absent >= RESULT_SECONDS


def end_message(job_id: str, state: str, launcher: Mapping[str, object]) -> str:
    """Return one line about a job that ended without a result, with the way out."""
    job = f"SLURM job {job_id}"
    resume = "finished stages are kept, and the same command goes on from them"
    if state == "CANCELLED":
        return f"{job} was cancelled; {resume}"
    if state == "TIMEOUT":
        return time_limit_message(job_id, launcher)
    if state == "OUT_OF_MEMORY":
        gb = 2 * int(str(launcher.get("mem_gb") or 8))
        return f"{job} ran out of memory; {resume}; hydra.launcher.mem_gb={gb} requests {gb} GB"
    return f"{job} ended without a result (state {state}); {resume}"


def time_limit_message(job_id: str, launcher: Mapping[str, object]) -> str:
    """Return one line about a job that met its time limit, with the way out."""
    minutes = int(str(launcher.get("timeout_min") or 60))
    way_out = f"hydra.launcher.timeout_min={2 * minutes} gives it more time"
    return (
        f"job {job_id} met its time limit of {minutes} min; finished stages are kept, and the same"
        f" command goes on from them; {way_out}"
    )


def signal_delay(timeout_min: float, seconds: float) -> int:
    """Return how many seconds before the time limit a job gets the signal to end.

    At most ``seconds``, after half of the job's time at the earliest. SLURM sends the signal up to
    half a minute early: with submitit's 120 seconds a job of 2 minutes would end when it starts.

    >>> signal_delay(60, 120), signal_delay(3, 120), signal_delay(1, 120)
    (120, 60, 1)
    """
    return max(1, min(int(seconds), int(30 * timeout_min - 30)))


def _output(*command: str) -> str | None:
    """Return a command's stdout; None if it is missing, fails or hangs, as while SLURM restarts."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
