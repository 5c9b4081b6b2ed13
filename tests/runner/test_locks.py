"""Locks: exclusive, released, taken over from ended processes, and respected where nothing can be
known.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kdgraph.errors import CannotWrite
from kdgraph.runner import locks
from kdgraph.runner.locks import (
    break_stale_lock,
    is_locked,
    lock,
    process_identity,
    release_all_locks,
)

ROOT = Path(__file__).parents[2]
HOLD = (
    "import sys, time; from pathlib import Path; from kdgraph.runner.locks import lock\n"
    "with lock(Path(sys.argv[1]), print):\n"
    "    print('held', flush=True); time.sleep(60)"
)
IS_LOCKED = (
    "import sys; from pathlib import Path; from kdgraph.runner.locks import is_locked;"
    " print(is_locked(Path(sys.argv[1])))"
)


def can_unshare() -> bool:
    unshare = shutil.which("unshare")
    return (
        unshare is not None
        and not subprocess.run([*UNSHARE, "true"], capture_output=True).returncode
    )


UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
in_another_table = pytest.mark.skipif(
    not can_unshare(), reason="no right to make a namespace of processes"
)


def holder(path: Path, *prefix: str) -> subprocess.Popen[str]:
    """A running process that holds the lock."""
    process = subprocess.Popen(
        [*prefix, sys.executable, "-c", HOLD, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def ends(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def fail_if_it_waits(line: str) -> None:
    raise AssertionError(f"waited: {line}")


def write_ended_owner(path: Path) -> None:
    """A lock as a process leaves it that was killed."""
    code = (
        "import sys, os; from pathlib import Path; from kdgraph.runner.locks import _LockAge,"
        " _acquire\npath = Path(sys.argv[1]); _acquire(path, _LockAge(path)); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=ROOT)
    assert path.exists()


def test_it_is_held_and_given_back(tmp_path):
    path = tmp_path / "deep" / "running.json"
    with lock(path, fail_if_it_waits) as waited:
        assert not waited and is_locked(path)
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists() and not is_locked(path)


def test_it_is_given_back_when_the_work_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), lock(tmp_path / "lock", fail_if_it_waits):
        1 / 0  # noqa: B018
    assert not (tmp_path / "lock").exists()


def test_the_lock_of_an_ended_process_is_taken_over(tmp_path):
    path = tmp_path / "lock"
    write_ended_owner(path)
    assert not is_locked(path)
    with lock(path, fail_if_it_waits):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists()


def test_only_the_lock_of_an_ended_process_is_cleared(tmp_path):
    path = tmp_path / "lock"
    write_ended_owner(path)
    break_stale_lock(path)
    break_stale_lock(path)  # there is none any more
    assert not path.exists()
    with lock(path, fail_if_it_waits):
        break_stale_lock(path)
        assert path.exists()


@pytest.mark.parametrize(
    ("owner", "is_held"),
    [({"start": "1"}, False), ({"host": "elsewhere", "pid": 2**22 + 1}, True)],
    ids=["a process with a reused id", "another machine"],
)
def test_owner_is_identified_by_start_and_host(tmp_path, owner, is_held):
    path = tmp_path / "lock"
    path.write_text(json.dumps({**process_identity(), **owner}))
    assert is_locked(path) == is_held


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
def test_none_without_a_name_is_left_when_it_cannot_be_written(tmp_path, monkeypatch, error):
    path = tmp_path / "running.json"

    def interrupted():
        assert path.read_text() == ""  # it exists, without a name
        raise error

    monkeypatch.setattr(locks, "_this_owner", interrupted)
    with pytest.raises((KeyboardInterrupt, CannotWrite)), lock(path, fail_if_it_waits):
        pytest.fail("it is not held")
    assert not path.exists()


def test_a_lock_without_a_name_is_given_time_to_be_written(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.touch()
    assert is_locked(path)
    monkeypatch.setattr(locks, "UNREADABLE_SECONDS", 0.3)
    began = time.monotonic()
    with lock(path, lambda line: None) as waited:
        assert waited and time.monotonic() - began >= 0.3


@pytest.mark.parametrize(
    "clock", [0, 4e9]
)  # seconds since 1970 by the clock of the other machine's file system
def test_owner_elsewhere_without_beats_has_ended_on_any_clock(tmp_path, monkeypatch, clock):
    path = tmp_path / "lock"
    path.write_text(json.dumps({**process_identity(), "host": "elsewhere"}))
    os.utime(path, (clock, clock))
    monkeypatch.setattr(locks, "SILENT_SECONDS", 0.5)
    began = time.monotonic()
    with lock(path, lambda line: None) as waited:
        assert waited and time.monotonic() - began >= 0.5
        assert json.loads(path.read_text())["host"] == process_identity()["host"]


def test_who_beats_on_another_machine_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.write_text(json.dumps({**process_identity(), "host": "elsewhere"}))
    monkeypatch.setattr(locks, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(locks, "HEARTBEAT_SECONDS", 0.05)
    began = time.monotonic()

    def is_done():
        with locks._heartbeat(path):
            time.sleep(1.2)
        path.unlink()

    other = threading.Thread(target=is_done)
    other.start()
    with lock(path, lambda line: None) as waited:
        assert waited and time.monotonic() - began >= 1.2
    other.join()


def test_a_stale_lock_is_taken_by_one_process_at_a_time(tmp_path):
    """Each enters, leaves a file that the others must not find, and removes it."""
    path = tmp_path / "lock"
    write_ended_owner(path)
    code = (
        "import sys, os, time; from pathlib import Path; from kdgraph.runner.locks import lock\n"
        "folder = Path(sys.argv[1])\n"
        "for turn in range(5):\n"
        "    with lock(folder / 'lock', lambda line: None):\n"
        "        os.close(os.open(folder / 'inside', os.O_CREAT | os.O_EXCL))\n"
        "        time.sleep(0.005)\n"
        "        os.unlink(folder / 'inside')\n"
    )
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE
        )
        for _ in range(5)
    ]
    for process in crowd:
        assert process.communicate()[1] == b"" and process.returncode == 0
    assert not path.exists()


@in_another_table
@pytest.mark.parametrize("owner_is_inside", [True, False])
def test_running_owner_in_another_process_table_keeps_the_lock(tmp_path, owner_is_inside):
    path = tmp_path / "lock"
    process = holder(path, *(UNSHARE if owner_is_inside else []))
    try:
        assert json.loads(path.read_text())["host"] == process_identity()["host"]
        other = [*([] if owner_is_inside else UNSHARE), sys.executable, "-c", IS_LOCKED, str(path)]
        assert (
            subprocess.run(other, cwd=ROOT, capture_output=True, text=True, check=True).stdout
            == "True\n"
        )
        assert is_locked(path)
    finally:
        ends(process)


def test_owner_in_another_process_table_without_beats_has_ended(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.write_text(json.dumps({**process_identity(), "table": "another boot"}))
    monkeypatch.setattr(locks, "SILENT_SECONDS", 0.3)
    with lock(path, lambda line: None) as waited:
        assert waited


def test_a_stopped_owner_on_this_machine_is_waited_for(tmp_path, monkeypatch):
    """Nothing but its end takes the lock of a process that the kernel lists as running, however long it
    has not touched it.
    """
    path = tmp_path / "lock"
    process = holder(path)
    try:
        process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(locks, "SILENT_SECONDS", 0.0)
        assert is_locked(path)
    finally:
        ends(process)
    assert not is_locked(path)


@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_the_umask_decides_who_may_write_a_lock(tmp_path, umask, mode):
    path = tmp_path / "lock"
    before = os.umask(umask)
    try:
        with lock(path, fail_if_it_waits):
            assert stat.S_IMODE(path.stat().st_mode) == mode
        write_ended_owner(path)
        with lock(path, fail_if_it_waits):
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_stale_lock_of_another_user_is_taken_over(tmp_path, as_user):
    """Whatever the mode of the lock: the right to write to the folder is what counts."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder not in (Path("/"), Path("/tmp")):
            folder.chmod(folder.stat().st_mode | 0o055)
    path = tmp_path / "shared" / "lock"
    path.parent.mkdir()
    os.chown(path.parent, 2001, 3000)
    path.parent.chmod(0o2775)
    first = holder(path, *as_user(2001))
    second = [*as_user(2002), sys.executable, "-c", IS_LOCKED, str(path)]
    assert (
        subprocess.run(second, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        == "True\n"
    )
    ends(first)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    process = holder(path, *as_user(2002))
    assert path.stat().st_uid == 2002
    ends(process)
    assert not list(path.parent.glob(".*.tmp"))


@pytest.mark.parametrize("content", [b"\xff\xfe{", b"[]", b'{"pid": "1"}'])
def test_a_lock_that_cannot_be_read_is_taken_over(tmp_path, monkeypatch, content):
    path = tmp_path / "lock"
    path.write_bytes(content)
    monkeypatch.setattr(locks, "UNREADABLE_SECONDS", 0.2)
    with lock(path, lambda line: None):
        assert json.loads(path.read_text())["pid"] == os.getpid()


@pytest.fixture
def _about_to_end(monkeypatch):
    """``release_all_locks`` keeps its lock, as its process ends next; here others go on."""
    monkeypatch.setattr(locks, "_acquiring", threading.Lock())


@pytest.mark.usefixtures("_about_to_end")
def test_an_ending_process_releases_its_own_locks_only(tmp_path):
    other = tmp_path / "other"
    write_ended_owner(other)
    with lock(tmp_path / "a", fail_if_it_waits), lock(tmp_path / "b", fail_if_it_waits):
        release_all_locks()
        assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.usefixtures("_about_to_end")
def test_a_lock_being_taken_when_the_process_ends_is_released(tmp_path, monkeypatch):
    real, acquired, go = locks._acquire, threading.Event(), threading.Event()

    def take_slowly(path, silence):
        taken = real(path, silence)
        acquired.set()
        go.wait(20)
        return taken

    monkeypatch.setattr(locks, "_acquire", take_slowly)
    path, entered = tmp_path / "a", threading.Event()

    def hold():
        with lock(path, fail_if_it_waits):
            entered.set()
            go.wait(20)

    holder, ending = threading.Thread(target=hold), threading.Thread(target=release_all_locks)
    holder.start()
    assert acquired.wait(20)
    ending.start()
    ending.join(0.3)  # without the lock it is done by now, and has found nothing to give back
    assert path.exists() and ending.is_alive()
    go.set()
    ending.join(20)
    holder.join(20)
    assert not path.exists()


@pytest.mark.usefixtures("_about_to_end")
def test_a_process_that_is_about_to_end_takes_no_lock(tmp_path):
    release_all_locks()

    def hold():
        with lock(tmp_path / "a", fail_if_it_waits):
            pytest.fail("taken")

    threading.Thread(target=hold, daemon=True).start()
    time.sleep(0.3)
    assert not list(tmp_path.iterdir())
