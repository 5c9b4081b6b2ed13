"""``kdg table``: every number of finished runs, as a file or on the terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kdgraph.cli.flags import Parser, listed
from kdgraph.errors import UsageError
from kdgraph.wording import counted

if TYPE_CHECKING:
    from kdgraph.results.records import FinishedRun

MOST_LINES = 40
"""On a terminal; a pipe gets all of them."""


def main(arguments: list[str]) -> int:
    """Print the table or write it and return the exit code."""
    args = _parser().parse(arguments)
    if args.columns:
        from kdgraph.results.table import TABLE_COLUMNS

        print("\n".join(f"{name:<15} {what}" for name, what in TABLE_COLUMNS.items()))
        return 0
    if args.keys and not args.output:
        raise UsageError("--with adds columns to a file; give --output FILE too")
    from kdgraph.results.export import file_kind
    from kdgraph.results.records import find_runs, pause_garbage_collection

    if args.output:
        file_kind(args.output, ("parquet", "csv", "md", "tex"))
    with pause_garbage_collection():
        found = find_runs(args.out, args.filters, outdated=args.outdated)
        _write(found, args) if args.output else _show(found, args)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "table",
        "Every number of finished runs: a row for each run, model, metric and set of rows.",
        _MORE,
    )
    parser.add_argument(
        "--metric",
        type=listed,
        default=[],
        metavar="NAME,…",
        help="these metrics only: error,nll,ece",
    )
    parser.add_argument(
        "--on",
        type=listed,
        default=[],
        metavar="SET,…",
        help="these rows only: test, calibration, grid, ood, radius=2",
    )
    parser.add_argument(
        "--with",
        type=listed,
        default=[],
        metavar="KEY,…",
        dest="keys",
        help="a column more for each key of the config",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write a file: .parquet, .csv, .md or .tex"
    )
    parser.add_argument("--columns", action="store_true", help="what the columns of a file hold")
    return parser


_MORE = """\
On a terminal, a line is one model of one run and a column one metric on one set of rows; the parent, which many
runs share, stands there once. A file has one row for each number: see --columns. Names in a CSV file stand as they are;
a spreadsheet takes one such as =1+1 for a formula, so import text columns as text, or write .parquet.

  kdg table method=kdf,isotonic --metric error,ece
  kdg table --with dataset.n_train,calibrator.alpha --output numbers.parquet"""


def _write(found: list[FinishedRun], args: argparse.Namespace) -> None:
    from kdgraph.results.export import write_columns
    from kdgraph.results.measures import read_measures, select_measures
    from kdgraph.results.table import number_table

    measures = dict.fromkeys(measure for one in found for measure, _ in read_measures(one.record))
    table = number_table(
        found, args.keys, set(select_measures(list(measures), args.metric, args.on))
    )
    write_columns(table, args.output)
    print(
        f"{args.output}   {len(table['value']):,} rows, {len(table)} columns, of"
        f" {counted(len(found), 'run')}"
    )


def _show(found: list[FinishedRun], args: argparse.Namespace) -> None:
    from kdgraph.report.terminal import show, terminal_width
    from kdgraph.results.export import wrap_line
    from kdgraph.results.measures import select_measures
    from kdgraph.results.names import name_runs
    from kdgraph.results.records import PAPER_PROTOCOL, PAPER_PROTOCOL_NOTE, uses_paper_protocol
    from kdgraph.results.table import pivot_text, reading_order, table_lines

    lines = table_lines(name_runs(found))
    measures = select_measures(
        list(dict.fromkeys(measure for line in lines for measure in line.values)),
        args.metric,
        args.on,
    )
    columns = measures if args.metric else reading_order(measures)
    width = terminal_width()
    rows = None if width is None else MOST_LINES
    show(pivot_text(lines, columns, width=width, rows=rows))
    notes = [
        f"{counted(len(found), 'run')}: {counted(len(lines), 'line')},"
        f" {counted(len(measures), 'measure')}; --output FILE writes every number with its standard"
        " error, --metric and --on choose"
    ]
    if any(uses_paper_protocol(one.record) for one in found):
        notes.insert(0, f"{PAPER_PROTOCOL}: {PAPER_PROTOCOL_NOTE}")
    for note in notes:
        show("\n" + "\n".join(wrap_line(note, width)))
