"""One process at a time: a claim file that names its owner, and that is taken over once the owner
is gone.

The file is made with ``O_EXCL``, so two processes never both make it. It is taken over by a rename
onto it, under ``flock`` of the file that was judged and only while that file is still the claim, so
a claim that was just taken over cannot be lost to a third process that saw the dead one. A rename
needs the right to write to the folder alone: the claim may be another user's.

The kernel shows whether a process of the same table of processes lives. Of one elsewhere (another
machine, a container, another user's namespace) only the claim can be seen: its owner touches it
every few seconds, and a process that waits takes it over once it has not changed for a while. That
while is measured on the waiting machine's own clock; the clocks of two machines are never compared.

``SoftFileLease`` of filelock does most of this, with two differences that tests here rule out: an
empty file, which a kill or a power cut between its creation and its first write leaves, blocks it
for ever; and a living process of the same machine loses its lease when it is stopped, or holds the
interpreter's lock in compiled code, for longer than the lease.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from kdgraph.runner.beat import every
from kdgraph.runner.files import temporary_beside, told_in_one_line
from kdgraph.runner.processes import lives, shares_table, this_process

POLL_SECONDS = 0.1
UNREADABLE_SECONDS = 5.0
"""A claim without an owner's name is given this long to be written before it counts as left by a
process that was killed.
"""
BEAT_SECONDS = 5.0
"""How often an owner touches its claim."""
SILENT_SECONDS = 60.0
"""An owner whose table of processes cannot be seen counts as gone when its claim has not changed
for so long: twelve beats, some of which a slow file system may hold back.
"""


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
    while True:
        with _taking:
            if _take(path, silence):
                _held.add(path)
                break
        if not waited:
            tell(_waiting(path))
            waited = True
        time.sleep(POLL_SECONDS)
    try:
        with _beating(path):
            yield waited
    finally:
        _held.discard(path)
        _give_back(path)


def give_back_all() -> None:
    """Remove every claim that this process holds, and take none any more: for a process that is
    about to end without unwinding.

    Another thread may wait for a claim that a sibling has just given back for the same reason. What
    it took between this and the end would stay behind, so the lock is not released.
    """
    _taking.acquire()
    for path in list(_held):
        with suppress(OSError):
            _give_back(path)


_held: set[Path] = set()
_taking = threading.Lock()


def _give_back(path: Path) -> None:
    if _read(path) == _me():
        path.unlink(missing_ok=True)


def is_claimed(path: Path) -> bool:
    """Whether a living process holds ``path``."""
    return path.exists() and _is_alive(path, _Silence(path))


def clear(path: Path) -> None:
    """Remove the claim of a process that is gone, for who needs nothing of it any more; that of a
    living one stays.
    """
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
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)  # less the umask
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
    """Put our claim in the place of a dead process's; False if that lives, released it, or another
    process is taking it over.
    """
    try:
        file = _opened(path)
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_alive(path, silence) or os.fstat(file.fileno()).st_ino != path.stat().st_ino:
                return False
        except (BlockingIOError, FileNotFoundError):
            return False
        ours = temporary_beside(path)
        try:
            ours.write_text(json.dumps(_me()))
            os.replace(ours, path)
        finally:
            ours.unlink(missing_ok=True)
    return True


def _opened(path: Path) -> IO[bytes]:
    """Open a claim for ``flock``, which asks for a writable file on NFS; that of another user may
    be readable alone.
    """
    try:
        return path.open("r+b")
    except PermissionError:
        return path.open("rb")


_SINCE = datetime.now().isoformat(timespec="seconds")


def _me() -> dict[str, Any]:
    return {**this_process(), "since": _SINCE}


def _read(path: Path) -> dict[str, Any] | None:
    """The owner, or None while (or because) there is no readable one."""
    try:
        owner = json.loads(path.read_text())
        return owner if isinstance(owner, dict) and isinstance(owner.get("pid"), int) else None
    except (
        FileNotFoundError,
        ValueError,
    ):  # ValueError: neither JSON nor text, after a power cut or a flipped bit
        return None


def _is_alive(path: Path, silence: _Silence) -> bool:
    owner = _read(path)
    if owner is None:
        return silence.seconds() < UNREADABLE_SECONDS
    if not shares_table(owner):
        return silence.seconds() < SILENT_SECONDS
    return lives(owner)


def _waiting(path: Path) -> str:
    owner = _read(path)
    who = f"process {owner['pid']} on {owner['host']}" if owner else "another process"
    return f"waiting for {who}, which holds {path}; delete that file if the process is gone"
