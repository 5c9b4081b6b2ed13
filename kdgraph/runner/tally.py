"""How far a sweep is, read from its run directories: they tell the same whatever machine the runs
are on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from kdgraph.runner.beat import every
from kdgraph.runner.claim import SILENT_SECONDS, is_claimed
from kdgraph.runner.rundir import CLAIM, RunDir

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Tally:
    """Runs of a sweep by state; ``cached`` were done before it began. ``seconds_left`` is None
    until a run is done.
    """

    done: int
    cached: int
    running: int
    failed: int
    left: int
    seconds_left: float | None = None

    def line(self) -> str:
        """One line for a terminal.

        >>> Tally(done=3, cached=10, running=2, failed=1, left=4, seconds_left=61.4).line()
        '3 done · 10 before · 2 running · 1 failed · 4 left · about 0:01:01'
        """
        parts = [f"{self.done} done"]
        parts += [
            f"{n} {name}"
            for n, name in (
                (self.cached, "before"),
                (self.running, "running"),
                (self.failed, "failed"),
            )
            if n
        ]
        parts.append(f"{self.left} left")
        if self.left + self.running and self.seconds_left is not None:
            parts.append(f"about {timedelta(seconds=round(self.seconds_left))}")
        return " · ".join(parts)


class Count:
    """Counts the runs of a sweep that were to do when it began.

    Parameters
    ----------
    run_dirs : theirs; a record that is there already is one that ``force`` replaces.
    cached : how many more there are that were done before.
    """

    def __init__(self, run_dirs: Sequence[Path], cached: int) -> None:
        self.before = {path: RunDir(path).ended for path in run_dirs}
        self.cached, self.done, self.failed = cached, 0, 0
        self.claims: dict[Path, tuple[int, float]] = {}
        self.began = time.monotonic()

    def now(self) -> Tally:
        """Look again at those that had not ended."""
        running = 0
        for path, before in list(self.before.items()):
            now, claimed = RunDir(path).ended, self._is_running(path)
            if now.record not in (None, before.record):
                self.done += 1
            elif now.failure not in (None, before.failure) and not claimed:
                self.failed += 1
            else:
                running += claimed
                continue
            del self.before[path]
        ended, left = self.done + self.failed, len(self.before)
        seconds = (time.monotonic() - self.began) / ended * left if ended else None
        return Tally(self.done, self.cached, running, self.failed, left - running, seconds)

    def _is_running(self, path: Path) -> bool:
        """Return whether a living process holds the run, as far as its claim shows it.

        An owner touches its claim every few seconds, so one that has not changed for a minute was
        left by a process that is gone.
        """
        try:
            version = (path / CLAIM).stat().st_mtime_ns
        except OSError:
            return False
        seen, since = self.claims.get(path, (None, 0.0))
        if seen != version:
            seen, since = self.claims[path] = (version, time.monotonic())
        return time.monotonic() - since < SILENT_SECONDS and is_claimed(path / CLAIM)


@contextmanager
def counting(count: Count, tell: Callable[[Tally], None]) -> Iterator[None]:
    """Tell how far the sweep is, about once a second, from a thread of its own; the last time when
    the block ends.
    """
    try:
        with every(POLL_SECONDS, lambda: tell(count.now()), name="tally"):
            yield
    finally:
        tell(count.now())
