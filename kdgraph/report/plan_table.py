"""What ``kdg plan`` prints: by method, how many runs are done, failed and to do, and how long the
rest may take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kdgraph.results.estimate import RunTimes
from kdgraph.wording import counted

STATES = ("done", "running", "failed", "not at hand", "to do")


@dataclass(frozen=True)
class PlannedRun:
    """A run of the plan: what it is of, and one of :data:`STATES`."""

    dataset: str
    method: str
    state: str


def plan_table(runs: Sequence[PlannedRun], times: RunTimes, at_once: int) -> str:
    """A row for each method and one line below; what failed before is tried again, so it counts as
    to do in the estimate.

    Parameters
    ----------
    runs : all of the plan.
    times : what runs took.
    at_once : how many go side by side.
    """
    methods = list(dict.fromkeys(run.method for run in runs))
    rows = [["", "runs", *STATES, "about"]]
    rows += [
        [method, *_row([run for run in runs if run.method == method], times)] for method in methods
    ]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    return "\n".join([*(line.rstrip() for line in lines), "", _summary(runs, times, at_once)])


def _row(runs: Sequence[PlannedRun], times: RunTimes) -> list[str]:
    counts = [sum(run.state == state for run in runs) for state in STATES]
    seconds, unknown = _seconds(runs, times)
    about = (
        ""
        if not _left(runs)
        else (
            "unknown"
            if unknown == len(_left(runs))
            else _duration(seconds) + (" +" if unknown else "")
        )
    )
    return [f"{len(runs):,}", *(f"{count:,}" if count else "·" for count in counts), about]


def _summary(runs: Sequence[PlannedRun], times: RunTimes, at_once: int) -> str:
    datasets = len({run.dataset for run in runs})
    done, left = sum(run.state == "done" for run in runs), len(_left(runs))
    what = (
        f"{counted(len(runs), 'run')} of {counted(datasets, 'data set')}: {done:,} done, {left:,}"
        " to do"
    )
    if not left:
        return what
    seconds, unknown = _seconds(runs, times)
    if unknown == left:
        return f"{what}; how long they take is not known, since none like them has been run"
    beside = f", {min(at_once, left)} at a time" if at_once > 1 else ""
    missing = f", and {unknown:,} more of which nothing is known" if unknown else ""
    return (
        f"{what}; about {_duration(seconds / min(at_once, left))}{beside}, going by"
        f" {counted(times.n_runs, 'finished run')}{missing}"
    )


def _left(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    return [run for run in runs if run.state in ("to do", "failed")]


def _seconds(runs: Sequence[PlannedRun], times: RunTimes) -> tuple[float, int]:
    """Of those that are left: the sum of what is known, and of how many nothing is."""
    expected = [times.expected(run.dataset, run.method) for run in _left(runs)]
    known = [seconds for seconds in expected if seconds is not None]
    return sum(known), len(expected) - len(known)


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
