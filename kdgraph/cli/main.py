"""``kdg``: finds the verb, and turns errors into one line and an exit code. No import here that
``kdg --help`` does not need.
"""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from kdgraph.cli import VERBS
from kdgraph.cli.help import HELP as HELP_OF_VERBS
from kdgraph.errors import KdgError, Terminated, UsageError, did_you_mean
from kdgraph.wording import printable

HELP = """\
kdg: models that are honest about what they do not know

{verbs}
  kdg --help | --version

Choose an option of a group (dataset=digits), set a value (parent.n_estimators=100), or sweep over both:
  kdg run -m dataset=spiral,circle method=kdf,isotonic seed='range(0,5)'

Data sets are fetched before a run starts; kdg data get takes names, groups (cc18), patterns, numbers of OpenML, or key=value as in run.

Options of run and show
  -m                  sweep: every combination of the values
  --config-dir DIR    your own config groups, behind those of kdgraph. A config is code: _target_ imports and calls
                      what it names, in show and plan too, so name no folder of others that you have not read
Options of run
  --json              print the record (of a sweep: the list of them) and nothing else
  --cfg job           print the config; with --resolve, -p PACKAGE as in Hydra
  --info, --help      Hydra's own views of the composed config

A run is done once: the same config gives the same directory, outputs/<dataset>/<method>/<id>, and force=true runs it again.
Exit codes: 0 done, 1 a run failed, 2 something that was given cannot be used, 130 interrupted, 143 or 129
terminated by SIGTERM or SIGHUP.
""".format(verbs="\n".join(f"  kdg {usage:27} {purpose}" for usage, purpose in VERBS.values()))


_OPEN = "its owner can open it with 'chmod -R a+rX {folder}'"
_SPACE = "free some space, and give the same command again"
REMEDIES = {
    errno.EACCES: _OPEN,
    errno.EPERM: _OPEN,
    errno.EROFS: "name a folder that can be written",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ESTALE: "the file system lost it; give the same command again",
    errno.EIO: "the device fails; name a folder on another one",
}
"""What to do about errors of the operating system that no program can prevent; what is written for
a run has lines of its own.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """``kdg``: do what the arguments say and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "◂" must not end a run
    try:
        with _signals_unwind():
            return _verb(list(sys.argv[1:] if arguments is None else arguments))
    except KdgError as error:
        print(f"kdg: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as error:
        signum = error.signum if isinstance(error, Terminated) else signal.SIGINT
        name = (
            f"terminated by {signal.Signals(signum).name}"
            if isinstance(error, Terminated)
            else "interrupted"
        )
        with suppress(OSError):  # at SIGHUP the terminal is gone
            print(f"kdg: {name}; finished stages are kept", file=sys.stderr, flush=True)
        return 128 + signum
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.filename is None or error.errno not in REMEDIES:
            raise  # a mistake of ours
        path = str(error.filename)
        # Of a relative path the first folder is the one that a user has named.
        way_out = REMEDIES[error.errno].format(
            folder=shlex.quote(path if path.startswith("/") else path.partition("/")[0])
        )
        print(f"kdg: cannot use {path}: {error.strerror}; {way_out}", file=sys.stderr)
        return UsageError.exit_code if isinstance(error, PermissionError) else 1


@contextmanager
def _signals_unwind() -> Iterator[None]:
    """Have SIGTERM and SIGHUP unwind the block as Ctrl-C does, and none of the three be lost.

    A signal that arrives in a destructor or a callback of a weak reference raises there, where
    Python prints the exception and goes on: it is sent again a moment later. A signal that is
    ignored, as by nohup, stays ignored. Signals belong to the command line: the library never
    touches them.
    """
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # only the main thread may set handlers
        yield
        return
    ended = threading.Event()
    report = sys.unraisablehook

    def send_again(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            report(lost)
            return
        signum = lost.exc_value.signum if isinstance(lost.exc_value, Terminated) else signal.SIGINT
        threading.Thread(
            target=lambda: ended.wait(0.05) or os.kill(os.getpid(), signum), daemon=True
        ).start()

    ours = [
        signum
        for signum in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(signum) is signal.SIG_DFL
    ]
    for signum in ours:
        signal.signal(signum, _terminate)
    sys.unraisablehook = send_again
    try:
        yield
    finally:
        ended.set()
        sys.unraisablehook = report
        for signum in ours:
            signal.signal(signum, signal.SIG_DFL)


def _terminate(signum: int, frame: Any) -> None:
    raise Terminated(signum)


def _verb(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] == "--version":
        from kdgraph import __version__

        print(f"kdg {__version__}")
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        hint = did_you_mean(verb, VERBS, f"; known: {', '.join(VERBS)}")
        raise UsageError(
            f"unknown verb '{verb}'"
            + (f"; overrides come after a verb: kdg run {verb}" if "=" in verb else hint)
        )
    if verb in HELP_OF_VERBS and not {"-h", "--help"}.isdisjoint(rest):
        print(HELP_OF_VERBS[verb], end="")
        return 0
    return import_module(f"kdgraph.cli.{verb}").main(rest)
