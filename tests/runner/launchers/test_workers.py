"""Sweeps on workers of Dask and Ray, of this machine and of a cluster, with processes killed."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kdgraph.cli.main import main
from kdgraph.config import plan
from kdgraph.errors import ConfigError, UsageError
from kdgraph.runner.launchers import dask_fits, launcher, ray_workers
from kdgraph.runner.launchers.launcher import LaunchedRun, Launcher, launcher_of
from kdgraph.runner.monitoring import ProgressReporter
from tests.runner.conftest import Sweeps, free_port, wait_until

ENGINES = {"dask": "distributed", "ray": "ray"}
"""Launcher → the library that it needs."""
LOST_TWICE = "its worker was lost twice; out of memory, or killed"


def started_by(engine: str, n_runs: int, **options: object) -> Launcher:
    """Return the launcher of a command with these options."""
    words = [f"hydra.launcher.{key}={value}" for key, value in options.items()]
    planned = plan(["dataset=wine", f"hydra/launcher={engine}", *words])
    return launcher_of(planned, n_runs, ProgressReporter())


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    pytest.importorskip(
        ENGINES[request.param], reason=f"pip install 'kdgraph[{request.param}]' has it"
    )
    return request.param


@pytest.fixture
def sweeps(engine, tmp_path) -> Iterator[Sweeps]:
    """Sweeps whose runs wait in the middle, on two workers of an engine."""
    sweeps = Sweeps(tmp_path, f"hydra/launcher={engine}", "hydra.launcher.n_jobs=2")
    yield sweeps
    sweeps.end()


@pytest.mark.slow
def test_killed_clients_and_workers_change_no_number_of_a_sweep(sweeps, engine):
    """Workers of this machine end with their client. Those that are lost take no other run with
    them, and a run that ends its worker again when it is alone is reported.
    """
    first = sweeps.start("seed=0,1")
    sweeps.wait_for(2)
    at_work = [psutil.Process(pid) for pid in sweeps.waiting().values()]
    first.kill()
    _, running = psutil.wait_procs(at_work, 20)
    assert not running
    sweeps.trouble("dies", 3)
    second = sweeps.start("seed=range(0,4)")
    sweeps.wait_for(2)
    os.kill(next(iter(sweeps.waiting().values())), signal.SIGKILL)
    sweeps.go()
    assert second.end() == 1
    begun, lost = second.lines()[:2]
    where = f"2 workers of {engine.title()} on this machine, one core each"
    assert begun == f"kdg: 4 runs on {where}"
    # The third is a run that was done, where its result is lost with the worker that is killed next.
    assert re.fullmatch(
        r"kdg: [23] runs lost a worker \(\w+: .+\); each is tried again, alone", lost
    )
    assert second.failures() == [LOST_TWICE]
    assert (sweeps.folder / "deaths").read_text() == "died died "
    assert sweeps.differences(3, died=1) == []


@pytest.mark.slow
def test_lost_result_is_computed_by_another_worker(tmp_path):
    """Dask keeps it on the worker until it is read. Meanwhile its status is neither that of a run
    in progress nor that of one that has ended.
    """
    pytest.importorskip("distributed", reason="pip install 'kdgraph[dask]' has it")
    (job,) = plan(["dataset=wine"]).jobs
    (tmp_path / "stop").touch()  # so that the run ends at once
    with started_by("dask", 1) as started:
        (pid,) = started._client.run(os.getpid).values()
        (future,) = started.submit(LaunchedRun(1, Path(), tmp_path / "stop"), [job])
        wait_until(lambda: future.status == "finished")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: future.status == "lost")
        assert not started.has_ended(future)
        wait_until(lambda: started.has_ended(future))
        assert started.failure(future) is None


class Cluster:
    """Scheduler and workers as they are started on a cluster, each by a command."""

    def __init__(self, engine: str, environment: dict[str, str], log: Path) -> None:
        self.engine, self.log, self.environment = engine, log, environment
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}" if self.engine == "dask" else f"127.0.0.1:{self.port}"

    def start(self) -> None:
        if self.engine == "dask":
            host = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
            self._start("distributed.cli.dask_scheduler", *host, "--port", str(self.port))
            one_thread = ("--nthreads", "1", "--nworkers", "2", "--no-dashboard")
            self._start("distributed.cli.dask_worker", self.address, *one_thread)
            return
        self._start(
            "ray.scripts.scripts",
            *("start", "--head", "--block", f"--port={self.port}", "--num-cpus=2"),
            *("--include-dashboard=false", "--include-log-monitor=false", "--no-monitor"),
            "--object-store-memory=80000000",
            "--disable-usage-stats",
        )
        # A sweep waits for 20 s, and Ray may take longer where other tests run.
        wait_until(self.accepts, 120)

    def accepts(self) -> bool:
        """Return whether Ray's head accepts a connection."""
        with socket.socket() as connection:
            connection.settimeout(1)
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def _start(self, module: str, *arguments: str) -> None:
        with self.log.open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", module, *arguments],
                    stdout=log,
                    stderr=log,
                    env=self.environment,
                )
            )

    def kill_scheduler(self) -> None:
        """Kill what gives the tasks to workers: Dask's scheduler, or the raylet of the node."""
        if self.engine == "dask":
            self.processes[0].kill()
            return
        (raylet,) = [
            child
            for child in psutil.Process(self.processes[0].pid).children(recursive=True)
            if child.name() == "raylet"
        ]
        raylet.kill()

    def stop(self) -> None:
        for process in self.processes:
            children = psutil.Process(process.pid).children(recursive=True)
            for child in [process, *children]:
                child.kill()
            process.wait()
            psutil.wait_procs(children, 10)
        self.processes.clear()


