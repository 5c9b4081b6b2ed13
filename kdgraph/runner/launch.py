"""Hydra starts the jobs: serially, or with whatever launcher the config names."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import hydra
from hydra.plugins.sweeper import Sweeper
from omegaconf import DictConfig, OmegaConf

from kdgraph.config import Job, Plan, conf_dir
from kdgraph.run_config import PLAIN, SCIENCE, RunConfig, run_id
from kdgraph.runner.run import run
from kdgraph.runner.rundir import RunDir, one_line
from kdgraph.runner.watch import Watch


@dataclass(frozen=True)
class Outcome:
    """How a job ended: with a record, or with a failure in one line; ``error`` is the exception where it is known."""

    job: Job
    record: dict[str, Any] | None
    failure: str | None
    error: Exception | None = None


def launch(planned: Plan, arguments: Sequence[str], watch: Watch, skipped: Container[str] = ()) -> list[Outcome]:
    """Run every job of the plan, each to its end, whatever becomes of the others.

    Parameters
    ----------
    planned : the checked jobs.
    arguments : the command line that they came from, without the verb; Hydra reads it again.
    watch : told of progress, where the jobs run in this process.
    skipped : ids of runs that cannot run here; they have no outcome.
    """
    jobs = tuple(job for job in planned.jobs if job.config.run_id not in skipped)
    if planned.parallel:  # cores are shared at one level: the jobs take them all, so each run gets one
        jobs = tuple(replace(job, config=replace(job.config, n_jobs=1)) for job in jobs)
        watch.begin(f"{len(jobs)} jobs side by side, one core each")
        watch = Watch()  # theirs; a spinner does not travel to other processes
    methods = {job.config.run_id: job.config.method for job in jobs}  # all that travels to each job: a thousand configs are megabytes
    n_jobs = 1 if planned.parallel else None
    errors: dict[str, Exception] = {}
    started: list[str] = []

    def task(config: DictConfig) -> None:
        nodes = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))
        composed = run_id(nodes)
        if composed in skipped:
            return
        found = RunConfig(**{key: nodes[key] for key in (*SCIENCE, *PLAIN)}, method=methods[composed])
        found = found if n_jobs is None else replace(found, n_jobs=n_jobs)
        started.append(found.run_id)
        count = f"{len(started)}/{len(jobs)}  " if planned.multirun else ""
        watch.begin(f"{count}{found.dataset['name']} → {found.method}  seed {found.seed}")
        if error := _attempt(found, watch):
            errors[found.run_id] = error

    if any(job.config.force or not job.config.done for job in jobs):
        with _composed_before():
            with_hydra(arguments, task)
    return [_outcome(job, errors.get(job.config.run_id)) for job in jobs]


def with_hydra(arguments: Sequence[str], task: Any = lambda config: None) -> None:
    """``hydra.main`` with our config folder; it exits by itself after ``--help`` and its like."""
    with _argv(["kdg run", *arguments]):
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(task)()


def _attempt(config: RunConfig, watch: Watch) -> Exception | None:
    """Do one run; its failure is kept in its directory and must not stop the others."""
    try:
        run(config, watch)
    except Exception as error:  # noqa: BLE001 - returned, and told at the end with the path of the traceback
        return error
    return None


def _outcome(job: Job, error: Exception | None) -> Outcome:
    """The files tell: with a parallel launcher, the job ran in a process that nothing else came back from."""
    folder = RunDir(job.config.run_dir)
    failure = folder.failure() if job.config.force or not job.config.done else None
    record = None if failure or error else folder.record()
    if not failure and not record:
        failure = one_line(error) if error else "did not run"
    return Outcome(job, record, failure, error)


@contextmanager
def _composed_before() -> Iterator[None]:
    """Hydra composes every job of a sweep once more before the first one starts, a tenth of a second each; ours are checked already."""
    before = Sweeper.validate_batch_is_legal
    Sweeper.validate_batch_is_legal = lambda self, batch: None
    try:
        yield
    finally:
        Sweeper.validate_batch_is_legal = before


@contextmanager
def _argv(argv: list[str]) -> Iterator[None]:
    before, sys.argv = sys.argv, argv
    try:
        yield
    finally:
        sys.argv = before
