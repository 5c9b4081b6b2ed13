"""What is to be run for the numbers of papers at one scale, how long it may take, and running
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import pandas as pd

from experiments.common.claims import computed_path
from experiments.reproduction.declared import Paper, Scale, Size, Study
from kdgraph.config import Plan, plan
from kdgraph.runner.files import write_atomically
from kdgraph.runner.index import Index
from kdgraph.runner.run_dir import RunDir

_NAMED = 2
"""So many of a study's items are told, or one more."""


@dataclass(frozen=True)
class Task:
    """A study at one scale, words of ``kdg run`` that say how its runs are launched, and the folder
    of all runs.
    """

    paper: Paper
    study: Study
    size: Size
    launching: Sequence[str]
    out: Path

    @cached_property
    def sweeps(self) -> list[Plan]:
        """Of its runs; composing them takes seconds, and what has been composed before is not
        composed again.
        """
        sweeps = [
            plan([*words, f"out={self.out}", *self.launching], multirun=True)
            for words in self.size.runs
        ]
        return [sweep.with_run_dirs(Index.of(sweep).known()) for sweep in sweeps]

    @property
    def n_runs(self) -> int:
        """Of all its sweeps, and what is computed without one."""
        return sum(len(sweep.jobs) for sweep in self.sweeps) + len(self.size.computed)

    def n_done(self) -> int:
        """Those that have a record."""
        done = sum(
            RunDir(job.run_dir).versions.record is not None
            for sweep in self.sweeps
            for job in sweep.jobs
        )
        return done + sum(self.file_of(name).exists() for name in self.size.computed)

    def file_of(self, name: str) -> Path:
        """Where what was computed under a name is kept."""
        return computed_path(self.out, f"{self.paper.name}_{name}")

    def compute(self, name: str) -> None:
        """Compute and keep it."""
        found = self.size.computed[name]()
        write_atomically(self.file_of(name), found.to_csv(index=False).encode())

    def restore(self, page: Path) -> None:
        """Put the archive that a page keeps into the folder of runs, in place of one there."""
        if self.study.archive is None:
            return
        here = self.study.archive(self.out)
        if (kept := page / here.name).exists():
            here.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(here, kept.read_bytes())

    def keep(self, page: Path) -> None:
        """Write the archive of the runs beside a page."""
        if self.study.archive is None or self.study.archived is None or not self.out.is_dir():
            return
        rows = self.study.archived(self.out)
        if len(rows):
            name = self.study.archive(self.out).name
            write_atomically(page / name, rows.to_csv(index=False).encode(), "--page")

    def measured(self) -> pd.DataFrame:
        """What its runs found, and what was computed."""
        frames = [
            pd.read_csv(file) for file in map(self.file_of, self.size.computed) if file.exists()
        ]
        if self.study.measured is not None and self.out.is_dir():
            frames.append(self.study.measured(self.out))
        frames = [frame for frame in frames if len(frame)]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @property
    def called(self) -> str:
        """Which tables and figures it makes, or the first of them."""
        items = self.study.items
        more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED + 1 else ""
        return f"{self.paper.name} {', '.join(items[:_NAMED] if more else items)}{more}"


def tasks_of(
    papers: Iterable[Paper], scale: Scale, out: Path, launching: Sequence[str] = ()
) -> Iterator[Task]:
    """Every study that is done at this scale.

    Parameters
    ----------
    papers : with the studies that are asked for.
    scale : see :data:`~experiments.reproduction.declared.SCALES`.
    out : the folder of its runs.
    launching : words of ``kdg run`` that say how runs are launched.
    """
    for paper in papers:
        for study in paper.studies:
            if scale in study.sizes:
                yield Task(paper, study, study.sizes[scale], launching, out)


def estimate(tasks: Sequence[Task]) -> str:
    """A line for each task: how many runs it has, how many are done, how long the others may take;
    and one for all.
    """
    rows = [["", "runs", "done", "about"]]
    left, unknown = 0.0, 0
    for task in tasks:
        n, done = task.n_runs, task.n_done()
        minutes = (
            None if task.size.minutes is None else task.size.minutes * (1 - done / n if n else 0)
        )
        left, unknown = left + (minutes or 0), unknown + (minutes is None and done < n)
        rows.append(
            [
                task.called,
                f"{n:,}",
                f"{done:,}",
                "" if done == n else "unknown" if minutes is None else _words(minutes),
            ]
        )
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    more = f", and {unknown} of which nothing is known" if unknown else ""
    last = f"about {_words(left)} on two cores{more}" if left or unknown else "all of it is done"
    return "\n".join([*(line.rstrip() for line in lines), "", last])


def _words(minutes: float) -> str:
    return (
        "a minute"
        if minutes < 1.5
        else (
            str(timedelta(minutes=round(minutes)))[:-3] + " h"
            if minutes >= 90
            else f"{minutes:.0f} min"
        )
    )
