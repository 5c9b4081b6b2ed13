"""Jobs of a cluster: each lost one is judged separately, by what SLURM shows of it, and none is
submitted twice without need.
"""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import submitit
from omegaconf import OmegaConf
from submitit.core.utils import UncompletedJobError

from kdgraph.cli.main import main
from kdgraph.config import plan
from kdgraph.errors import Terminated, UsageError
from kdgraph.runner import files
from kdgraph.runner import sweep as sweeps
from kdgraph.runner.launchers import launcher, submitit_jobs
from kdgraph.runner.launchers.launcher import launcher_of, run_in_parallel
from kdgraph.runner.launchers.submitit_jobs import SubmittedRun
from kdgraph.runner.run_dir import RunDir
from tests.runner.conftest import Notes

AGAIN = "finished stages are kept, and the same command goes on from them"


@dataclass
class Submitted:
    """Stand-in for a job of submitit: its id, and files that appear when it has ended."""

    job_id: str
    folder: Path
    failure: str | None = None
    trace: str | None = None

    @property
    def paths(self) -> Any:
        return SimpleNamespace(
            result_pickle=self.folder / f"{self.job_id}.pkl",
            stderr=self.folder / f"{self.job_id}.err",
        )

    def exception(self) -> Exception | None:
        return UncompletedJobError(self.trace) if self.trace else None

    def result(self) -> str | None:
        return self.failure


@dataclass
class FakeSlurm:
    """A queue whose jobs end as the test has it: a script of what happens at each second."""

    folder: Path
    script: dict[int, Any] = field(default_factory=dict)
    queue: dict[str, tuple[str, str]] = field(default_factory=dict)
    arrays: list[list[Submitted]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    max_array_size: int = 1001
    works: bool = True
    seconds: float = 0.0

    def map_array(self, task: Any, configs: list[Any]) -> list[Submitted]:
        name = str(94 + len(self.arrays))
        names = [f"{name}_{i}" for i in range(len(configs))] if len(configs) > 1 else [name]
        self.arrays.append([Submitted(one, self.folder) for one in names])
        self.queue |= dict.fromkeys(names, ("PENDING", "Resources"))
        return self.arrays[-1]

    def sleep(self, seconds: float) -> None:
        for second in range(int(self.seconds) + 1, int(self.seconds + seconds) + 1):
            if second in self.script:
                self.script[second]()
        self.seconds += seconds
        assert self.seconds < 1000, "waits without end"

    def output(self, program: str, *arguments: str) -> str | None:
        if program == "scancel":
            self.cancelled += arguments
        if program == "squeue":
            lines = [f"{job}|{state}|{reason}\n" for job, (state, reason) in self.queue.items()]
            return "".join(lines) if self.works else None
        return (
            f"MaxArraySize            = {self.max_array_size}\n" if program == "scontrol" else None
        )

    def succeed(self, *names: str) -> None:
        for name in names:
            self.queue[name] = "COMPLETED", "None"
            (self.folder / f"{name}.pkl").touch()

    def lose(self, state: str, *names: str) -> None:
        """End jobs without a result; a job of unknown state is one that SLURM has purged."""
        for name in names:
            self.queue[name] = state, "None"
            if state == "UNKNOWN":
                del self.queue[name]


@pytest.fixture
def fake(tmp_path, monkeypatch) -> FakeSlurm:
    slurm = FakeSlurm(tmp_path)
    monkeypatch.setattr(submitit_jobs, "_executor", lambda node, kind: slurm)
    monkeypatch.setattr(
        submitit_jobs, "time", SimpleNamespace(sleep=slurm.sleep, monotonic=lambda: slurm.seconds)
    )
    monkeypatch.setattr(submitit_jobs, "_output", slurm.output)
    return slurm


@pytest.fixture
def sweep(fake, tmp_path):
    """Run a sweep of ``n`` seeds on the fake; return failures by seed, and notes but the first."""

    def run(n: int, *more: str) -> tuple[dict[int, str], list[str]]:
        words = [
            "dataset=wine",
            f"seed=range(0,{n})",
            f"out={tmp_path / 'o'}",
            "hydra/launcher=submitit_slurm",
            *more,
        ]
        planned, reporter = plan(words, multirun=True), Notes()
        seeds = {job.run_dir: job.config.seed for job in planned.jobs}
        failures = run_in_parallel(planned, planned.jobs, reporter)
        return {seeds[path]: line for path, line in failures.items()}, reporter.lines[1:]

    return run


def test_one_job_that_is_cancelled_has_no_effect_on_the_others(fake, sweep):
    fake.script = {
        20: lambda: fake.lose("CANCELLED", "94_1"),
        200: lambda: fake.succeed("94_0", "94_2", "94_3"),
    }
    failures, notes = sweep(4)
    assert failures == {1: f"job 94_1 was cancelled; {AGAIN}"}
    assert notes == ["submitted as SLURM job 94; 'squeue -j 94' shows it, 'scancel 94' ends it"]
    assert len(fake.arrays) == 1


def test_an_array_that_is_cancelled_is_reported_as_cancelled(fake, sweep):
    fake.script = {5: lambda: fake.lose("CANCELLED", "94_0", "94_1", "94_2")}
    failures, _ = sweep(3)
    assert set(failures.values()) == {f"job 94_{i} was cancelled; {AGAIN}" for i in range(3)}
    assert len(fake.arrays) == 1


def test_a_job_whose_node_was_lost_is_submitted_once_more(fake, sweep):
    fake.script = {
        20: lambda: fake.lose("NODE_FAIL", "94_0"),
        40: lambda: fake.succeed("94_1"),
        60: lambda: fake.lose("NODE_FAIL", "95"),
    }
    failures, notes = sweep(2)
    assert failures == {0: f"job 95 ended without a result (state NODE_FAIL); {AGAIN}"}
    assert notes[1] == "1 run lost a worker (SLURM job 94_0: NODE_FAIL); each is tried again"
    assert [len(array) for array in fake.arrays] == [2, 1]


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (
            "TIMEOUT",
            (
                f"job 94_0 met its time limit of 7 min; {AGAIN}; hydra.launcher.timeout_min=14"
                " gives it more time"
            ),
        ),
        (
            "OUT_OF_MEMORY",
            f"job 94_0 ran out of memory; {AGAIN}; hydra.launcher.mem_gb=6 requests 6 GB",
        ),
        ("FAILED", f"job 94_0 ended without a result (state FAILED); {AGAIN}"),
    ],
)
def test_a_limit_is_named_with_the_log_and_not_met_twice(fake, sweep, tmp_path, state, sentence):
    log = tmp_path / "94_0.err"
    log.write_text("slurmstepd: error")
    fake.script = {5: lambda: fake.succeed("94_1"), 20: lambda: fake.lose(state, "94_0")}
    failures, _ = sweep(2, "hydra.launcher.timeout_min=7", "hydra.launcher.mem_gb=3")
    assert failures == {0: f"{sentence}; its log is {log}"}
    assert len(fake.arrays) == 1


