"""Kill a sweep again and again, finish it, and compare it with an undisturbed one.

Run it after changing the store, the locks, the run directory or how jobs are started::

    # 200 runs, 100 kills; about 10 minutes on two cores
    .venv/bin/python scripts/kill_sweep.py
    .venv/bin/python scripts/kill_sweep.py --kills 5 --seeds 2 --launchers dask ray

The same command is started, killed with SIGKILL at a random moment, and started again: now all of
its processes at once, now only the first, which its workers have to notice; now side by side, now
one after the other. The kills are spread over the whole sweep: each waits for a share of the runs
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
from pathlib import Path

SWEEP = [
    "dataset=spiral,wine",
    "method=kdf,isotonic,sigmoid,gated_isotonic",
    "parent.n_estimators=20",
    "ood.n=50",
    "ood.radii=[1,2,5]",
    "metrics=default",
    "figures=none",
]
SAME = (
    "dataset",
    "parent",
    "calibrator",
    "gate",
    "method",
    "seed",
    "config",
    "metrics",
    "ood_sets",
    "learnt",
    "files",
    "warnings",
)
"""Keys of a record that may not depend on what was killed."""


def main() -> int:
    """Disturb, compare, print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument(
        "--seeds", type=int, default=25, help="8 runs for each of them (default: 25)"
    )
    parser.add_argument("--random", type=int, default=0, help="seed of when to kill whom")
    parser.add_argument(
        "--launchers",
        nargs="+",
        default=["basic", "processes", "processes"],
        help="each kill hits a sweep through one of them (default: basic processes processes)",
    )
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kill_sweep_"))
    sweep = [*SWEEP, f"seed=range(0,{args.seeds})"]
    whole, disturbed = folder / "whole", folder / "disturbed"
    _finish(sweep, whole)
    groups: list[int] = []
    rng = random.Random(args.random)
    kills, kept = _disturb(
        sweep, disturbed, args.kills, 8 * args.seeds, rng, groups, args.launchers
    )
    _finish(sweep, disturbed)
    found = (
        _differences(whole, disturbed, 8 * args.seeds) + _written_again(kept) + _still_there(groups)
    )
    print(
        f"{kills} kills, {8 * args.seeds} runs: {len(found)} differences from an undisturbed sweep,"
        f" {len(kept)} records seen at a kill"
    )
    for line in found:
        print(f"  {line}")
    if not found:
        shutil.rmtree(folder)
    return 1 if found else 0


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
    sweep: list[str],
    out: Path,
    kills: int,
    runs: int,
    rng: random.Random,
    groups: list[int],
    launchers: list[str],
) -> tuple[int, dict[Path, int]]:
    """Start and kill; returns how often a running sweep was hit, and the inode of each record as it
    was first seen at a kill.

    The process group of each sweep is appended to ``groups``.
    """
    kept: dict[Path, int] = {}
    for kill in range(kills):
        process = _start(sweep, out, f"hydra/launcher={rng.choice(launchers)}")
        groups.append(process.pid)
        _wait(process, out, int(runs * (kill + rng.random()) / kills), rng)
        if process.poll() is not None:
            return kill, kept
        _kill(process, everyone=rng.random() < 0.7)
        for record in _records(out):
            kept.setdefault(record, record.stat().st_ino)
        print(f"\r{kill + 1} kills, {len(kept)} runs done", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return kills, kept


def _wait(process: subprocess.Popen[bytes], out: Path, done: int, rng: random.Random) -> None:
    """Until ``done`` runs are done and a random while has passed; where they were done already, the
    while covers the start.
    """
    spare = 4.0 if len(_records(out)) >= done else 0.7
    while len(_records(out)) < done and process.poll() is None:
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0, spare))


def _records(out: Path) -> list[Path]:
    return sorted(out.glob("*/*/*/result.json"))


def _kill(process: subprocess.Popen[bytes], *, everyone: bool) -> None:
    if everyone:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()  # its workers end by themselves, some of them when the next sweep has begun
    process.wait()


def _differences(whole: Path, disturbed: Path, expected: int) -> list[str]:
    names = sorted(path.relative_to(whole) for path in whole.glob("*/*/*/result.json"))
    found = (
        []
        if len(names) == expected
        else [f"{len(names)} of {expected} runs are done in the undisturbed sweep"]
    )
    for name in names:
        if not (disturbed / name).exists():
            found.append(f"{name} is missing")
            continue
        a, b = (json.loads((folder / name).read_text()) for folder in (whole, disturbed))
        found += [f"{name}: {key} differs" for key in SAME if a[key] != b[key]]
        predictions = [
            (folder / name).with_name("predictions.parquet").read_bytes()
            for folder in (whole, disturbed)
        ]
        found += [f"{name}: the predictions differ"] if predictions[0] != predictions[1] else []
    time.sleep(1)  # for a worker that was left behind
    left = [
        path
        for pattern in ("running.json", "error.txt", "*.lock", ".*.tmp")
        for path in disturbed.rglob(pattern)
    ]
    return found + [f"{path.relative_to(disturbed)} was left" for path in left]


def _still_there(groups: list[int], seconds: float = 20) -> list[str]:
    """Return a line for each process group of a killed sweep that does not become empty."""
    deadline = time.monotonic() + seconds
    while (
        left := [group for group in groups if _has_processes(group)]
    ) and time.monotonic() < deadline:
        time.sleep(0.2)
    return [f"processes of the sweep with the number {group} were left" for group in left]


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _written_again(kept: dict[Path, int]) -> list[str]:
    return [
        f"{path} was written again" for path, inode in kept.items() if path.stat().st_ino != inode
    ]


if __name__ == "__main__":
    sys.exit(main())
