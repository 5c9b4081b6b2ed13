"""Time large tables: ``kdg predict`` with one and two processes, and ``kdg run dataset=table``. Run
it after any change to how tables are read, divided or evaluated, or to how predictions are written.

A parquet file has a million rows (``--rows``) of 20 numbers in single precision and a label. A
small forest is fitted on 20,000 of them, and all others test. Each command is a process of its own.
Lines have rows for each second of wall time; processor time as a multiple of that of the forest's
``predict_proba`` on all rows in memory in one call, on one core; and the peak of the memory of all
processes, with shared pages once, beyond what the same command takes for the first thousand rows,
which are imports and the model. ``--rows 100000`` is the short form; ten million rows need 4 GB of
disk.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

D, N_LEARN, N_SMALL, ROUNDS = 20, 20_000, 1000, 2
GROUP_ROWS = 100_000
MEMORY_BAR_MB = 1000
POLL_SECONDS = 0.1
FOREST = ["method=isotonic", "parent.n_estimators=10", "parent.max_depth=8"]


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    n_rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        write_table(folder / "small.parquet", N_SMALL)
        write_table(folder / "learn.parquet", 2 * N_LEARN)
        write_table(folder / "all.parquet", n_rows)
        run_dir = fitted(folder)
        baseline = forest_seconds(run_dir, folder / "all.parquet")
        print(
            f"{n_rows:,} rows, {D} numbers; the forest's predict_proba in memory: {baseline:.2f} s;"
            f" bar: {MEMORY_BAR_MB:,} MB beyond {N_SMALL:,} rows"
        )
        for ending in ("parquet", "csv"):
            for jobs in ("1", "2"):
                predict = ["predict", "--run", str(run_dir), "--jobs", jobs]
                small, cost = (
                    measured([*predict, *files(folder, table, ending)])
                    for table in ("small", "all")
                )
                print_line(f"predict into .{ending}, --jobs {jobs}", n_rows, cost, small, baseline)
        table = ["dataset.target=label", "dataset=table", "dataset.n_test=rest", "ood=none"]
        words = ["run", *FOREST, *table, f"dataset.max_learn={N_LEARN}", "figures=none", "n_jobs=1"]
        out = f"out={folder / 'evaluated'}"
        small = measured([*words, f"dataset.path={folder / 'learn.parquet'}", out])
        cost = measured([*words, f"dataset.path={folder / 'all.parquet'}", out])
        print_line("run dataset=table", n_rows, cost, small, baseline)


class Cost(NamedTuple):
    """Cost of a command: seconds of wall and of processor time, and megabytes at its peak."""

    wall: float
    processor: float
    peak_mb: float


def write_table(path: Path, n_rows: int) -> None:
    """Write a table of two classes, group by group."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, writer = np.random.default_rng(0), None
    weights = rng.normal(size=D).astype(np.float32)
    for start in range(0, n_rows, GROUP_ROWS):
        X = rng.standard_normal((min(GROUP_ROWS, n_rows - start), D), dtype=np.float32)
        y = (X @ weights + rng.logistic(scale=2, size=len(X)) > 0).astype(np.int64)
        table = pa.table({**{f"x{j}": X[:, j] for j in range(D)}, "label": y})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def fitted(folder: Path) -> Path:
    """Return the directory of a run whose model predicts the tables."""
    table = ["dataset=table", f"dataset.path={folder / 'learn.parquet'}", "dataset.target=label"]
    words = [*FOREST, *table, "ood=none", "figures=none", "n_jobs=1", f"out={folder / 'outputs'}"]
    measured(["run", *words])
    (record,) = (folder / "outputs").glob("*/*/*/result.json")
    assert json.loads(record.read_text())["files"]["model"]
    return record.parent


def forest_seconds(run_dir: Path, path: Path) -> float:
    """Return the processor time of the parent for all rows in memory."""
    from pyarrow import parquet

    import kdgraph

    parent = kdgraph.load(run_dir / "model" / "calibrated.kdg").parent
    table = parquet.read_table(path, columns=[f"x{j}" for j in range(D)])
    X = np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)
    seconds = []
    with threadpool_limits(1):
        for _ in range(ROUNDS):
            start = time.process_time()
            parent.predict_proba(X)
            seconds.append(time.process_time() - start)
    return min(seconds)


def files(folder: Path, table: str, ending: str) -> list[str]:
    """Return the arguments for a table and for its predictions."""
    output = folder / f"predicted.{ending}"
    output.unlink(missing_ok=True)
    return ["--input", str(folder / f"{table}.parquet"), "--output", str(output)]


def measured(words: list[str]) -> Cost:
    """Return what a command of kdg costs.

    Processor time is that of all its processes, which end before it does.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "kdgraph", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    peak = [0.0]

    def watch() -> None:
        while process.poll() is None:
            peak[0] = max(peak[0], sum(map(megabytes, tree(process.pid))))
            time.sleep(POLL_SECONDS)

    thread = threading.Thread(target=watch)
    thread.start()
    _, messages = process.communicate()
    thread.join()
    wall = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"kdg {' '.join(words)} failed: {messages}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, processor, peak[0])


def tree(pid: int) -> Iterator[int]:
    """Yield a process and all that it started, directly or not."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from tree(int(child))


def megabytes(pid: int) -> float:
    """Return the memory of a process, of shared pages its share; 0 where that cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("Pss:")), 0.0)


def print_line(label: str, n_rows: int, cost: Cost, small: Cost, baseline: float) -> None:
    """Print rate, ratio and memory of a command beyond those of few rows."""
    wall = max(cost.wall - small.wall, 1e-3)
    beyond = cost.peak_mb - small.peak_mb
    print(
        f"  {label:30} {n_rows / wall:11,.0f} rows/s"
        f"   × {(cost.processor - small.processor) / baseline:5.2f} the forest"
        f"   {small.peak_mb:5,.0f} MB {beyond:+6,.0f} MB"
        f"{' MISSED' if beyond > MEMORY_BAR_MB else ''}",
        flush=True,
    )


if __name__ == "__main__":
    main()
