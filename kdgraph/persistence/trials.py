"""Models that only their own library can parse, read in a process of their own first.

A damaged model of CatBoost can end the process that reads it, or that predicts with it. So a
process that has nothing to lose does both. Original to kdgraph.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from kdgraph.extras import is_installed, needs_library
from kdgraph.persistence import catboost_trial
from kdgraph.persistence.archive import LoadError

_SECONDS, _BYTES_PER_SECOND = 50, 10**6
"""Time that any file gets, and further bytes for which it gets a second more."""
_passed: set[bytes] = set()
"""Digests of contents that have passed in this process."""


def try_catboost(content: bytes) -> None:
    """Raise LoadError if a process ends when it reads a model of CatBoost and predicts with it.

    It costs a second, once for each content, of any origin, in this process. The process must end
    in 50 seconds and one for each MB, and not by a signal. ModuleNotFoundError is raised if
    CatBoost is not installed.

    >>> try_catboost(b"no model")  # CatBoost itself refuses it in a line
    """
    if not is_installed("catboost"):
        raise ModuleNotFoundError(needs_library("the model", "catboost"), name="catboost")
    digest = hashlib.sha256(content).digest()
    if digest in _passed:
        return
    seconds = _SECONDS + len(content) // _BYTES_PER_SECOND
    # -P: no module of the working directory or of the script's folder hides a library.
    command = [sys.executable, "-P", str(Path(catboost_trial.__file__))]
    try:
        process = subprocess.run(
            command,
            input=content,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"is not read in {seconds} seconds") from error
    if process.returncode:
        raise LoadError(f"ends the process that reads it ({_ending(process.returncode)})")
    _passed.add(digest)


def _ending(returncode: int) -> str:
    """Return how a process ended.

    >>> _ending(-11), _ending(3)
    ('SIGSEGV', 'exit code 3')
    """
    return signal.Signals(-returncode).name if returncode < 0 else f"exit code {returncode}"
