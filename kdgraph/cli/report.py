"""Command ``kdg report``: one HTML page of finished runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from kdgraph.cli.arguments import CommandParser, FilterParser
from kdgraph.wording import counted, print_note


def main(arguments: list[str]) -> int:
    """Write the page and return the exit code."""
    args = parser().parse(arguments)
    output = Path(args.output)
    from kdgraph.results.export import file_kind

    file_kind(output, ("html",), makes_folder=True)
    from kdgraph.report.page.attachments import read_figures, read_tables
    from kdgraph.report.page.content import Content, column_statistics, parent_names, study_remarks
    from kdgraph.report.page.page import PageInfo, find_unfinished, render_page
    from kdgraph.results.comparison.study import build_study
    from kdgraph.results.records import find_runs, pause_garbage_collection
    from kdgraph.runner.files import write_atomically

    notes: list[str] = []

    def note(line: str) -> None:
        """Print why runs are left out at once: where all of them are, what follows is an error."""
        print_note(line)
        notes.append(line)

    with pause_garbage_collection():
        finished = find_runs(args.out, args.filters, note, outdated=args.outdated)
        study = build_study(finished)
        content = Content()
        content.add(
            study.runs, [_below(run.path, args.out) for run in finished], parent_names(study)
        )
        statistics = column_statistics(study, content.columns.measures)
    figures, tables = read_figures(study.runs, args.figures), read_tables(study.runs)
    unfinished = find_unfinished(args.out, args.filters)
    attachments = [text for text in (figures.summary(args.figures), tables.summary) if text]
    info = PageInfo(
        args.title or f"Runs in {args.out}",
        shlex.join(["kdg", "report", *arguments]),
        [*notes, *attachments],
    )
    page = render_page(
        {**content.as_json(), "statistics": statistics, "remarks": study_remarks(study)},
        figures,
        tables,
        unfinished,
        info,
    )
    encoded = page.encode(errors="replace")
    write_atomically(output, encoded, "--output")
    print(_summary(output, len(encoded), len(finished), len(unfinished), attachments))
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = FilterParser(
        "report",
        "Write one HTML page of finished runs, by method, by data set and run by run. The page"
        " needs no network and no other file.",
        examples=[
            "kdg report --output report.html",
            "kdg report dataset=digits --title 'Digits' --figures all",
        ],
    )
    parser.add_argument(
        "--output",
        default="report.html",
        metavar="FILE",
        help="the page, *.html (default: report.html)",
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the page")
    parser.add_argument(
        "--figures",
        choices=("none", "some", "all"),
        default="some",
        help="figures of the runs inside the page; some: up to 4 MB (default)",
    )
    return parser


def _below(path: Path, out: str) -> str:
    """Return the run's directory without ``out``, which the page names once."""
    below = path.relative_to(out).as_posix()
    return path.as_posix() if below == "." else below


def _summary(
    output: Path, size: int, n_runs: int, n_unfinished: int, attachments: Sequence[str]
) -> str:
    parts = [
        f"{output}   {counted(n_runs, 'run')}",
        *([f"{n_unfinished:,} without a result"] if n_unfinished else []),
        f"{size / 1e6:.1f} MB",
    ]
    return "   ".join([*parts, *attachments])