@pytest.fixture
def cluster(engine, sweeps) -> Iterator[Cluster]:
    sweeps.environment["RAY_AUTH_MODE"] = "disabled"
    cluster = Cluster(engine, sweeps.environment, sweeps.folder / "cluster.log")
    cluster.start()
    sweeps.launching = (f"hydra/launcher={engine}", f"hydra.launcher.address={cluster.address}")
    yield cluster
    cluster.stop()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_client_and_scheduler_leave_a_usable_store(engine, sweeps, cluster):
    first = sweeps.start("seed=range(0,3)")
    sweeps.wait_for(2)
    first.kill()
    second = sweeps.start("seed=range(0,3)")
    where = f"the workers of {engine.title()} at {cluster.address}"
    wait_until(lambda: second.lines() == [f"kdg: 3 runs on {where}, one core each"])
    time.sleep(3)
    cluster.kill_scheduler()
    killed = time.time()
    assert second.end() == 1 and time.time() - killed < 40
    assert len(second.failures()) == 3
    assert all(line.startswith("the cluster was lost: ") for line in second.failures())
    cluster.stop()
    cluster.start()
    sweeps.go()
    assert sweeps.start("seed=range(0,3)").end() == 0
    assert sweeps.differences(3) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_launcher_without_its_library_names_the_extra(engine, monkeypatch):
    monkeypatch.setattr("kdgraph.extras.find_spec", lambda library: None)
    with pytest.raises(ConfigError) as caught:
        plan(["dataset=wine", f"hydra/launcher={engine}"])
    expected = f"hydra/launcher={engine} needs {ENGINES[engine]}: pip install 'kdgraph[{engine}]'"
    assert str(caught.value) == expected


@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="kdgraph[ray] has it")
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("address", 8786, "hydra.launcher.address must be text or null, got 8786"),
        ("cpus_per_task", 0, "hydra.launcher.cpus_per_task must be at least 1, got 0"),
    ],
)
def test_values_of_the_launcher_are_checked(key, value, message):
    with pytest.raises(UsageError) as caught:
        started_by("ray", 8, **{key: value})
    assert str(caught.value) == message


