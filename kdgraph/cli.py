"""``kdg``: finds the verb, and turns errors into one line and an exit code. No import here that ``kdg --help`` does not need."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module

from kdgraph.errors import KdgError, UsageError, did_you_mean
from kdgraph.verbs import VERBS
from kdgraph.verbs.help import HELP as HELP_OF_VERBS
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
  --config-dir DIR    your own config groups, behind those of kdgraph
Options of run
  --json              print the record (of a sweep: the list of them) and nothing else
  --cfg job           print the config; with --resolve, -p PACKAGE as in Hydra
  --info, --help      Hydra's own views of the composed config

A run is done once: the same config gives the same directory, outputs/<dataset>/<method>/<id>, and force=true runs it again.
Exit codes: 0 done, 1 a run failed, 2 something that was given cannot be used, 130 interrupted.
""".format(verbs="\n".join(f"  kdg {usage:27} {purpose}" for usage, purpose in VERBS.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """``kdg``: do what the arguments say and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "◂" must not end a run
    try:
        return _verb(list(sys.argv[1:] if arguments is None else arguments))
    except KdgError as error:
        print(f"kdg: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except PermissionError as error:  # a folder of another user; what is written has its own line
        print(f"kdg: {error.filename} is closed to you; its owner can open it with 'chmod -R a+rX'", file=sys.stderr)
        return UsageError.exit_code
    except KeyboardInterrupt:
        print("kdg: interrupted; finished stages are kept", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        return 0


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
        raise UsageError(f"unknown verb '{verb}'" + (f"; overrides come after a verb: kdg run {verb}" if "=" in verb else hint))
    if verb in HELP_OF_VERBS and not {"-h", "--help"}.isdisjoint(rest):
        print(HELP_OF_VERBS[verb], end="")
        return 0
    return import_module(f"kdgraph.verbs.{verb}").main(rest)
