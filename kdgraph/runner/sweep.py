"""The jobs of a plan, each to its end, and the status of a sweep."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.runner.locks import SILENT_SECONDS, call_every, is_locked
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run import attempt
from kdgraph.runner.run_dir import LOCK_FILE, RunDir, RunVersions, one_line
from kdgraph.signing import current_key

if TYPE_CHECKING:
    from kdgraph.config import Job, Plan

NOT_STARTED = "not started: another run failed, and fail_fast=true"
STATUS_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """The end of a job: a record, or a failure in one line.

    ``error`` is the exception, where it was raised in this process.
    """

    job: Job
    record: dict[str, Any] | None
    failure: str | None = None
    error: Exception | None = None

    @property
    def started(self) -> bool:
        """False if ``fail_fast`` ended the sweep before it."""
        return self.failure != NOT_STARTED


def launch(
    planned: Plan, todo: Sequence[Job], n_done: int, reporter: ProgressReporter
) -> list[Outcome]:
    """Run checked jobs, each whatever becomes of the others, and return their outcomes.

    They run in this process, or where the launcher that the config names starts them. ``n_done`` is
    how many more jobs of the sweep were done before. Raises KeyFileError where ``KDGRAPH_KEY_FILE``
    names a file that holds no key for models.
    """
    if todo:
        # A key that cannot be used ends the sweep before its first run; and if there is none yet,
        # it is made here, by one process.
        current_key()
    before = {job.run_dir: RunDir(job.run_dir).versions for job in todo}
    failures: Mapping[Path, Exception | str] = {}
    if todo and (planned.is_remote or (planned.parallel and len(todo) > 1)):
        from kdgraph.runner.launchers.launcher import run_in_parallel

        counter = SweepCounter([job.run_dir for job in todo], n_done)
        with counting(counter, reporter.sweep_status):
            failures = run_in_parallel(planned, todo, reporter)
    else:
        failures = _run_serially(planned, todo, reporter)
    return [_outcome(planned, job, failures.get(job.run_dir), before[job.run_dir]) for job in todo]


def _run_serially(
    planned: Plan, todo: Sequence[Job], reporter: ProgressReporter
) -> dict[Path, Exception]:
    errors: dict[Path, Exception] = {}
    for number, job in enumerate(todo, 1):
        title = f"{job.config.dataset['name']} → {job.config.method}  seed {job.config.seed}"
        reporter.begin(title, number, len(todo))
        if error := attempt(job.config, reporter):
            errors[job.run_dir] = error
            if planned.fail_fast:
                break
    return errors


def _outcome(
    planned: Plan, job: Job, error: Exception | str | None, before: RunVersions
) -> Outcome:
    """Read the end of a job from its files, or else from what came back from its process.

    A record that was there before counts too, unless it was to be replaced: another command may
    have finished the run just now.
    """
    folder = RunDir(job.run_dir)
    has_record = folder.versions.record is not None and not (
        planned.force and folder.versions.record == before.record
    )
    if not isinstance(error, Exception) and has_record and (record := folder.record()):
        return Outcome(job, record)
    if folder.versions.failure not in (None, before.failure):
        return Outcome(job, None, folder.failure(), error if isinstance(error, Exception) else None)
    if isinstance(error, Exception):
        return Outcome(job, None, one_line(error), error)
    if error:  # error.txt could not be written, or the job never got as far
        return Outcome(job, None, error)
    if planned.fail_fast:
        return Outcome(job, None, NOT_STARTED)
    return Outcome(job, None, f"its process ended before it did; {folder.reason_of_loss()}")


@dataclass(frozen=True)
class SweepStatus:
    """Numbers of runs of a sweep by state; ``cached`` are those that were done before it began.

    ``seconds_left`` is an estimate, None until a run is done. ``running_names`` has ``<data set> →
    <method>`` of the running runs, each once.
    """

    done: int
    cached: int
    running: int
    failed: int
    left: int
    seconds_left: float | None = None
    running_names: tuple[str, ...] = field(default=(), compare=False)

    def line(self) -> str:
        """Return one line for a terminal.

        >>> SweepStatus(done=3, cached=10, running=2, failed=1, left=4, seconds_left=61.4).line()
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


class SweepCounter:
    """Counter of the runs of a sweep that were to do when it began.

    It reads run directories, which are the same whatever machine the runs are on. A record that is
    there already is one that ``force`` replaces. ``cached`` more runs were done before.
    """

    def __init__(self, run_dirs: Sequence[Path], cached: int) -> None:
        self.before = {path: RunDir(path).versions for path in run_dirs}
        self.cached, self.done, self.failed = cached, 0, 0
        self.locks: dict[Path, tuple[int, float]] = {}
        self.began = time.monotonic()

    def status(self) -> SweepStatus:
        """Look again at the runs that had not ended."""
        running = 0
        names: dict[str, None] = {}
        for path, before in list(self.before.items()):
            versions, is_running = RunDir(path).versions, self._is_running(path)
            if versions.record not in (None, before.record):
                self.done += 1
            elif versions.failure not in (None, before.failure) and not is_running:
                self.failed += 1
            else:
                running += is_running
                if is_running:
                    names[" → ".join(path.parts[-3:-1])] = None
                continue
            del self.before[path]
        ended, left = self.done + self.failed, len(self.before)
        seconds = (time.monotonic() - self.began) / ended * left if ended else None
        return SweepStatus(
            self.done, self.cached, running, self.failed, left - running, seconds, tuple(names)
        )

    def _is_running(self, path: Path) -> bool:
        """Return whether a living process holds the run, as far as its lock shows it.

        An owner touches its lock every few seconds, so a lock that has not changed for a minute was
        left by a process that is gone.
        """
        try:
            version = (path / LOCK_FILE).stat().st_mtime_ns
        except OSError:
            return False
        last_version, since = self.locks.get(path, (None, 0.0))
        if last_version != version:
            _, since = self.locks[path] = (version, time.monotonic())
        return time.monotonic() - since < SILENT_SECONDS and is_locked(path / LOCK_FILE)


@contextmanager
def counting(counter: SweepCounter, report: Callable[[SweepStatus], None]) -> Iterator[None]:
    """Report the status of a sweep about once a second, in a thread, and when the block ends."""
    try:
        with call_every(STATUS_SECONDS, lambda: report(counter.status()), name="sweep status"):
            yield
    finally:
        report(counter.status())
