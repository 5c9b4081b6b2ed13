"""Commands of every day: processor seconds of new processes, imports included, and memory.

Records of many runs are copies of one, in the places that the plan of their sweep gives.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from table import Cost, Table, Value, cost, kdg, ratio

from kdgraph.base import FittedModel
from kdgraph.cli.main import main as run_command
from kdgraph.config import compose, plan
from kdgraph.runner import stages
from kdgraph.runner.evaluate import evaluate
from kdgraph.runner.files import add_checksum, check_and_load

RUN = ["dataset=spiral", "method=kdf", "metrics=default", "figures=none", "save=false"]
SWEEP = ["dataset=spiral,circle", "method=kdf,isotonic,sigmoid,gated_isotonic", "figures=none"]
PAIRS = [
    "dataset=spiral,circle,sinewave,polynomial,trunk,wine,iris,digits,breast_cancer,shapes,"
    "cc18/adult,cc18/car,cc18/churn,cc18/cmc,cc18/credit_g,cc18/diabetes,cc18/dna,cc18/balance_scale,"
    "cc18/bioresponse,cc18/cnae_9,cc18/connect_4,cc18/cylinder_bands,cc18/electricity,"
    "cc18/breast_w,cc18/bank_marketing",
    "method=kdf,isotonic,sigmoid,beta,histogram,best,gated_isotonic,gated_sigmoid,"
    "network_lore,network_temperature",
]
N_RUNS = (3_000, 10_000)
N_SWEEP = 2_000


def bench(table: Table, *, quick: bool = False) -> None:
    """Add the lines of all commands."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        single(table, folder)
        plans(table, folder)
        records(table, folder, N_RUNS[:1] if quick else N_RUNS)
        sweep(table, folder)
        predictions(table, folder, 100_000 if quick else 1_000_000)


def _add(table: Table, what: str, cell: str, measured: Cost, bar: float | None) -> None:
    table.add(what, cell, time=Value(measured.processor, "s", "processor time", bar))


def single(table: Table, folder: Path) -> None:
    """Add help, a list, a new run and a finished one."""
    nothing = cost([sys.executable, "-c", "pass"]).processor
    for words, bar in ((["--help"], 5.0), (["list"], None)):
        cost(kdg(*words))  # compiles modules
        value = cost(kdg(*words)).processor / nothing
        table.add(f"kdg {' '.join(words)}", "", time=Value(value, "×", "python -c pass", bar))
    run = kdg("run", *RUN, f"out={folder / 'single'}")
    _add(table, "kdg run", "new, with its kernels", cost(run), None)
    _add(table, "kdg run", "new", cost([*run, "force=true"]), None)
    cost(run)
    _add(table, "kdg run", "finished", cost(run), 0.3)


def plans(table: Table, folder: Path) -> None:
    """Add plans of sweeps that nothing is known of, and the composition of many pairs."""
    seeds = f"seed=range(0,{N_SWEEP // 8})"
    measured = cost(kdg("plan", "-m", *SWEEP, seeds, f"out={folder / 'plan'}"))
    _add(table, "kdg plan", f"{N_SWEEP:,} runs, over seeds", measured, 4)
    count = "from kdgraph.config import plan; import sys"
    count += "; print(len([job.config.run_id for job in plan(sys.argv[1:], multirun=True).jobs]))"
    _add(table, "compose", "250 pairs", cost([sys.executable, "-c", count, *PAIRS]), 5)
    paper = cost([sys.executable, "-c", count, "experiment=paper/p1/cc18"])
    _add(table, "compose", "3,600 runs of a paper", paper, 8)


def records(table: Table, folder: Path, sizes: tuple[int, ...]) -> None:
    """Add what reads many records, the second time, and a sweep whose runs are all done."""
    out = folder / "record"
    with redirect_stdout(StringIO()):
        run_command(["run", *RUN, f"out={out}"])
    (record,) = (check_and_load(path.read_bytes()) for path in out.glob("*/*/*/result.json"))
    bars = {"table": 1.0, "compare": 1.5, "report": 3.0}
    for n_runs in sizes:
        many = folder / f"runs{n_runs}"
        _write_runs(record, many, n_runs)
        for command, bar in bars.items():
            words = ["--output", str(folder / "page.html")] if command == "report" else []
            call = kdg(command, "--out", str(many), *words)
            cost(call)  # writes the index
            measured = cost(call)
            _add(table, f"kdg {command}", f"{n_runs:,} runs", measured, bar if n_runs < 5000 else 4)
            bar_mb = None if n_runs < 5000 else 400
            peak = Value(measured.peak_mb, "MB", bar=bar_mb)
            table.add(f"kdg {command}", f"{n_runs:,} runs", memory=peak)
    done = folder / f"runs{sizes[0]}"
    again = kdg("run", "-m", *SWEEP, f"seed=range(0,{N_SWEEP // 8})", f"out={done}")
    cost(again)
    _add(table, "kdg run -m", f"{N_SWEEP:,} finished runs", cost(again), 2)


