"""Measured values beside their bars: ratios of processor times, seconds and memory.

A ratio of two functions that take turns in one process means the same on another machine, and
processor time is hardly changed by what else the machine does.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Value:
    """One measured value.

    ``unit`` is "×" for a multiple of the time of ``anchor``. A value above its bar has missed it,
    or one below where ``at_least`` is True.
    """

    value: float
    unit: str
    anchor: str = ""
    bar: float | None = None
    at_least: bool = False

    @property
    def is_missed(self) -> bool:
        """Whether the value has missed its bar."""
        if self.bar is None:
            return False
        return self.value < self.bar if self.at_least else self.value > self.bar

    @property
    def text(self) -> str:
        """The value and its bar: ``1.41 × (≤ 1.3) MISSED``."""
        bar = "" if self.bar is None else f" ({'≥' if self.at_least else '≤'} {self.bar:g})"
        return f"{self.value:.3g} {self.unit}".rstrip() + bar + " MISSED" * bool(self.is_missed)


@dataclass(frozen=True)
class Line:
    """Values of one method, algorithm or command: what was measured, of what, and by quantity."""

    what: str
    cell: str
    values: Mapping[str, Value]


class Table:
    """Lines in the order of their measurement, printed as they come."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, what: str, cell: str, **values: Value) -> None:
        """Add and print a line, with its values by quantity."""
        line = Line(what, cell, {name.replace("_", " "): value for name, value in values.items()})
        self.lines.append(line)
        shown = [
            f"{name} {value.text} {value.anchor}".rstrip() for name, value in line.values.items()
        ]
        print(f"{what:30} {cell:36} {'   '.join(shown)}", flush=True)

    @property
    def values(self) -> list[Value]:
        """All values."""
        return [value for line in self.lines for value in line.values.values()]

    def markdown(self) -> str:
        """Return tables of Markdown, one for lines of the same quantities."""
        tables: dict[tuple[str, ...], list[Line]] = {}
        for line in self.lines:
            tables.setdefault(tuple(line.values), []).append(line)
        return "\n\n".join(_markdown(lines) for lines in tables.values()) + "\n"


def _markdown(lines: Sequence[Line]) -> str:
    """Return lines of the same quantities as a table; the head has an anchor that all share."""
    heads, columns = ["what", "of"], [[line.what for line in lines], [line.cell for line in lines]]
    for name in lines[0].values:
        values = [line.values[name] for line in lines]
        anchors = {value.anchor for value in values}
        is_shared = len(anchors) == 1
        heads.append(f"{name}, {anchors.pop()}".removesuffix(", ") if is_shared else name)
        columns.append(
            [value.text if is_shared else f"{value.text} {value.anchor}" for value in values]
        )
    rows = [heads, ["---"] * len(heads), *zip(*columns, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def ratio(run: Callable[[], object], anchor: Callable[[], object], rounds: int = 3) -> float:
    """Return the median ratio of the processor times of two functions that take turns."""
    ratios = []
    for _ in range(rounds):
        of_anchor = cpu_seconds(anchor)
        ratios.append(cpu_seconds(run) / max(of_anchor, 1e-9))
    return statistics.median(ratios)


def peak_mb(prepare: Callable[[], Callable[[], object]]) -> float:
    """Return how far a call raises the resident memory of this process (Linux).

    ``prepare`` makes what comes in, and returns the function that is called. A process of its own
    measures each: what was freed before would be used again, and not be seen.
    """
    run = prepare()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_mb("VmRSS")
    run()
    return _status_mb("VmHWM") - before


def peak_in_process(module: str, name: str) -> float:
    """Return :func:`peak_mb` of an entry of ``PEAKS`` of a module, in a process of its own."""
    # With a fixed threshold freed arrays go back to the system.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, str(Path(__file__).parent), "--peak", f"{module}:{name}"]
    return float(subprocess.check_output(command, env=environment))


def _status_mb(field: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) / 1000


@dataclass(frozen=True)
class Cost:
    """Cost of a command: processor and wall seconds, and megabytes at its peak."""

    processor: float
    wall: float
    peak_mb: float


def cost(words: Sequence[str]) -> Cost:
    """Return what a command costs with all processes that it starts; exit if it fails."""
    unset = ("PYTHONDONTWRITEBYTECODE",)
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )
    peak = [0.0]

    def watch() -> None:
        while process.poll() is None:
            peak[0] = max(peak[0], sum(map(_proportional_mb, _process_tree(process.pid))))
            time.sleep(POLL_SECONDS)

    thread = threading.Thread(target=watch)
    thread.start()
    _, messages = process.communicate()
    thread.join()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        sys.exit(f"{' '.join(words)} failed: {messages}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(processor, wall, peak[0])


def kdg(*words: str) -> list[str]:
    """Return the words of a command of kdgraph."""
    return [sys.executable, "-m", "kdgraph", *words]


def _process_tree(pid: int) -> Iterator[int]:
    """Yield a process and all that it started, directly or not."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _process_tree(int(child))


def _proportional_mb(pid: int) -> float:
    """Return the memory of a process, of shared pages its part; 0 where that cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("Pss:")), 0.0)
