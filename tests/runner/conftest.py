"""Small runs, and parts that count their calls and can be slow, given like those of a user, by
PYTHONPATH and --config-dir.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import psutil
import pytest
from joblib import parallel_config

from kdgraph.cli.main import main
from kdgraph.runner.monitoring import ProgressReporter

TINY = [
    "dataset.n_train=60",
    "dataset.n_test=40",
    "parent.n_estimators=5",
    "ood.radii=[0.5,2]",
    "metrics=default",
    "figures=none",
    "n_jobs=1",
]

PARTS = '''
import os, time
from pathlib import Path
from sklearn.ensemble import RandomForestClassifier
from kdgraph.calibration import Uncalibrated
from kdgraph.data.ood.synthetic import Sphere
from kdgraph.data.simulations import Spiral

HERE = Path(__file__).parent

def visit(stage):
    """Note the call; in the process that has to be slow in this stage, wait for the file "go"."""
    with (HERE / "visits").open("a") as file:
        file.write(stage + "\\\\n")
    if os.environ.get("SLOW") == stage:
        deadline = time.time() + 60
        while not (HERE / "go").exists() and time.time() < deadline:
            time.sleep(0.02)

class SlowSpiral(Spiral):
    def sample(self, n, rng):
        visit("split")
        return super().sample(n, rng)

class SlowForest(RandomForestClassifier):
    def fit(self, X, y, sample_weight=None):
        visit("fit")
        return super().fit(X, y, sample_weight)

class SlowCalibrator(Uncalibrated):
    def _fit_after(self, train, calibration):
        visit("calibrate")
        super()._fit_after(train, calibration)

class SlowSphere(Sphere):
    def sets(self, splits, rng):
        """The evaluation draws all sets; the check before the run draws the first one alone."""
        yield from super().sets(splits, rng)
        visit("evaluate")
'''


class Parts:
    """The folder of the slow parts: calls that were made there, and the command line that uses
    them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "slow_parts.py").write_text(PARTS.replace("\\\\n", "\\n"))
        for group, base, name in (
            ("dataset", "spiral", "SlowSpiral"),
            ("parent", "random_forest", "SlowForest"),
            ("calibrator", "none", "SlowCalibrator"),
            ("ood", "sphere", "SlowSphere"),
        ):
            (folder / "conf" / group).mkdir(parents=True)
            (folder / "conf" / group / "slow.yaml").write_text(
                f"# Slow\ndefaults: [{base}, _self_]\nname: slow\n_target_: slow_parts.{name}\n"
            )
        self.arguments = [
            "--config-dir",
            str(folder / "conf"),
            *TINY,
            *(f"{group}=slow" for group in ("dataset", "parent", "calibrator", "ood")),
        ]
        self.arguments.append(f"out={folder / 'outputs'}")

    def visits(self, stage: str) -> int:
        log = self.folder / "visits"
        return log.read_text().split().count(stage) if log.exists() else 0

    def start(self, *more: str, slow: str = "") -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(Path(__file__).parents[2])]),
            "SLOW": slow,
        }
        command = [sys.executable, "-m", "kdgraph", "run", *self.arguments, *more]
        # Ctrl-C works as in a terminal, also where these tests run in the background of a shell,
        # which has its children ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        finally:
            signal.signal(signal.SIGINT, before)

    def files(self, pattern: str) -> list[Path]:
        return sorted((self.folder / "outputs").rglob(pattern))


class Notes(ProgressReporter):
    """Reporter that collects the notes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def parts(tmp_path, monkeypatch) -> Parts:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_parts", raising=False)
    return Parts(tmp_path)


def write_overconfident_scores(n: int) -> None:
    """Write ``softmax.npz`` with overconfident scores of three classes, and labels."""
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.full(3, 0.5), size=n)
    truth = scores**0.5 / (scores**0.5).sum(axis=1, keepdims=True)
    np.savez("softmax.npz", scores=scores, label=[rng.choice(3, p=row) for row in truth])


def wait_until(condition, seconds: float = 60) -> None:
    deadline = time.time() + seconds
    while not condition():
        assert time.time() < deadline, "timed out"
        time.sleep(0.02)


def results(out: Path | str) -> dict[str, tuple]:
    """Metrics and predictions of every run, by id."""
    records = {path: json.loads(path.read_text()) for path in Path(out).glob("*/*/*/result.json")}
    return {
        record["run_id"]: (
            record["metrics"],
            record["learnt"],
            path.with_name("predictions.parquet").read_bytes(),
        )
        for path, record in records.items()
    }


WAITING_PARTS = '''
import os, signal, time
from pathlib import Path
from typing import Any
from kdgraph.calibration import Uncalibrated

HERE = Path(__file__).parent

class Waiting(Uncalibrated):
    """Notes its process under its number, then waits for the file "go", or for one of its own.

    A file "ignores-signals" or "dies" with its number makes it ignore a signal, or end its process.
    """

    def __init__(
        self, estimator: Any, *, calibration_size: float = 0.3, random_state: Any = None,
        number: int = 0,
    ):
        super().__init__(estimator, calibration_size=calibration_size, random_state=random_state)
        self.number = number

    def _fit_after(self, train, calibration):
        if (HERE / f"ignores-signals-{self.number}").exists():
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        if (HERE / f"dies-{self.number}").exists():
            with (HERE / "deaths").open("a") as file:
                file.write("died ")
            os.kill(os.getpid(), signal.SIGKILL)
        name = HERE / "waiting" / str(self.number)
        name.with_suffix(".part").write_text(str(os.getpid()))
        name.with_suffix(".part").rename(name)
        deadline = time.time() + 150
        signs = [HERE / "go", HERE / f"go-{self.number}"]
        while not any(sign.exists() for sign in signs) and time.time() < deadline:
            time.sleep(0.02)
        name.unlink(missing_ok=True)
        super()._fit_after(train, calibration)
'''
START = """
import sys
from kdgraph.cli.main import main
from kdgraph.runner.launchers import ray_workers, submitit_jobs

