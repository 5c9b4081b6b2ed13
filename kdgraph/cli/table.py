"""Command ``kdg table``: every number of finished runs, as a file or on the terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kdgraph.cli.arguments import CommandParser, FilterParser, output_kind
from kdgraph.errors import UsageError
from kdgraph.wording import counted

if TYPE_CHECKING:
    from kdgraph.results.records import FinishedRun

MOST_LINES = 40
"""Most lines on a terminal; a pipe gets all of them."""


def main(arguments: list[str]) -> int:
    """Print the table or write it and return the exit code."""
    args = parser().parse(arguments)
    if args.columns:
        from kdgraph.results.table import TABLE_COLUMNS

        print("\n".join(f"{name:<15} {meaning}" for name, meaning in TABLE_COLUMNS.items()))
        return 0
    if args.keys and not args.output:
        raise UsageError("--with adds columns to a file; give --output FILE too")
    from kdgraph.results.records import find_runs, pause_garbage_collection

    output_kind(args, ("parquet", "csv", "md", "tex"))
    with pause_garbage_collection():
        runs = find_runs(args.out, args.filters, outdated=args.outdated)
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
        " (see --columns). Names in a .csv are written unchanged; a spreadsheet takes one such as"
        " =1+1 for a formula, unless you give --safe-csv, or write .parquet.",
        examples=[
            "kdg table method=kdf,isotonic --metric error,ece",
            "kdg table --with dataset.n_train,calibrator.alpha --output numbers.parquet",
        ],
    )
    parser.add_names("--metric", "NAME", "these metrics only: error,nll,ece")
    parser.add_names(
        "--on", "SET", "these sets of rows only: test, calibration, grid, ood, radius=2"
    )
    parser.add_names(
        "--with", "KEY", "one more column for each of these keys of the config", dest="keys"
    )
    parser.add_output("write a file: .parquet, .csv, .md or .tex")
    parser.add_argument(
        "--columns", action="store_true", help="print the meaning of the columns of a file"
    )
    return parser


def _write(runs: list[FinishedRun], args: argparse.Namespace) -> None:
    from kdgraph.results.export import write_columns
    from kdgraph.results.measures import MeasureReader, select_measures
    from kdgraph.results.table import number_table

    measures = MeasureReader().all_measures(run.record for run in runs)
    table = number_table(runs, args.keys, set(select_measures(measures, args.metric, args.on)))
    write_columns(table, args.output, escapes_formulas=args.safe_csv)
    print(
        f"{args.output}   {counted(len(table['value']), 'row')}, {len(table)} columns, of"
        f" {counted(len(runs), 'run')}"
    )


def _show(runs: list[FinishedRun], args: argparse.Namespace) -> None:
    from kdgraph.report.terminal import show, terminal_width
    from kdgraph.results.export import wrap_line
    from kdgraph.results.measures import metric_notes, select_measures
    from kdgraph.results.names import name_runs
    from kdgraph.results.records import PAPER_PROTOCOL, PAPER_PROTOCOL_NOTE, uses_paper_protocol
    from kdgraph.results.table import pivot_text, reading_order, table_lines

    lines = table_lines(name_runs(runs))
    measures = select_measures(
        list(dict.fromkeys(measure for line in lines for measure in line.values)),
        args.metric,
        args.on,
    )
    columns = measures if args.metric else reading_order(measures)
    width = terminal_width()
    rows = None if width is None else MOST_LINES
    text = pivot_text(lines, columns, width=width, rows=rows)
    show(text)
    on_screen = text.partition("\n")[0].split()
    notes = [
        f"{counted(len(runs), 'run')}: {counted(len(lines), 'line')},"
        f" {counted(len(measures), 'measure')}; --output FILE writes every number with its standard"
        " error, --metric and --on choose"
    ]
    notes[:0] = metric_notes(measure for measure in columns if measure.metric in on_screen)
    if any(uses_paper_protocol(run.record) for run in runs):
        notes.insert(0, f"{PAPER_PROTOCOL}: {PAPER_PROTOCOL_NOTE}")
    for note in notes:
        show("\n" + "\n".join(wrap_line(note, width)))
