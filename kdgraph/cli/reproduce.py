"""``kdg reproduce``: every published number of papers beside ours, made here."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli.flags import Flags
from kdgraph.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.reproduction.work import Task

MORE = """\
Words name papers, and tables or figures of the paper before them: kdg reproduce p5 'Table 1' 'Table 2'; without words, all papers.
What is done is not done again, so the same command goes on where one was stopped.
A page that is there keeps what its cells.csv and claims.csv have and no run here says, with when and by which commit it was made.
Words with = say how runs are launched, as in kdg run: hydra/launcher=submitit_slurm hydra.launcher.partition=NAME.
smoke takes minutes, on simulations and small real data; workstation hours on two cores; paper has the papers' own sizes."""


def main(arguments: list[str]) -> int:
    """Run what is not done, write the pages, and return the exit code."""
    args = _parser().parse_intermixed_args(arguments)
    _need_experiments()
    from experiments.reproduction.page import write
    from experiments.reproduction.papers import chosen
    from experiments.reproduction.work import estimate, tasks_of
    from kdgraph.report.terminal import show
    from kdgraph.runner.files import wrap_os_errors

    out = Path(args.out) / args.scale
    papers = chosen([word for word in args.words if "=" not in word])
    tasks = list(tasks_of(papers, args.scale, out, _launching(args.words)))
    if args.plan or not args.no_runs:
        show(estimate(tasks))
    if args.plan:
        return 0
    to = Path(args.page) if args.page else out
    with wrap_os_errors(to, "--page"):  # before runs that may take hours
        to.mkdir(parents=True, exist_ok=True)
    code = 0 if args.no_runs else _run(tasks)
    written = write(
        papers, tasks, args.scale, out, shlex.join(["kdg", "reproduce", *arguments]), to
    )
    show(f"\n{written}")
    return code


def _launching(words: Sequence[str]) -> list[str]:
    """Those that say how; what would change a number is refused, as the page would not tell it."""
    how = [word for word in words if "=" in word]
    for word in how:
        if not word.startswith(("hydra/launcher=", "hydra.launcher.")):
            raise UsageError(
                f"'{word}' is not how runs are launched; kdg reproduce takes hydra/launcher=… and"
                " hydra.launcher.…=… alone"
            )
    return how


def _run(tasks: Sequence[Task]) -> int:
    """Each after the other; 1 if a run failed."""
    from kdgraph.cli.run import carried_out, tell_absent
    from kdgraph.report.terminal import report_progress

    failed = 0
    for task in tasks:
        for name in task.size.computed:
            if not task.file_of(name).exists():
                print(f"kdg: {task.called}: {name}", file=sys.stderr)
                task.compute(name)
        for sweep in task.sweeps:
            with report_progress() as watch:
                watch.note(f"{task.called}: {len(sweep.jobs):,} runs")
                done = carried_out(sweep, watch)
            tell_absent(done.absent)
            for outcome in done.outcomes:
                if outcome.record is None:
                    failed += 1
                    print(
                        f"kdg: failed: {outcome.failure}\n  kdg run"
                        f" {shlex.join(outcome.job.overrides)}",
                        file=sys.stderr,
                    )
    return 1 if failed else 0


def _need_experiments() -> None:
    try:
        import experiments.reproduction.papers  # noqa: F401
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("experiments"):
            raise
        raise UsageError(
            "kdg reproduce needs experiments/, which a checkout of kdgraph has and a wheel has not;"
            " call it there"
        ) from error


def _parser() -> Flags:
    parser = Flags("reproduce", "Every published number beside ours, on one page.", MORE)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="PAPER [ITEM …]",
        help="p1 to p5, and their tables and figures (default: all)",
    )
    parser.add_argument(
        "--scale",
        choices=("smoke", "workstation", "paper"),
        default="workstation",
        help="(default: workstation)",
    )
    parser.add_argument(
        "--out",
        default="outputs/reproduction",
        metavar="DIR",
        help="runs, a folder for each scale (default: outputs/reproduction)",
    )
    parser.add_argument(
        "--plan", action="store_true", help="say what would run and how long it may take, and end"
    )
    parser.add_argument("--no-runs", action="store_true", help="only the pages, of what is done")
    parser.add_argument(
        "--page",
        metavar="DIR",
        help=(
            "pages of numbers and of claims, made or brought up to date (default: beside the runs)"
        ),
    )
    return parser
