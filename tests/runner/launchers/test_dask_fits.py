"""Fits of one run on workers of Dask, with each process killed in the middle of the fit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.errors import ConfigError, RunFailed
from kdgraph.runner.launchers import dask_fits
from kdgraph.runner.launchers.dask_fits import MAX_ATTEMPTS, FitWorkers
from kdgraph.runner.monitoring import ProgressReporter
from tests.runner.conftest import (
    StartedCommand,
    free_port,
    is_alive,
    results,
    results_here,
    wait_until,
)

WAITING_FOREST = '''
import os, time
from pathlib import Path
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier

HERE = Path(__file__).parent

def wait(X, number):
    """A task of a worker: note its process, then wait for the file "go"."""
    name = HERE / "waiting" / f"{number}-{os.getpid()}"
    name.touch()
    deadline = time.time() + 150
    while not (HERE / "go").exists() and time.time() < deadline:
        time.sleep(0.02)
    name.rename(HERE / "ended" / name.name)
    return X.sum()

class WaitingForest(RandomForestClassifier):
    def fit(self, X, y, sample_weight=None):
        Parallel(n_jobs=2)(delayed(wait)(X, number) for number in range(2))
        return super().fit(X, y, sample_weight)
'''


class Fits:
    """Runs whose fit waits on its workers until it may go on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "outputs"
        (folder / "waiting").mkdir()
        (folder / "ended").mkdir()
        (folder / "conf" / "parent").mkdir(parents=True)
        (folder / "waiting_forest.py").write_text(WAITING_FOREST)
        (folder / "conf" / "parent" / "waiting.yaml").write_text(
            "# Waits\ndefaults: [random_forest, _self_]\nname: waiting\n"
            "_target_: waiting_forest.WaitingForest\n"
        )
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[3])]),
        }
        self.started: list[StartedCommand] = []

    def arguments(self) -> list[str]:
        return [
            *("run", "--config-dir", str(self.folder / "conf"), "dataset=spiral", "parent=waiting"),
            *("parent.n_estimators=20", "dataset.n_train=1000", "dataset.n_test=200"),
            *("ood=none", "metrics=default", "figures=none", "n_jobs=2", f"out={self.out}"),
        ]

    def start(self, *more: str) -> StartedCommand:
        words = [*self.arguments(), *more]
        log = self.folder / f"{len(self.started)}.err"
        self.started.append(StartedCommand(words, self.environment, log))
        return self.started[-1]

    def wait(self) -> set[int]:
        """Wait until both tasks do, and return their processes."""
        wait_until(lambda: len(self.pids()) == 2, 120)
        return self.pids()

    def pids(self) -> set[int]:
        names = [path.name for path in (self.folder / "waiting").iterdir()]
        return {pid for pid in (int(name.partition("-")[2]) for name in names) if is_alive(pid)}

    def go(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture
def fits(tmp_path) -> Iterator[Fits]:
    pytest.importorskip("distributed", reason="pip install 'kdgraph[dask]' has it")
    fits = Fits(tmp_path)
    yield fits
    for started in fits.started:
        started.kill()


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> dict[str, tuple]:
    """Results of the run in one process."""
    pytest.importorskip("distributed", reason="pip install 'kdgraph[dask]' has it")
    fits = Fits(tmp_path_factory.mktemp("local"))
    fits.go()
    return results_here(fits.arguments(), fits.folder, fits.out)


class DaskCluster:
    """A scheduler and two workers, each started by a command."""

    def __init__(self, fits: Fits) -> None:
        self.port, self.fits = free_port(), fits
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        listen = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
        self._start("distributed.cli.dask_scheduler", *listen, "--port", str(self.port))
        for _ in range(2):
            self._start("distributed.cli.dask_worker", self.address, "--nthreads=1", "--no-nanny")
        # With one worker alone, both tasks would go to it, and the second one would not begin.
        from distributed import Client

        with Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

    def _start(self, module: str, *arguments: str) -> None:
        with (self.fits.folder / "cluster.log").open("ab") as log:
            command = [sys.executable, "-m", module, *arguments]
            self.processes.append(
                subprocess.Popen(command, stdout=log, stderr=log, env=self.fits.environment)
            )

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()


@pytest.fixture
def cluster(fits) -> Iterator[DaskCluster]:
    cluster = DaskCluster(fits)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_fit_that_loses_its_workers_ends_with_the_same_numbers(fits, local):
    run = fits.start("fit_on=dask")
    # The rows are at one of the two workers, so that at least one loss is one of rows.
    for pid in fits.wait():
        os.kill(pid, signal.SIGKILL)
    fits.go()
    assert run.end() == 0
    assert "kdg: a worker was lost in a fit, which begins again" in run.lines()
    assert results(fits.out) == local


@pytest.mark.slow
def test_a_killed_client_and_scheduler_leave_a_usable_store(fits, cluster, local):
    first = fits.start(f"fit_on={cluster.address}")
    fits.wait()
    first.kill()
    # The workers end tasks that no client waits for, before they take those of the second client.
    fits.go()
    wait_until(lambda: len(list((fits.folder / "ended").iterdir())) == 2)
    (fits.folder / "go").unlink()
    second = fits.start(f"fit_on={cluster.address}")
    fits.wait()
    cluster.processes[0].kill()
    assert second.end() == 1
    (failure,) = [line for line in second.lines() if "has ended" in line]
    assert failure.startswith(
        f"kdg: the scheduler of Dask at {cluster.address} has ended, or the connection to it; the"
        " same command goes on from the stages that are done"
    )
    assert results(fits.out) == {}
    cluster.stop()
    cluster.start()
    fits.go()
    assert fits.start(f"fit_on={cluster.address}").end() == 0
    assert results(fits.out) == local


class Client:
    """A connection to a cluster, of which only the state is known."""

    def __init__(self, status: str = "running", n_workers: int = 1) -> None:
        self.status, self.n_workers = status, n_workers

    def wait_for_workers(self, n_workers: int, timeout: float) -> None:
        if self.n_workers < n_workers:
            raise TimeoutError


def losses() -> list[Exception]:
    client = pytest.importorskip("distributed.client")
    distributed = pytest.importorskip("distributed")
    return [
        client.FutureCancelledError("a", "lost"),
        distributed.KilledWorker("a", None, 1),
        TimeoutError("no worker"),
        ValueError("X has NaN"),
    ]


@pytest.mark.parametrize(
    ("number", "client", "kind", "message", "n_attempts"),
    [
        (
            0,
            Client(),
            RunFailed,
            "were lost in 3 attempts at one stage: out of memory",
            MAX_ATTEMPTS,
        ),
        (
            1,
            Client(),
            RunFailed,
            "were lost in 3 attempts at one stage: out of memory",
            MAX_ATTEMPTS,
        ),
        (0, Client(n_workers=0), RunFailed, "no worker of Dask at dask is left; the same", 1),
        (2, Client(n_workers=0), RunFailed, "no worker of Dask at dask is left; the same", 1),
        (0, Client("closed"), RunFailed, "the scheduler of Dask at dask has ended", 1),
        (3, Client("closed"), RunFailed, "the scheduler of Dask at dask has ended", 1),
        (2, Client(), TimeoutError, "no worker", 1),
        (3, Client(), ValueError, "X has NaN", 1),
    ],
)
def test_a_lost_worker_differs_from_an_error_of_the_stage(
    number, client, kind, message, n_attempts, monkeypatch
):
    error, calls, notes = losses()[number], [], []

    def lose() -> None:
        calls.append(1)
        raise error

    reporter = ProgressReporter()
    monkeypatch.setattr(reporter, "note", notes.append)
    workers = FitWorkers("dask", 1, reporter)
    monkeypatch.setattr(workers, "client", client)
    monkeypatch.setattr(dask_fits, "parallel_config", lambda **options: nullcontext())
    with pytest.raises(kind, match=message):
        workers.run(lose)
    assert len(calls) == n_attempts
    assert notes == ["a worker was lost in a fit, which begins again"] * (n_attempts - 1)


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_named_with_the_way_out(tmp_path, monkeypatch, capfd):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask_fits, "CONNECT_SECONDS", 1)
    unused = f"tcp://127.0.0.1:{free_port()}"
    words = ["run", "dataset=wine", "figures=none", f"out={tmp_path}", f"fit_on={unused}"]
    assert main(words) == 2
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith(f"kdg: fit_on={unused}: no workers of Dask there (OSError: Timed out ")
    assert line.endswith(
        "fit_on=dask starts workers on this machine, fit_on=null fits in one process"
    )


def test_missing_library_is_named_before_any_run(monkeypatch):
    from kdgraph.config import plan

    monkeypatch.setattr("kdgraph.extras.find_spec", lambda library: None)
    with pytest.raises(
        ConfigError, match=r"fit_on=dask needs distributed: pip install 'kdgraph\[dask\]'"
    ):
        plan(["dataset=wine", "fit_on=dask"])
