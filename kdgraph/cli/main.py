"""Entry point ``kdg``: find the command, and turn errors into one line and an exit code.

It imports nothing that ``kdg --help`` does not need.
"""

from __future__ import annotations

import codecs
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

from kdgraph.cli import COMMANDS
from kdgraph.cli.arguments import CommandParser, parser_of
from kdgraph.errors import KdgError, Terminated, UsageError, did_you_mean
from kdgraph.wording import first_line, print_note, printable

HELP = """\
usage: kdg COMMAND [arguments]

Calibrate classifiers and regressors, score what is out of distribution, and
compare methods in runs that are cached and reproducible.

commands:
{commands}

'kdg COMMAND --help' explains a command, with examples.

Overrides choose an option of a group (dataset=digits), set a value
(parent.n_estimators=100), or sweep over both with -m:
  kdg run -m dataset=spiral,circle method=kdf,isotonic seed='range(0,5)'
A run is done once: the same config gives the same directory,
outputs/DATASET/METHOD/ID; force=true repeats it. Data sets are fetched first.

--config-dir DIR adds your own config groups. A config is code: _target_
imports and calls what it names, in show and plan too, so name no folder of
others that you have not read.

options:
  -h, --help   print this help ('kdg help COMMAND': that of a command)
  --version    print the version

exit codes:
  0 done    1 a run failed, or a file cannot be written
  2 an argument, a config or a file cannot be used
  130 interrupted    143, 129 terminated by SIGTERM, SIGHUP
""".format(commands="\n".join(f"  {name:<12} {summary}" for name, summary in COMMANDS.items()))

_SPACE = "free some space, and give the same command again"
_OPEN = "its owner can open it with 'chmod -R a+rX {folder}'"
_FILES = "raise the limit of open files with 'ulimit -n 4096', or run fewer jobs at a time"
REMEDIES = {
    errno.EACCES: _OPEN,
    errno.EPERM: _OPEN,
    errno.EROFS: "name a folder that can be written",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ESTALE: "the file system lost it; give the same command again",
    errno.EIO: "the device fails; name a folder on another one",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "its links lead in a circle; name the file itself",
    errno.EISDIR: "name a file in it",
    errno.ENOTDIR: "a part of this path is a file, and only a folder can hold others",
    errno.EEXIST: "move what is there, or give another name",
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: "end other programs, or run fewer jobs at a time",
}
"""Error number → remedy, for errors of the operating system that no program can prevent.

Where a command knows which argument named the file, it has a message of its own.
"""
_OUT_OF_ORDER = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EIO, errno.ENOMEM)
"""Errors of the machine, which the same command may not meet again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of the arguments and return the exit code."""
    codecs.register_error("kdg", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="kdg")  # a terminal without "◂" must not end a run
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _signals_unwind():
            return _run_command(words)
    except KdgError as error:
        print_note(str(error))
        return error.exit_code
    except KeyboardInterrupt as error:
        signum = error.signum if isinstance(error, Terminated) else signal.SIGINT
        name = (
            f"terminated by {signal.Signals(signum).name}"
            if isinstance(error, Terminated)
            else "interrupted"
        )
        with suppress(OSError):  # at SIGHUP the terminal is gone
            what = "parts" if words[:1] == ["predict"] else "stages"
            print_note(f"{name}; finished {what} are kept")
        return 128 + signum
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        print_note(_in_one_line(error))
        return 1 if error.errno in _OUT_OF_ORDER else UsageError.exit_code
    except RuntimeError as error:
        # pathlib raises it in place of an OSError, from Path.resolve and Path.expanduser
        if not str(error).startswith(("Symlink loop", "Could not determine home")):
            raise
        print_note(f"{error}; name the file itself")
        return UsageError.exit_code


def _in_one_line(error: OSError) -> str:
    """Return the file, what the operating system answered, and a remedy."""
    reason = error.strerror or first_line(error)
    if error.filename is None:
        return f"the system refused a file or a connection: {reason}; {_remedy(error, 'FOLDER')}"
    path = str(error.filename)
    # The first folder of a relative path is the one that a user has named.
    folder = shlex.quote(path if path.startswith("/") else path.partition("/")[0])
    return f"cannot use {path or 'an empty name'}: {reason}; {_remedy(error, folder)}"


def _remedy(error: OSError, folder: str) -> str:
    remedy = REMEDIES.get(
        error.errno or 0, "check the name, and that it is what the help describes"
    )
    return remedy.format(folder=folder)


_ASCII = dict(
    zip("◂→·…−–±≤≥×", ("<", "->", "-", "...", "-", "-", "+-", "<=", ">=", "x"), strict=True)
)
"""Signs of tables, and what replaces them where the encoding of a terminal has no such sign."""


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of characters that an encoding does not have, and where it ends.

    It is a handler of :func:`codecs.register_error`. Other characters are question marks.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_ASCII.get(character, "?") for character in found), error.end


@contextmanager
def _signals_unwind() -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind the block as Ctrl-C does, without losing any of the three.

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

    handled = [
        signum
        for signum in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(signum) is signal.SIG_DFL
    ]
    for signum in handled:
        signal.signal(signum, _terminate)
    sys.unraisablehook = send_again
    try:
        yield
    finally:
        ended.set()
        sys.unraisablehook = report
        for signum in handled:
            signal.signal(signum, signal.SIG_DFL)


def _terminate(signum: int, frame: Any) -> None:
    raise Terminated(signum)


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Raise UsageError for an argument, or a working directory, that is no text in UTF-8.

    Names of files may be any bytes, and records, pages and configs are text.
    """
    try:
        folder = os.getcwd()
    except FileNotFoundError as error:
        raise UsageError(
            "the working directory does not exist any more; change to another one with 'cd'"
        ) from error
    words = [("an argument", word) for word in arguments]
    for name, value in [*words, ("the working directory", folder)]:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{name} is not text in UTF-8: {printable(value)}; rename the file or folder"
            ) from error


def _run_command(arguments: list[str]) -> int:
    if not arguments or arguments in (["-h"], ["--help"], ["help"]):
        print(HELP, end="")
        return 0
    if arguments[0] == "--version":
        from kdgraph import __version__

        print(f"kdg {__version__}")
        return 0
    command, *rest = arguments
    if command in ("-h", "--help", "help"):
        command, *rest = *rest, "--help"
    if command not in COMMANDS:
        hint = did_you_mean(command, COMMANDS, f"; known: {', '.join(COMMANDS)}")
        raise UsageError(
            f"unknown command '{command}'"
            + (f"; overrides come after a command: kdg run {command}" if "=" in command else hint)
        )
    if not {"-h", "--help"}.isdisjoint(rest):
        print(_parser_for(command, rest).format_help(), end="")
        return 0
    _refuse_bytes(rest)
    return import_module(f"kdgraph.cli.{command}").main(rest)


def _parser_for(command: str, words: Sequence[str]) -> CommandParser:
    parser = parser_of(command)
    return next((parser.actions[word] for word in words if word in parser.actions), parser)
