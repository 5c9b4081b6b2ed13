"""Kill a sweep again and again, finish it, and compare it with an undisturbed one.

Run it after changing the store, the locks, the run directory or how jobs are started::

    # 200 runs, 100 kills; about 10 minutes on two cores
    .venv/bin/python scripts/kill_sweep.py
    .venv/bin/python scripts/kill_sweep.py --kills 5 --seeds 2 --launchers dask ray

The same command is started, killed with SIGKILL at a random moment, and started again: now all of
its processes at once, now only the first, which its workers have to notice; now side by side, now
one after the other. The kills are spread over the whole sweep: each waits for some of the runs
to be done and then for a random while, so that they fall into the start, into runs and between
them, on a fast machine as on a slow one. At the end every run must be there, with the same numbers
and the same predictions to the last bit, no record that was there at a kill may have been written
again, and nothing may be left of locks, temporary files and processes. Exit code 1 if anything
differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SWEEP = [
    *("dataset=spiral,wine", "method=kdf,isotonic,sigmoid,gated_isotonic"),
    *("parent.n_estimators=20", "ood.n=50", "ood.radii=[1,2,5]", "metrics=default", "figures=none"),
]
RUNS_OF_A_SEED = 8
SAME = (
    *("dataset", "parent", "calibrator", "gate", "method", "seed", "config", "metrics"),
    *("ood_sets", "learnt", "files", "warnings"),
)
"""Keys of a record that may not depend on what was killed."""
LEFTOVERS = ("running.json", "error.txt", "*.lock", ".*.tmp")


def main() -> int:
    """Disturb, compare, and print the differences."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    launchers = ["basic", "processes", "processes"]
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=25, help="8 runs for each (default: 25)")
    parser.add_argument("--random", type=int, default=0, help="seed of the moments of kills")
    parser.add_argument("--launchers", nargs="+", default=launchers, help="drawn for each kill")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kill_sweep_"))
    whole, disturbed = folder / "whole", folder / "disturbed"
    sweep, n_runs = [*SWEEP, f"seed=range(0,{args.seeds})"], RUNS_OF_A_SEED * args.seeds
    _finish(sweep, whole)
    kills, inodes, groups = _disturb(sweep, disturbed, n_runs, args)
    _finish(sweep, disturbed)
    problems = [
        *_differences(whole, disturbed, n_runs),
        *(f"{path} was written again" for path, n in inodes.items() if path.stat().st_ino != n),
        *(f"processes of the sweep with the number {group} were left" for group in _alive(groups)),
    ]
    print(
        f"{kills} kills, {n_runs} runs: {len(problems)} differences from an undisturbed sweep,"
        f" {len(inodes)} records seen at a kill"
    )
    print("".join(f"  {line}\n" for line in problems), end="")
    if not problems:
        shutil.rmtree(folder)
    return int(bool(problems))


def _start(sweep: list[str], out: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kdgraph", "run", "-m", *sweep, f"out={out}", *more]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _finish(sweep: list[str], out: Path) -> None:
    process = _start(sweep, out)
    if process.wait():
        raise SystemExit(f"the sweep in {out} ended with exit code {process.returncode}")


def _disturb(
    sweep: list[str], out: Path, n_runs: int, args: argparse.Namespace
) -> tuple[int, dict[Path, int], list[int]]:
    """Start and kill; return how often a running sweep was hit, the inode of each record as it was
    first seen at a kill, and the process group of each sweep.
    """
    rng = random.Random(args.random)
    inodes: dict[Path, int] = {}
    groups: list[int] = []
    for kill in range(args.kills):
        process = _start(sweep, out, f"hydra/launcher={rng.choice(args.launchers)}")
        groups.append(process.pid)
        _wait(process, out, int(n_runs * (kill + rng.random()) / args.kills), rng)
        if process.poll() is not None:
            return kill, inodes, groups
        if rng.random() < 0.7:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()  # its workers end on their own, some when the next sweep has begun
        process.wait()
        for record in _records(out):
            inodes.setdefault(record, record.stat().st_ino)
        print(f"\r{kill + 1} kills, {len(inodes)} runs done", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return args.kills, inodes, groups


def _wait(process: subprocess.Popen[bytes], out: Path, done: int, rng: random.Random) -> None:
    """Wait until ``done`` runs are done and a random while has passed; where they were done before,
    the while covers the start.
    """
    spare = 4.0 if len(_records(out)) >= done else 0.7
    while len(_records(out)) < done and process.poll() is None:
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0, spare))


def _records(out: Path) -> list[Path]:
    return sorted(out.glob("*/*/*/result.json"))


def _differences(whole: Path, disturbed: Path, expected: int) -> Iterator[str]:
    names = [path.relative_to(whole) for path in _records(whole)]
    if len(names) != expected:
        yield f"{len(names)} of {expected} runs are done in the undisturbed sweep"
    for name in names:
        if not (disturbed / name).exists():
            yield f"{name} is missing"
            continue
        a, b = (json.loads((folder / name).read_text()) for folder in (whole, disturbed))
        yield from (f"{name}: {key} differs" for key in SAME if a[key] != b[key])
        first, second = (
            (folder / name).with_name("predictions.parquet").read_bytes()
            for folder in (whole, disturbed)
        )
        if first != second:
            yield f"{name}: the predictions differ"
    time.sleep(1)  # for a worker that was left behind
    for path in (path for pattern in LEFTOVERS for path in disturbed.rglob(pattern)):
        yield f"{path.relative_to(disturbed)} was left"


def _alive(groups: list[int], seconds: float = 20) -> list[int]:
    """Return the process groups of killed sweeps that do not become empty."""
    deadline = time.monotonic() + seconds
    while (left := list(filter(_has_processes, groups))) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
