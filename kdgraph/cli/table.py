"""Command ``kdg table``: every number of finished runs, as a file or on the terminal."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from kdgraph.cli.arguments import CommandParser, FilterParser, comma_separated
from kdgraph.errors import UsageError
from kdgraph.wording import counted

if TYPE_CHECKING:
    from kdgraph.results.records import Found

MOST_LINES = 40
"""Most lines on a terminal; a pipe gets all of them."""


def main(arguments: list[str]) -> int:
    """Print the table or write it and return the exit code."""
    args = parser().parse(arguments)
    if args.columns:
        from kdgraph.results.table import COLUMNS

        print("\n".join(f"{name:<15} {meaning}" for name, meaning in COLUMNS.items()))
        return 0
    if args.keys and not args.output:
        raise UsageError("--with adds columns to a file; give --output FILE too")
    from kdgraph.results.records import find, without_collection
    from kdgraph.results.write import kind_of

    if args.output:
        kind_of(args.output, ("parquet", "csv", "md", "tex"))
    with without_collection():
        runs = find(args.out, args.filters, outdated=args.outdated)
        _write(runs, args) if args.output else _show(runs, args)
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = FilterParser(
        "table",
        "Print or write every number of finished runs: a row for each run, model, metric and set of"
        " rows.",
        notes="On a terminal, a line is one model of one run and a column one metric on one set of"
        " rows; a parent, which many runs share, has one line. A file has a row for each number"
        " (see --columns). Names in a CSV file are written unchanged; a spreadsheet takes one such"
        " as =1+1 for a formula, so import text columns as text, or write .parquet.",
        examples=[
            "kdg table method=kdf,isotonic --metric error,ece",
            "kdg table --with dataset.n_train,calibrator.alpha --output numbers.parquet",
        ],
    )
    parser.add_argument(
        "--metric",
        type=comma_separated,
        default=[],
        metavar="NAME,...",
        help="these metrics only: error,nll,ece",
    )
    parser.add_argument(
        "--on",
        type=comma_separated,
        default=[],
        metavar="SET,...",
        help="these sets of rows only: test, calibration, grid, ood, radius=2",
    )
    parser.add_argument(
        "--with",
        type=comma_separated,
        default=[],
        metavar="KEY,...",
        dest="keys",
        help="one more column for each of these keys of the config",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write a file: .parquet, .csv, .md or .tex"
    )
    parser.add_argument(
        "--columns", action="store_true", help="print the meaning of the columns of a file"
    )
    return parser


def _write(runs: list[Found], args: argparse.Namespace) -> None:
    from kdgraph.results.measures import measured, select
    from kdgraph.results.table import columns
    from kdgraph.results.write import write_columns

    measures = dict.fromkeys(measure for run in runs for measure, _ in measured(run.record))
    table = columns(runs, args.keys, set(select(list(measures), args.metric, args.on)))
    write_columns(table, args.output)
    print(
        f"{args.output}   {len(table['value']):,} rows, {len(table)} columns, of"
        f" {counted(len(runs), 'run')}"
    )


def _show(runs: list[Found], args: argparse.Namespace) -> None:
    from shutil import get_terminal_size

    from kdgraph.config import METHOD_ENDS
    from kdgraph.report.terminal import show
    from kdgraph.results.measures import select
    from kdgraph.results.names import named
    from kdgraph.results.parts import AS_IN_PAPER, is_as_in_paper
    from kdgraph.results.wide import in_order, lines_of, wide

    lines = lines_of(named(runs))
    measures = select(
        list(dict.fromkeys(measure for line in lines for measure in line.values)),
        args.metric,
        args.on,
    )
    width, rows = (get_terminal_size().columns, MOST_LINES) if sys.stdout.isatty() else (None, None)
    show(wide(lines, in_order(measures) if not args.metric else measures, width=width, rows=rows))
    if any(is_as_in_paper(run.record) for run in runs):
        show(f"\n{METHOD_ENDS['paper']}: {AS_IN_PAPER}")
    size = f"{counted(len(runs), 'run')}: {len(lines):,} lines, {len(measures)} measures"
    show(
        f"\n{size}; --output FILE writes every number with its standard error, --metric and --on"
        " choose"
    )
