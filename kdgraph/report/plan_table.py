"""The table of ``kdg plan``: by method, the states of the runs, and how long the rest takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kdgraph.data.sizes import RoleSizes
from kdgraph.results.estimate import Estimate, RunTimes
from kdgraph.results.export import fold_columns, wrap_line
from kdgraph.wording import counted

STATES = ("done", "running", "failed", "not at hand", "to do")
UNFINISHED_STATES = ("to do", "failed")
"""States of runs that the plan does; a failed run is tried again."""
_LONGEST = timedelta.max.total_seconds() // 2
"""Seconds that a duration has at most; an estimate is a product of numbers from records."""


@dataclass(frozen=True)
class PlannedRun:
    """A run of the plan, in one of :data:`STATES`."""

    dataset: str
    method: str
    state: str
    sizes: RoleSizes | None = None  # None: not known before rows are read


def plan_table(
    runs: Sequence[PlannedRun], times: RunTimes, at_once: int, width: int | None = None
) -> str:
    """Return a row for each method and a summary, for ``at_once`` runs at the same time."""
    methods = list(dict.fromkeys(run.method for run in runs))
    rows = [["", "runs", *STATES, "about"]]
    rows += [
        [method, *_row([run for run in runs if run.method == method], times)] for method in methods
    ]
    blocks = fold_columns(list(zip(*rows, strict=True)), width)
    return "\n".join(
        [
            *(line for block in blocks for line in block),
            "",
            *wrap_line(_summary(runs, times, at_once), width),
        ]
    )


def _row(runs: Sequence[PlannedRun], times: RunTimes) -> list[str]:
    counts = [sum(run.state == state for run in runs) for state in STATES]
    estimates = _estimates(runs, times)
    available = [estimate for estimate in estimates if estimate is not None]
    about = ""
    if estimates:
        about = "unknown" if not available else _duration(sum(e.seconds for e in available))
        about += " +" if 0 < len(available) < len(estimates) else ""
    return [f"{len(runs):,}", *(f"{count:,}" if count else "·" for count in counts), about]


def _summary(runs: Sequence[PlannedRun], times: RunTimes, at_once: int) -> str:
    n_datasets = len({run.dataset for run in runs})
    n_done = sum(run.state == "done" for run in runs)
    estimates = _estimates(runs, times)
    counts = (
        f"{counted(len(runs), 'run')} of {counted(n_datasets, 'data set')}: {n_done:,} done,"
        f" {len(estimates):,} to do"
    )
    available = [estimate for estimate in estimates if estimate is not None]
    if not estimates:
        return counts
    if not available:
        return f"{counts}; how long they take is not known, since none like them has been run"
    n_parallel = min(at_once, len(estimates))
    duration = _duration(sum(estimate.seconds for estimate in available) / n_parallel)
    parallel = f", {n_parallel} at a time" if at_once > 1 else ""
    n_unknown = len(estimates) - len(available)
    unknown = f", and {n_unknown:,} more of unknown duration" if n_unknown else ""
    return f"{counts}; about {duration}{parallel}, {_basis(available)}{unknown}"


def _basis(estimates: Sequence[Estimate]) -> str:
    """Return the finished runs that estimates rest on, and how they were scaled."""
    first = estimates[0]
    # Runs of one data set, method and number of rows share the object of their estimate. Equal
    # numbers would not do: runs of a few milliseconds may have them by chance.
    if all(estimate is first for estimate in estimates):
        runs = f"from {counted(first.n_runs, 'run')} of {counted(first.rows, 'row')}"
        runs += f" of another {first.differs_in}" if first.differs_in else ""
        return runs if first.scaled_to is None else f"{runs}, scaled to {first.scaled_to:,}"
    # Estimates of several methods may rest on one run, so the runs are not added up.
    is_scaled = any(estimate.scaled_to is not None for estimate in estimates)
    return "from the closest finished runs" + (", scaled by their rows" if is_scaled else "")


def _estimates(runs: Sequence[PlannedRun], times: RunTimes) -> list[Estimate | None]:
    return [
        times.estimate(run.dataset, run.method, run.sizes)
        for run in runs
        if run.state in UNFINISHED_STATES
    ]


def _duration(seconds: float) -> str:
    if seconds >= 60:
        return str(timedelta(seconds=round(min(seconds, _LONGEST))))
    return f"{seconds:.1f} s"
