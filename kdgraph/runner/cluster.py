"""Runs as jobs of their own through submitit: on a SLURM cluster, or as processes of this machine.

The launcher's node in Hydra's config names the resources. Hydra's plugin would submit them as well,
but it waits for results in order, raises at the first job that is lost, forgets the ids of the
others, and learns of states from ``sacct`` alone. A job carries its checked config, so that nothing
is composed a second time.

``sacct``, which submitit reads, needs accounting; ``squeue`` and ``scontrol`` are there wherever
SLURM is.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from joblib import cpu_count
from omegaconf import OmegaConf

from kdgraph.config import Job, Plan, RunConfig
from kdgraph.errors import RunFailed, Terminated, UsageError
from kdgraph.runner.locks import exit_with, process_identity, release_all_locks
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
# Wait for interrupted processes of this machine; on a busy one, a process takes seconds to unwind.
_SECONDS_TO_END = 20.0


def run_through_submitit(
    planned: Plan,
    todo: Sequence[Job],
    attempt: Callable[[RunConfig], Exception | None],
    reporter: ProgressReporter,
) -> dict[Path, str]:
    """Submit the jobs, wait until each has ended, and return failures in one line by run directory.

    A job that is lost has no effect on the others. It is submitted once more where its node was
    lost, and not where it was cancelled or met a limit, which it would meet again.

    Parameters
    ----------
    planned : Plan
        Names the launcher and its resources.
    todo : sequence of Job
        Checked jobs.
    attempt : callable
        Does one run, and returns its failure; is pickled.
    reporter : ProgressReporter
        Receives notes.

    Raises
    ------
    UsageError
        Nothing can be submitted.
    """
    node: Any = OmegaConf.to_container(planned.base.hydra.launcher, resolve=True)
    kind = "local" if str(node["_target_"]).endswith("LocalLauncher") else "slurm"
    batch_size = int(planned.base.hydra.sweeper.get("max_batch_size") or 0) or _batch_size(
        kind, len(todo)
    )
    failures: dict[Path, str] = {}
    for first in range(0, len(todo), batch_size):
        batch = todo[first : first + batch_size]
        failures |= _Batch(node, kind, attempt, reporter).run(batch)
    return failures


def _batch_size(kind: str, n_jobs: int) -> int:
    """Return how many jobs are submitted together: one for each core, or SLURM's largest array."""
    return min(n_jobs, cpu_count() if kind == "local" else max_array_size() or n_jobs)


@dataclass(frozen=True)
class SubmittedRun:
    """Function of a job; submitit pickles it, and calls ``checkpoint`` before it requeues the job.

    Attributes
    ----------
    attempt : callable
        Does one run.
    node : dict
        The launcher's node.
    main_process : dict or None
        Identity of the process that waits, if the job is to end with it; None on a cluster, where
        the job stays.
    """

    attempt: Callable[[RunConfig], Exception | None]
    node: dict[str, Any]
    main_process: dict[str, Any] | None

    def __call__(self, config: RunConfig) -> str | None:
        """Do the run; return its failure in one line."""
        from submitit import JobEnvironment
        from submitit.core.utils import UncompletedJobError

        if self.main_process:
            exit_with(self.main_process, release_all_locks)
        error = self.attempt(config)
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


