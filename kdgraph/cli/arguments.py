"""Parsers of the commands: the arguments that they share, their help, and errors in one line.

Three kinds of arguments are shared: overrides of the config (``run``, ``plan``, ``show``), filters
of finished runs (``table``, ``compare``, ``report``), and the folder of the user's configs.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from kdgraph.cli import COMMANDS
from kdgraph.errors import KdgError, UsageError
from kdgraph.quoting import as_value
from kdgraph.runner.formulas import SAFE_CSV, SAFE_CSV_HELP, refuse_safe_csv

WIDTH = 80
"""Columns of every help text, so that the page of the site has the same lines."""
INTERRUPTED = "interrupted; what was finished stays (143, 129: by SIGTERM, SIGHUP)"
UNUSABLE = "an argument, a config or a file cannot be used; the error is one line"
NOT_WRITTEN = "a file cannot be written"
CONFIG_DIR_HELP = (
    "folder of your own config groups, searched after those of kdgraph; a config is code (_target_"
    " imports and calls what it names), so read a folder of others before you name it"
)
_FILTERS = """\
Filters choose runs: key=value[,value...] or key!=value. A key is dataset, method, parent, \
calibrator, gate, detector, recalibrator, protocol, seed, or any key of the config \
(dataset.n_train=1000); values may have wildcards: dataset='mfeat_*'."""


class CommandParser(argparse.ArgumentParser):
    """Parser of one command, whose words after ``kdg`` are ``run`` or ``data get``, for example.

    The help has the description, options, notes, examples, which are command lines with ``kdg``,
    and exit codes: what 0 means, and what fails with 1, if anything does.
    """

    def __init__(
        self,
        command: str,
        description: str,
        *,
        examples: Sequence[str],
        notes: str = "",
        done: str = "done",
        fails: str = "",
    ) -> None:
        super().__init__(
            prog=f"kdg {command}",
            description=description,
            formatter_class=lambda prog: argparse.HelpFormatter(
                prog, max_help_position=24, width=WIDTH
            ),
            allow_abbrev=False,
        )
        self.command = command
        self.examples = tuple(examples)
        self.notes = notes
        codes = {0: done, 1: fails, 2: UNUSABLE, 130: INTERRUPTED}
        self.exit_codes = {code: meaning for code, meaning in codes.items() if meaning}
        self.actions: dict[str, CommandParser] = {}
        """Parsers of the words that may follow the command, as in ``kdg data get``."""

    def format_help(self) -> str:
        """Return usage, description, options, notes, examples and exit codes."""
        examples = "\n".join(["examples:", *(f"  {example}" for example in self.examples)])
        codes = "\n".join(
            ["exit codes:", *(f"  {code:<5}{text}" for code, text in self.exit_codes.items())]
        )
        paragraphs = [
            textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)
            for paragraph in self.notes.split("\n\n")
            if paragraph
        ]
        return "\n\n".join([super().format_help().rstrip(), *paragraphs, examples, codes]) + "\n"

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the parsed arguments; options and words may come in any order."""
        return self.parse_intermixed_args(list(arguments))

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the message and the way out."""
        way_out = f"; '{self.prog} --help' lists the options"
        if message.startswith("unrecognized arguments: "):
            option = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
            # Dashes would make all options similar.
            names = {name.lstrip("-"): name for name in self.options()}
            if close := get_close_matches(option.lstrip("-"), list(names), n=1):
                way_out = f"; did you mean '{names[close[0]]}'?"
        raise UsageError(message + way_out)

    def options(self) -> list[str]:
        """Return the options that the help shows, long forms where they have one."""
        return [
            action.option_strings[-1]
            for action in self._actions
            if action.option_strings and action.help != argparse.SUPPRESS
        ]

    def takes_value(self, option: str) -> bool:
        """Return whether an option has a value, which follows it."""
        action = self._option_string_actions.get(option)
        return action is not None and action.nargs != 0

    def choices(self, option: str) -> list[str]:
        """Return the values that an option is limited to; none for any other."""
        action = self._option_string_actions.get(option)
        return [str(choice) for choice in (action.choices if action else None) or ()]

    def add_config_dir(self) -> None:
        """Add ``--config-dir``."""
        self.add_argument("--config-dir", metavar="DIR", help=CONFIG_DIR_HELP)

    def add_out(self, what: str = "the runs") -> None:
        """Add ``--out``, the folder of ``what``."""
        self.add_argument(
            "--out", default="outputs", metavar="DIR", help=f"folder of {what} (default: outputs)"
        )


class OverrideParser(CommandParser):
    """Parser of ``kdg COMMAND [-m] [--config-dir DIR] [key=value ...]``."""

    def __init__(self, command: str, description: str, **texts: Any) -> None:
        super().__init__(command, description, **texts)
        self.add_argument(
            "overrides",
            nargs="*",
            metavar="key=value",
            help="an option of a group (dataset=digits), or a value (parent.n_estimators=100);"
            " 'kdg list' shows groups and options (default: dataset=spiral method=kdf)",
        )
        self.add_argument(
            "-m",
            "--multirun",
            action="store_true",
            help="sweep: every combination of values with commas between them",
        )
        self.add_config_dir()


class FilterParser(CommandParser):
    """Parser of ``kdg COMMAND [options] [filters]``."""

    def __init__(self, command: str, description: str, *, notes: str = "", **texts: Any) -> None:
        notes = "\n\n".join(part for part in (_FILTERS, notes) if part)
        super().__init__(command, description, notes=notes, fails=NOT_WRITTEN, **texts)
        self.add_argument(
            "filters", nargs="*", metavar="key=value", help="which runs (default: all)"
        )
        self.add_out()
        self.add_argument(
            "--outdated",
            action="store_true",
            help="include runs whose data files have changed since, under other names",
        )

    def add_names(self, option: str, metavar: str, help: str, **more: Any) -> None:
        """Add an option that takes names with commas between them."""
        self.add_argument(
            option, type=comma_separated, default=[], metavar=f"{metavar},...", help=help, **more
        )

    def add_output(self, help: str) -> None:
        """Add ``--output`` and ``--safe-csv``, which :func:`output_kind` reads."""
        self.add_argument("--output", metavar="FILE", help=help)
        self.add_argument(SAFE_CSV, action="store_true", help=SAFE_CSV_HELP)


def output_kind(args: argparse.Namespace, kinds: Sequence[str]) -> str | None:
    """Return the ending of ``--output``, one of ``kinds``, or None if there is no such file.

    UsageError is raised for any other ending, and for ``--safe-csv`` without a .csv.
    """
    if not args.output:
        if args.safe_csv:
            raise UsageError(f"{SAFE_CSV} is for a file; give --output FILE too")
        return None
    from kdgraph.results.export import file_kind

    kind = file_kind(args.output, kinds)
    if args.safe_csv:
        refuse_safe_csv(args.output, is_csv=kind == "csv")
    return kind


class FittedModelParser(CommandParser):
    """Parser of ``kdg COMMAND --model MODEL --data FILE [--target COLUMN] [key=value ...]``.

    ``option_of`` maps overrides, or keys of the config, that :func:`fitted_model_overrides` or the
    command sets, to the options that they come from.
    """

    def __init__(self, command: str, description: str, **texts: Any) -> None:
        super().__init__(command, description, **texts)
        self.option_of = {
            "parent.path": "--model",
            "parent.trust=true": "--trust",
            "dataset.path": "--data",
            "dataset.target": "--target",
        }
        self.add_argument(
            "--model",
            required=True,
            metavar="MODEL",
            help="file of the fitted model: .txt of LightGBM, .json or .ubj of XGBoost, .cbm,"
            " .onnx, .skops, .pkl, .joblib, .pt, .kdg of 'kdg repair'; or a function"
            " package.module:function",
        )
        self.add_argument(
            "--data",
            required=True,
            metavar="FILE",
            help="rows that the model was not fitted on: .csv, .tsv, .jsonl, .parquet, .feather,"
            " .xlsx, .arff, or .npz with X and y",
        )
        self.add_argument("--target", metavar="COLUMN", help="column of the labels; none in .npz")
        self.add_argument(
            "--trust",
            action="store_true",
            help="read a model that can run any code, such as a pickle, because you know and"
            " trust its origin",
        )
        self.add_argument(
            "--seed", type=whole_number(0), default=0, metavar="N", help="(default: 0)"
        )
        self.add_argument(
            "overrides",
            nargs="*",
            metavar="key=value",
            help="values of the config, such as dataset.drop=[id], dataset.missing=['?'] or"
            " parent.classes=[no,yes]",
        )

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the parsed arguments, as :meth:`CommandParser.parse`.

        A target that is missing where the file has columns raises UsageError.
        """
        args = super().parse(arguments)
        if is_array_file(args.data) == (args.target is not None):
            raise UsageError(
                f"--data {args.data} has labels in its array y; leave out --target"
                if args.target is not None
                else f"--data {args.data} needs --target COLUMN, the column of its labels"
            )
        return args


