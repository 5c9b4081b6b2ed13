"""What is to be run for the numbers of papers at one scale, how long it may take, and running it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from experiments.reproduction.declared import Paper, Scale, Size, Study
from kdgraph.config import Plan, plan
from kdgraph.runner.index import Index
from kdgraph.runner.rundir import RunDir


@dataclass(frozen=True)
class Task:
    """A study at one scale, and its sweeps."""

    paper: Paper
    study: Study
    size: Size
    sweeps: Sequence[Plan]

    @property
    def n_runs(self) -> int:
        """Of all its sweeps."""
        return sum(len(sweep.jobs) for sweep in self.sweeps)

    def n_done(self) -> int:
        """Those that have a record."""
        return sum(RunDir(job.run_dir).ended.record is not None for sweep in self.sweeps for job in sweep.jobs)

    @property
    def called(self) -> str:
        """Which tables and figures it makes."""
        return f"{self.paper.name} {', '.join(self.study.items)}"


def tasks_of(papers: Iterable[Paper], scale: Scale, out: Path) -> Iterator[Task]:
    """Every study that is done at this scale; what has been composed before is not composed again.

    Parameters
    ----------
    papers : with the studies that are asked for.
    scale : see :data:`~experiments.reproduction.declared.SCALES`.
    out : the folder of its runs.
    """
    for paper in papers:
        for study in paper.studies:
            if scale in study.sizes:
                size = study.sizes[scale]
                sweeps = [plan([*words, f"out={out}"], multirun=True) for words in size.runs]
                yield Task(paper, study, size, [sweep.knowing(Index.of(sweep).known()) for sweep in sweeps])


def estimate(tasks: Sequence[Task]) -> str:
    """A line for each task: how many runs it has, how many are done, how long the others may take; and one for all."""
    rows = [["", "runs", "done", "about"]]
    left, unknown = 0.0, 0
    for task in tasks:
        n, done = task.n_runs, task.n_done()
        minutes = None if task.size.minutes is None else task.size.minutes * (1 - done / n if n else 0)
        left, unknown = left + (minutes or 0), unknown + (minutes is None and done < n)
        rows.append([task.called, f"{n:,}", f"{done:,}", "" if done == n else "unknown" if minutes is None else _words(minutes)])
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]) for row in rows]
    more = f", and {unknown} of which nothing is known" if unknown else ""
    return "\n".join([*(line.rstrip() for line in lines), "", f"about {_words(left)} on two cores{more}"])


def _words(minutes: float) -> str:
    return "a minute" if minutes < 1.5 else str(timedelta(minutes=round(minutes)))[:-3] + " h" if minutes >= 90 else f"{minutes:.0f} min"
