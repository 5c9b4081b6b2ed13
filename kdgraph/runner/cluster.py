"""Runs as jobs of their own through submitit: on a SLURM cluster, or each in a process of this
machine.

The launcher's node of Hydra names the resources. Hydra's plugin would submit them as well, but it
waits for results in order, raises at the first job that is lost, forgets the ids of the others, and
learns of states from ``sacct`` alone. A job carries its checked config, so that nothing is composed
a second time.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from joblib import cpu_count
from omegaconf import OmegaConf

from kdgraph.config import Job, Plan, RunConfig
from kdgraph.errors import RunFailed, Terminated, UsageError
from kdgraph.runner import slurm
from kdgraph.runner.claim import give_back_all
from kdgraph.runner.processes import exit_with, this_process
from kdgraph.runner.rundir import RunDir, one_line
from kdgraph.runner.watch import Watch

LOOK_SECONDS = 15.0
"""How often squeue is called; SLURM's controller serves all users of a cluster."""


def run_through_submitit(
    planned: Plan,
    todo: Sequence[Job],
    attempt: Callable[[RunConfig], Exception | None],
    watch: Watch,
) -> dict[Path, str]:
    """Submit the jobs, wait until each has ended, and return failures in one line by run directory.

    A job that is lost has no effect on the others. It is submitted once more where its node was
    lost, and not where it was cancelled or met a limit, which it would meet again.

    Parameters
    ----------
    planned : says how to launch.
    todo : checked jobs.
    attempt : does one run, and returns its failure; is pickled.
    watch : told of what is out of the ordinary.

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
        failures |= _Batch(node, kind, attempt, watch).run(batch)
    return failures


def _batch_size(kind: str, n_jobs: int) -> int:
    """Return how many jobs are submitted at once: as many as there are cores, or as an array of
    SLURM may have.
    """
    return min(n_jobs, cpu_count() if kind == "local" else slurm.max_array_size() or n_jobs)


@dataclass(frozen=True)
class ApartFromMain:
    """What a job does; submitit pickles it, and calls ``checkpoint`` before the job is requeued.

    Attributes
    ----------
    attempt : does one run.
    node : of the launcher.
    main : the process that waits, where a job is to end with it; None on a cluster, where it stays.
    """

    attempt: Callable[[RunConfig], Exception | None]
    node: dict[str, Any]
    main: dict[str, Any] | None

    def __call__(self, config: RunConfig) -> str | None:
        """Do the run; return its failure in one line."""
        from submitit import JobEnvironment
        from submitit.core.utils import UncompletedJobError

        if self.main:
            exit_with(self.main, give_back_all)
        error = self.attempt(config)
        if isinstance(
            error, UncompletedJobError
        ):  # raised by submitit's handler of the signal before the limit
            job = JobEnvironment()
            error = RunFailed(slurm.out_of_time(job.job_id, self.node) + _log(job.paths))
            RunDir(config.run_dir).fail(error)
        return one_line(error) if error else None

    def checkpoint(self, config: RunConfig) -> Any:
        """Return what a requeued job does: the same, which finds the stages that are done."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, config)