def _write_runs(record: dict[str, Any], out: Path, n_runs: int) -> None:
    """Write directories of finished runs, with values of their own."""
    rng = np.random.default_rng(0)
    for job in plan([*SWEEP, f"seed=range(0,{n_runs // 8})", f"out={out}"], multirun=True).jobs:
        job.run_dir.mkdir(parents=True)
        dataset, method, run_id = job.run_dir.parts[-3:]
        metrics = [
            {**row, "value": row["value"] and row["value"] * float(rng.uniform(0.9, 1.1))}
            for row in record["metrics"]
        ]
        own = {
            "run_id": run_id,
            "method": method,
            "seed": job.config.seed,
            "metrics": metrics,
            "dataset": {**record["dataset"], "name": dataset},
        }
        (job.run_dir / "result.json").write_bytes(add_checksum({**record, **own}))


def sweep(table: Table, folder: Path, n_runs: int = 4) -> None:
    """Add a sweep in one process against a loop that does the same stages and keeps nothing."""
    config = compose(RUN)
    rounds = iter(range(100))

    def loop() -> None:
        for seed in range(n_runs):
            splits = stages.split(config.dataset, seed)
            parent = stages.fit(config.parent, splits.train, seed=seed, n_jobs=1)
            model = stages.calibrate(
                config.after,
                parent,
                splits,
                calibration=config.calibration,
                seed=seed,
                n_jobs=1,
            )
            evaluate(
                FittedModel(parent),
                model,
                config.measures,
                dataset=config.dataset,
                ood=config.ood,
                splits=splits,
                seed=seed,
            )

    def run() -> None:
        words = ["run", "-m", *RUN, "n_jobs=1", "hydra/launcher=basic"]
        with redirect_stdout(StringIO()):
            out = f"out={folder / f'sweep{next(rounds)}'}"
            run_command([*words, f"seed=range(0,{n_runs})", out])

    loop()
    run()
    value = ratio(run, loop)
    table.add(
        "kdg run -m", f"{n_runs} new runs", time=Value(value, "×", "a loop over the stages", 1.3)
    )


def predictions(table: Table, folder: Path, n_rows: int, n_learn: int = 20_000) -> None:
    """Add ``kdg predict`` of a large file with one and two processes."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, weights = np.random.default_rng(0), np.random.default_rng(1).normal(size=20)
    for name, n in (("few", 1_000), ("learn", 2 * n_learn), ("all", n_rows)):
        X = rng.standard_normal((n, 20), dtype=np.float32)
        y = (X @ weights + rng.logistic(scale=2, size=n) > 0).astype(np.int64)
        columns = {**{f"x{j}": X[:, j] for j in range(20)}, "label": y}
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=100_000)
    words = ["dataset=table", f"dataset.path={folder / 'learn.parquet'}", "dataset.target=label"]
    forest = ["method=isotonic", "parent.n_estimators=10", "parent.max_depth=8"]
    out = folder / "table"
    cost(kdg("run", *forest, *words, "ood=none", "figures=none", "n_jobs=1", f"out={out}"))
    (run_dir,) = (path.parent for path in out.glob("*/*/*/result.json"))
    assert json.loads((run_dir / "result.json").read_text())["files"]["model"]
    wall = {}
    for jobs in ("1", "2"):
        measured = {}
        for name in ("few", "all"):
            output = folder / "predicted.parquet"
            output.unlink(missing_ok=True)
            files = ["--input", str(folder / f"{name}.parquet"), "--output", str(output)]
            measured[name] = cost(kdg("predict", "--run", str(run_dir), "--jobs", jobs, *files))
        wall[jobs] = measured["all"].wall
        beyond = measured["all"].peak_mb - measured["few"].peak_mb
        cell = f"{n_rows:,} × 20, --jobs {jobs}"
        table.add("kdg predict", cell, memory=Value(beyond, "MB", "beyond 1,000 rows", 1_000))
    value = wall["1"] / wall["2"]
    bar = 1.6 if n_rows >= 1_000_000 else None
    cell = f"{n_rows:,} × 20, --jobs 2"
    table.add(
        "kdg predict, wall time",
        cell,
        time=Value(value, "×", "as fast as one job", bar, at_least=True),
    )