class _Batch:
    """Jobs that are submitted together, and their failures.

    Parameters
    ----------
    node : dict
        The launcher's node.
    kind : {"local", "slurm"}
        Processes of this machine, or jobs of a cluster.
    attempt : callable
        Does one run.
    reporter : ProgressReporter
        Receives notes.
    """

    def __init__(
        self,
        node: dict[str, Any],
        kind: str,
        attempt: Callable[[RunConfig], Exception | None],
        reporter: ProgressReporter,
    ) -> None:
        self.node, self.kind, self.reporter = node, kind, reporter
        main_process = process_identity() if kind == "local" else None
        self.task = SubmittedRun(attempt, node, main_process)
        self.failures: dict[Path, str] = {}
        self.open: list[tuple[Job, Any]] = []
        self.absent_since: dict[str, float] = {}
        self.submitted_again: set[Path] = set()
        self.reported: set[str] = set()
        self.queue_read_at = -QUEUE_POLL_SECONDS

    def run(self, jobs: Sequence[Job]) -> dict[Path, str]:
        """Submit the jobs, wait, and return failures by run directory.

        An interruption cancels the jobs that have not ended.
        """
        try:
            self._submit(jobs)
            while self.open:
                self._collect()
                if self.open:
                    # Each look at a job is a call to the file system.
                    time.sleep(max(1.0, len(self.open) / 200))
        except KeyboardInterrupt as error:
            self._abandon(error)
            raise
        return self.failures

    def _submit(self, jobs: Sequence[Job]) -> None:
        try:
            submitted = _executor(self.node, self.kind).map_array(
                self.task, [job.config for job in jobs]
            )
        # Any: sbatch and submitit raise many kinds, RuntimeError and their own among them.
        except Exception as error:
            reason = f"the launcher could not start anything ({one_line(error)})"
            raise UsageError(f"{reason}; {_way_out(str(error))}") from error
        self.open += zip(jobs, submitted, strict=True)
        if self.kind == "slurm":
            ids = " ".join(arrays_of(job.job_id for job in submitted))
            self.reporter.note(
                f"submitted as SLURM job {ids}; 'squeue -j {ids}' shows it, 'scancel {ids}' ends it"
            )

    def _collect(self) -> None:
        """Take out the jobs that have ended."""
        for job, submitted in list(self.open):
            if submitted.done() if self.kind == "local" else submitted.paths.result_pickle.exists():
                self._end(job, submitted, self._failure(submitted))
        if (
            self.kind == "slurm"
            and self.open
            and time.monotonic() - self.queue_read_at
            >= max(QUEUE_POLL_SECONDS, len(self.open) / JOBS_PER_SECOND)
        ):
            self.queue_read_at = time.monotonic()
            self._compare_with_queue(jobs_in_queue())

    def _compare_with_queue(self, queue: dict[str, str] | None) -> None:
        """Find the jobs that left the queue without a result.

        Where squeue fails, the queue is None, and the state of every job is unknown.
        """
        if queue is None:
            return
        now = time.monotonic()
        for job, submitted in list(self.open):
            job_id = submitted.job_id
            if job_id in queue:
                self.absent_since.pop(job_id, None)
                self._report_held(job_id, queue[job_id])
                continue
            since = self.absent_since.setdefault(job_id, now)
            state = state_of(job_id)
            if submitted.paths.result_pickle.exists() or not has_ended(state, now - since):
                continue
            if state in NODE_LOST and job.run_dir not in self.submitted_again:
                self.reporter.note(
                    f"SLURM job {job_id} was lost with its node ({state}); it is submitted again"
                )
                self.submitted_again.add(job.run_dir)
                self.open.remove((job, submitted))
                self._submit([job])
                continue
            self._end(job, submitted, end_message(job_id, state, self.node) + _log(submitted.paths))

    def _report_held(self, job_id: str, reason: str) -> None:
        """Note once that a job waits for its release."""
        array = arrays_of([job_id])[0]
        if ("held" in reason.lower() or "NeverSatisfied" in reason) and array not in self.reported:
            self.reported.add(array)
            self.reporter.note(
                f"SLURM job {job_id} is held ({reason}); 'scontrol release {job_id}' lets it start,"
                f" 'scancel {job_id}' ends it"
            )

    def _failure(self, submitted: Any) -> str | None:
        """Return the failure of a job as far as its result shows it.

        None where the job succeeded, or its process left no result.
        """
        if not submitted.paths.result_pickle.exists():
            return None
        error = submitted.exception()
        if error is None:
            return submitted.result()
        if "timed-out" in str(error):  # before the run began, or after it
            return time_limit_message(submitted.job_id, self.node) + _log(submitted.paths)
        lines = [
            line
            for line in str(error).splitlines()
            if line.strip() and not line.startswith(("---", "You can check", "  - "))
        ]
        return f"job {submitted.job_id} failed: {lines[-1].strip()}{_log(submitted.paths)}"

    def _end(self, job: Job, submitted: Any, failure: str | None) -> None:
        self.open.remove((job, submitted))
        if failure:
            self.failures[job.run_dir] = failure

    def _abandon(self, error: KeyboardInterrupt) -> None:
        """Cancel the jobs that have not ended.

        Where the connection was lost, leave them to the cluster, with a note.
        """
        job_ids = [submitted.job_id for _, submitted in self.open]
        if not job_ids:
            return
        if self.kind == "local":
            for _, submitted in self.open:
                submitted.cancel()
            # Those that are left then end by themselves, after this process has ended.
            deadline = time.monotonic() + _SECONDS_TO_END
            while time.monotonic() < deadline and not all(
                submitted.done() for _, submitted in self.open
            ):
                time.sleep(0.1)
            return
        ids = " ".join(arrays_of(job_ids))
        if isinstance(error, Terminated) and error.signum == signal.SIGHUP:
            with suppress(OSError):  # the terminal is gone
                self.reporter.note(f"SLURM job {ids} stays in the queue; 'scancel {ids}' ends it")
            return
        cancel(job_ids)
        self.reporter.note(f"SLURM job {ids} is cancelled")


