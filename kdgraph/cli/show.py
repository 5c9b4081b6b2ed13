"""Command ``kdg show``: the composed config as YAML, with the meaning of each key."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kdgraph.cli.arguments import CommandParser, OverrideParser

if TYPE_CHECKING:
    from kdgraph.config import Plan

PIPE_WIDTH = 100
"""Columns where standard output is no terminal."""
MEANING_COLUMN = 40
"""Column from which on comments stand, unless the value is longer."""


def main(arguments: list[str]) -> int:
    """Print the config of a run, or what a sweep would do, and return the exit code."""
    args = parser().parse(arguments)
    from kdgraph.runner.plan import check_jobs, plan_runs

    planned = plan_runs(args.overrides, multirun=args.multirun, config_dir=args.config_dir)
    check_jobs(planned, planned.jobs)
    from kdgraph.report.preview import preview_run, sweep_summary
    from kdgraph.report.terminal import terminal_width
    from kdgraph.runner.availability import find_missing

    absent = find_missing(planned.jobs)
    if not planned.multirun:
        width = terminal_width() or PIPE_WIDTH
        config = planned.jobs[0].config
        nodes = {
            **config.science(),
            "n_jobs": config.n_jobs,
            "force": config.force,
            "out": config.out,
        }
        print("\n".join(commented_yaml(nodes, _meanings(planned, nodes, args.config_dir), width)))
    for job in planned.jobs:
        print(preview_run(job.config, absent.get(job.config.run_id)))
    if planned.multirun:
        print(sweep_summary(planned.jobs, absent))
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    return OverrideParser(
        "show",
        "Print the config that the overrides compose to, as YAML with the meaning of each key, and"
        " what a run of it would do: its directory, whether it is done, which stages are stored."
        " With -m, print the latter for each run of the sweep. Nothing is run or fetched.",
        examples=[
            "kdg show dataset=digits method=kdn parent.hidden='[64,64]'",
            "kdg show -m method=kdf,isotonic",
        ],
    )


def _meanings(planned: Plan, nodes: Mapping[str, Any], config_dir: str | None) -> dict[str, str]:
    """Return the summaries of the chosen options and the meanings of all keys, by dotted key."""
    from kdgraph.config.catalogue import Catalogue
    from kdgraph.config.composer import config_folders
    from kdgraph.config.meanings import meanings

    choices = {
        group: str(option)
        for group, option in planned.base.hydra.runtime.choices.items()
        if option and group in nodes
    }
    return meanings(nodes) | Catalogue(config_folders(config_dir)).summaries(choices)


def commented_yaml(
    node: Mapping[str, Any],
    meanings: Mapping[str, str],
    width: int,
    prefix: str = "",
    indent: str = "",
) -> Iterator[str]:
    """Yield the lines of a mapping as YAML, each key with its meaning as a comment.

    Meanings are by dotted key. A comment that would go beyond ``width`` columns stands above its
    key. ``prefix`` is the dotted key of the node, with a dot at its end, ``indent`` the blanks in
    front of its keys.
    """
    from kdgraph.config.catalogue import as_yaml

    for key, value in node.items():
        path = f"{prefix}{key}"
        name = f"{indent}{as_yaml(key)}:"
        inline = f"{name} {as_yaml(value)}"
        nested = isinstance(value, Mapping) and bool(value)
        if nested and (
            len(inline) > width
            or any(isinstance(item, Mapping) and item for item in value.values())
            or any(f"{path}.{inner}" in meanings for inner in value)
        ):
            yield from _with_comment(name, meanings.get(path, ""), width, indent)
            yield from commented_yaml(value, meanings, width, f"{path}.", f"{indent}  ")
        else:
            yield from _with_comment(inline, meanings.get(path, ""), width, indent)


def _with_comment(line: str, meaning: str, width: int, indent: str) -> Iterator[str]:
    """Yield a line with a comment behind it, or above it where the terminal is too narrow."""
    if not meaning:
        yield line
        return
    commented = f"{line:<{MEANING_COLUMN - 2}}  # {meaning}"
    if len(commented) <= width:
        yield commented
        return
    lines = textwrap.wrap(
        meaning, max(width - len(indent) - 2, 20), break_long_words=False, break_on_hyphens=False
    )
    yield from (f"{indent}# {part}" for part in lines)
    yield line