def whole_number(least: int, what: str = "a whole number") -> Callable[[str], int]:
    """Return the type of an option that takes whole numbers from ``least``."""

    def parse(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be {what} from {least}, got '{text}'")
        return int(text)

    return parse


def is_array_file(path: str) -> bool:
    """Return whether a file of rows holds arrays, not columns."""
    return path.lower().endswith(".npz")


def fitted_model_overrides(args: argparse.Namespace) -> list[str]:
    """Return the overrides that the arguments of a :class:`FittedModelParser` stand for."""
    kind = "arrays" if is_array_file(args.data) else "table"
    words = [f"dataset={kind}", f"dataset.path={as_value(args.data)}"]
    if args.target is not None:
        words.append(f"dataset.target={as_value(args.target)}")
    words += ["parent=fitted", f"parent.path={as_value(args.model)}"]
    words += ["parent.trust=true"] if args.trust else []
    return [*words, *args.overrides]


_QUOTED_COMMAND = r"'kdg [^']*'"


def name_options(message: str, option_of: Mapping[str, str]) -> str:
    """Return a message that names options of a command where it named keys of the config.

    Commands in it, such as 'kdg run -m method=kdf', stay as they are. A key without a dot may be a
    word of the message, so that it is replaced only before an equals sign, or where the message is
    on what it must be.

    >>> option_of = {"parent.path": "--model", "parent.trust=true": "--trust"}
    >>> name_options("parent.path=m.pkl: is a pickle; give parent.trust=true", option_of)
    '--model m.pkl: is a pickle; give --trust'
    """
    keys = "|".join(re.escape(key) for key in sorted(option_of, key=len, reverse=True))

    def named(match: re.Match[str]) -> str:
        key, equals = match["key"], match["equals"]
        if key is None:
            return match[0]
        if not equals and "." not in key and not message.startswith(f"{key} must "):
            return match[0]
        return option_of[key] + (" " if equals else "")

    pattern = rf"{_QUOTED_COMMAND}|(?<![\w.=/-])(?P<key>{keys})(?![\w.])(?P<equals>=?)"
    return re.sub(pattern, named, message)


@contextmanager
def errors_by_option(option_of: Mapping[str, str]) -> Iterator[None]:
    """Make errors name options of a command, see :func:`name_options`."""
    try:
        yield
    except KdgError as error:
        error.args = (name_options(str(error), option_of),)
        raise


def comma_separated(text: str) -> list[str]:
    """Return the words between commas; the type of an option."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"words with commas between them, got '{text}'")
    return words


def parser_of(command: str) -> CommandParser:
    """Return the parser of a command; its module is imported."""
    return import_module(f"kdgraph.cli.{command}").parser()


def all_parsers() -> dict[str, CommandParser]:
    """Return the parser of each command and of its actions, by name: ``run``, ``data get``."""
    parsers: dict[str, CommandParser] = {}
    for command in COMMANDS:
        parser = parser_of(command)
        parsers[command] = parser
        parsers |= {f"{command} {name}": action for name, action in parser.actions.items()}
    return parsers
