"""What a sweep costs beside the work of its runs; part of ``make bench``.

Three numbers, each beside its bar: the time of a sweep in one process over that of a bare loop
which does the same stages and keeps nothing (at most 1.3 when a run takes a second); the time of a
command of which all 2,000 runs are done (3 s); and of ``kdg table`` over 3,000 runs (2 s). The last
two start a new process, imports included; their records are copies of one real record, in the
places that the plan of such a sweep gives.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from kdgraph.base import FittedModel
from kdgraph.cli.main import main as kdg
from kdgraph.config import RunConfig, compose, plan
from kdgraph.runner import stages
from kdgraph.runner.evaluate import evaluate
from kdgraph.runner.files import add_checksum, check_and_load

WORK = [
    "dataset=spiral",
    "method=kdf",
    "metrics=default",
    "figures=none",
    "n_jobs=-1",
    "hydra/launcher=basic",
    "save=false",
]
DONE = ["dataset=spiral,circle", "method=kdf,isotonic,sigmoid,gated_isotonic", "figures=none"]


def main() -> None:
    """Print the three lines."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        with redirect_stdout(StringIO()):
            kdg(["run", *WORK, f"out={out / 'warm'}"])
        (record,) = (
            check_and_load(path.read_bytes()) for path in (out / "warm").glob("*/*/*/result.json")
        )
        _report("a sweep over a bare loop, 8 runs in one process", *_overhead(out), bar="1.3×")
        _done(record, out / "done", seeds=250)
        command = ["run", "-m", *DONE, "seed=range(0,250)", f"out={out / 'done'}"]
        _timed(command)  # the first call composes, and remembers
        print(f"2,000 runs that are done: {_timed(command):.2f} s (bar 3 s)")
        _done(record, out / "table", seeds=375)
        print(
            f"kdg table over 3,000 runs: {_timed(['table', '--out', str(out / 'table')]):.2f} s"
            " (bar 2 s)"
        )


def _overhead(out: Path, seeds: int = 8, rounds: int = 3) -> tuple[list[float], list[float]]:
    """Seconds of the loop and of the sweep in turn, other seeds in each round so that nothing is in
    the store.
    """
    config = compose([word for word in WORK if not word.startswith("hydra")])
    loops, sweeps = [], []
    for k in range(rounds):
        which = range(100 * k, 100 * k + seeds)
        start = time.perf_counter()
        for seed in which:
            _bare(config, seed)
        loops.append(time.perf_counter() - start)
        start = time.perf_counter()
        with redirect_stdout(StringIO()):
            kdg(
                [
                    "run",
                    "-m",
                    *WORK,
                    f"seed=range({which.start},{which.stop})",
                    f"out={out / f'sweep{k}'}",
                ]
            )
        sweeps.append(time.perf_counter() - start)
    return loops, sweeps


def _bare(config: RunConfig, seed: int) -> None:
    """The stages of a run, by hand."""
    splits = stages.split(config.dataset, seed)
    parent = stages.fit(
        config.parent, splits.train, preprocess=config.preprocess, seed=seed, n_jobs=-1
    )
    model = stages.calibrate(config.after, parent, splits, seed=seed, n_jobs=-1)
    evaluate(
        FittedModel(parent),
        model,
        config.metrics,
        dataset=config.dataset,
        ood=config.ood,
        splits=splits,
        seed=seed,
    )


def _done(record: dict, out: Path, seeds: int) -> None:
    """Directories of finished runs."""
    for job in plan([*DONE, f"seed=range(0,{seeds})", f"out={out}"], multirun=True).jobs:
        job.run_dir.mkdir(parents=True)
        dataset, method, run_id = job.run_dir.parts[-3:]
        own = {
            "run_id": run_id,
            "method": method,
            "seed": job.config.seed,
            "dataset": {**record["dataset"], "name": dataset},
        }
        (job.run_dir / "result.json").write_bytes(add_checksum({**record, **own}))


def _timed(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "kdgraph", *arguments], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start


def _report(what: str, loops: list[float], sweeps: list[float], bar: str) -> None:
    ratios = [sweep / loop for loop, sweep in zip(loops, sweeps, strict=True)]
    each = statistics.median(loops) / 8
    print(
        f"{what}: {statistics.median(ratios):.2f}× (bar {bar};"
        f" {', '.join(f'{ratio:.2f}' for ratio in ratios)}; a run takes {each:.2f} s)"
    )


if __name__ == "__main__":
    main()