def test_where_squeue_fails_nothing_is_known_of_any_job(fake, sweep):
    def controller_restarts() -> None:
        fake.works = False
        fake.lose("FAILED", "94_0", "94_1")

    fake.script = {3: controller_restarts, 300: lambda: fake.succeed("94_0", "94_1")}
    assert sweep(2)[0] == {}


def test_a_job_that_is_requeued_is_waited_for(fake, sweep):
    def requeue() -> None:
        fake.queue["94_0"] = "PENDING", "BeginTime"

    fake.script = {5: lambda: fake.succeed("94_1"), 20: requeue, 200: lambda: fake.succeed("94_0")}
    assert sweep(2)[0] == {}
    assert len(fake.arrays) == 1


def test_a_result_may_show_after_its_job_has_left_the_queue(fake, sweep):
    fake.script = {
        5: lambda: fake.lose("COMPLETED", "94_0", "94_1"),
        50: lambda: fake.succeed("94_0", "94_1"),
    }
    assert sweep(2)[0] == {}


@pytest.mark.parametrize("state", ["COMPLETED", "UNKNOWN"])
def test_a_result_that_never_shows_is_not_waited_for_without_end(fake, sweep, state):
    fake.script = {5: lambda: fake.lose(state, "94_0", "94_1")}
    assert set(sweep(2)[0].values()) == {
        f"job 94_{i} ended without a result (state {state}); {AGAIN}" for i in range(2)
    }


