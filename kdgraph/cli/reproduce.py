"""Command ``kdg reproduce``: every published number of the papers beside a measured one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli.arguments import NOT_WRITTEN, CommandParser
from kdgraph.errors import UsageError
from kdgraph.wording import counted, print_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.reproduction.work import Task


def main(arguments: list[str]) -> int:
    """Run what is not done, write the pages, and return the exit code."""
    args = parser().parse(arguments)
    _require_experiments()
    from experiments.reproduction.page import write
    from experiments.reproduction.papers import chosen
    from experiments.reproduction.work import estimate, tasks_of
    from kdgraph.report.terminal import show, terminal_width
    from kdgraph.runner.files import wrap_os_errors

    out = Path(args.out) / args.scale
    papers = chosen([word for word in args.words if "=" not in word])
    tasks = list(tasks_of(papers, args.scale, out, _launching(args.words)))
    if args.plan or not args.no_runs:
        show(estimate(tasks))
    if args.plan:
        return 0
    page_dir = Path(args.page) if args.page else out
    with wrap_os_errors(page_dir, "--page"):  # before runs that may take hours
        page_dir.mkdir(parents=True, exist_ok=True)
    code = 0 if args.no_runs else _run(tasks)
    command = shlex.join(["kdg", "reproduce", *arguments])
    written = write(papers, tasks, args.scale, out, command, page_dir, terminal_width())
    show(f"\n{written}")
    return code


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = CommandParser(
        "reproduce",
        "Run what the tables and figures of the papers need, and write pages with each published"
        " number beside the measured one. What is done is not run again, so the same command"
        " resumes. Needs experiments/ of a checkout.",
        notes="A word names a paper, or a table or figure of the paper before it. key=value chooses"
        " how runs are launched, as in 'kdg run': hydra/launcher=submitit_slurm"
        " hydra.launcher.partition=NAME. A page that exists keeps the numbers of its cells.csv and"
        " claims.csv that no run of this folder replaces, with their date and commit. Scale smoke"
        " takes minutes, on simulations and small real data; workstation hours on two cores; paper"
        " has the papers' own sizes.",
        examples=[
            "kdg reproduce p5 'Table 1' 'Table 2'",
            "kdg reproduce --scale smoke --plan",
        ],
        fails=f"a run failed, or {NOT_WRITTEN}",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="paper|item|key=value",
        help="p1 to p5, and their tables and figures (default: all)",
    )
    parser.add_argument(
        "--scale",
        choices=("smoke", "workstation", "paper"),
        default="workstation",
        help="size of the runs (default: workstation)",
    )
    parser.add_argument(
        "--out",
        default="outputs/reproduction",
        metavar="DIR",
        help="folder of the runs, with a folder for each scale (default: outputs/reproduction)",
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print what would run and how long it may take, and run nothing",
    )
    parser.add_argument(
        "--no-runs", action="store_true", help="only write the pages, from finished runs"
    )
    parser.add_argument(
        "--page",
        metavar="DIR",
        help="folder of the pages of numbers and claims, new or brought up to date (default: with"
        " the runs)",
    )
    return parser


def _launching(words: Sequence[str]) -> list[str]:
    """Return the overrides of the launcher.

    Any other would change a number, which the page does not show, so it is refused.
    """
    overrides = [word for word in words if "=" in word]
    for word in overrides:
        if not word.startswith(("hydra/launcher=", "hydra.launcher.")):
            raise UsageError(
                f"'{word}' is not how runs are launched; kdg reproduce takes hydra/launcher=… and"
                " hydra.launcher.…=… alone"
            )
    return overrides


def _run(tasks: Sequence[Task]) -> int:
    from kdgraph.report.terminal import print_missing_data, report_progress
    from kdgraph.runner.plan import run_plan

    failed = 0
    for task in tasks:
        for name in task.size.computed:
            if not task.file_of(name).exists():
                print_note(f"{task.title}: {name}")
                task.compute(name)
        for sweep in task.sweeps:
            with report_progress() as reporter:
                reporter.note(f"{task.title}: {counted(len(sweep.jobs), 'run')}")
                result = run_plan(sweep, reporter)
            print_missing_data(result.absent)
            for outcome in result.outcomes:
                if outcome.record is None:
                    failed += 1
                    print(
                        f"kdg: failed: {outcome.failure}\n  kdg run"
                        f" {shlex.join(outcome.job.overrides)}",
                        file=sys.stderr,
                    )
    return 1 if failed else 0


def _require_experiments() -> None:
    try:
        import experiments.reproduction.papers  # noqa: F401
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("experiments"):
            raise
        raise UsageError(
            "kdg reproduce needs experiments/, which a checkout of kdgraph has and a wheel has not;"
            " call it there"
        ) from error
