"""Jobs of a command line: one run, or the points of a sweep.

Hydra composes them (:mod:`kdgraph.config.composer`), they are checked against the classes that
their nodes name (:mod:`kdgraph.config.components`), and every error is one line
(:mod:`kdgraph.config.messages`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from kdgraph.config.checks import check
from kdgraph.config.composer import HOW_TO_RUN, Composer
from kdgraph.config.run_config import PLAIN, RunConfig
from kdgraph.errors import ConfigError
from kdgraph.extras import is_installed, needs_library

SUBMITIT = "hydra_plugins.hydra_submitit_launcher."
LAUNCHERS = "kdgraph.runner.launchers."
WORKERS = {
    f"{LAUNCHERS}dask_workers.DaskWorkers": ("dask", "distributed"),
    f"{LAUNCHERS}ray_workers.RayWorkers": ("ray", "ray"),
}
"""``_target_`` of a launcher of workers → its name, and the library that it needs."""


@dataclass(frozen=True)
class Job:
    """One point of a sweep, or the only one.

    ``overrides`` are without those of Hydra's own keys; ``kdg run`` with them runs the job alone.
    ``swept`` has the keys that vary in the sweep. ``known`` is the run directory, if it is known
    without composing.

    >>> job = plan(["method=isotonic", "seed=3"]).jobs[0]
    >>> job.overrides, job.config.parent["name"], job.run_dir.parts[:-1]
    (('method=isotonic', 'seed=3'), 'random_forest', ('outputs', 'spiral', 'isotonic'))
    """

    composer: Composer = field(repr=False, compare=False)
    overrides: tuple[str, ...]
    swept: Mapping[str, str] = field(default_factory=dict, hash=False)
    known: Path | None = None

    @cached_property
    def config(self) -> RunConfig:
        """The config, composed on first access.

        It takes 1 ms where the same options were composed before, 10 ms to 50 ms otherwise.
        """
        with self.composer.errors_in_one_line():
            return self.composer.run_config(self.overrides)

    @property
    def run_dir(self) -> Path:
        """The directory of the run, which no other run has."""
        return self.known or self.config.run_dir

    @cached_property
    def key(self) -> str:
        """Hex digest of the overrides that decide the run's directory; not how it is run."""
        overrides = [
            override
            for override in self.overrides
            if override.partition("=")[0] not in HOW_TO_RUN - {"out"}
        ]
        return hashlib.sha256("\0".join(overrides).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Plan:
    """The jobs of a command line.

    Attributes
    ----------
    jobs : tuple of Job
        Their configs are composed on first access.
    multirun : bool
        Whether they are a sweep.
    base : DictConfig
        The config without swept values, with Hydra's node, which has the launcher.
    composer : Composer
        Composes them.
    launching : tuple of str
        Overrides of Hydra's launcher.

    Examples
    --------
    >>> planned = plan(["method=kdf,isotonic"], multirun=True)
    >>> len(planned.jobs), planned.multirun, planned.is_remote
    (2, True, False)
    """

    jobs: tuple[Job, ...]
    multirun: bool
    base: DictConfig = field(repr=False)
    composer: Composer = field(repr=False)
    launching: tuple[str, ...] = ()

    @property
    def parallel(self) -> bool:
        """True if the launcher may start jobs in parallel, which then share the cores."""
        launcher: Any = self.base.hydra.launcher
        serial = str(launcher["_target_"]).endswith("BasicLauncher") or launcher.get("n_jobs") == 1
        return self.multirun and not serial

    @property
    def is_remote(self) -> bool:
        """True if each run is a job of submitit, or a task on a worker of Dask or Ray.

        Then a run alone is one too.
        """
        target = str(self.base.hydra.launcher["_target_"])
        return target.startswith(SUBMITIT) or target in WORKERS

    @property
    def out(self) -> Path:
        """The folder of runs; a sweep over ``out`` has others, too."""
        return Path(str(self.base.out))

    @property
    def force(self) -> bool:
        """True if finished runs are repeated."""
        return bool(self.base.force)

    @property
    def fail_fast(self) -> bool:
        """True if the sweep ends with its first failure."""
        return bool(self.base.fail_fast)

    def with_run_dirs(self, run_dirs: Mapping[str, Path]) -> Plan:
        """Return the same plan with the run directories of some jobs, by :attr:`Job.key`."""
        return replace(
            self, jobs=tuple(replace(job, known=run_dirs.get(job.key)) for job in self.jobs)
        )


def compose(overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> RunConfig:
    """Return the checked config of one run.

    Parameters
    ----------
    overrides : what comes after ``kdg run``, none of it a sweep.
    config_dir : folder of config groups of the user, behind those of kdgraph.

    Raises
    ------
    ConfigError, ParameterError
        One line that names the key, the rule and the way out.

    Examples
    --------
    >>> config = compose(["dataset=spiral", "method=isotonic", "seed=3"])
    >>> config.method, config.seed, config.calibrator["_target_"]
    ('isotonic', 3, 'kdgraph.calibration.ScoreMap')
    >>> compose(["method=isotonik"])
    Traceback (most recent call last):
        ...
    kdgraph.errors.ConfigError: no method named 'isotonik'; did you mean 'isotonic'? ...
    """
    jobs = plan(overrides, config_dir=config_dir).jobs
    if len(jobs) != 1:
        raise ConfigError(f"one run is wanted here, got a sweep of {len(jobs)}; give single values")
    check(jobs[0].config)
    return jobs[0].config


def plan(
    overrides: Sequence[str] = (), *, multirun: bool = False, config_dir: str | Path | None = None
) -> Plan:
    """Return every job of a command line, or of an experiment that is a sweep.

    Keys are checked when the config of a job is composed, on first access; values by
    :func:`~kdgraph.config.checks.check`, which imports the components.

    Parameters
    ----------
    overrides : what comes after ``kdg run``.
    multirun : whether they are a sweep (``-m``).
    config_dir : folder of config groups of the user, behind those of kdgraph.

    Examples
    --------
    >>> planned = plan(["method=kdf,isotonic", "seed=0,1"], multirun=True)
    >>> for job in planned.jobs:
    ...     print(*job.overrides)
    method=kdf seed=0
    method=kdf seed=1
    method=isotonic seed=0
    method=isotonic seed=1
    """
    composer = Composer(config_dir)
    with composer.errors_in_one_line():
        base = composer.compose(
            [override for override in overrides if composer.overrides.decides_the_sweep(override)]
        )
        _check_launcher(base)
        multirun = multirun or str(base.hydra.mode).endswith("MULTIRUN")
        if multirun:
            points = composer.overrides.expand([*_swept_in_config(base), *overrides])
        else:
            points = [(list(overrides), {})]
    # Overrides of Hydra's node may add (+) or delete (~) a key.
    of_hydra = re.compile(r"[+~]*hydra[./]")
    jobs = [
        Job(composer, tuple(word for word in point if not of_hydra.match(word)), swept)
        for point, swept in points
    ]
    with composer.errors_in_one_line():
        _check_network(composer, jobs)
    launching = [
        override
        for override in overrides
        if override.lstrip("+~").startswith(("hydra.launcher.", "hydra/launcher="))
    ]
    return Plan(tuple(jobs), multirun, base, composer, tuple(launching))


def _swept_in_config(base: DictConfig) -> list[str]:
    """Return the overrides of a sweep that an experiment holds, as a command line has them."""
    params = base.hydra.sweeper.get("params") or {}
    if not isinstance(params, DictConfig | dict):
        raise ConfigError(
            "hydra.sweeper.params must be a mapping of keys to values to sweep over, such as"
            f" {{seed: '0,1'}}, got {params}"
        )
    return [f"{key}={values}" for key, values in params.items()]


def _check_launcher(base: DictConfig) -> None:
    """Raise ConfigError if the library is absent whose workers do the runs, or their fits.

    What a plan reads later, without a word on errors, is resolved here.
    """
    OmegaConf.to_container(base.hydra.launcher, resolve=True)
    for key in (key for key in PLAIN if key in base.keys()):  # noqa: SIM118 - not "in base"
        _ = base[key]  # which has no keys whose value is missing
    n_jobs = base.hydra.launcher.get("n_jobs", 1)
    if not isinstance(n_jobs, int) or n_jobs == 0:
        raise ConfigError(
            "hydra.launcher.n_jobs must be a number of runs at a time, or -1 for all cores, got"
            f" {n_jobs}"
        )
    launcher, library = WORKERS.get(str(base.hydra.launcher["_target_"]), (None, None))
    if library and not is_installed(library):
        raise ConfigError(needs_library(f"hydra/launcher={launcher}", library))
    if base.fit_on is not None and not is_installed("distributed"):
        raise ConfigError(needs_library(f"fit_on={base.fit_on}", "distributed"))


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
    _, chosen = composer.nodes(job.overrides)
    other = "cnn" if chosen.get("network") == "mlp" else "mlp"
    try:
        _, changed = composer.nodes(
            [*(o for o in job.overrides if not o.startswith("network=")), f"network={other}"],
        )
    except HydraException:  # no such variant of the other network
        return True
    return {**changed, "network": ""} != {**chosen, "network": ""}