class _Batch:
    """Jobs that are submitted at once, and what became of them."""

    def __init__(
        self,
        node: dict[str, Any],
        kind: str,
        attempt: Callable[[RunConfig], Exception | None],
        watch: Watch,
    ) -> None:
        self.node, self.kind, self.watch = node, kind, watch
        main = this_process() if kind == "local" else None
        self.task = ApartFromMain(attempt, node, main)
        self.failures: dict[Path, str] = {}
        self.open: list[tuple[Job, Any]] = []
        self.absent_since: dict[str, float] = {}
        self.submitted_again: set[Path] = set()
        self.reported: set[str] = set()
        self.looked = -LOOK_SECONDS

    def run(self, jobs: Sequence[Job]) -> dict[Path, str]:
        """Submit, wait, and return failures by run directory; an interruption cancels what has not
        ended.
        """
        try:
            self._submit(jobs)
            while self.open:
                self._look()
                if self.open:
                    time.sleep(
                        max(1.0, len(self.open) / 200)
                    )  # a look at each costs a call to the file system
        except KeyboardInterrupt as error:
            self._leave(error)
            raise
        return self.failures

    def _submit(self, jobs: Sequence[Job]) -> None:
        try:
            submitted = _executor(self.node, self.kind).map_array(
                self.task, [job.config for job in jobs]
            )
        except Exception as error:  # sbatch and submitit have many
            why = f"the launcher could not start anything ({one_line(error)})"
            raise UsageError(f"{why}; {_way_out(str(error))}") from error
        self.open += zip(jobs, submitted, strict=True)
        if self.kind == "slurm":
            ids = " ".join(slurm.arrays_of(one.job_id for one in submitted))
            self.watch.note(
                f"submitted as SLURM job {ids}; 'squeue -j {ids}' shows it, 'scancel {ids}' ends it"
            )

    def _look(self) -> None:
        """Take out the jobs that have ended."""
        for job, submitted in list(self.open):
            if submitted.done() if self.kind == "local" else submitted.paths.result_pickle.exists():
                self._end(job, submitted, self._failure(submitted))
        if self.kind == "slurm" and self.open and time.monotonic() - self.looked >= LOOK_SECONDS:
            self.looked = time.monotonic()
            self._look_at_queue(slurm.jobs_in_queue())

    def _look_at_queue(self, queue: dict[str, str] | None) -> None:
        """Find the jobs that left the queue without a result; where squeue fails, nothing is known
        of any.
        """
        if queue is None:
            return
        now = time.monotonic()
        for job, submitted in list(self.open):
            name = submitted.job_id
            if name in queue:
                self.absent_since.pop(name, None)
                self._report_held(name, queue[name])
                continue
            since = self.absent_since.setdefault(name, now)
            state = slurm.state_of(name)
            if submitted.paths.result_pickle.exists() or not slurm.has_ended(state, now - since):
                continue
            if state in slurm.NODE_LOST and job.run_dir not in self.submitted_again:
                self.watch.note(
                    f"SLURM job {name} was lost with its node ({state}); it is submitted again"
                )
                self.submitted_again.add(job.run_dir)
                self.open.remove((job, submitted))
                self._submit([job])
                continue
            self._end(
                job, submitted, slurm.why_it_ended(name, state, self.node) + _log(submitted.paths)
            )

    def _report_held(self, name: str, reason: str) -> None:
        """Note once that a job waits for somebody to release it."""
        array = slurm.arrays_of([name])[0]
        if ("held" in reason.lower() or "NeverSatisfied" in reason) and array not in self.reported:
            self.reported.add(array)
            self.watch.note(
                f"SLURM job {name} is held ({reason}); 'scontrol release {name}' lets it start,"
                f" 'scancel {name}' ends it"
            )

    def _failure(self, submitted: Any) -> str | None:
        """Return why a job failed, as far as its result shows it; None too where its process left
        none.
        """
        if not submitted.paths.result_pickle.exists():
            return None
        error = submitted.exception()
        if error is None:
            return submitted.result()
        if "timed-out" in str(error):  # before the run began, or after it
            return slurm.out_of_time(submitted.job_id, self.node) + _log(submitted.paths)
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

    def _leave(self, error: KeyboardInterrupt) -> None:
        """Cancel what has not ended; where the connection was lost, leave it to the cluster, and
        say so.
        """
        names = [submitted.job_id for _, submitted in self.open]
        if not names:
            return
        if self.kind == "local":
            for _, submitted in self.open:
                submitted.cancel()
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and not all(
                submitted.done() for _, submitted in self.open
            ):
                time.sleep(0.1)
            return
        ids = " ".join(slurm.arrays_of(names))
        if isinstance(error, Terminated) and error.signum == signal.SIGHUP:
            with suppress(OSError):  # the terminal is gone
                self.watch.note(f"SLURM job {ids} stays in the queue; 'scancel {ids}' ends it")
            return
        slurm.cancel(names)
        self.watch.note(f"SLURM job {ids} is cancelled")


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
        values["signal_delay_s"] = slurm.signal_delay(
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
    """Return where to read more; a job that never started has no log."""
    return f"; its log is {paths.stderr}" if paths.stderr.exists() else ""


def _way_out(error: str) -> str:
    if "array" in error.lower() or "limit" in error.lower():
        return "hydra.sweeper.max_batch_size=100 submits so many at a time"
    return "hydra/launcher=joblib runs on this machine, basic one after the other"
