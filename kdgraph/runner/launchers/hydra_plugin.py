"""Runs through a launcher of another plugin of Hydra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from hydra.types import HydraContext
from omegaconf import DictConfig

from kdgraph.config import Job, RunConfig
from kdgraph.runner.launchers.launcher import LaunchedRun, Launcher, WorkerLost
from kdgraph.runner.run_dir import one_line


class HydraPlugin(Launcher):
    """Launcher of a plugin, which returns when all runs that it was given have ended."""

    n_submitted = 0

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> list[Any]:
        """Do the runs; return Hydra's ``JobReturn`` of each, or the error of the launcher."""
        numbered = NumberedTask(task, [job.config for job in jobs], self.n_submitted)
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=HydraContext(
                config_loader=self.planned.composer.loader, callbacks=cast("Any", _NoCallbacks())
            ),
            task_function=cast("Any", numbered),
            config=self.planned.base,
        )
        self.n_submitted += len(jobs)
        try:
            returned = launcher.launch([job.overrides for job in jobs], numbered.first)
        # Any: each launcher has its own; the run directories show which runs were done.
        except Exception as error:  # noqa: BLE001
            return [error] * len(jobs)
        return [*(returned or ()), *[None] * len(jobs)][: len(jobs)]

    def has_ended(self, future: Any) -> bool:
        """Return True."""
        return True

    def failure(self, future: Any) -> str | None:
        """Return the failure that a ``JobReturn`` contains, if it contains one."""
        if isinstance(future, Exception):
            raise WorkerLost(one_line(future)[:150]) from future
        if getattr(future, "status", None) is not JobStatus.COMPLETED:
            return None
        return future.return_value if isinstance(future.return_value, str) else None


@dataclass(frozen=True)
class NumberedTask:
    """Function that a launcher calls in each of its processes, with a config that is not used.

    It does the run of the config whose number, counted from ``first``, is that of Hydra's job.
    """

    task: LaunchedRun
    configs: Sequence[RunConfig]
    first: int

    def __call__(self, composed: DictConfig) -> str | None:
        """Do the run of this job, and return its failure in one line."""
        return self.task(self.configs[HydraConfig.get().job.num - self.first])


class _NoCallbacks:
    """Hydra's callbacks of a job, without effect: kdgraph's config has none."""

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Do nothing."""

    on_job_end = on_job_start
