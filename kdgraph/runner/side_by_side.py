"""Jobs side by side, in processes that a launcher of Hydra starts: here by joblib, on a cluster by
submitit.

Cores are shared at one level, by the jobs: the kernels of each get one, or what a cluster gives a
job.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.types import HydraContext
from joblib import effective_n_jobs
from omegaconf import DictConfig, OmegaConf

from kdgraph.config import PLAIN, SCIENCE, Job, Origin, Plan, RunConfig, run_id
from kdgraph.errors import UsageError
from kdgraph.runner.claim import clear, give_back_all
from kdgraph.runner.cluster import run_through_submitit
from kdgraph.runner.processes import exit_with, this_process
from kdgraph.runner.run import attempt
from kdgraph.runner.rundir import CLAIM, RunDir, one_line
from kdgraph.runner.store import CLAIM as STORE_CLAIM
from kdgraph.runner.store import FOLDER as STORE
from kdgraph.runner.tally import Count, counting
from kdgraph.runner.watch import Watch
from kdgraph.wording import counted

CLEAR_SECONDS = 3.0


def side_by_side(planned: Plan, todo: Sequence[Job], n_done: int, watch: Watch) -> dict[Path, str]:
    """Run the jobs, each to its end; return failures in one line by run directory, as far as they
    came back from the processes.

    What a run directory holds goes before: a process may be lost, and another one may finish its
    run.

    Parameters
    ----------
    planned : says which launcher.
    todo : checked jobs.
    n_done : how many more of the sweep were done before.
    watch : told how far it is.
    """
    launcher: Any = planned.base.hydra.launcher
    cores = int(launcher.get("cpus_per_task") or 1)
    watch.note(_line(launcher, len(todo), cores))
    stop = (
        planned.out.resolve() / ".sweeps" / f"failed-{uuid.uuid4().hex[:8]}"
        if planned.fail_fast
        else None
    )
    count = Count([job.run_dir for job in todo], n_done)
    attempt_apart = Attempt(cores, Path.cwd(), stop)
    try:
        with counting(count, watch.tally):
            if planned.is_remote:
                return run_through_submitit(planned, todo, attempt_apart, watch)
            return _run_through_hydra(planned, todo, attempt_apart, watch)
    except KeyboardInterrupt:
        _clear_dead_claims(todo)
        raise
    finally:
        if stop:
            stop.unlink(missing_ok=True)


def _clear_dead_claims(todo: Sequence[Job]) -> None:
    """Remove what processes that were ended with this one had claimed, in run directories and in
    the store.

    They were killed a moment ago, so it looks again for a while; the claims of processes that live
    on stay.
    """
    claims = [job.run_dir / CLAIM for job in todo]
    stores = {Path(job.config.out) / STORE for job in todo}
    deadline = time.monotonic() + CLEAR_SECONDS
    while left := [
        path
        for path in (
            *claims,
            *(path for store in stores for path in store.glob(f"*/*{STORE_CLAIM}")),
        )
        if path.exists()
    ]:
        for path in left:
            clear(path)
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)


def _run_through_hydra(
    planned: Plan, todo: Sequence[Job], attempt_apart: Attempt, watch: Watch
) -> dict[Path, str]:
    # All that travels to each job: a thousand configs are megabytes.
    labels = {job.config.run_id: (job.config.method, job.config.origin) for job in todo}
    with _hydra(planned) as context:
        task = Task(labels, attempt_apart)
        launcher: Any = Plugins.instance().instantiate_launcher(
            config=planned.base, hydra_context=context, task_function=task
        )
        if _is_joblib(
            planned.base.hydra.launcher
        ):  # its processes end with this one, whatever ends it, from their start on
            launcher.joblib |= {
                "initializer": exit_with,
                "initargs": (this_process(), give_back_all),
            }
        failures: dict[Path, str] = {}
        size = max(1, int(planned.base.hydra.sweeper.get("max_batch_size") or len(todo)))
        _outlive(lambda jobs: _launch(launcher, jobs, size, failures), todo, watch)
    return failures


def _launch(launcher: Any, jobs: Sequence[Job], size: int, failures: dict[Path, str]) -> None:
    """Give the launcher ``size`` jobs at a time, and keep what their processes return."""
    for first in range(0, len(jobs), size):
        batch = jobs[first : first + size]
        returned = launcher.launch([job.overrides for job in batch], initial_job_idx=first)
        for job, one in zip(batch, returned or (), strict=False):  # a launcher may return nothing
            if getattr(one, "status", None) is JobStatus.COMPLETED and isinstance(
                one.return_value, str
            ):
                failures[job.run_dir] = one.return_value


def _outlive(start: Callable[[Sequence[Job]], None], todo: Sequence[Job], watch: Watch) -> None:
    """Start all jobs, and those that are left when a process dies, out of memory for instance,
    which ends all that are side by side.

    Of the jobs that were at work then, one is to blame. They are started again at the end, each
    alone, so that it takes no other with it.
    """
    before = {job.run_dir: RunDir(job.run_dir).ended for job in todo}
    left, at_work = list(todo), list[Job]()
    while left:
        try:
            start(left)
            break
        except (
            Exception
        ) as error:  # each launcher has its own; what they mean is read from the run directories
            not_ended = [job for job in left if RunDir(job.run_dir).ended == before[job.run_dir]]
            begun = [job for job in not_ended if (job.run_dir / CLAIM).exists()]
            if len(not_ended) == len(left) and not begun:
                why = f"the launcher could not start anything ({one_line(error)})"
                raise UsageError(
                    f"{why}; hydra/launcher=joblib runs on this machine, basic one after the other"
                ) from error
            at_work += begun
            left = [job for job in not_ended if job not in begun]
            watch.note(
                f"a process was lost ({one_line(error)[:150]}); what was at work is tried again,"
                f" each run alone: {len(begun)}"
            )
    for job in at_work:
        with suppress(Exception):  # its directory tells
            start([job])


@dataclass(frozen=True)
class Attempt:
    """One run of many, in a process of its own.

    Attributes
    ----------
    n_jobs : cores of a job.
    folder : where the command was given; relative paths start there.
    stop : file whose presence says that a run has failed and no other is to start, or None.
    """

    n_jobs: int
    folder: Path
    stop: Path | None

    def __call__(self, config: RunConfig) -> Exception | None:
        """Do the run; its failure is kept in its directory, and returned."""
        os.chdir(
            self.folder
        )  # a process of joblib may be left from a sweep that was given elsewhere
        if self.stop and self.stop.exists():
            return None
        error = attempt(replace(config, n_jobs=self.n_jobs), Sibling())
        if error and self.stop:
            with suppress(OSError):  # on a full disk each run fails by itself
                self.stop.parent.mkdir(parents=True, exist_ok=True)
                self.stop.touch()
        return error


@dataclass(frozen=True)
class Task:
    """What a process of a launcher of Hydra does with the config of one job.

    Attributes
    ----------
    labels : label of the method, and the words that the config was composed from, by run id.
    attempt_apart : does the run.
    """

    labels: Mapping[str, tuple[str, Origin]]
    attempt_apart: Attempt

    def __call__(self, composed: DictConfig) -> str | None:
        """Do the run; return its failure in one line."""
        _imports_are_no_leak()
        nodes = cast("dict[str, Any]", OmegaConf.to_container(composed, resolve=True))
        science = {key: nodes[key] for key in SCIENCE}
        plain = {key: nodes[key] for key in PLAIN}
        method, origin = self.labels[run_id(science)]
        config = RunConfig(**{**science, **plain}, method=method, origin=origin)
        error = self.attempt_apart(config)
        return one_line(error) if error else None


class Sibling(Watch):
    """Of a job among others, which wait for each other's fits as a matter of course."""

    def waiting(self, line: str) -> None:
        """Nobody has to know."""


