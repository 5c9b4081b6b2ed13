"""One process at a time: a claim file that names its owner, and that is taken over once the owner is gone.

The file is made with ``O_EXCL``, so two processes never both make it. Taking it over happens in place and under ``flock``: nobody ever
removes the claim of somebody else, so a claim that was just taken over cannot be lost to a third process that saw the dead one.

Of a process on this machine the kernel says whether it lives. Of one elsewhere, on a cluster that shares the folder, only its claim can
be seen: its owner touches it every few seconds, and who waits takes it over once it has not changed for a while. That while is measured
on the waiting machine's own clock; what the clocks of two machines say is never compared.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from kdgraph.runner.beat import every
from kdgraph.runner.files import told_in_one_line

POLL_SECONDS = 0.1
UNREADABLE_SECONDS = 5.0
"""A claim without an owner's name is given this long to be written before it counts as left by a process that was killed."""
BEAT_SECONDS = 5.0
"""How often an owner touches its claim."""
SILENT_SECONDS = 60.0
"""The owner on another machine counts as gone when its claim has not changed for so long: twelve beats, some of which a slow file system
may hold back."""


@contextmanager
def claim(path: Path, tell: Callable[[str], None]) -> Iterator[bool]:
    """Hold ``path`` for the block; wait, and say so once, while another living process holds it.

    Yields
    ------
    bool
        Whether there was another process to wait for: its result may be what is wanted.
    """
    with told_in_one_line(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    waited, silence = False, _Silence(path)
    while not _take(path, silence):
        if not waited:
            tell(_waiting(path))
            waited = True
        time.sleep(POLL_SECONDS)
    try:
        with _beating(path):
            yield waited
    finally:
        if _read(path) == _me():
            path.unlink(missing_ok=True)


def is_claimed(path: Path) -> bool:
    """Whether a living process holds ``path``."""
    return path.exists() and _is_alive(path, _Silence(path))


def clear(path: Path) -> None:
    """Remove the claim of a process that is gone, for who needs nothing of it any more; that of a living one stays."""
    if path.exists() and _take_over(path, _Silence(path)):
        path.unlink(missing_ok=True)


class _Silence:
    """For how long a claim has not changed, as seen from here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: tuple[int, int] | None = None
        self.since = time.monotonic()

    def seconds(self) -> float:
        """Since it was first seen as it is now; 0 where it is gone."""
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return 0.0
        now = stat.st_ino, stat.st_mtime_ns
        if now != self.last:
            self.last, self.since = now, time.monotonic()
        return time.monotonic() - self.since


@contextmanager
def _beating(path: Path) -> Iterator[None]:
    """Touch our claim every few seconds while the block runs."""

    def touch() -> None:
        with suppress(OSError):
            os.utime(path)

    with every(BEAT_SECONDS, touch, name=f"claim {path.name}"):
        yield


def _take(path: Path, silence: _Silence) -> bool:
    with told_in_one_line(path):
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return _take_over(path, silence)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(json.dumps(_me()))
        except OSError:  # a full disk: a claim without a name would keep the next process waiting
            path.unlink(missing_ok=True)
            raise
    return True


def _take_over(path: Path, silence: _Silence) -> bool:
    """Put our name into the claim of a dead process; False if it lives, was released, or is being taken over by another."""
    try:
        file = path.open("r+")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_alive(path, silence) or os.fstat(file.fileno()).st_ino != path.stat().st_ino:
                return False
        except (BlockingIOError, FileNotFoundError):
            return False
        file.truncate()
        file.write(json.dumps(_me()))
    return True


_SINCE = datetime.now().isoformat(timespec="seconds")


def _me() -> dict[str, Any]:
    return {"pid": os.getpid(), "host": platform.node(), "start": _start_of(os.getpid()), "since": _SINCE}


def _read(path: Path) -> dict[str, Any] | None:
    """The owner, or None while (or because) there is no readable one."""
    try:
        owner = json.loads(path.read_text())
        return owner if isinstance(owner, dict) and "pid" in owner else None
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _is_alive(path: Path, silence: _Silence) -> bool:
    owner = _read(path)
    if owner is None:
        return silence.seconds() < UNREADABLE_SECONDS
    if owner.get("host") != platform.node():
        return silence.seconds() < SILENT_SECONDS
    return _start_of(owner["pid"]) == owner.get("start") and _exists(owner["pid"])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _start_of(pid: int) -> str | None:
    """When the process began, in clock ticks since boot: tells it from a later one with the same number. None where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _waiting(path: Path) -> str:
    owner = _read(path)
    who = f"process {owner['pid']} on {owner['host']}" if owner else "another process"
    return f"waiting for {who}, which holds {path}; delete that file if the process is gone"
