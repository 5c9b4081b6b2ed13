"""Time methods, algorithms and commands, and print a table of values beside their bars.

``python scripts/bench`` takes hours on one core, ``--quick`` minutes; parts are named as in
``python scripts/bench methods commands``. Every method is anchored at the cost of its own parent,
every algorithm at a plainer way, commands at seconds. ``--markdown FILE`` writes the table.
"""

from __future__ import annotations

import argparse
import warnings
from importlib import import_module
from pathlib import Path

import methods
from table import Table
from threadpoolctl import threadpool_limits

PARTS = ("methods", "regression", "algorithms", "commands", "memory", "growth")


def main() -> None:
    """Measure the parts, and print how many bars were missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="the small cells of each part")
    parser.add_argument("--rows", type=int, nargs="+", help="cells of these sizes alone")
    parser.add_argument("--methods", nargs="+", default=(), help="these methods alone")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--peak", metavar="MODULE:NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    if arguments.peak is not None:
        module, _, name = arguments.peak.partition(":")
        print(import_module(module).PEAKS[name]())
        return
    table, parts = Table(), arguments.parts or [part for part in PARTS if part != "growth"]
    if arguments.quick:
        parts = [part for part in parts if part != "growth"]
    cells = methods.QUICK if arguments.quick else methods.FULL
    if arguments.rows:
        cells = [cell for cell in cells if cell.n_rows in arguments.rows]
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        for part in parts:
            if part == "methods":
                methods.bench(table, cells, arguments.methods)
            elif part == "regression":
                methods.regression(table, (10_000,) if arguments.quick else (10_000, 50_000))
            elif part == "algorithms":
                import algorithms

                algorithms.bench(table)
            elif part == "commands":
                import commands

                commands.bench(table, quick=arguments.quick)
            elif part == "memory":
                methods.memory(table)
            else:
                methods.growth(table, arguments.rows or methods.GROWTH)
    missed = sum(value.is_missed for value in table.values)
    n_bars = sum(value.bar is not None for value in table.values)
    print(f"\n{len(table.values)} values, {n_bars} with a bar, {missed} of them MISSED")
    if arguments.markdown:
        arguments.markdown.write_text(table.markdown())


if __name__ == "__main__":
    main()
