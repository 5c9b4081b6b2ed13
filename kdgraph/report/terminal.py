"""Output on a terminal: progress on stderr, tables in colour on stdout.

Without a terminal there is no progress but a line each minute of a sweep, and tables are plain.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.sweep import SweepStatus
from kdgraph.wording import print_note, printable, significant

if TYPE_CHECKING:
    from rich.status import Status

    from kdgraph.runner.availability import MissingData

_BAR = 10
"""Characters of a bar: with it, the epoch and the time left fit into 80 columns."""
_FRAME = 2
"""Columns of the spinner and the space behind it."""


class TerminalProgress(ProgressReporter):
    """One line on a terminal: a spinner, a bar, the time left, the run and its stage."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.title = ""
        self.number, self.total = 1, 1
        self._start = time.monotonic()

    def begin(self, title: str, number: int = 1, total: int = 1) -> None:
        """Show the title of the run whose stages follow."""
        self.title, self.number, self.total = title, number, total
        self.stage("")

    def stage(self, name: str) -> None:
        """Show a stage in place of the one before."""
        stage = f"  {name} …" if name else ""
        if self.total == 1:
            self._show(f"{self.title}{stage}")
            return
        n_done = self.number - 1
        seconds = time.monotonic() - self._start
        left = f"  {_time_left(seconds / n_done * (self.total - n_done))}" if n_done else ""
        counts = f"{_bar(n_done, self.total)} {self.number}/{self.total}"
        self._show(f"{counts}  {self.title}{stage}", left)

    def progress(self, training: Any) -> None:
        """Show the epoch of a training with a bar, the time left and the losses."""
        number = f"{self.number}/{self.total}  " if self.total > 1 else ""
        losses = [f"  loss {significant(training.loss)}"]
        if training.validation_loss is not None:
            losses.append(f" · validation {significant(training.validation_loss)}")
        self._show(
            f"{number}{self.title}  {training.stage}"
            f" {_bar(training.epoch, training.max_epochs)} {training.epoch}/{training.max_epochs}",
            f"  at most {timedelta(seconds=round(training.seconds_left))} left",
            *losses,
        )

    def sweep_status(self, status: SweepStatus) -> None:
        """Show how many runs of a parallel sweep are done, and those that are running."""
        n_ended = status.done + status.failed
        total = n_ended + status.running + status.left
        counts = [f"{_bar(n_ended, total)} {n_ended}/{total}"] if total else []
        counts += [f"{status.failed} failed"] if status.failed else []
        if status.seconds_left is not None and n_ended < total:
            counts.append(_time_left(status.seconds_left))
        running = [f"  {status.running} running"] if status.running else []
        names = [f"{', ' if i else ': '}{name}" for i, name in enumerate(status.running_names)]
        self._show(" · ".join(counts), *running, *names)

    def note(self, line: str) -> None:
        """Print a line above the progress, where it stays."""
        text = f"kdg: {printable(line)}"
        self.status.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _show(self, first: str, *parts: str) -> None:
        """Show one line; it ends before the first of the parts that does not fit."""
        from rich.text import Text

        width = self.status.console.width - _FRAME
        line = Text(first)  # not markup: a name may contain brackets
        for part in parts:
            if line.cell_len + Text(part).cell_len > width:
                break
            line.append(part)
        line.truncate(width, overflow="ellipsis")
        self.status.update(line)


class LogProgress(ProgressReporter):
    """A line on stderr each minute of a sweep, for output that goes to a file."""

    EVERY_SECONDS = 60.0

    def __init__(self) -> None:
        self.last_line = time.monotonic()

    def sweep_status(self, status: SweepStatus) -> None:
        """Print the status if a minute has passed since the last line."""
        if time.monotonic() - self.last_line >= self.EVERY_SECONDS:
            self.last_line = time.monotonic()
            self.note(status.line())


@contextmanager
def report_progress() -> Iterator[ProgressReporter]:
    """Yield a reporter for stderr: a live line on a terminal, else a line each minute."""
    if not sys.stderr.isatty():
        yield LogProgress()
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield TerminalProgress(status)


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if stdout is not one."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def show(text: str) -> None:
    """Print a table on stdout; on a terminal the better numbers are highlighted.

    Control characters in names are printed as escapes: a name controls no terminal.
    """
    text = "\n".join(line if line.isprintable() else printable(line) for line in text.split("\n"))
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    styled = Text(text)
    styled.highlight_regex(r"\S+ ◂", "bold green")
    styled.highlight_regex(r"± \d\.\d+", "dim")
    Console().print(styled, soft_wrap=True)


def _bar(n: int, total: int) -> str:
    filled = round(_BAR * n / total)
    return f"{'━' * filled}{'╌' * (_BAR - filled)}"


def _time_left(seconds: float) -> str:
    return f"about {timedelta(seconds=round(seconds))} left"


def print_missing_data(absent: Mapping[str, MissingData]) -> None:
    """Print a line on stderr for each reason why data are missing, by run id."""
    from kdgraph.runner.availability import by_reason  # imports readers of data

    for reason, names in by_reason(absent.values()).items():
        print_note(f"not runnable: {', '.join(names)} ({reason})")
