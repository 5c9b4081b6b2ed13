"""``kdg doctor``: what this machine has, and whether kdgraph can work here."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from kdgraph.errors import UsageError

WIDTH = 120


def main(arguments: list[str]) -> int:
    """Print the findings; 1 if something has to be mended."""
    from kdgraph.runner.checkup import check_up

    parser = argparse.ArgumentParser(prog="kdg doctor", description=__doc__, allow_abbrev=False)
    parser.error = _refuse  # type: ignore[method-assign]
    parser.add_argument("--out", type=Path, default=Path("outputs"), metavar="DIR", help="the folder of runs (default: outputs)")
    wrong = 0
    for found in check_up(parser.parse_args(arguments).out):
        mark = "!" if found.wrong else " "
        lines = textwrap.wrap(found.value, WIDTH - 21, break_long_words=False, break_on_hyphens=False)
        print(f"{mark} {found.name:<17}  " + f"\n{'':21}".join(lines))
        if found.remedy:
            print(f"{'':21}→ {found.remedy}")
        wrong += found.wrong
    return 1 if wrong else 0


def _refuse(message: str) -> None:
    raise UsageError(f"{message}; 'kdg doctor --help' lists the options")
