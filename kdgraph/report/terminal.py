"""A terminal: what a run is doing right now on stderr, tables in colour on stdout; both plain when
nobody looks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.sweep import SweepStatus
from kdgraph.wording import significant

if TYPE_CHECKING:
    from rich.status import Status

_BAR = 10
"""Characters of the bar: with it, the epoch and the time left fit into 80 columns."""
_FRAME = 2
"""Columns of the spinner and the space behind it."""


class Spinner(ProgressReporter):
    """Shows the stage of the run that is at work."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.title = ""

    def begin(self, title: str) -> None:
        """Name the run whose stages follow."""
        self.title = title
        self._say(title)

    def stage(self, name: str) -> None:
        """Show it in place of the one before."""
        self._say(f"{self.title}  {name} …")

    def progress(self, training: Any) -> None:
        """Show a bar and the epoch, how long it may still take, and the losses."""
        filled = round(_BAR * training.epoch / training.max_epochs)
        bar = f"{'━' * filled}{'╌' * (_BAR - filled)}"
        left = f"  at most {timedelta(seconds=round(training.seconds_left))} left"
        held_out = (
            ""
            if training.validation_loss is None
            else f" · validation {significant(training.validation_loss)}"
        )
        self._say(
            f"{self.title}  {training.stage} {bar} {training.epoch}/{training.max_epochs}",
            left,
            f"  loss {significant(training.loss)}",
            held_out,
        )

    def sweep_status(self, status: SweepStatus) -> None:
        """Show how far the sweep is."""
        self._say(status.line())

    def note(self, line: str) -> None:
        """Print it above the spinner, where it stays."""
        self.status.console.print(f"kdg: {line}", markup=False, highlight=False, soft_wrap=True)

    def _say(self, first: str, *more: str) -> None:
        """Show one line: of ``more``, the last ones are left out that the terminal is too narrow
        for.
        """
        from rich.text import Text

        width = self.status.console.width - _FRAME
        line = Text(first)  # text, not markup: a name may have brackets
        for part in more:
            if line.cell_len + Text(part).cell_len > width:
                break
            line.append(part)
        line.truncate(width, overflow="ellipsis")
        self.status.update(line)


class Log(ProgressReporter):
    """A line on stderr once in a while, for a sweep whose output goes to a file."""

    EVERY_SECONDS = 60.0

    def __init__(self) -> None:
        self.told = time.monotonic()

    def sweep_status(self, status: SweepStatus) -> None:
        """Print it if a minute has passed."""
        if time.monotonic() - self.told >= self.EVERY_SECONDS:
            self.told = time.monotonic()
            self.note(status.line())


@contextmanager
def watching() -> Iterator[ProgressReporter]:
    """A spinner on stderr if that is a terminal, else a line in a minute of a sweep."""
    if not sys.stderr.isatty():
        yield Log()
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield Spinner(status)


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if stdout is not one."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def show(text: str) -> None:
    """Print a table on stdout; on a terminal the better numbers stand out."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    dressed = Text(text)
    dressed.highlight_regex(r"\S+ ◂", "bold green")
    dressed.highlight_regex(r"± \d\.\d+", "dim")
    Console().print(dressed, soft_wrap=True)
