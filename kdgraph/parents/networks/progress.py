"""What training reports while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from kdgraph.errors import ParameterError


@dataclass(frozen=True)
class Progress:
    """The state of a training after an epoch.

    Attributes
    ----------
    epoch, of : the epoch that ended (from 1), and the largest number there can be.
    loss, validation_loss : mean over the training rows during the epoch, and over the held-out rows after it (None without any).
    seconds_left : mean time of an epoch so far × epochs left; an upper bound, since training may stop early.
    stage : what is trained for, such as "training".
    """

    epoch: int
    of: int
    loss: float
    validation_loss: float | None
    seconds_left: float
    stage: str = "training"


Report = Callable[[Progress], object]
"""Gets the progress after each epoch; an exception that it raises ends the training."""


@contextmanager
def reporter(verbose: bool, report: Any = None) -> Iterator[Report]:
    """What to call with each :class:`Progress`; it hands it on to a bar if ``verbose``, and to the function ``report`` if there is one.

    The bar is on stderr and shows only in a terminal.

    Raises
    ------
    ParameterError : for a ``report`` that cannot be called.
    """
    if report is not None and not callable(report):
        raise ParameterError(f"report must be a function of a Progress, or None, got {report!r}")
    told = [] if report is None else [report]
    with ExitStack() as stack:
        if verbose and (console := Console(stderr=True)).is_terminal:
            told.append(_Drawing(stack.enter_context(_bar(console))))

        def tell(progress: Progress) -> None:
            for each in told:
                each(progress)

        yield tell


class _Drawing:
    """Draws each stage as one line of a rich bar."""

    def __init__(self, bar: Bar):
        self.bar, self.tasks = bar, {}

    def __call__(self, progress: Progress) -> None:
        if progress.stage not in self.tasks:
            self.tasks[progress.stage] = self.bar.add_task(progress.stage, total=progress.of, losses="", left="")
        losses = [f"loss {progress.loss:.4f}"]
        if progress.validation_loss is not None:
            losses.append(f"validation {progress.validation_loss:.4f}")
        left = f"at most {_clock(progress.seconds_left)} left"
        self.bar.update(self.tasks[progress.stage], completed=progress.epoch, losses=" ".join(losses), left=left)


def _bar(console: Console) -> Bar:
    text = TextColumn("{task.description}")
    return Bar(text, BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[losses]}"), TimeElapsedColumn(),
               TextColumn("{task.fields[left]}"), console=console, transient=True)  # fmt: skip


def _clock(seconds: float) -> str:
    """3725 → ``1:02:05``, 65 → ``1:05``.

    >>> _clock(3725.2), _clock(65)
    ('1:02:05', '1:05')
    """
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"
