"""Command ``kdg completion``: the script of a shell, and the candidates that it completes with.

The scripts call ``kdg completion --words LINE``, which prints a candidate in a line. One that
takes more text, such as ``dataset=``, ends without a blank; a complete word ends with one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli import COMMANDS
from kdgraph.cli.arguments import CommandParser, FilterParser, OverrideParser, parser_of
from kdgraph.errors import UsageError

if TYPE_CHECKING:
    from kdgraph.config.catalogue import Catalogue

_BASH = """\
_kdg() {
    local line="${COMP_LINE:0:$COMP_POINT}" word prefix="" candidate
    word="${line##* }"
    # Where "=" separates words, as by default, the shell completes what follows it.
    [[ "$COMP_WORDBREAKS" == *=* && "$word" == *=* ]] && prefix="${word%"${word##*=}"}"
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("${candidate#"$prefix"}")
    done < <(kdg completion --words "$line" 2>/dev/null)
}
complete -o nospace -o default -F _kdg kdg
"""
_ZSH = """\
#compdef kdg
_kdg() {
    local candidate
    local -a complete partial
    while IFS= read -r candidate; do
        if [[ "$candidate" == *' ' ]]; then
            complete+=("${candidate% }")
        else
            partial+=("$candidate")
        fi
    done < <(kdg completion --words "${LBUFFER}" 2>/dev/null)
    (( $#complete )) && compadd -Q -- $complete
    (( $#partial )) && compadd -Q -S '' -- $partial
    (( $#complete + $#partial )) || _files
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _kdg kdg
"""
_FISH = """\
function __kdg_candidates
    kdg completion --words (commandline -cp | string collect) 2>/dev/null | string trim -r
end
complete -c kdg -f -a '(__kdg_candidates)'
complete -c kdg -n '__fish_seen_subcommand_from predict report table compare' -F
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""Shell → script to evaluate in it."""

_NAMES = (
    *("dataset", "method", "parent", "calibrator", "gate"),
    *("detector", "recalibrator", "conformal"),
)
_MOST_RECORDS = 50
"""Records that are read for keys and values of filters; a folder may have thousands."""
_RUN_KEYS = (
    *("seed", "calibration", "cv", "protocol", "n_jobs", "fit_on"),
    *("force", "fail_fast", "save", "out", "logger"),
)


def main(arguments: list[str]) -> int:
    """Print the script of a shell, or candidates, and return the exit code."""
    if arguments[:1] == ["--words"]:
        # Without a line the shell completes names of files.
        print("".join(f"{word}\n" for word in candidates(" ".join(arguments[1:]))), end="")
        return 0
    if len(arguments) != 1 or arguments[0] not in SCRIPTS:
        parser().parse([word for word in arguments if word.startswith("-")])
        raise UsageError(
            f"completion takes one of {', '.join(SCRIPTS)}, got {' '.join(arguments) or 'nothing'}"
        )
    print(SCRIPTS[arguments[0]], end="")
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = CommandParser(
        "completion",
        "Print the script that completes commands, options, groups and their options, keys,"
        " filters and run directories in a shell.",
        examples=[
            'eval "$(kdg completion bash)"',
            "kdg completion fish > ~/.config/fish/completions/kdg.fish",
        ],
    )
    parser.add_argument("shell", nargs="?", choices=tuple(SCRIPTS), help="the shell")
    return parser


def candidates(line: str) -> list[str]:
    """Return the words that complete a command line, those that are complete with a blank behind.

    ``line`` is up to the cursor, ``kdg`` included.

    >>> candidates("kdg re")
    ['repair ', 'report ', 'reproduce ']
    >>> candidates("kdg completion z")
    ['zsh ']
    """
    *before, word = line.split(" ")
    before = [text for text in before if text][1:]
    try:
        words = {candidate for candidate in _choices(before, word) if candidate.isprintable()}
    # Any: a record is read without its checks, which take too long here, and what is wrong with one
    # must not be printed on the command line.
    except Exception:  # noqa: BLE001
        return []
    return sorted(candidate for candidate in words if candidate.startswith(word))


def _choices(before: Sequence[str], word: str) -> Iterable[str]:
    """Return candidates for a word behind others, without regard to how it begins."""
    if not before:
        options = ("--help", "--version") if word.startswith("-") else ()
        return [f"{command} " for command in (*COMMANDS, *options)]
    command, *arguments = before
    if command not in COMMANDS:
        return []
    parser = parser_of(command)
    if parser.actions:
        if not arguments:
            return [f"{action} " for action in parser.actions]
        parser = parser.actions.get(arguments.pop(0), parser)
    option = arguments[-1] if arguments else ""
    if option.startswith("-") and parser.takes_value(option):
        return _values(parser, option, arguments, word)
    if word.startswith("-"):
        return [f"{name} " for name in parser.options()]
    return _words_of(parser, arguments, word)


def _values(
    parser: CommandParser, option: str, arguments: Sequence[str], word: str
) -> Iterable[str]:
    """Return candidates for the value of an option; none where it is a file."""
    if option == "--run":
        return [f"{path} " for path in _run_directories(word)]
    if option not in ("--against", "--metric", "--with"):
        return [f"{choice} " for choice in parser.choices(option)]
    records = _records(Path(_value_of("--out", arguments) or "outputs"))
    if option == "--against":
        return [f"{record['method']} " for record in records if "method" in record]
    # Names follow each other with commas, so none is the last for certain.
    done = word[: len(word) - len(word.rpartition(",")[2])]
    if option == "--metric":
        names = {entry["metric"] for record in records for entry in record.get("metrics", ())}
    else:
        names = {key for record in records for key in _flat_keys(record.get("config"))}
    return [f"{done}{name}" for name in names]


def _words_of(parser: CommandParser, arguments: Sequence[str], word: str) -> Iterable[str]:
    config_dir = _value_of("--config-dir", arguments)
    if parser.command == "completion":
        return [f"{shell} " for shell in SCRIPTS]
    if isinstance(parser, FilterParser):
        return _filters(Path(_value_of("--out", arguments) or "outputs"), word)
    if parser.command == "list" and not any(not text.startswith("-") for text in arguments):
        return [f"{group} " for group in _catalogue(config_dir).groups]
    if parser.command.startswith("data "):
        names = list(_catalogue(config_dir).openml_ids())
        folders = {name.partition("/")[0] for name in names if "/" in name}
        return [f"{name} " for name in (*names, *folders)]
    return _overrides(arguments, word, config_dir) if isinstance(parser, OverrideParser) else []


def _overrides(arguments: Sequence[str], word: str, config_dir: str | None) -> Iterable[str]:
    """Return groups and their options, and the keys of the options that are chosen."""
    catalogue = _catalogue(config_dir)
    key, equals, value = word.partition("=")
    key = key.lstrip("+~")
    if equals and key in catalogue.groups:
        # In a sweep the last of several values is completed.
        done = word[: len(word) - len(value.rpartition(",")[2])]
        return [f"{done}{option} " for option in catalogue.groups[key]]
    if equals:
        return []
    keys = [f"{name}=" for name in (*catalogue.groups, *_RUN_KEYS)]
    group, dot, _ = word.partition(".")
    if dot and group in catalogue.groups:
        chosen = dict(text.split("=", 1) for text in arguments if "=" in text)
        defaults = catalogue.defaults
        method = chosen.get("method", defaults.get("method", ""))
        option = {**defaults, **catalogue.method_choices(method), **chosen}.get(group, "")
        keys += [f"{group}.{name}=" for name in catalogue.component(group, option).keys]
    return keys


def _filters(out: Path, word: str) -> Iterable[str]:
    """Return keys of finished runs, and behind ``key=`` the values that they have."""
    records = _records(out)
    key, equals, value = re.match(r"([^=!]*)(!?=)?(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    if not equals:
        keys = {*_NAMES, "seed", "calibration", "protocol"}
        if "." in word:
            keys |= {name for record in records for name in _flat_keys(record.get("config"))}
        return [f"{name}=" for name in keys]
    done = word[: len(word) - len(value.rpartition(",")[2])]
    return [f"{done}{text} " for record in records if (text := _value_at(record, key)) is not None]


def _records(out: Path) -> list[dict]:
    """Return some records of a folder of runs, one at most of each method on each data set."""
    records = []
    for folder in sorted(out.glob("[!.]*/*")):
        path = next(folder.glob("*/result.json"), None)
        if path is not None and len(records) < _MOST_RECORDS:
            record = json.loads(path.read_bytes())
            if isinstance(record, dict):
                records.append(record)
    return records


def _value_at(record: dict, key: str) -> str | None:
    """Return the value of a filter's key in a record; None without one, or with blanks in it."""
    if key in ("method", "seed"):
        value = record.get(key)
    else:
        value = record.get("config")
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        value = value.get("name") if isinstance(value, dict) else value
    return None if value is None or " " in str(value) else str(value)


def _flat_keys(node: object, prefix: str = "") -> Iterable[str]:
    if not isinstance(node, dict):
        return [prefix[:-1]] if prefix else []
    return [name for key, value in node.items() for name in _flat_keys(value, f"{prefix}{key}.")]


def _run_directories(word: str) -> Iterable[str]:
    """Return directories of finished runs below ``outputs``, or below the folder of the word."""
    first = word.split("/", 1)[0] if "/" in word else "outputs"
    root = Path(first or "/")
    return (
        []
        if first in ("", ".", "..")
        else [path.parent.as_posix() for path in root.glob("[!.]*/*/*/result.json")]
    )


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    values = [after for text, after in pairwise(arguments) if text == option]
    values += [text.partition("=")[2] for text in arguments if text.startswith(f"{option}=")]
    return values[-1] if values else None


def _catalogue(config_dir: str | None) -> Catalogue:
    from kdgraph.config.catalogue import Catalogue
    from kdgraph.config.composer import config_folders

    return Catalogue(config_folders(config_dir))
