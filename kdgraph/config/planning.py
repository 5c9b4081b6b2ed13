"""From words on a command line to run configs: one run, or the points of a sweep.

Hydra composes (:mod:`kdgraph.config.composer`), the classes that the nodes name do the checking
(:mod:`kdgraph.config.components`), and every error is one line (:mod:`kdgraph.config.messages`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig

from kdgraph.config.checks import check
from kdgraph.config.composer import Composer
from kdgraph.config.run_config import RunConfig
from kdgraph.errors import ConfigError


@dataclass(frozen=True)
class Job:
    """One point of a sweep, or the only one.

    Attributes
    ----------
    composer : what composes it.
    overrides : what it is composed of, Hydra's own keys aside; ``kdg run`` with them runs it alone.
    swept : the values that set it apart from the other points, by key.
    known : its run directory, if that is known without composing.
    of_many : whether other points may choose the same options.
    """

    composer: Composer = field(repr=False, compare=False)
    overrides: tuple[str, ...]
    swept: Mapping[str, str] = field(default_factory=dict, hash=False)
    known: Path | None = None
    of_many: bool = False

    @cached_property
    def config(self) -> RunConfig:
        """Composed when it is asked for first: 6 ms where another point chose the same options, 40
        ms else.
        """
        with self.composer.errors_in_one_line():
            return self.composer.run_config(self.overrides, of_many=self.of_many)

    @property
    def run_dir(self) -> Path:
        """Where the run is or will be: what tells runs apart."""
        return self.known or self.config.run_dir

    @cached_property
    def key(self) -> str:
        """Hex digest of the overrides that decide the run's directory; not how it is run."""
        deciding = [
            override
            for override in self.overrides
            if override.partition("=")[0] not in ("n_jobs", "force", "fail_fast", "save")
        ]
        return hashlib.sha256("\0".join(deciding).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Plan:
    """What a command line asks for.

    Attributes
    ----------
    jobs : not composed yet.
    multirun : whether they are a sweep.
    base : the config without swept values, with Hydra's node; it says how to launch.
    composer : what composes them.
    launching : overrides that say how to launch, those of the launcher alone.
    """

    jobs: tuple[Job, ...]
    multirun: bool
    base: DictConfig = field(repr=False)
    composer: Composer = field(repr=False)
    launching: tuple[str, ...] = ()

    @property
    def parallel(self) -> bool:
        """Whether the launcher may start jobs side by side, which then share the cores; not the
        kernels of one run.
        """
        launcher: Any = self.base.hydra.launcher
        serial = str(launcher["_target_"]).endswith("BasicLauncher") or launcher.get("n_jobs") == 1
        return self.multirun and not serial

    @property
    def is_remote(self) -> bool:
        """Whether runs are jobs of their own through submitit: on a cluster, or one process for
        each on this machine.
        """
        return str(self.base.hydra.launcher["_target_"]).startswith(
            "hydra_plugins.hydra_submitit_launcher."
        )

    @property
    def out(self) -> Path:
        """The folder of runs; a sweep over ``out`` has others beside it."""
        return Path(str(self.base.out))

    @property
    def force(self) -> bool:
        """Whether what is done is run again."""
        return bool(self.base.force)

    @property
    def fail_fast(self) -> bool:
        """Whether the sweep ends with its first failure."""
        return bool(self.base.fail_fast)

    def knowing(self, run_dirs: Mapping[str, Path]) -> Plan:
        """The same plan with the run directories of some jobs, by their key."""
        return replace(
            self, jobs=tuple(replace(job, known=run_dirs.get(job.key)) for job in self.jobs)
        )


def compose(overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> RunConfig:
    """The checked config of one run.

    Raises
    ------
    ConfigError, ParameterError
        One line that names the key, the rule and the way out.
    """
    jobs = plan(overrides, config_dir=config_dir).jobs
    if len(jobs) != 1:
        raise ConfigError(f"one run is wanted here, got a sweep of {len(jobs)}; give single values")
    check(jobs[0].config)
    return jobs[0].config


def plan(
    overrides: Sequence[str] = (), *, multirun: bool = False, config_dir: str | Path | None = None
) -> Plan:
    """Every job of a command line, and of an experiment that is a sweep by itself.

    They are composed when their config is asked for; keys are checked then, values by
    :func:`check`, which imports the components.
    """
    composer = Composer(config_dir)
    with composer.errors_in_one_line():
        base = composer.compose(
            [override for override in overrides if composer.decides_the_sweep(override)]
        )
        multirun = multirun or str(base.hydra.mode).endswith("MULTIRUN")
        if multirun:
            params = base.hydra.sweeper.get("params") or {}
            points = composer.expand(
                [*(f"{key}={values}" for key, values in params.items()), *overrides]
            )
        else:
            points = [(list(overrides), {})]
    without_hydra = [
        tuple(override for override in point if not _is_of_hydra(override)) for point, _ in points
    ]
    jobs = [
        Job(composer, point, swept, of_many=multirun)
        for point, (_, swept) in zip(without_hydra, points, strict=True)
    ]
    with composer.errors_in_one_line():
        _check_network(composer, jobs)
    launching = [
        override
        for override in overrides
        if override.lstrip("+~").startswith(("hydra.launcher.", "hydra/launcher="))
    ]
    return Plan(tuple(jobs), multirun, base, composer, tuple(launching))


def _check_network(composer: Composer, jobs: Sequence[Job]) -> None:
    """Raise ConfigError for ``network=…`` on the command line if it changes none of the jobs.

    Methods on a forest would ignore it silently. Another network is composed in its place: where
    the same options are chosen, no part depends on the network. In a sweep one job that depends on
    it suffices.
    """
    named = [job for job in jobs if _value_of("network", job.overrides)]
    if not named or any(_depends_on_network(composer, job) for job in named):
        return
    overrides = named[0].overrides
    network, parent = _value_of("network", overrides), _value_of("parent", overrides)
    if parent:
        raise ConfigError(
            f"network={network} has no effect beside parent={parent}; leave one of them out"
        )
    _, chosen = composer.nodes(overrides)
    raise ConfigError(
        f"network={network} is used by no part of method={chosen.get('method')}; choose a method"
        f" on a network, such as method=kdn, or parent={network}"
    )


def _value_of(key: str, overrides: Sequence[str]) -> str | None:
    """Return the value of the last override of ``key``, or None."""
    values = [value for name, _, value in (o.partition("=") for o in overrides) if name == key]
    return values[-1] if values else None


def _depends_on_network(composer: Composer, job: Job) -> bool:
    """Return whether another network changes which options a job is composed of."""
    _, chosen = composer.nodes(job.overrides, of_many=job.of_many)
    other = "cnn" if chosen.get("network") == "mlp" else "mlp"
    try:
        _, changed = composer.nodes(
            [*(o for o in job.overrides if not o.startswith("network=")), f"network={other}"],
            of_many=job.of_many,
        )
    except HydraException:  # no such variant of the other network
        return True
    return {**changed, "network": ""} != {**chosen, "network": ""}


def _is_of_hydra(override: str) -> bool:
    """Return whether an override is of Hydra's node, which says how to launch: added (``+``) and
    deleted (``~``) keys too.
    """
    return override.lstrip("+~").startswith(("hydra.", "hydra/"))
