"""Runs through a launcher of another plugin of Hydra."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.types import HydraContext

from kdgraph.config import Job
from kdgraph.runner.launchers.launcher import LaunchedRun, Launcher


class HydraPlugin(Launcher):
    """Launcher of a plugin, which returns when all runs that it was given have ended."""

    def submit(self, task: LaunchedRun, jobs: Sequence[Job]) -> Sequence[JobReturn]:
        """Do the runs, and return what Hydra has of each."""
        configs = [job.config for job in jobs]

        def run(composed: Any) -> str | None:  # called with a config that is not needed
            return task(configs[HydraConfig.get().job.num])

        callbacks: Any = SimpleNamespace(on_job_start=_ignore, on_job_end=_ignore)
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=HydraContext(self.planned.composer.loader, callbacks),
            task_function=run,
            config=self.planned.base,
        )
        return launcher.launch([job.overrides for job in jobs], 0)

    def has_ended(self, future: JobReturn) -> bool:
        """Return True."""
        return True

    def failure(self, future: JobReturn) -> str | None:
        """Return the failure of a run, or raise what ended its process."""
        return future.return_value


def _ignore(**event: Any) -> None:
    """Do nothing: kdgraph's config has no callbacks of Hydra."""
