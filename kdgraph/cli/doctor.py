"""``kdg doctor``: what this machine has, and whether kdgraph can work here."""

from __future__ import annotations

import textwrap
from pathlib import Path

from kdgraph.cli.flags import Flags

WIDTH = 120


def main(arguments: list[str]) -> int:
    """Print the findings; 1 if something has to be mended."""
    from kdgraph.runner.checkup import check_up

    parser = Flags("doctor", "What this machine has, and whether kdgraph can work here.")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("outputs"),
        metavar="DIR",
        help="the folder of runs (default: outputs)",
    )
    wrong = 0
    for found in check_up(parser.parse_args(arguments).out):
        mark = "!" if found.wrong else " "
        lines = textwrap.wrap(
            found.value, WIDTH - 21, break_long_words=False, break_on_hyphens=False
        )
        print(f"{mark} {found.name:<17}  " + f"\n{'':21}".join(lines))
        if found.remedy:
            print(f"{'':21}→ {found.remedy}")
        wrong += found.wrong
    return 1 if wrong else 0
