"""The errors that a user of kdgraph can meet, and the exit code that each one gives ``kdg``.

Every message is one line that names the value, the rule and the way out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class KdgError(Exception):
    """Base of the errors that kdgraph raises on purpose.

    ``kdg`` prints its one line without a traceback.
    """

    exit_code = 1


class UsageError(KdgError, ValueError):
    """Something that the user gave cannot be used; nothing was run."""

    exit_code = 2


class ConfigError(UsageError):
    """A key, an option or a combination of a config does not exist or does not fit."""


class ParameterError(UsageError):
    """A parameter of a component has the wrong type or lies outside its range."""


class DataError(UsageError):
    """The data cannot be used: missing, not a table, NaN, one class only, too few rows."""


class DataNotAvailable(DataError):
    """A data set or a file of rows is not available here, or its ``require`` excludes it.

    A sweep lists it as not runnable and continues.
    """


class RunFailed(KdgError):
    """The run itself failed; what was done before it stays in the store."""


class CannotWrite(RunFailed):
    """A file of a run cannot be written: the disk is full, or the folder is closed.

    Files that were complete before stay complete.
    """


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived.

    It is a KeyboardInterrupt, so that code that ends cleanly at Ctrl-C ends cleanly here.

    Parameters
    ----------
    signum : int
        Number of the signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a message: ``; did you mean 'spiral'?``.

    It is ``otherwise`` where no known word is close to ``word``.

    >>> did_you_mean("spirl", ["spiral", "circle"])
    "; did you mean 'spiral'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else otherwise