def _executor(node: dict[str, Any], kind: str) -> Any:
    """Return submitit's executor with the resources that the launcher's node names."""
    import submitit
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    logging.getLogger("submitit").setLevel(logging.ERROR)  # it logs to stdout, where --json goes
    values = {
        key: value
        for key, value in node.items()
        if key not in ("_target_", "submitit_folder", "max_num_timeout")
    }
    if "signal_delay_s" in values:
        values["signal_delay_s"] = signal_delay(
            float(values["timeout_min"]), float(values["signal_delay_s"])
        )
    retries = (
        {f"{kind}_max_num_timeout": node["max_num_timeout"]} if "max_num_timeout" in node else {}
    )
    executor = submitit.AutoExecutor(folder=node["submitit_folder"], cluster=kind, **retries)
    shared = {field.name for field in fields(BaseQueueConf)}
    executor.update_parameters(
        **{key if key in shared else f"{kind}_{key}": value for key, value in values.items()}
    )
    return executor


def _log(paths: Any) -> str:
    """Return the path of the log, which a job that never started does not have."""
    return f"; its log is {paths.stderr}" if paths.stderr.exists() else ""


def _way_out(error: str) -> str:
    if "array" in error.lower() or "limit" in error.lower():
        return "hydra.sweeper.max_batch_size=100 submits so many at a time"
    return "hydra/launcher=joblib runs on this machine, basic one after the other"


def jobs_in_queue() -> dict[str, str] | None:
    """Return job id → SLURM's reason, of each job of this user that has not ended.

    None where squeue fails.
    """
    output = _output("squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i|%r")
    return None if output is None else parse_queue(output)


def parse_queue(output: str) -> dict[str, str]:
    r"""Return reason by job id from lines such as ``94_3|Resources``.

    >>> parse_queue("94_3|Resources\n95|None\n")
    {'94_3': 'Resources', '95': 'None'}
    """
    return {
        job: reason
        for job, _, reason in (line.strip().partition("|") for line in output.splitlines())
        if job
    }


def state_of(job_id: str) -> str:
    """Return the state of a job that has left the queue, such as ``TIMEOUT``.

    ``UNKNOWN`` where SLURM has forgotten it.
    """
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
    """Return True if a job without a result that is not in the queue has ended.

    False if its result may still come.

    Parameters
    ----------
    state : str
        A value of :func:`state_of`.
    seconds_absent : float
        For how long it has not been in the queue.
    """
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

    It is at most ``seconds``, and comes at the earliest after half of the job's time. SLURM looks
    at its jobs twice a minute, and sends the signal up to half a minute early: with submitit's 120
    seconds a job of a limit of 2 minutes is ended as soon as it starts.

    >>> signal_delay(60, 120), signal_delay(3, 120), signal_delay(1, 120)
    (120, 60, 1)
    """
    return max(1, min(int(seconds), int(30 * timeout_min - 30)))


def _output(*command: str) -> str | None:
    """Return a command's stdout.

    None where the command is missing, fails, or hangs, as all do while the controller restarts.
    """
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
