"""Sweeps on a real SLURM cluster of one node, which the tests start on this machine.

It has no accounting, as small clusters do not: what becomes of a job is read from squeue and
scontrol alone. Where SLURM or munge are not installed, or cannot start, the tests are skipped.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from kdgraph.runner.launchers import submitit_jobs
from tests.runner.conftest import Sweeps, free_port, wait_until

pytestmark = pytest.mark.slow

AGAIN = "finished stages are kept, and the same command goes on from them"

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
SETTINGS = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=1
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=5
KillWait=2
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=main Nodes=node Default=YES MaxTime=60 State=UP
"""
"""A requeued job waits until its credential has expired, which takes two minutes by default."""


class Slurm:
    """One node and its controller, on loopback, with a key and a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "munge.key-file").write_bytes(os.urandom(1024))
        (folder / "munge.key-file").chmod(0o600)
        host = socket.gethostname().partition(".")[0]
        ports = [free_port() for _ in range(2)]
        settings = SETTINGS.format(
            host=host,
            user=getpass.getuser(),
            folder=folder,
            controller_port=ports[0],
            node_port=ports[1],
        )
        (folder / "slurm.conf").write_text(settings)
        # The default is to look for a version of cgroups, which a container may lack. With
        # proctrack/linuxproc nothing of this plugin is used.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def start(self) -> None:
        """Start the daemons, and wait until the node takes jobs."""
        socket_file = self.folder / "munge.socket"
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--socket={socket_file}",
            *(
                f"--{name}={self.folder / f'munge.{name}'}"
                for name in ("key-file", "pid-file", "log-file", "seed-file")
            ),
        )
        wait_until(socket_file.exists, 10)
        self.start_controller()
        self.start_node()
        wait_until(lambda: self.node_state() == "idle", 30)

    def start_controller(self) -> None:
        self._start("slurmctld", "-D")

    def start_node(self) -> None:
        self._start("slurmd", "-D", "-N", "node")

    def _start(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.out").open("ab") as log:
            self.daemons[program] = subprocess.Popen(
                [shutil.which(program) or program, *arguments], stdout=log, stderr=log
            )

    def kill(self, program: str) -> None:
        """Kill a daemon, without time to shut down."""
        self.daemons[program].kill()
        self.daemons[program].wait()

    def cut_power(self) -> None:
        """Kill all that runs on the node: its daemon, then the supervisors of jobs, then the jobs.

        A supervisor that outlives its job would report how it ended.
        """
        self.kill("slurmd")
        jobs, supervisors = set(), set()
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                environment = process.environ()
                if (
                    environment.get("SLURM_CONF") == str(self.folder / "slurm.conf")
                    and "SLURM_JOB_ID" in environment
                ):
                    jobs.add(process)
                    supervisors |= {p for p in process.parents() if "slurmstepd" in p.name()}
        for process in [*supervisors, *jobs]:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def save_state(self) -> None:
        """Wait until the controller has saved its jobs; it loses those that it has not."""
        before = time.time()
        for job in {job.partition("_")[0] for job in self.jobs()}:
            call("scontrol", "update", f"JobId={job}", "Comment=saved")
        wait_until(lambda: (self.folder / "state" / "job_state").stat().st_mtime > before)

    def clear(self) -> None:
        """End all jobs."""
        user = f"--user={getpass.getuser()}"
        call("scancel", user, "--signal=KILL")
        call("scancel", user)
        wait_until(lambda: not self.jobs())

    def stop(self) -> None:
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def node_state(self) -> str:
        return call("sinfo", "--noheader", "--format=%T").strip()

    def jobs(self) -> list[str]:
        """Ids of the jobs in the queue, in the order in which they were submitted."""
        return sorted(call("squeue", "--noheader", "--array", "--format=%i").split())

    def logs(self) -> str:
        return "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-1500:]}"
            for path in sorted(self.folder.glob("*.out"))
        )


def call(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def end_time(job: str) -> float:
    """When a job ended, in seconds since the epoch."""
    (text,) = re.findall(r"\bEndTime=(\S+)", call("scontrol", "show", "job", "--oneliner", job))
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
            pytest.skip(f"no {', '.join(absent)} here: apt-get install slurm-wlm munge")
        # The path of a socket has at most 107 characters, and pytest's folders are long.
        folder = Path(tempfile.mkdtemp(prefix="slurm"))
        folder.chmod(0o755)
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        cluster = Slurm(folder)
        try:
            try:
                cluster.start()
            except (AssertionError, OSError) as error:
                pytest.skip(f"SLURM does not start here ({error}): {cluster.logs()}")
            yield cluster
        finally:
            cluster.stop()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sweeps(slurm, tmp_path) -> Iterator[Sweeps]:
    """Sweeps whose runs wait in the middle, through SLURM."""
    sweeps = Sweeps(tmp_path, "hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=5")
    yield sweeps
    sweeps.end()
    slurm.clear()


def log_of(sweeps: Sweeps, job: str) -> Path:
    return sweeps.out / ".sweeps" / ".submitit" / job / f"{job}_0_log.err"


def test_failed_job_is_reported_and_others_continue(slurm, sweeps):
    """Six jobs: cancelled, killed, requeued, two at their time limit, and one without trouble.

    One of the two handles the signal before its limit, and SLURM has to end the other. The limit of
    five minutes is cut when the runs are in the middle. SLURM checks its jobs every half minute:
    it leaves one alone for that long after the signal, and ends the other, which ignores it.
    """
    sweeps.trouble("ignores-signals", 4)
    sweep = sweeps.start("seed=range(0,6)", poll_seconds=submitit_jobs.QUEUE_POLL_SECONDS)
    sweeps.wait_for(6)
    cancelled, killed, requeued, handling, ignoring, _ = jobs = slurm.jobs()
    array = jobs[0].partition("_")[0]
    for job, seconds in ((handling, 40), (ignoring, 1)):
        call("scontrol", "update", f"JobId={job}", f"EndTime=now+{seconds}")
    call("scancel", cancelled)
    call("scontrol", "requeue", requeued)
    os.kill(sweeps.waiting()[1], signal.SIGKILL)
    sweeps.go(2, 5)
    assert sweep.end() == 1
    reported = time.time()
    ended = max(end_time(job) for job in (handling, ignoring))
    # SLURM's grace, a poll of the queue and the table of the sweep: 8 to 12 seconds, where a job of
    # unknown state is waited for a minute.
    assert reported - ended < 30
    assert sweep.lines()[1] == (
        f"kdg: submitted as SLURM job {array}; 'squeue -j {array}' shows it, 'scancel {array}'"
        " ends it"
    )
    limit = (
        f"met its time limit of 5 min; {AGAIN}; hydra.launcher.timeout_min=10 gives it more time"
    )
    assert sorted(sweep.failures()) == sorted(
        [
            f"job {cancelled} was cancelled; {AGAIN}; its log is {log_of(sweeps, cancelled)}",
            f"job {killed} ended without a result (state FAILED); {AGAIN}; its log is"
            f" {log_of(sweeps, killed)}",
            *(
                f"job {job} {limit}; its log is {log_of(sweeps, job)}"
                for job in (handling, ignoring)
            ),
        ]
    )
    done = sweeps.records()
    assert len(done) == 2
    sweeps.go()
    assert sweeps.start("seed=range(0,6)").end() == 0
    assert sweeps.differences(6) == []
    taken_up = [json.loads(path.read_text()) for path in sweeps.records() if path not in done]
    assert [record["from_store"] for record in taken_up] == [["fit"]] * 4


def test_jobs_of_a_failed_node_are_done_again(slurm, sweeps):
    """SLURM requeues the jobs of a lost node, unless they refuse it: then kdgraph submits them
    again.
    """
    requeued = sweeps.start("seed=0")
    refusing = sweeps.start("seed=1", "+hydra.launcher.additional_parameters.no_requeue=true")
    sweeps.wait_for(2)
    slurm.cut_power()
    # The controller would notice by itself, half a minute later.
    call("scontrol", "update", "NodeName=node", "State=DOWN", "Reason=power")
    wait_until(lambda: slurm.node_state().startswith("down"))
    sweeps.go()
    slurm.start_node()
    assert [requeued.end(), refusing.end()] == [0, 0]
    assert sweeps.differences(2) == []
    for sweep in (requeued, refusing):
        (job,) = re.findall(r"submitted as SLURM job (\d+)", sweep.lines()[1])
        note = f"kdg: 1 run lost a worker (SLURM job {job}: NODE_FAIL); each is tried again"
        assert (note in sweep.lines()) == (sweep is refusing)


def test_jobs_of_killed_clients_and_controllers_are_adopted(slurm, sweeps):
    first = sweeps.start("seed=0,1")
    sweeps.wait_for(2)
    first.kill()
    others = [sweeps.start("seed=range(0,3)") for _ in range(2)]
    for sweep in others:
        wait_until(lambda sweep=sweep: any("submitted as" in line for line in sweep.lines()))
    slurm.save_state()
    slurm.kill("slurmctld")
    time.sleep(2)
    slurm.start_controller()
    sweeps.go()
    assert [sweep.end() for sweep in others] == [0, 0]
    assert sweeps.differences(3) == []
