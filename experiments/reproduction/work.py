"""Runs and computations that make the numbers of papers at one scale, and their expected time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import pandas as pd

from experiments.common.claims import computed_path
from experiments.reproduction.studies import Paper, Scale, Size, Study
from kdgraph.config import Plan, plan
from kdgraph.runner.files import write_atomically
from kdgraph.runner.index import Index
from kdgraph.runner.run_dir import RunDir

_NAMED = 2  # Items of a study that its title names, or one more


@dataclass(frozen=True)
class Task:
    """A study at one scale, with the launcher of its runs (words) and their folder."""

    paper: Paper
    study: Study
    size: Size
    launching: Sequence[str]
    out: Path

    @cached_property
    def sweeps(self) -> list[Plan]:
        """Return the plans of its sweeps; composing them takes seconds."""
        sweeps = [
            plan([*words, f"out={self.out}", *self.launching], multirun=True)
            for words in self.size.runs
        ]
        return [sweep.with_run_dirs(Index.of(sweep).known()) for sweep in sweeps]

    @property
    def n_runs(self) -> int:
        """Return the number of runs and computations."""
        return sum(len(sweep.jobs) for sweep in self.sweeps) + len(self.size.computed)

    def n_done(self) -> int:
        """Return the number of runs and computations with a result."""
        runs = (RunDir(job.run_dir) for sweep in self.sweeps for job in sweep.jobs)
        computed = sum(self.file_of(name).exists() for name in self.size.computed)
        return sum(run.versions.record is not None for run in runs) + computed

    def file_of(self, name: str) -> Path:
        """Return the file of a computation."""
        return computed_path(self.out, f"{self.paper.name}_{name}")

    def compute(self, name: str) -> None:
        """Compute numbers and write their file."""
        numbers = self.size.computed[name]()
        write_atomically(self.file_of(name), numbers.to_csv(index=False).encode())

    def restore(self, page: Path) -> None:
        """Copy the archive beside a page into the folder of runs, in place of one there."""
        if self.study.archive is None:
            return
        archive = self.study.archive(self.out)
        if (stored := page / archive.name).exists():
            archive.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(archive, stored.read_bytes())

    def keep(self, page: Path) -> None:
        """Write the archive of the runs beside a page."""
        if self.study.archive is None or self.study.archived is None or not self.out.is_dir():
            return
        rows = self.study.archived(self.out)
        if len(rows):
            name = self.study.archive(self.out).name
            write_atomically(page / name, rows.to_csv(index=False).encode(), "--page")

    def measured(self) -> pd.DataFrame:
        """Return the numbers of its runs and computations."""
        files = map(self.file_of, self.size.computed)
        frames = [pd.read_csv(file) for file in files if file.exists()]
        if self.study.measured is not None and self.out.is_dir():
            frames.append(self.study.measured(self.out))
        frames = [frame for frame in frames if len(frame)]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @property
    def title(self) -> str:
        """Return the paper with its tables and figures, or the first of them."""
        items = self.study.items
        more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED + 1 else ""
        return f"{self.paper.name} {', '.join(items[:_NAMED] if more else items)}{more}"


def tasks_of(
    papers: Iterable[Paper], scale: Scale, out: Path, launching: Sequence[str] = ()
) -> Iterator[Task]:
    """Yield a task for every study of the papers that has a size at this scale."""
    for paper in papers:
        for study in paper.studies:
            if scale in study.sizes:
                yield Task(paper, study, study.sizes[scale], launching, out)


def estimate(tasks: Sequence[Task]) -> str:
    """Return a table of the runs of each task, those that are done, and the time of the others."""
    rows = [["", "runs", "done", "about"]]
    left, unknown = 0.0, 0
    for task in tasks:
        n, done = task.n_runs, task.n_done()
        minutes = task.size.minutes
        if minutes is None:
            about, unknown = "unknown", unknown + (done < n)
        else:
            minutes *= 1 - done / n if n else 0
            about, left = _words(minutes), left + minutes
        rows.append([task.title, f"{n:,}", f"{done:,}", "" if done == n else about])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    more = f", and {unknown} of which nothing is known" if unknown else ""
    last = f"about {_words(left)} on two cores{more}" if left or unknown else "all of it is done"
    return "\n".join([*lines, "", last])


def _words(minutes: float) -> str:
    if minutes < 1.5:
        return "a minute"
    if minutes < 90:
        return f"{minutes:.0f} min"
    return str(timedelta(minutes=round(minutes)))[:-3] + " h"