def _line(launcher: Any, n_jobs: int, cores: int) -> str:
    each = "one core each" if cores == 1 else f"{cores} cores each"
    runs = counted(n_jobs, "run")
    if _is_joblib(launcher):
        return f"{runs}, {min(n_jobs, effective_n_jobs(launcher.n_jobs))} at a time, {each}"
    logs = f"; their logs are in {folder}" if (folder := launcher.get("submitit_folder")) else ""
    return f"{runs} through {str(launcher['_target_']).rpartition('.')[2]}, {each}{logs}"


def _is_joblib(launcher: Any) -> bool:
    return str(launcher["_target_"]).endswith("JoblibLauncher")


@contextmanager
def _hydra(planned: Plan) -> Iterator[HydraContext]:
    """Hydra as its launchers expect it: set up for this process, and carried into the others."""
    loader = planned.composer.loader
    GlobalHydra.instance().initialize(Hydra(task_name="kdg", config_loader=loader))
    try:
        yield HydraContext(config_loader=loader, callbacks=Callbacks(planned.base))
    finally:
        GlobalHydra.instance().clear()


def _imports_are_no_leak() -> None:
    """Joblib restarts a process that grows by 300 MB after its first job, which torch and numba do
    when they are imported.
    """
    from joblib.externals.loky import process_executor

    process_executor._MAX_MEMORY_LEAK_SIZE = int(4e9)
