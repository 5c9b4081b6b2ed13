"""Progress reports and checkpoints of a training.

A training reports its state after each epoch. It can also save that state to a file, so that an
interrupted training continues where it stopped. Both depend on the training loop alone and not
on the model.
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
    """State of a training after an epoch.

    Attributes
    ----------
    epoch, max_epochs : int
        Epoch that ended, counted from 1, and the largest possible number of epochs.
    loss, validation_loss : float, float or None
        Mean loss over the training rows during the epoch, and over the held-out rows after it, if
        there are any.
    seconds_left : float
        Mean duration of an epoch so far × number of epochs left. It is an upper bound, since
        training may stop early.
    stage : str, default="training"
        Name of the training, such as "training" or "pretraining".

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, epochs = np.random.default_rng(0).normal(size=(200, 2)), []
    >>> mlp = MultilayerPerceptron(hidden=(8,), max_epochs=3, device="cpu", report=epochs.append)
    >>> _ = mlp.fit(X, X[:, 0] > 0)
    >>> [(progress.epoch, progress.max_epochs, progress.stage) for progress in epochs]
    [(1, 3, 'training'), (2, 3, 'training'), (3, 3, 'training')]
    """

    epoch: int
    max_epochs: int
    loss: float
    validation_loss: float | None
    seconds_left: float
    stage: str = "training"


ProgressCallback = Callable[[TrainingProgress], object]
"""Function that receives the progress after each epoch; an exception it raises ends the
training.
"""


@contextmanager
def progress_callback(verbose: bool, report: Any = None) -> Iterator[ProgressCallback]:
    """Provide a function that passes each :class:`TrainingProgress` to ``report`` and a bar.

    The progress bar is written to stderr and only shown in a terminal, if ``verbose``. A ``report``
    that is no function raises ParameterError.
    """
    if report is not None and not callable(report):
        raise ParameterError(f"report must be a function of a Progress, or None, got {report!r}")
    receivers = [] if report is None else [report]
    with ExitStack() as stack:
        if verbose and (console := Console(stderr=True)).is_terminal:
            receivers.append(_ProgressBarCallback(stack.enter_context(_progress_bar(console))))

        def notify(progress: TrainingProgress) -> None:
            for receiver in receivers:
                receiver(progress)

        yield notify


class _ProgressBarCallback:
    """Callback that draws each stage as one line of a rich progress bar."""

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
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[losses]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
    )


def _format_seconds(seconds: float) -> str:
    """Format a duration as hours, minutes and seconds.

    >>> _format_seconds(3725.2), _format_seconds(65)
    ('1:02:05', '1:05')
    """
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


SAVE_INTERVAL_SECONDS = 30.0
"""Seconds between two saved states.

Writing 50 MB (four layers of 1,000 units) takes about 0.1 s.
"""


@dataclass
class Checkpoint:
    """File that contains the state of one training.

    Its folder is created when the file is first written; a ``path`` that is a folder raises
    ValueError. The fingerprint is a hash of everything that determines the numbers
    (:func:`training_fingerprint`). A state with another fingerprint belongs to another training and
    is not loaded.
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
        """Return the checkpoint of a stage before or after the main training, a file next to it."""
        return Checkpoint(
            self.path.with_name(f"{self.path.name}.{stage}"), f"{self.fingerprint} {stage}"
        )

    def load(self) -> dict[str, Any] | None:
        """Return the saved state, or None if there is no usable one.

        A state is unusable if the file does not exist, is truncated, or belongs to another
        training.
        """
        # torch would also read older formats, with a warning.
        if not zipfile.is_zipfile(self.path):
            return None
        try:
            # Only tensors and plain containers are loaded, so a file cannot execute code.
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError):
            return None
        is_same_training = isinstance(saved, dict) and saved.get("fingerprint") == self.fingerprint
        return saved["state"] if is_same_training else None

    def save(self, state: Mapping[str, Any], *, force: bool = False) -> None:
        """Write the state if :data:`SAVE_INTERVAL_SECONDS` have passed since the last write.

        The file is replaced atomically, so a reader never sees a partial state. ``force`` writes in
        any case.
        """
        if time.monotonic() < self._next_save_time and not force:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            # Serialise to memory first: when torch writes a file, it reports a full disk as an
            # error of its file format.
            content = io.BytesIO()
            torch.save({"fingerprint": self.fingerprint, "state": dict(state)}, content)
            temporary.write_bytes(content.getbuffer())
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)
        self._next_save_time = time.monotonic() + SAVE_INTERVAL_SECONDS

    def remove(self) -> None:
        """Delete the file, and temporary files of processes that were killed while writing it."""
        self.path.unlink(missing_ok=True)
        for temporary in self.path.parent.glob(f".{glob.escape(self.path.name)}.*"):
            temporary.unlink(missing_ok=True)


def training_fingerprint(arrays: Iterable[Any], settings: Iterable[Any]) -> str:
    """Return a hash of arrays (dtype, shape and bytes) and of the ``repr`` of settings.

    Arrays are data and initial weights, settings everything else that determines the numbers; the
    version of torch is added. It is a hexadecimal SHA-256 digest.
    """
    digest = hashlib.sha256(repr([torch.__version__, *settings]).encode())
    for array in map(np.ascontiguousarray, arrays):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.view(np.uint8).data if array.ndim else array.tobytes())
    return digest.hexdigest()


def comparable_parameter(value: Any) -> Any:
    """Return a parameter in a form whose ``repr`` identifies its value.

    A component is replaced by its class and its parameters. Python's own ``repr`` would contain an
    address, and scikit-learn's would be truncated.
    """
    if isinstance(value, Mapping):
        return {name: comparable_parameter(item) for name, item in value.items()}
    is_component = isinstance(value, BaseEstimator) or type(value).__repr__ is object.__repr__
    if is_component and hasattr(value, "__dict__"):
        return type(value).__qualname__, comparable_parameter(vars(value))
    return value