@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="kdgraph[ray] has it")
def test_as_many_workers_are_started_as_have_cores_and_runs(monkeypatch):
    monkeypatch.setattr(launcher, "cpu_count", lambda: 8)
    counts = [
        started_by("ray", n_runs, n_jobs=n_jobs, cpus_per_task=cores).n_workers
        for n_jobs, cores, n_runs in [(-1, 1, 20), (-2, 1, 20), (-1, 3, 20), (-1, 9, 20), (4, 1, 3)]
    ]
    assert counts == [8, 7, 2, 1, 3]
    wide = started_by("ray", 1, cpus_per_task=4)
    assert (wide.place, wide.cores) == (" on 1 worker of Ray on this machine", 4)


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("distributed"), reason="kdgraph[dask] has it")
def test_threaded_workers_and_absent_clusters_are_refused(monkeypatch, capfd):
    from distributed import LocalCluster

    monkeypatch.setattr(dask_fits, "CONNECT_SECONDS", 1)
    words = ["run", "dataset=wine", "figures=none", "hydra/launcher=dask"]
    unused = f"tcp://127.0.0.1:{free_port()}"
    assert main([*words, f"hydra.launcher.address={unused}"]) == 2
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith(f"kdg: no workers of Dask at {unused} (OSError: Timed out ")
    assert line.endswith("hydra.launcher.address=… names a cluster, null starts workers here")
    with LocalCluster(
        n_workers=1, threads_per_worker=2, dashboard_address=None, processes=False
    ) as cluster:
        address = cluster.scheduler_address
        assert main([*words, f"hydra.launcher.address={address}"]) == 2
    assert capfd.readouterr().err.splitlines()[-1] == (
        "kdg: workers of Dask must have one thread each for runs, got 1 with more; dask worker"
        f" {address} --nthreads 1 --nworkers N starts such ones"
    )


CLIENT = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
print(ray.get(ray.remote(lambda: "code of a stranger").remote()))
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_workers_of_ray_refuse_clients_without_the_token(tmp_path):
    """They listen on all interfaces; the one with the token shows that the others could connect."""
    pytest.importorskip("ray", reason="pip install 'kdgraph[ray]' has it")
    home = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    plain = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | home
    code = (
        "import os, sys\nfrom kdgraph.config import plan\n"
        "from kdgraph.runner.launchers.launcher import launcher_of\n"
        "planned = plan(['dataset=wine', 'hydra/launcher=ray', 'hydra.launcher.n_jobs=1'])\n"
        "with launcher_of(planned, 1, None) as workers:\n"
        "    print(workers._head, os.environ['RAY_AUTH_TOKEN'], flush=True)\n    sys.stdin.read()"
    )
    head = subprocess.Popen(
        [sys.executable, "-c", code],
        env=plain,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert head.stdout is not None
    address, token = head.stdout.readline().split()

    def connect(**variables: str) -> str:
        client = [sys.executable, "-c", CLIENT, address]
        process = subprocess.run(client, env=plain | variables, capture_output=True, text=True)
        return process.stdout.strip() or process.stderr.strip().splitlines()[-1]

    try:
        assert connect(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token) == "code of a stranger"
        for variables in (
            {"RAY_AUTH_MODE": "disabled"},
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64},
        ):
            assert (
                connect(**variables)
                == f"ConnectionError: Failed to connect to Ray cluster at {address}"
            )
        assert not (tmp_path / ".ray").exists()
    finally:
        head.communicate("", timeout=60)


@pytest.mark.parametrize("present", [{}, {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "custom"}])
def test_a_token_is_drawn_unless_the_user_has_decided(monkeypatch, present):
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that it is as before in the end
        monkeypatch.delenv(name)
    for name, value in present.items():
        monkeypatch.setenv(name, value)
    ray_workers._require_token()
    variables = {name: os.environ[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    if present:
        assert variables == present
    else:
        assert variables["RAY_AUTH_MODE"] == "token"
        assert len(variables["RAY_AUTH_TOKEN"]) == 64
