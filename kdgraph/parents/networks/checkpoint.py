"""The state of a training on disk, so that one that was cut off goes on where it was."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import pickle
import secrets
import time
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator

INTERVAL = 30.0
"""Seconds between two states that are written: 50 MB take about 0.1 s for four layers of 1,000 units."""


@dataclass
class Checkpoint:
    """A file that holds the state of one training.

    Parameters
    ----------
    path : the file; its folder is made when it is first written.
    fingerprint : of everything that decides the numbers (:func:`fingerprint`). A state with another one is not this training's.
    """

    path: Path
    fingerprint: str
    _due: float = field(default_factory=lambda: time.monotonic() + INTERVAL, repr=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        if self.path.is_dir():
            raise ValueError(f"checkpoint must be the path of a file, got the folder {str(self.path)!r}")

    def for_stage(self, stage: str) -> Checkpoint:
        """The checkpoint of a training that comes before the main one, in a file beside it."""
        return Checkpoint(self.path.with_name(f"{self.path.name}.{stage}"), f"{self.fingerprint} {stage}")

    def load(self) -> dict[str, Any] | None:
        """The state that was saved, or None: no file, one that was cut short, or one of another training."""
        if not zipfile.is_zipfile(self.path):  # torch would also read older formats, and warn of them
            return None
        try:
            # Only tensors and plain containers are read: a file cannot run code.
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError):
            return None
        fits = isinstance(saved, dict) and saved.get("fingerprint") == self.fingerprint
        return saved["state"] if fits else None

    def save(self, state: Mapping[str, Any], *, now: bool = False) -> None:
        """Write the state if :data:`INTERVAL` seconds have passed since the last one, or ``now``; a reader sees it whole or not at all."""
        if time.monotonic() < self._due and not now:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            content = io.BytesIO()  # torch reports a full disk as an error of its format when it writes the file
            torch.save({"fingerprint": self.fingerprint, "state": dict(state)}, content)
            unfinished.write_bytes(content.getbuffer())
            os.replace(unfinished, self.path)
        finally:
            unfinished.unlink(missing_ok=True)
        self._due = time.monotonic() + INTERVAL

    def remove(self) -> None:
        """Delete the file, and what processes left that were killed while they wrote it: the training is done."""
        self.path.unlink(missing_ok=True)
        for unfinished in self.path.parent.glob(f".{glob.escape(self.path.name)}.*"):
            unfinished.unlink(missing_ok=True)


def fingerprint(arrays: Iterable[Any], words: Iterable[Any]) -> str:
    """A hash of arrays (dtype, shape and bytes) and of the ``repr`` of words."""
    digest = hashlib.sha256(repr([torch.__version__, *words]).encode())
    for array in map(np.ascontiguousarray, arrays):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.view(np.uint8).data if array.ndim else array.tobytes())
    return digest.hexdigest()


def in_words(value: Any) -> Any:
    """A parameter as its ``repr`` should have it: of a component its class and parameters, where Python's own would give an address, and
    scikit-learn's would be cut short.
    """
    if isinstance(value, Mapping):
        return {name: in_words(each) for name, each in value.items()}
    is_component = isinstance(value, BaseEstimator) or type(value).__repr__ is object.__repr__
    return (type(value).__qualname__, in_words(vars(value))) if is_component and hasattr(value, "__dict__") else value
