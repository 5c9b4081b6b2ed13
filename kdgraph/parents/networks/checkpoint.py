"""What training reports while it runs.

The state of a training on disk, so that one that was cut off goes on where it was.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
import pickle
import secrets
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from sklearn.base import BaseEstimator

from kdgraph.errors import ParameterError


@dataclass(frozen=True)
class TrainingProgress:
    """The state of a training after an epoch.

    Attributes
    ----------
    epoch, max_epochs : the epoch that ended (from 1), and the largest number there can be.
    loss, validation_loss : mean over the training rows during the epoch, and over the held-out rows
    after it (None without any).
    seconds_left : mean time of an epoch so far × epochs left; an upper bound, since training may
    stop early.
    stage : what is trained for, such as "training".
    """

    epoch: int
    max_epochs: int
    loss: float
    validation_loss: float | None
    seconds_left: float
    stage: str = "training"


ProgressCallback = Callable[[TrainingProgress], object]
"""Gets the progress after each epoch; an exception that it raises ends the training."""


@contextmanager
def progress_callback(verbose: bool, report: Any = None) -> Iterator[ProgressCallback]:
    """What to call with each :class:`TrainingProgress`; it hands it on to a bar if ``verbose``, and to the
    function ``report`` if there is one.

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
            told.append(_ProgressBarCallback(stack.enter_context(_progress_bar(console))))

        def tell(progress: TrainingProgress) -> None:
            for each in told:
                each(progress)

        yield tell


class _ProgressBarCallback:
    """Draws each stage as one line of a rich bar."""

    def __init__(self, bar: Bar):
        self.bar, self.tasks = bar, {}

    def __call__(self, progress: TrainingProgress) -> None:
        if progress.stage not in self.tasks:
            self.tasks[progress.stage] = self.bar.add_task(
                progress.stage, total=progress.max_epochs, losses="", left=""
            )
        losses = [f"loss {progress.loss:.4f}"]
        if progress.validation_loss is not None:
            losses.append(f"validation {progress.validation_loss:.4f}")
        left = f"at most {_format_seconds(progress.seconds_left)} left"
        self.bar.update(
            self.tasks[progress.stage], completed=progress.epoch, losses=" ".join(losses), left=left
        )


def _progress_bar(console: Console) -> Bar:
    text = TextColumn("{task.description}")
    return Bar(
        text,
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[losses]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
    )


def _format_seconds(seconds: float) -> str:
    """3725 → ``1:02:05``, 65 → ``1:05``.

    >>> _format_seconds(3725.2), _format_seconds(65)
    ('1:02:05', '1:05')
    """
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


SAVE_INTERVAL_SECONDS = 30.0
"""Seconds between two states that are written: 50 MB take about 0.1 s for four layers of 1,000
units.
"""


@dataclass
class Checkpoint:
    """A file that holds the state of one training.

    Parameters
    ----------
    path : the file; its folder is made when it is first written.
    fingerprint : of everything that decides the numbers (:func:`fingerprint`). A state with another
        one is not this training's.
    """

    path: Path
    fingerprint: str
    _next_save_time: float = field(
        default_factory=lambda: time.monotonic() + SAVE_INTERVAL_SECONDS, repr=False
    )

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        if self.path.is_dir():
            raise ValueError(
                f"checkpoint must be the path of a file, got the folder {str(self.path)!r}"
            )

    def for_stage(self, stage: str) -> Checkpoint:
        """The checkpoint of a training that comes before the main one, in a file beside it."""
        return Checkpoint(
            self.path.with_name(f"{self.path.name}.{stage}"), f"{self.fingerprint} {stage}"
        )

    def load(self) -> dict[str, Any] | None:
        """The state that was saved, or None: no file, one that was cut short, or one of another
        training.
        """
        if not zipfile.is_zipfile(
            self.path
        ):  # torch would also read older formats, and warn of them
            return None
        try:
            # Only tensors and plain containers are read: a file cannot run code.
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError):
            return None
        fits = isinstance(saved, dict) and saved.get("fingerprint") == self.fingerprint
        return saved["state"] if fits else None

    def save(self, state: Mapping[str, Any], *, force: bool = False) -> None:
        """Write the state if :data:`INTERVAL` seconds have passed since the last one, or ``force``; a
        reader sees it whole or not at all.
        """
        if time.monotonic() < self._next_save_time and not force:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            content = (
                io.BytesIO()
            )  # torch reports a full disk as an error of its format when it writes the file
            torch.save({"fingerprint": self.fingerprint, "state": dict(state)}, content)
            unfinished.write_bytes(content.getbuffer())
            os.replace(unfinished, self.path)
        finally:
            unfinished.unlink(missing_ok=True)
        self._next_save_time = time.monotonic() + SAVE_INTERVAL_SECONDS

    def remove(self) -> None:
        """Delete the file, and what processes left that were killed while they wrote it: the
        training is done.
        """
        self.path.unlink(missing_ok=True)
        for unfinished in self.path.parent.glob(f".{glob.escape(self.path.name)}.*"):
            unfinished.unlink(missing_ok=True)


def training_fingerprint(arrays: Iterable[Any], settings: Iterable[Any]) -> str:
    """A hash of arrays (dtype, shape and bytes) and of the ``repr`` of words."""
    digest = hashlib.sha256(repr([torch.__version__, *settings]).encode())
    for array in map(np.ascontiguousarray, arrays):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.view(np.uint8).data if array.ndim else array.tobytes())
    return digest.hexdigest()


def comparable_parameter(value: Any) -> Any:
    """A parameter as its ``repr`` should have it: of a component its class and parameters, where
    Python's own would give an address, and scikit-learn's would be cut short.
    """
    if isinstance(value, Mapping):
        return {name: comparable_parameter(each) for name, each in value.items()}
    is_component = isinstance(value, BaseEstimator) or type(value).__repr__ is object.__repr__
    return (
        (type(value).__qualname__, comparable_parameter(vars(value)))
        if is_component and hasattr(value, "__dict__")
        else value
    )
