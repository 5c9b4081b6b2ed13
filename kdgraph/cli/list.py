"""Command ``kdg list``: config groups, and their options by task or by a search."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdgraph.cli.arguments import CommandParser
from kdgraph.errors import UsageError, did_you_mean
from kdgraph.wording import counted

if TYPE_CHECKING:
    from kdgraph.config.catalogue import Catalogue

LONGEST_NAME = 34
"""Columns of the names of options; longer ones push their summary to the right."""
_BY_TASK = ("method", "calibrator")


def main(arguments: list[str]) -> int:
    """Print the groups, or the options of one, and return the exit code."""
    args = parser().parse(arguments)
    from kdgraph.config.catalogue import Catalogue
    from kdgraph.config.composer import config_folders

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    catalogue = Catalogue(config_folders(args.config_dir))
    if args.group is None:
        print(list_groups(catalogue, width))
    else:
        print(list_options(catalogue, args.group, args.words, width, show_all=args.all))
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = CommandParser(
        "list",
        "List the config groups, or the options of one group with a line on each: methods and"
        " calibrators by task, data sets by kind. Words after the group search names and lines;"
        " all of them must occur. On a terminal, lines are cut at its width.",
        examples=[
            "kdg list",
            "kdg list method isotonic",
            "kdg list dataset --all regression",
        ],
    )
    parser.add_argument("group", nargs="?", help="a group (default: an overview of all)")
    parser.add_argument("words", nargs="*", metavar="word", help="text to search for")
    parser.add_argument(
        "--all", action="store_true", help="include presets for the tables of papers (paper/...)"
    )
    parser.add_config_dir()
    return parser


def list_groups(catalogue: Catalogue, width: int) -> str:
    """Return a line for each group: name, number of options, purpose."""
    from kdgraph.config.catalogue import GROUPS, first_comment
    from kdgraph.config.messages import PAPER

    for options in catalogue.groups.values():
        for path in options.values():
            first_comment(path)  # a file that cannot be read is refused
    names = max(len(group) for group in catalogue.groups)
    lines = []
    for group, options in catalogue.groups.items():
        n_shown = sum(not option.startswith(PAPER) for option in options)
        lines.append(_cut(f"{group:<{names}}  {n_shown:>4}  {GROUPS.get(group, '')}", width))
    lines += [
        "",
        "kdg list GROUP         the options of a group, such as 'kdg list method'",
        "kdg list GROUP --all   also presets of papers, which the numbers leave out",
        "kdg list GROUP WORD    those whose name or line has the word",
        "kdg show key=value     a composed config, with the meaning of each key",
    ]
    return "\n".join(line.rstrip() for line in lines)


def list_options(
    catalogue: Catalogue, group: str, words: Sequence[str], width: int, *, show_all: bool = False
) -> str:
    """Return the options of a group in sections, each option with its line of ``width`` columns.

    Names or lines have the words, in any case of letters. Presets of papers are left out unless
    ``show_all``. Raises ConfigError if there is no such group, UsageError if no option has the
    words.
    """
    from kdgraph.config.catalogue import first_comment
    from kdgraph.config.messages import PAPER, list_command
    from kdgraph.errors import ConfigError

    if group not in catalogue.groups:
        raise ConfigError(
            f"no group named '{group}'"
            + did_you_mean(group, catalogue.groups, f"; known: {', '.join(catalogue.groups)}")
        )
    lines = {option: first_comment(path) for option, path in catalogue.groups[group].items()}
    matches = {
        option: line
        for option, line in lines.items()
        if all(word.lower() in f"{option} {line}".lower() for word in words)
    }
    shown = {
        option: line for option, line in matches.items() if show_all or not option.startswith(PAPER)
    }
    n_hidden = len(matches) - len(shown)
    more = f"{counted(n_hidden, 'preset')} of papers: kdg list {group} --all" if n_hidden else ""
    if not shown:
        text = " ".join(words)
        all_options = f"{list_command(group, lines)} shows all {len(lines)}"
        raise UsageError(f"no {group} has '{text}' in its name or line; {more or all_options}")
    sections: dict[str, list[str]] = {}
    for option in shown:
        sections.setdefault(_section(catalogue, group, option), []).append(option)
    blocks = []
    for title, options in _in_order(sections):
        names = min(max(map(len, options)), LONGEST_NAME)
        entries = [_cut(f"  {option:<{names}}  {shown[option]}", width) for option in options]
        blocks.append("\n".join([title, *(entry.rstrip() for entry in entries)]))
    return "\n\n".join([*blocks, more] if more else blocks)


def _section(catalogue: Catalogue, group: str, option: str) -> str:
    """Return the heading of an option: its task or kind, or the folder that it lies in."""
    from kdgraph.config.messages import PAPER

    folder, _, _ = option.rpartition("/")
    if group in _BY_TASK and not option.startswith(PAPER):
        return catalogue.task(group, option)
    if group == "dataset" and not folder:
        return catalogue.kind(option)
    return f"{group}={folder}/…" if folder else group


def _in_order(sections: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    """Return the sections by task or kind, then by folder, those of papers last."""
    from kdgraph.config.catalogue import KINDS, TASKS
    from kdgraph.config.messages import PAPER

    order = {title: k for k, title in enumerate([*TASKS, *KINDS.values()])}
    return sorted(
        sections.items(),
        key=lambda item: (f"={PAPER}" in item[0], order.get(item[0], len(order)), item[0]),
    )


def _cut(line: str, width: int) -> str:
    """Return a line that fits: its end is cut at a blank, if there is one near."""
    if len(line) <= width:
        return line
    words, blank, last = line[: width - 1].rpartition(" ")
    return (words if blank and len(last) < 15 else line[: width - 1]).rstrip() + "…"