def test_a_job_that_is_held_is_reported_once(fake, sweep):
    fake.script = {
        2: lambda: fake.queue.update(dict.fromkeys(["94_0", "94_1"], ("PENDING", "JobHeldUser"))),
        100: lambda: fake.succeed("94_0", "94_1"),
    }
    held = (
        "SLURM job 94_0 is held (JobHeldUser); 'scontrol release 94_0' lets it start, 'scancel"
        " 94_0' ends it"
    )
    assert sweep(2)[1][1:] == [held]


def test_what_a_job_returns_is_its_failure(fake, sweep):
    def end() -> None:
        fake.arrays[0][0].failure = "ValueError: no luck"
        fake.arrays[0][1].trace = (
            "Job failed with trace:\n---\nTraceback\nModuleNotFoundError: No module named"
            " 'custom'\n---"
        )
        fake.succeed("94_0", "94_1")

    fake.script = {5: end}
    assert sweep(2)[0] == {
        0: "ValueError: no luck",
        1: "job 94_1 failed: ModuleNotFoundError: No module named 'custom'",
    }


def test_an_array_is_no_larger_than_slurm_allows(fake, sweep):
    fake.max_array_size = 3
    fake.script = {second: lambda: fake.succeed(*fake.queue) for second in range(1, 100)}
    assert sweep(7)[0] == {}
    assert [len(array) for array in fake.arrays] == [3, 3, 1]
    fake.arrays.clear()
    sweep(4, "hydra.sweeper.max_batch_size=2")
    assert [len(array) for array in fake.arrays] == [2, 2]


def test_an_interruption_cancels_what_has_not_ended(fake, sweep):
    def interrupt() -> None:
        raise KeyboardInterrupt

    fake.script = {5: lambda: fake.succeed("94_1"), 20: interrupt}
    with pytest.raises(KeyboardInterrupt):
        sweep(3)
    assert fake.cancelled == ["94"]


def test_a_lost_connection_leaves_the_jobs_to_the_cluster(fake, sweep):
    def hang_up() -> None:
        raise Terminated(signal.SIGHUP)

    fake.script = {20: hang_up}
    with pytest.raises(Terminated):
        sweep(2)
    assert fake.cancelled == []


def test_what_cannot_be_submitted_is_one_line(fake, sweep, monkeypatch):
    def refuse(*arguments: object) -> None:
        raise RuntimeError("sbatch: error: Invalid job array specification")

    monkeypatch.setattr(fake, "map_array", refuse)
    with pytest.raises(UsageError) as caught:
        sweep(2)
    assert str(caught.value) == (
        "the launcher could not start anything (RuntimeError: sbatch: error: Invalid job array"
        " specification); hydra.sweeper.max_batch_size=100 submits fewer at a time,"
        " hydra/launcher=processes runs on this machine, basic one after the other"
    )


def test_a_job_that_is_stopped_at_its_time_limit_names_the_limit(tmp_path, monkeypatch):
    """The handler of submitit raises in the middle of the run, which keeps it as its failure."""
    (job,) = plan(["dataset=wine", f"out={tmp_path}"]).jobs
    stopped = UncompletedJobError("Job not requeued because: timed-out too many times.")
    RunDir(job.run_dir).fail(stopped)
    log = tmp_path / "log.err"
    log.touch()
    monkeypatch.setattr(
        submitit,
        "JobEnvironment",
        lambda: SimpleNamespace(job_id="7_1", paths=SimpleNamespace(stderr=log)),
    )
    monkeypatch.setattr(launcher, "attempt", lambda config, reporter: stopped)
    line = SubmittedRun(1, Path(), node={"timeout_min": 90})(job.config)
    assert (
        line
        == f"job 7_1 met its time limit of 90 min; {AGAIN}; hydra.launcher.timeout_min=180 gives it"
        f" more time; its log is {log}"
    )
    assert RunDir(job.run_dir).failure() == line


def test_a_job_that_is_requeued_does_the_same_again():
    task = SubmittedRun(1, Path())
    delayed = task.checkpoint("config")  # type: ignore[arg-type]
    assert (delayed.function, delayed.args) == (task, ("config",))


