"""Command ``kdg report``: one HTML page of finished runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.cli.arguments import CONFIG_DIR_HELP, CommandParser, FilterParser
from kdgraph.wording import counted

if TYPE_CHECKING:
    from kdgraph.report.page.commands import Command
    from kdgraph.results.records import Found


def main(arguments: list[str]) -> int:
    """Write the page and return the exit code."""
    from kdgraph.runner.files import refuse_folder, write_atomically

    args = parser().parse(arguments)
    output = Path(args.output)
    refuse_folder(output, "--output")
    from kdgraph.report.page.content import Content
    from kdgraph.report.page.page import About, render
    from kdgraph.report.page.pictures import pictures_of
    from kdgraph.report.page.statistics import parent_names, remarks, statistics
    from kdgraph.report.page.tables import tables_of
    from kdgraph.report.page.unfinished import unfinished
    from kdgraph.results.comparison.study import study
    from kdgraph.results.records import find, without_collection

    notes: list[str] = []

    def note(line: str) -> None:
        """Print why runs are left out at once: where all of them are, what follows is an error."""
        print(f"kdg: {line}", file=sys.stderr)
        notes.append(line)

    with without_collection():
        runs = find(args.out, args.filters, note, outdated=args.outdated)
        studied = study(runs)
        content = Content()
        paths = [_below(run.path, args.out) for run in runs]
        content.add(studied.runs, _commands(runs, args.config_dir), paths, parent_names(studied))
        tested = statistics(studied, content.columns.measures)
    pictures, tables = pictures_of(studied.runs, args.figures), tables_of(studied.runs)
    left = unfinished(args.out, args.filters)
    omissions = [line for line in (pictures.told(args.figures), tables.told) if line]
    about = About(
        args.title or f"Runs in {args.out}",
        shlex.join(["kdg", "report", *arguments]),
        [*notes, *omissions],
    )
    page = render(
        {**content.as_json(), "statistics": tested, "remarks": remarks(studied)},
        pictures,
        tables,
        left,
        about,
    )
    written = page.encode(errors="replace")
    write_atomically(output, written, "--output")
    print(_summary(output, len(written), len(runs), len(left), omissions))
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
        "--output", default="report.html", metavar="FILE", help="the page (default: report.html)"
    )
    parser.add_argument("--title", metavar="TEXT", help="title of the page")
    parser.add_argument(
        "--figures",
        choices=("none", "some", "all"),
        default="some",
        help="figures of the runs inside the page; some: up to 4 MB (default)",
    )
    parser.add_argument("--config-dir", metavar="DIR", help=CONFIG_DIR_HELP)
    return parser


def _commands(runs: Sequence[Found], config_dir: str | None) -> list[Command]:
    """Return the command that repeats each run; for many runs that takes seconds, hence a bar."""
    from kdgraph.report.page.commands import Commands

    commands = Commands(config_dir)
    with _bar(len(runs)) as step:
        return [step(lambda run=run: commands.of(run.record)) for run in runs]


@contextmanager
def _bar(total: int) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    if not sys.stderr.isatty():
        yield lambda do: do()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("commands that do each run again"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)

        def step(do: Callable[[], Any]) -> Any:
            progress.advance(task)
            return do()

        yield step


def _below(path: Path, out: str) -> str:
    """Return the run's directory without ``out``, which the page names once."""
    below = path.relative_to(out).as_posix()
    return path.as_posix() if below == "." else below


def _summary(output: Path, size: int, n_runs: int, left: int, omissions: Sequence[str]) -> str:
    parts = [
        f"{output}   {counted(n_runs, 'run')}",
        *([f"{left:,} without a result"] if left else []),
        f"{size / 1e6:.1f} MB",
    ]
    return "   ".join([*parts, *omissions])