submitit_jobs.QUEUE_POLL_SECONDS = float(sys.argv[1])
ray_workers.HEAD_SILENCE_SECONDS = 4
sys.exit(main(sys.argv[2:]))
"""


class StartedCommand:
    """A command in a process of its own, and what it wrote on stderr.

    Parameters
    ----------
    arguments : list of str
        Words after ``kdg``.
    environment : dict
        Its environment.
    log : Path
        File for stderr.
    poll_seconds : float
        Seconds between two queries of SLURM's queue.
    """

    def __init__(
        self,
        arguments: list[str],
        environment: dict[str, str],
        log: Path,
        poll_seconds: float = 1.0,
    ) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, str(poll_seconds), *arguments],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
            )

    def end(self, seconds: float = 150) -> int:
        """Wait for its end, and return its exit code."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def lines(self) -> list[str]:
        """Lines of stderr without those of the progress, which come once a minute."""
        return [
            line
            for line in self.log.read_text().splitlines()
            if not (line.startswith("kdg: ") and " · " in line)
        ]

    def failures(self) -> list[str]:
        """Reasons why runs failed, without the file of the traceback."""
        return [
            line[2:].partition("   ")[0]
            for line in self.lines()
            if line.startswith("  ") and not line.startswith("   ")
        ]


class Sweeps:
    """Sweeps whose runs wait in the middle until they may go on.

    Parameters
    ----------
    folder : Path
        Folder of everything.
    launching : str
        Overrides of the launcher.
    """

    def __init__(self, folder: Path, *launching: str) -> None:
        self.folder, self.launching = folder, launching
        self.out = folder / "outputs"
        self.started: list[StartedCommand] = []
        (folder / "waiting").mkdir()
        (folder / "conf" / "calibrator").mkdir(parents=True)
        (folder / "waiting_parts.py").write_text(WAITING_PARTS)
        (folder / "conf" / "calibrator" / "waiting.yaml").write_text(
            "# Waits\nname: waiting\n_target_: waiting_parts.Waiting\nnumber: ${seed}\n"
        )
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])]),
        }

    def arguments(self) -> list[str]:
        return [
            *("run", "-m", "--config-dir", str(self.folder / "conf")),
            *("dataset=wine", "parent.n_estimators=5", "calibrator=waiting"),
            *("ood=none", "metrics=default", "figures=none", f"out={self.out}"),
        ]

    def start(self, *more: str, poll_seconds: float = 1.0) -> StartedCommand:
        words = [*self.arguments(), *self.launching, *more]
        log = self.folder / f"sweep_{len(self.started)}.err"
        self.started.append(StartedCommand(words, self.environment, log, poll_seconds))
        return self.started[-1]

    def trouble(self, kind: str, number: int) -> None:
        """Make the run with this number ignore SIGUSR2 ("ignores-signals") or kill itself ("dies")."""
        (self.folder / f"{kind}-{number}").touch()

    def waiting(self) -> dict[int, int]:
        """Number and process of the runs that wait."""
        processes = {
            int(path.name): int(path.read_text())
            for path in (self.folder / "waiting").iterdir()
            if path.suffix == ""
        }
        return {number: pid for number, pid in processes.items() if is_alive(pid)}

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.waiting()) >= count, 120)

    def go(self, *numbers: int) -> None:
        """Let the runs with these numbers go on, or all runs."""
        for name in [f"go-{number}" for number in numbers] or ["go"]:
            (self.folder / name).touch()

    def records(self) -> list[Path]:
        return sorted(self.out.glob("*/*/*/result.json"))

    def leftovers(self) -> list[Path]:
        """Files that only a run in progress or a failed one has."""
        return [
            path
            for pattern in ("running.json", "error.txt", "*.lock", ".*.tmp")
            for path in self.out.rglob(pattern)
        ]

    def differences(self, n_seeds: int, died: int = 0) -> list[str]:
        """Return differences from the same sweep in one process, and files that were left.

        Of each run that died and was not tried again, the two locks are expected: of its directory,
        and of the stage that it was in.
        """
        local = local_results()
        own_results = results(self.out)
        problems = [
            f"{run} differs" for run, values in own_results.items() if values != local.get(run)
        ]
        left = self.leftovers()
        names = [path.name if path.name == "running.json" else path.suffix for path in left]
        if sorted(names) != sorted(["running.json", ".lock"] * died):
            problems += [f"{path} was left" for path in left]
        return problems + (
            [] if len(own_results) == n_seeds else [f"{len(own_results)} runs are done"]
        )

    def end(self) -> None:
        for sweep in self.started:
            sweep.kill()


def results_here(arguments: list[str], folder: Path, out: Path) -> dict[str, tuple]:
    """Results, by id, of a command in this process, with parts from modules of a folder."""
    with pytest.MonkeyPatch.context() as patch, parallel_config("threading"):
        patch.syspath_prepend(folder)
        assert main(arguments) == 0
        for path in folder.glob("*.py"):
            sys.modules.pop(path.stem, None)
    return results(out)


@cache
def local_results() -> dict[str, tuple]:
    """Results of a sweep over six seeds in this process, one run after the other, by id."""
    with tempfile.TemporaryDirectory() as folder:
        sweeps = Sweeps(Path(folder))
        sweeps.go()
        words = [*sweeps.arguments(), "hydra/launcher=basic", "seed=range(0,6)"]
        return results_here(words, sweeps.folder, sweeps.out)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]