def test_missing_or_failing_commands_give_no_state(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert submitit_jobs.jobs_in_queue() is None and submitit_jobs.past_state("1") == "UNKNOWN"
    failing = tmp_path / "squeue"
    failing.write_text(
        "#!/bin/sh\necho slurm_load_jobs error: Unable to contact slurm controller >&2\nexit 1\n"
    )
    failing.chmod(0o755)
    assert submitit_jobs.jobs_in_queue() is None


@pytest.mark.parametrize(
    ("sacct", "state"),
    [
        ("echo 'CANCELLED by 0'", "CANCELLED"),
        ("echo OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("exit 1", "UNKNOWN"),
        ("true", "UNKNOWN"),
    ],
)
def test_the_state_of_a_purged_job_is_read_from_accounting(monkeypatch, tmp_path, sacct, state):
    (tmp_path / "sacct").write_text(f"#!/bin/sh\n{sacct}\n")
    (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert submitit_jobs.past_state("5_0") == state


@pytest.mark.parametrize("minutes", [1, 2, 3, 5, 10, 60, 1440])
def test_a_job_has_a_part_of_its_time_before_the_signal_to_end(minutes):
    """SLURM may send it 30 seconds early, and checks its jobs each 30 seconds."""
    delay = submitit_jobs.signal_delay(minutes, 120)
    assert 1 <= delay <= 120 and 60 * minutes - delay - 30 >= 29
    assert submitit_jobs.signal_delay(minutes, 1) == 1


@pytest.mark.slow
def test_a_single_run_goes_through_the_launcher_that_was_chosen(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    tiny = [
        "dataset=wine",
        "parent.n_estimators=5",
        "ood=none",
        "metrics=default",
        "figures=none",
        "calibrator=none",
    ]
    assert main(["run", *tiny, "hydra/launcher=submitit_local"]) == 0
    line = "kdg: 1 run through LocalLauncher (logs in outputs/.sweeps/.submitit/%j), one core each"
    assert capfd.readouterr().err.splitlines()[0] == line
    assert len(list(tmp_path.glob("outputs/.sweeps/.submitit/*/*_submitted.pkl"))) == 1


def test_added_keys_of_the_launcher_are_no_part_of_a_run():
    words = [
        "dataset=wine",
        "hydra/launcher=submitit_slurm",
        "+hydra.launcher.additional_parameters.reservation=night",
    ]
    planned = plan(words)
    assert planned.jobs[0].overrides == ("dataset=wine",)
    assert planned.base.hydra.launcher.additional_parameters == {"reservation": "night"}


def test_a_launcher_of_another_plugin_needs_no_folder_of_logs():
    node = {"_target_": "hydra_plugins.hydra_ray_launcher.ray_launcher.RayLauncher"}
    planned: Any = SimpleNamespace(base=OmegaConf.create({"hydra": {"launcher": node}}))
    assert launcher_of(planned, 2, Notes()).place == " through RayLauncher"


@pytest.mark.parametrize("force", [False, True])
def test_lost_job_with_a_record_is_done(tmp_path, monkeypatch, force):
    """Another command may have finished it; with force a record of before is none."""
    planned = plan(["dataset=wine", f"out={tmp_path}", f"force={force}"])
    (job,) = planned.jobs
    job.run_dir.mkdir(parents=True)
    (job.run_dir / "result.json").touch()
    monkeypatch.setattr(RunDir, "record", lambda folder: {"seed": 0})
    outcome = sweeps._outcome(
        planned, job, "SLURM job 7 was cancelled", RunDir(job.run_dir).versions
    )
    assert (outcome.record, outcome.failure) == (
        (None, "SLURM job 7 was cancelled") if force else ({"seed": 0}, None)
    )


def test_a_full_disk_is_the_reason_of_a_lost_run(tmp_path, monkeypatch):
    (job,) = plan(["dataset=wine", f"out={tmp_path}"]).jobs
    assert RunDir(job.run_dir).reason_of_loss() == "out of memory, or killed"

    def full(**more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", full)
    assert (
        RunDir(job.run_dir).reason_of_loss()
        == f"cannot write {job.run_dir.parent}: No space left on device; free some space ('kdg gc' deletes what no run needs) or name another folder"
        " with out=…, and give the same command again"
    )
