"""Command ``kdg doctor``: check the machine and the installation."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path

from kdgraph.cli.arguments import CommandParser

MOST_COLUMNS = 120
"""Most columns of a line."""


def main(arguments: list[str]) -> int:
    """Print the findings; return 1 if one of them needs a remedy."""
    args = parser().parse(arguments)
    from kdgraph.runner.checkup import check_up

    width = MOST_COLUMNS
    if sys.stdout.isatty():
        width = min(MOST_COLUMNS, shutil.get_terminal_size().columns)
    n_wrong = 0
    for finding in check_up(Path(args.out)):
        mark = "!" if finding.wrong else " "
        lines = textwrap.wrap(
            finding.value, width - 21, break_long_words=False, break_on_hyphens=False
        )
        print(f"{mark} {finding.name:<17}  " + f"\n{'':21}".join(lines))
        if finding.remedy:
            print(f"{'':21}→ {finding.remedy}")
        n_wrong += finding.wrong
    return 1 if n_wrong else 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = CommandParser(
        "doctor",
        "Print what this machine has (libraries, extras, cores, memory, GPU, folders, caches) and"
        " whether kdgraph works on it. A line with '!' needs a remedy, which follows it.",
        examples=["kdg doctor", "kdg doctor --out /scratch/outputs"],
        done="nothing needs a remedy",
        fails="a line with '!' needs one",
    )
    parser.add_out()
    return parser
