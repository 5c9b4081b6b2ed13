"""Jobs side by side, in processes that a launcher of Hydra starts: here by joblib, on a cluster by submitit.

Cores are shared at one level, by the jobs: the kernels of each get one, or what a cluster gives a job.
"""

from __future__ import annotations

import os
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
from hydra.types import HydraContext
from joblib import cpu_count, effective_n_jobs
from omegaconf import DictConfig, OmegaConf

from kdgraph.config import Job, Plan
from kdgraph.errors import UsageError
from kdgraph.run_config import PLAIN, SCIENCE, RunConfig, run_id
from kdgraph.runner.run import attempt
from kdgraph.runner.rundir import CLAIM, RunDir, one_line
from kdgraph.runner.tally import Count, counting
from kdgraph.runner.watch import Watch
from kdgraph.wording import counted


def side_by_side(planned: Plan, todo: Sequence[Job], n_done: int, watch: Watch) -> None:
    """Run the jobs, each to its end; their directories tell how they ended.

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
    methods = {job.config.run_id: job.config.method for job in todo}  # all that travels to each job: a thousand configs are megabytes
    stop = planned.out.resolve() / ".sweeps" / f"failed-{uuid.uuid4().hex[:8]}" if planned.fail_fast else None
    count = Count([job.run_dir for job in todo], n_done)
    try:
        with counting(count, watch.tally), _hydra(planned) as context:
            task = Task(methods, cores, Path.cwd(), stop)
            started = Plugins.instance().instantiate_launcher(config=planned.base, hydra_context=context, task_function=task)
            _outlive(lambda jobs: _launch(started, jobs, _at_once(planned, len(jobs))), todo, watch)
    finally:
        if stop:
            stop.unlink(missing_ok=True)


def _launch(launcher: Any, jobs: Sequence[Job], size: int) -> None:
    """Give the launcher ``size`` jobs at a time."""
    for first in range(0, len(jobs), size):
        launcher.launch([job.overrides for job in jobs[first : first + size]], initial_job_idx=first)


def _outlive(start: Callable[[Sequence[Job]], None], todo: Sequence[Job], watch: Watch) -> None:
    """Start all jobs, and those that are left when a process dies, out of memory for instance, which ends all that are side by side.

    Of the jobs that were at work then, one is to blame. They are started again at the end, each alone, so that it takes no other with it.
    """
    before = {job.run_dir: RunDir(job.run_dir).ended for job in todo}
    left, at_work = list(todo), list[Job]()
    while left:
        try:
            start(left)
            break
        except Exception as error:  # each launcher has its own; what they mean is read from the run directories
            not_ended = [job for job in left if RunDir(job.run_dir).ended == before[job.run_dir]]
            begun = [job for job in not_ended if (job.run_dir / CLAIM).exists()]
            if len(not_ended) == len(left) and not begun:
                why = f"the launcher could not start anything ({one_line(error)})"
                raise UsageError(f"{why}; hydra/launcher=joblib runs on this machine, basic one after the other") from error
            at_work += begun
            left = [job for job in not_ended if job not in begun]
            watch.note(f"a process was lost ({one_line(error)[:150]}); what was at work is tried again, each run alone: {len(begun)}")
    for job in at_work:
        with suppress(Exception):  # its directory tells
            start([job])


@dataclass(frozen=True)
class Task:
    """What a process of the launcher does with the config of one job.

    Attributes
    ----------
    methods : label by run id.
    n_jobs : cores of a job.
    folder : where the command was given; relative paths start there.
    stop : file whose presence says that a run has failed and no other is to start, or None.
    """

    methods: Mapping[str, str]
    n_jobs: int
    folder: Path
    stop: Path | None

    def __call__(self, composed: DictConfig) -> None:
        """Do the run; a failure is kept in its directory."""
        if self.stop and self.stop.exists():
            return
        os.chdir(self.folder)  # a process of joblib may be left from a sweep that was given elsewhere
        _imports_are_no_leak()
        nodes = cast("dict[str, Any]", OmegaConf.to_container(composed, resolve=True))
        science = {key: nodes[key] for key in SCIENCE}
        plain = {key: nodes[key] for key in PLAIN}
        config = RunConfig(**{**science, **plain}, method=self.methods[run_id(science)])
        if attempt(replace(config, n_jobs=self.n_jobs), Sibling()) and self.stop:
            self.stop.parent.mkdir(parents=True, exist_ok=True)
            self.stop.touch()


class Sibling(Watch):
    """Of a job among others, which wait for each other's fits as a matter of course."""

    def waiting(self, line: str) -> None:
        """Nobody has to know."""


def _at_once(planned: Plan, n_jobs: int) -> int:
    """How many jobs the launcher gets in one call: as ``hydra.sweeper.max_batch_size`` says, or all of them.

    That of submitit which needs no cluster starts a process for each of them, so it gets as many as there are cores.
    """
    default = cpu_count() if str(planned.base.hydra.launcher["_target_"]).endswith("LocalLauncher") else n_jobs
    return max(1, int(planned.base.hydra.sweeper.get("max_batch_size") or default))


def _line(launcher: Any, n_jobs: int, cores: int) -> str:
    each = "one core each" if cores == 1 else f"{cores} cores each"
    runs = counted(n_jobs, "run")
    if str(launcher["_target_"]).endswith("JoblibLauncher"):
        return f"{runs}, {min(n_jobs, effective_n_jobs(launcher.n_jobs))} at a time, {each}"
    return f"{runs} through {str(launcher['_target_']).rpartition('.')[2]}, {each}; their logs are in {launcher.submitit_folder}"


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
    """Joblib restarts a process that grows by 300 MB after its first job, which torch and numba do when they are imported."""
    from joblib.externals.loky import process_executor

    process_executor._MAX_MEMORY_LEAK_SIZE = int(4e9)
