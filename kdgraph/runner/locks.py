"""Locks between processes: one process at a time does a run, or a stage.

A lock is a file that names its owner, and that another process takes over once the owner is gone.

The file is created with ``O_EXCL``, so two processes never both create it. It is taken over by a
rename onto it, under ``flock`` of the file that was judged and only while that file is still the
lock, so a lock that was just taken over cannot be lost to a third process that saw the dead owner.
A rename needs the right to write to the folder alone: the lock may be another user's.

The kernel shows whether a process of the same process table runs. Of a process elsewhere (another
machine, a container, another user's namespace) only the lock can be seen: its owner touches it
every few seconds, and a process that waits takes it over once it has not changed for a while. That
while is measured on the waiting machine's own clock; the clocks of two machines are never compared.

``SoftFileLease`` of filelock does most of this, with two differences that the tests rule out: an
empty file, which a kill or a power cut between its creation and its first write leaves, blocks it
for ever; and a living process of the same machine loses its lease when it is stopped, or holds the
interpreter's lock in compiled code, for longer than the lease.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import IO, Any

from kdgraph.runner.files import OUT, temporary_path, wrap_os_errors

POLL_SECONDS = 0.1
UNREADABLE_SECONDS = 5.0
"""A lock without an owner's name has this long to be written before it counts as left by a process
that was killed.
"""
HEARTBEAT_SECONDS = 5.0
"""How often an owner touches its lock."""
SILENT_SECONDS = 60.0
"""An owner whose process table cannot be seen counts as gone when its lock has not changed for so
long: twelve heartbeats, some of which a slow file system may hold back.
"""
PARENT_POLL_SECONDS = 1.0
_PIDS = 2**31
"""The number of a process is below it; signals take 0 and -1 for groups of processes."""


@contextmanager
def lock(
    path: Path, report_wait: Callable[[str], None], subject: tuple[Path, str] | None = None
) -> Iterator[bool]:
    """Hold the lock ``path`` for the block; wait while another living process holds it.

    Yields True if another process held it before: its result may be what is wanted. ``report_wait``
    gets a line about the owner, once, before waiting. ``subject`` is the file that is locked and
    the argument that names it, for messages; by default the lock.
    """
    named = subject or (path, OUT)
    with wrap_os_errors(*named):
        path.parent.mkdir(parents=True, exist_ok=True)
    waited, age = False, _LockAge(path)
    while True:
        with _acquiring, wrap_os_errors(*named):
            if _acquire(path, age):
                _held_locks.add(path)
                break
        if not waited:
            report_wait(_wait_message(path))
            waited = True
        time.sleep(POLL_SECONDS)
    try:
        with _heartbeat(path):
            yield waited
    finally:
        _held_locks.discard(path)
        _release(path)


def release_all_locks() -> None:
    """Remove every lock that this process holds, and acquire none any more.

    For a process that is about to end without unwinding. Another of its threads may wait for a lock
    that a sibling process has just released for the same reason. What it acquired between this call
    and the end would stay behind, so ``_acquiring`` is not released.
    """
    _acquiring.acquire()
    for path in list(_held_locks):
        with suppress(OSError):
            _release(path)


_held_locks: set[Path] = set()
_acquiring = threading.Lock()


def _release(path: Path) -> None:
    if _read_owner(path) == _this_owner():
        path.unlink(missing_ok=True)


def is_locked(path: Path) -> bool:
    """Return whether a living process holds the lock ``path``."""
    return path.exists() and _owner_lives(path, _LockAge(path))


def break_stale_lock(path: Path) -> None:
    """Remove the lock ``path`` if its owner is gone; that of a living process stays."""
    if path.exists() and _take_over(path, _LockAge(path)):
        path.unlink(missing_ok=True)


class _LockAge:
    """For how long a lock has not changed, measured on this machine's clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version: tuple[int, int] | None = None
        self.since = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds since the present version was first seen; 0 if the file is gone."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return 0.0
        version = stat.st_ino, stat.st_mtime_ns
        if version != self.version:
            self.version, self.since = version, time.monotonic()
        return time.monotonic() - self.since


@contextmanager
def _heartbeat(path: Path) -> Iterator[None]:
    """Touch this process's lock every few seconds while the block runs."""

    def touch() -> None:
        with suppress(OSError):
            os.utime(path)

    with call_every(HEARTBEAT_SECONDS, touch, name=f"lock {path.name}"):
        yield


@contextmanager
def call_every(seconds: float, function: Callable[[], object], *, name: str) -> Iterator[None]:
    """Call a function every few seconds while the block runs, in a thread, never after its end."""
    ended = threading.Event()

    def loop() -> None:
        while not ended.wait(seconds):
            function()

    thread = threading.Thread(target=loop, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _acquire(path: Path, age: _LockAge) -> bool:
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)  # less the umask
    except FileExistsError:
        return _take_over(path, age)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(json.dumps(_this_owner()))
    # A full disk, or an interruption: a lock without a name counts as a living process's for a
    # while, so it could not be removed.
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return True


