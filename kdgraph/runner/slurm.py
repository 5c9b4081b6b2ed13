"""What SLURM shows of its jobs: which are in the queue, how others ended, how many an array may
have.

``sacct``, which submitit reads, needs accounting; ``squeue`` and ``scontrol`` are there wherever
SLURM is.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping

NODE_LOST = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED")
"""States of a job that its node or its neighbours ended: the same job may well succeed
elsewhere.
"""


def jobs_in_queue() -> dict[str, str] | None:
    """Return the reason that SLURM gives for each job of this user that has not ended, by job id;
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
    """Return the state of a job that has left the queue, such as ``TIMEOUT``; ``UNKNOWN`` where
    SLURM has forgotten it.
    """
    shown = _output(
        "scontrol", "show", "job", "--oneliner", job_id
    )  # for some minutes after its end
    if shown and (state := re.search(r"\bJobState=(\w+)", shown)):
        return state[1]
    counted = _output(
        "sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job_id}", "--format=State"
    )
    return counted.split()[0] if counted and counted.split() else "UNKNOWN"  # "CANCELLED by 0"


def max_array_size() -> int | None:
    """Return how many jobs an array may have, or None where SLURM does not show it."""
    shown = _output("scontrol", "show", "config")
    size = shown and re.search(r"MaxArraySize\s*=\s*(\d+)", shown)
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
    """Return whether a job without a result that is not in the queue has ended, or its result may
    still come.

    Parameters
    ----------
    state : of :func:`state_of`.
    seconds_absent : for how long it has not been in the queue.
    """
    if state in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED"):
        return False
    # A file system shared by machines may show a result up to a minute after it was written.
    return state not in ("COMPLETED", "UNKNOWN") or seconds_absent >= RESULT_SECONDS


RESULT_SECONDS = 60.0


def why_it_ended(job_id: str, state: str, launcher: Mapping[str, object]) -> str:
    """Return in a line what became of a job that left no result, and what to do."""
    job = f"SLURM job {job_id}"
    again = "finished stages are kept, and the same command goes on from them"
    if state == "CANCELLED":
        return f"{job} was cancelled; {again}"
    if state == "TIMEOUT":
        return out_of_time(job_id, launcher)
    if state == "OUT_OF_MEMORY":
        more = 2 * int(str(launcher.get("mem_gb") or 8))
        return f"{job} ran out of memory; {again}; hydra.launcher.mem_gb={more} requests {more} GB"
    return f"{job} ended without a result (state {state}); {again}"


def out_of_time(job_id: str, launcher: Mapping[str, object]) -> str:
    """Return in a line that a job met its time limit, and how to give it more."""
    minutes = int(str(launcher.get("timeout_min") or 60))
    longer = f"hydra.launcher.timeout_min={2 * minutes} gives it more time"
    return (
        f"job {job_id} met its time limit of {minutes} min; finished stages are kept, and the same"
        f" command goes on from them; {longer}"
    )


def signal_delay(timeout_min: float, asked: float) -> int:
    """Return how many seconds before the time limit a job gets the signal to end, at least half of
    its time after its start.

    SLURM looks at its jobs twice a minute, and sends the signal up to half a minute early: with
    submitit's 120 seconds a job of a limit of 2 minutes is ended as soon as it starts.

    >>> signal_delay(60, 120), signal_delay(3, 120), signal_delay(1, 120)
    (120, 60, 1)
    """
    return max(1, min(int(asked), int(30 * timeout_min - 30)))


def _output(*command: str) -> str | None:
    """Return stdout, or None where the command is missing, fails, or hangs, as all do while the
    controller restarts.
    """
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
