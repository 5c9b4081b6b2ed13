"""A terminal: what a run is doing right now on stderr, tables in colour on stdout; both plain when nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kdgraph.runner.watch import Watch

if TYPE_CHECKING:
    from rich.status import Status


class Spinner(Watch):
    """Shows the stage of the run that is at work."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.title = ""

    def begin(self, title: str) -> None:
        """Name the run whose stages follow."""
        self.title = title
        self.status.update(title)

    def stage(self, name: str) -> None:
        """Show it in place of the one before."""
        self.status.update(f"{self.title}  {name} …")

    def progress(self, done: Any) -> None:
        """Show the epoch, a bar, the loss and how long it may still take."""
        filled = round(20 * done.epoch / done.of)
        held_out = "" if done.validation_loss is None else f" · validation {done.validation_loss:.3f}"
        left = f"at most {timedelta(seconds=round(done.seconds_left))} left"
        bar = f"{'━' * filled}{'╌' * (20 - filled)}"
        self.status.update(f"{self.title}  {done.stage} {bar} epoch {done.epoch}/{done.of}  loss {done.loss:.3f}{held_out}  {left}")

    def note(self, line: str) -> None:
        """Print it above the spinner, where it stays."""
        self.status.console.print(f"kdg: {line}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def watching() -> Iterator[Watch]:
    """A spinner on stderr if that is a terminal, else silence."""
    if not sys.stderr.isatty():
        yield Watch()
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield Spinner(status)


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
