"""Which process is which, whether it lives, and processes that end together with the one that
started them.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

WATCH_SECONDS = 1.0


def this_process() -> dict[str, Any]:
    """Return what identifies this process: its number, its host, the process table that the number
    belongs to, its start.
    """
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "table": _table(),
        "start": _start(os.getpid()),
    }


def shares_table(owner: Mapping[str, Any]) -> bool:
    """Return whether ``owner`` has its number from the table of processes that this process sees.

    A host name is not enough: containers and cloned machines share it, and each has a table of its
    own.
    """
    return owner.get("host") == platform.node() and owner.get("table") == _table()


def lives(owner: Mapping[str, Any]) -> bool:
    """Return whether a process of this table still runs; one that only waits to be reaped does
    not.
    """
    pid = owner["pid"]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        pass
    start = _start(pid)
    # Without a readable start (no /proc, or one that hides the processes of others) existence is
    # all that can be learnt.
    return start is None or (start != "" and owner.get("start") in (None, start))


def exit_with(owner: Mapping[str, Any], clean_up: Callable[[], object]) -> None:
    """End this process soon after ``owner``, or the process that started this one, has ended,
    however that was.

    A thread looks once a second. ``PR_SET_PDEATHSIG`` of Linux is no substitute: it follows the
    *thread* that started the process, it does not reach grandchildren, and macOS has nothing like
    it. A worker that is blocked in a pipe to its dead parent holds no lock of the interpreter, so
    the thread runs.

    Parameters
    ----------
    owner : mapping
        What :func:`this_process` returned in a process of the same table.
    clean_up : callable
        Called just before the end.
    """
    if any(thread.name == _WATCHER for thread in threading.enumerate()):
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent and lives(owner):
            time.sleep(WATCH_SECONDS)
        try:
            clean_up()
        finally:
            os.kill(
                os.getpid(), signal.SIGKILL
            )  # sys.exit ends a thread, and handlers at exit wait for the parent

    threading.Thread(target=watch, name=_WATCHER, daemon=True).start()


_WATCHER = "ends with its parent"


@cache
def _table() -> str | None:
    """Return a name of this table of processes: the boot of the machine and the namespaces of
    process numbers and of clocks.

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


def _start(pid: int) -> str | None:
    """Return when a process began, in clock ticks since boot, which tells it from a later one with
    the same number.

    None where that cannot be read, "" for a process that has ended and waits to be reaped.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] == "Z" else fields[19]