def _take_over(path: Path, age: _LockAge) -> bool:
    """Replace the lock of a dead process by this one's.

    Return False if its owner lives, released it, or another process is taking it over.
    """
    try:
        file = _open_for_flock(path)
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The file at this path may be another one by now: a third process was quicker.
            if _owner_lives(path, age) or os.fstat(file.fileno()).st_ino != path.stat().st_ino:
                return False
        except (BlockingIOError, FileNotFoundError):
            return False
        new_lock = temporary_path(path)
        try:
            new_lock.write_text(json.dumps(_this_owner()))
            os.replace(new_lock, path)
        finally:
            new_lock.unlink(missing_ok=True)
    return True


def _open_for_flock(path: Path) -> IO[bytes]:
    """Open a lock for ``flock``, which needs a writable file on NFS.

    That of another user may be readable alone.
    """
    try:
        return path.open("r+b")
    except PermissionError:
        return path.open("rb")


_STARTED_AT = datetime.now().isoformat(timespec="seconds")


def _this_owner() -> dict[str, Any]:
    return {**process_identity(), "since": _STARTED_AT}


def _read_owner(path: Path) -> dict[str, Any] | None:
    """Return the owner that a lock names, or None while there is no readable one."""
    try:
        # a pipe would be waited for, for ever
        owner = json.loads(path.read_text()) if os.path.isfile(path) else None
    # neither JSON nor text, after a power cut or a flipped bit
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    is_owner = (
        isinstance(owner, dict)
        and isinstance(owner.get("host"), str)
        and isinstance(pid := owner.get("pid"), int)
        and 0 < pid < _PIDS
    )
    return owner if is_owner else None


def _owner_lives(path: Path, age: _LockAge) -> bool:
    owner = _read_owner(path)
    if owner is None:
        return age.seconds() < UNREADABLE_SECONDS
    if not shares_process_table(owner):
        return age.seconds() < SILENT_SECONDS
    return is_running(owner)


def _wait_message(path: Path) -> str:
    owner = _read_owner(path)
    name = f"process {owner['pid']} on {owner['host']}" if owner else "another process"
    return f"waiting for {name}, which holds {path}; delete that file if the process is gone"


def process_identity() -> dict[str, Any]:
    """Return the number of this process, its host, its process table and its start.

    Together they identify a process: numbers are used again, and belong to one table.
    """
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "table": _process_table(),
        "start": _start_of(os.getpid()),
    }


def shares_process_table(owner: Mapping[str, Any]) -> bool:
    """Return whether the number of ``owner`` belongs to the process table that this process sees.

    A host name is not enough: containers and cloned machines share it, and each has a table of its
    own.
    """
    return owner.get("host") == platform.node() and owner.get("table") == _process_table()


def is_running(owner: Mapping[str, Any]) -> bool:
    """Return whether a process of this table still runs; one that waits to be reaped does not."""
    pid = owner["pid"]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        pass
    start = _start_of(pid)
    # Without a readable start (no /proc, or one that hides the processes of others) existence is
    # all that can be learnt.
    return start is None or (start != "" and owner.get("start") in (None, start))


def exit_with(owner: Mapping[str, Any], clean_up: Callable[[], object]) -> None:
    """End this process soon after ``owner``, or the parent of this process, has ended.

    A thread looks once a second. ``PR_SET_PDEATHSIG`` of Linux is no substitute: it follows the
    *thread* that started the process, it does not reach grandchildren, and macOS has nothing like
    it. A worker that is blocked in a pipe to its dead parent holds no lock of the interpreter, so
    the thread runs.

    ``owner`` is the :func:`process_identity` of a process of the same table. ``clean_up`` is called
    just before the end.
    """
    if any(thread.name == _WATCHER for thread in threading.enumerate()):
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent and is_running(owner):
            time.sleep(PARENT_POLL_SECONDS)
        try:
            clean_up()
        finally:
            # sys.exit ends a thread, and handlers at exit wait for the parent
            os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name=_WATCHER, daemon=True).start()


_WATCHER = "ends with its parent"


@cache
def _process_table() -> str | None:
    """Return a name of this process table: the machine's boot, and the PID and time namespaces.

    None where the system has no such names, as on macOS, where there is one table for each machine.
    """
    if sys.platform != "linux":
        return None
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespaces = [
            os.readlink(f"/proc/self/ns/{kind}")
            for kind in ("pid", "time")
            if os.path.lexists(f"/proc/self/ns/{kind}")
        ]
    except OSError:
        return None
    return " ".join([boot, *namespaces])


def _start_of(pid: int) -> str | None:
    """Return when a process began, in clock ticks since boot.

    It sets a process apart from a later one with the same number. None where it cannot be read, ""
    for a process that has ended and waits to be reaped.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] == "Z" else fields[19]
