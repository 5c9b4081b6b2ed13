"""Runs in other processes: a killed process ends no other, failures are reported, and the first
failure can end it all.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from hydra.core.plugins import Plugins
from joblib import Parallel, delayed

from kdgraph.cli.main import main
from kdgraph.runner.launchers.local_processes import end_processes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TINY = ["dataset=wine", "parent.n_estimators=5", "ood=none", "metrics=default", "figures=none"]
PARTS = """
import errno, os, time
from kdgraph.calibration import Uncalibrated

class Troubled(Uncalibrated):
    def __init__(self, estimator, *, calibration_size=0.3, random_state=None, trouble="none"):
        super().__init__(estimator, calibration_size=calibration_size, random_state=random_state)
        self.trouble = trouble

    def _fit_after(self, train, calibration):
        time.sleep(0.3)
        if self.trouble == "dies":
            os._exit(9)
        if self.trouble == "full disk":
            from kdgraph.runner import files

            def full(path, content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

            files.Path.write_bytes = full
        if self.trouble == "fails":
            raise RuntimeError("no luck")
        super()._fit_after(train, calibration)
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote, its processes too."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def sweep(tmp_path, monkeypatch, capfd):
    """The command is called in this process, which has imported what it needs; its jobs run in
    processes of their own, all of them new.
    """
    (tmp_path / "troubled_parts.py").write_text(PARTS)
    (tmp_path / "custom" / "calibrator").mkdir(parents=True)
    (tmp_path / "custom" / "calibrator" / "troubled.yaml").write_text(
        "# In trouble\nname: troubled\n_target_: troubled_parts.Troubled\ntrouble: none\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "troubled_parts", raising=False)

    def run(*arguments: str) -> Ended:
        end_processes()
        code = main(
            ["run", "-m", "--config-dir", "custom", *TINY, "calibrator=troubled", *arguments]
        )
        return Ended(code, *capfd.readouterr())

    yield run
    end_processes()


def test_a_sweep_leaves_the_processes_of_joblib_alone(sweep):
    """Both are of loky, whose reusable executor is one for each process."""
    assert sweep("seed=0,1").returncode == 0
    assert Parallel(2, backend="loky")(delayed(abs)(x) for x in (-1, -2)) == [1, 2]


def n_done(folder: Path) -> int:
    return len(list(folder.rglob("result.json")))


def messages(ended: Ended) -> list[str]:
    """Lines of stderr without the tally, which comes when a sweep takes a minute."""
    return [
        line
        for line in ended.stderr.splitlines()
        if not (line.startswith("kdg: ") and " · " in line)
    ]


def test_a_killed_process_ends_no_other_run(sweep, tmp_path):
    done = sweep("calibrator.trouble=none,dies", "hydra.launcher.n_jobs=2")
    assert done.returncode == 1 and n_done(tmp_path) == 1
    first, *lost = [line for line in messages(done) if line.startswith("kdg: ")]
    assert first == "kdg: 2 runs, 2 at a time, one core each"
    assert re.match(r"kdg: [12] runs? lost a worker \(TerminatedWorkerError: ", lost[0])
    assert lost[0].endswith("; each is tried again, alone")
    assert lost[1:] == [
        "kdg: 1 of 2 runs failed; the same command tries it again, and this runs it alone:"
    ]
    assert done.stderr.count("  its worker was lost twice; out of memory, or killed\n") == 1
    assert done.stderr.count("    kdg run --config-dir custom dataset=wine ") == 1


def test_a_failed_run_is_reported_and_the_others_finish(sweep, tmp_path):
    done = sweep("calibrator.trouble=none,fails", "hydra.launcher.n_jobs=2")
    assert done.returncode == 1 and n_done(tmp_path) == 1
    lines = messages(done)
    assert (
        lines[1]
        == "kdg: 1 of 2 runs failed; the same command tries it again, and this runs it alone:"
    )
    assert lines[2].startswith("  RuntimeError: no luck   outputs/wine/") and lines[2].endswith(
        "/error.txt"
    )
    assert lines[3].endswith("calibrator=troubled calibrator.trouble=fails") and len(lines) == 4
    assert done.stdout.endswith("1 run in outputs\n")
    again = sweep("calibrator.trouble=none,fails", "hydra/launcher=basic")
    assert again.returncode == 1 and again.stdout.endswith(
        "1 run in outputs, 1 of them done before\n"
    )


@pytest.mark.parametrize("launcher", ["processes", "submitit_local"])
def test_full_disk_is_named_without_a_failure_file(sweep, tmp_path, launcher):
    done = sweep("calibrator.trouble='full disk'", "seed=0,1", f"hydra/launcher={launcher}")
    assert done.returncode == 1 and n_done(tmp_path) == 0 and not list(tmp_path.rglob("error.txt"))
    failures = [line for line in messages(done) if line.startswith("  cannot write ")]
    space = "No space left on device; free some space ('kdg gc' deletes what no run needs)"
    rule = f"{space} or name another folder with out=…, and give the same command again"
    assert len(failures) == 2 and all(
        line.startswith("  cannot write outputs/.store/calibrate/") for line in failures
    )
    assert all(line.endswith(f".kdg: {rule}") for line in failures)


def test_the_first_failure_can_end_it_all(sweep, tmp_path):
    done = sweep(
        "calibrator.trouble=fails", "seed=range(0,8)", "hydra.launcher.n_jobs=2", "fail_fast=true"
    )
    assert done.returncode == 1 and n_done(tmp_path) == 0
    failed = len(list(tmp_path.rglob("error.txt")))
    assert 1 <= failed <= 4  # two at a time, and one each that was handed out already
    assert (
        done.stderr.splitlines()[-1] == f"kdg: {8 - failed} runs were not started (fail_fast=true)"
    )
    assert not list((tmp_path / "outputs" / ".sweeps").glob("failed-*"))


def test_a_local_cluster_has_the_given_number_of_runs_at_once(sweep, tmp_path):
    done = sweep(
        "calibrator.trouble=none,fails",
        "hydra/launcher=submitit_local",
        "hydra.sweeper.max_batch_size=1",
    )
    assert done.returncode == 1 and n_done(tmp_path) == 1
    first = (
        "kdg: 2 runs through LocalLauncher (logs in outputs/.sweeps/.submitit/%j), one core each"
    )
    assert done.stderr.splitlines()[0] == first
    assert done.stderr.count("  RuntimeError: no luck   ") == 1
    assert done.stderr.splitlines()[-1].endswith(
        " calibrator.trouble=fails hydra/launcher=submitit_local"
    )  # not here, all cores


def test_an_experiment_may_choose_its_launcher(sweep, tmp_path):
    (tmp_path / "custom" / "experiment").mkdir()
    (tmp_path / "custom" / "experiment" / "local.yaml").write_text(
        "# @package _global_\n# Twice\ndefaults: [override /hydra/launcher: submitit_local]\nhydra:"
        " {mode: MULTIRUN, launcher: {cpus_per_task: 2}, sweeper: {params: {seed: 'range(0,2)'}}}\n"
    )
    done = sweep("experiment=local", f"out={tmp_path / 'elsewhere'}")
    assert done.returncode == 0 and n_done(tmp_path / "elsewhere") == 2
    where = tmp_path / "elsewhere" / ".sweeps" / ".submitit"
    assert (
        done.stderr.splitlines()[0]
        == f"kdg: 2 runs through LocalLauncher (logs in {where}/%j), 2 cores each"
    )
    assert where.is_dir()


def test_a_launcher_that_cannot_start_anything_is_one_line(sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no SLURM there
    done = sweep("seed=0,1", "hydra/launcher=submitit_slurm")
    assert done.returncode == 2 and n_done(tmp_path) == 0
    message = (
        'the launcher could not start anything (RuntimeError: Could not detect "srun", are you'
        " indeed on a slurm cluster?)"
    )
    assert done.stderr.splitlines()[1:] == [
        f"kdg: {message}; hydra.sweeper.max_batch_size=100 submits fewer at a time,"
        " hydra/launcher=processes runs on this machine, basic one after the other"
    ]


def test_processes_killed_before_their_first_run_are_one_line(sweep, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif any('loky' in word for word in sys.orig_argv): os._exit(9)\n"
    )
    done = sweep("seed=range(0,6)", "hydra.launcher.n_jobs=2")
    assert done.returncode == 2 and n_done(tmp_path) == 0
    line = done.stderr.splitlines()[-1]
    assert line.startswith("kdg: the launcher could not start anything (TerminatedWorkerError: ")
    assert line.endswith(
        "; hydra/launcher=processes runs on this machine, basic one after the other"
    )


def test_an_option_that_the_launcher_has_not_is_refused(sweep, tmp_path):
    done = sweep("seed=0,1", "hydra.launcher.timeout=5")
    assert done.returncode == 2 and n_done(tmp_path) == 0
    assert done.stderr == "kdg: unknown key 'hydra.launcher.timeout'\n"


OWN_LAUNCHER = """
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import run_job
from hydra.plugins.launcher import Launcher
from omegaconf import open_dict

class OwnLauncher(Launcher):
    def setup(self, *, hydra_context, task_function, config):
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides, initial_job_idx):
        results = []
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
            with open_dict(config):
                config.hydra.job.id, config.hydra.job.num = str(number), number
            HydraConfig.instance().set_config(config)
            results.append(
                run_job(
                    task_function=self.task, config=config, job_dir_key="hydra.sweep.dir",
                    job_subdir_key="hydra.sweep.subdir", hydra_context=self.context,
                )
            )
        return results
"""


def test_jobs_go_through_the_launcher_of_another_plugin(sweep, tmp_path):
    (tmp_path / "hydra_plugins").mkdir()
    (tmp_path / "hydra_plugins" / "own_launcher.py").write_text(OWN_LAUNCHER)
    Plugins.instance().register(import_module("hydra_plugins.own_launcher").OwnLauncher)
    (tmp_path / "custom" / "hydra" / "launcher").mkdir(parents=True)
    (tmp_path / "custom" / "hydra" / "launcher" / "own.yaml").write_text(
        "# Own\n_target_: hydra_plugins.own_launcher.OwnLauncher\n"
    )
    done = sweep("calibrator.trouble=none,fails", "seed=0,1", "hydra/launcher=own")
    assert done.stderr.splitlines()[0] == "kdg: 4 runs through OwnLauncher, one core each"
    assert done.returncode == 1 and n_done(tmp_path) == 2
    assert done.stderr.count("  RuntimeError: no luck   outputs/wine/") == 2
